# SPDX-License-Identifier: GPL-2.0
"""Powers a VM off while smq_conv has claimed a disk in it. The test reads the VM's log, because by
then no program runs in the VM."""

import re
import subprocess
from pathlib import Path

TOP = Path(__file__).resolve().parents[2]
# Claims the disk and powers the VM off. opts=1: scsi_debug logs each command.
SCRIPT = """
set -e
modprobe scsi_debug dev_size_mb=16
modprobe smq_conv
for lower in /sys/bus/pseudo/drivers/scsi_debug/adapter0/host*/target*/[0-9]*; do
    break
done
address=${lower##*/}
{ grep -qx "write back" "$lower"/scsi_disk/*/cache_type || exit 3; }
for n in $(seq 100); do
    echo "$address" > /sys/bus/scsi/drivers/smq_conv/claim && break
    sleep 0.1
done
for n in $(seq 100); do
    upper=$(ls -d /sys/class/scsi_host/host*/device/target*/*:"${address#*:}"/block/* |
            grep -v "/$address/") && break
    sleep 0.1
done
echo 1 > /sys/bus/pseudo/drivers/scsi_debug/opts
echo "claimed $address as ${upper##*/}"
exec busybox poweroff -f
"""


def test_cache_is_flushed_at_power_off(tmp_path):
    """sd flushes the upper disk's cache before the lower host stops taking commands."""
    log = tmp_path / "log"
    done = subprocess.run([str(TOP / "tools/vm"), "--log", str(log), "--", "sh", "-c", SCRIPT],
                          capture_output=True, text=True, timeout=180, check=False)
    claimed = re.search(r"claimed \S+ as (\w+)", done.stdout)
    assert claimed, done.stdout + done.stderr
    upper = claimed[1]
    text = log.read_text(encoding="utf-8", errors="replace")
    flush = text.index(f"[{upper}] Synchronizing SCSI cache")
    # SYNCHRONIZE CACHE(10) reaches scsi_debug afterwards, and does not fail.
    assert re.search(r"scsi_debug.*cmd 35 ", text[flush:]), text[flush:]
    assert "Synchronize Cache(10) failed" not in text
