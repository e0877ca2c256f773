# SPDX-License-Identifier: GPL-2.0
"""fio's client drives the engine of smq on two machines: VMs with a cable between them.

tests/vm/test_fio_engine.py has the same with two servers in one VM.
"""

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

TOP = Path(__file__).resolve().parents[3]
ENGINE = TOP / "build/tools/fio/fio-smq.so"
LIMIT = 600
IOS = 1024

JOB = f"""[on{{n}}]
ioengine=external:{ENGINE}
filename=/dev/smqsg0
rw=randwrite
bs=4k
size={4 * IOS}k
verify=crc32c
iodepth=16
iodepth_batch=8
allow_file_create=0
"""

# Both machines serve; the first one also has the client.
GUEST = """
set -e
cd {share}
modprobe -a virtio_net smq_sg
modprobe smq_ram size_mb=16
ip link set lo up; ip addr add 10.0.0.{n}/24 dev eth0; ip link set eth0 up
until [ -e /dev/smqsg0 ]; do sleep 0.1; done
{fio} --server=ip:10.0.0.{n} > server{n} 2>&1 &
until grep -q ':223D 0' /proc/net/tcp; do sleep 0.1; done
touch ready{n}
until [ -e ready1 ] && [ -e ready2 ]; do sleep 0.2; done
if [ {n} = 1 ]; then
    {fio} --output-format=json --output=report --client=10.0.0.1 job1 --client=10.0.0.2 job2 || :
    touch done
fi
until [ -e done ]; do sleep 0.2; done
"""


@pytest.mark.skipif(shutil.which("qemu-system-x86_64") is None, reason="needs qemu-system-x86_64")
def test_one_client_drives_two_machines(tmp_path):
    """Each machine runs its job on its own disk, and the client has the results of both."""
    assert ENGINE.exists(), "build it: tools/fio-headers prepare && make tools"
    fio = os.environ.get("SMQ_FIO", "fio")
    guests = []
    for n, peer in ((1, 2), (2, 1)):
        (tmp_path / f"job{n}").write_text(JOB.format(n=n), encoding="ascii")
        net = (f"-netdev dgram,id=cable,local.type=unix,local.path={tmp_path}/cable{n},"
               f"remote.type=unix,remote.path={tmp_path}/cable{peer} "
               f"-device virtio-net-pci,netdev=cable,mac=52:54:00:00:00:0{n}")
        # pylint: disable=consider-using-with
        guests.append(subprocess.Popen(
            [TOP / "tools/vm", "--timeout", str(LIMIT), "--share", tmp_path, "--qemu", net, "--",
             "bash", "-c", GUEST.format(n=n, share=tmp_path, fio=fio)],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True))
    try:
        for n, guest in enumerate(guests, 1):
            out, _ = guest.communicate(timeout=LIMIT + 60)
            assert guest.returncode == 0, f"machine {n}: {out}"
    finally:
        for guest in guests:
            guest.terminate()
            guest.wait()
    text = (tmp_path / "report").read_text(encoding="utf-8")
    report = json.loads(text[text.index("{\n"):])
    found = {job["jobname"]: job for job in report["client_stats"]}
    for n in (1, 2):
        assert (found[f"on{n}"]["error"], found[f"on{n}"]["write"]["total_ios"]) == (0, IOS)
        assert found[f"on{n}"]["hostname"] == f"10.0.0.{n}"
    assert found["All clients"]["write"]["total_ios"] == 2 * IOS
