# SPDX-License-Identifier: GPL-2.0
"""What smqtop costs a command, and what it costs itself with many LUNs and queues. The VM counts
instructions as nanoseconds, so both are exact on any machine."""
import re
import subprocess
from pathlib import Path

import pytest

TOP = Path(__file__).resolve().parents[2]
TIMEOUT = 300
LUNS = 256
QUEUES = 64
INTERVALS = 5
# Of scsi_debug's disks, the first one is read; the elevator would cost instructions of its own.
SCRIPT = f"""
modprobe scsi_debug delay=0 dev_size_mb=8 max_luns={LUNS} submit_queues={QUEUES}
until [ "$(ls -d /sys/class/scsi_device/*/device/block/sd* | wc -l)" = {LUNS} ]; do sleep 1; done
until [ "$(cat /sys/class/scsi_device/0:0:0:255/device/iodone_cnt)" = "$last" ]; do
    last=$(cat /sys/class/scsi_device/0:0:0:255/device/iodone_cnt); sleep 1
done
echo queues $(ls /sys/block/sda/mq | wc -l)
echo none >/sys/block/sda/queue/scheduler
tools/smqtop --cost=/dev/sda
cat tools/smqtop >/dev/null
bash -c 'TIMEFORMAT="start %U %S"; time tools/smqtop --once --interval=0.1 >/dev/null'
cpu() {{ cut -d' ' -f1 /proc/$1/schedstat; }}
tools/smqtop --count=100 >/dev/null & top=$!
sleep 3
before=$(cpu $top); sleep {INTERVALS}; after=$(cpu $top)
kill $top; wait $top
echo refresh $(((after - before) / {INTERVALS} / 1000)) us
"""


@pytest.fixture(name="said", scope="module")
def _said():
    if not (TOP / "tools/smqtop").exists():
        pytest.skip("smqtop is not built: tools/deps install top")
    # With so many CPUs the guest would replace its TSC by the HPET, which takes longer to read.
    options = ["--icount", "--append", "tsc=reliable", "--qemu", f"-smp 1,maxcpus={QUEUES}"]
    argv = [TOP / "tools/vm", *options, "--", "sh", "-c", SCRIPT]
    done = subprocess.run(argv, cwd=TOP, text=True, capture_output=True, check=False,
                          timeout=TIMEOUT)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


@pytest.mark.parametrize("what,most", [("two empty programs", 140), ("beyond those, --counts", 50),
                                       ("beyond those, --sample=32", 130),
                                       ("beyond those, --sample=1", 260)])
def test_instructions_of_a_command(said, what, most):
    cost = int(re.search(rf"^  {what}: \+(\d+)$", said, flags=re.M)[1])
    assert most / 4 <= cost <= most, said


def test_start_takes_little_time(said):
    """CPU time, because other programs of the guest may run meanwhile. libbpf 1.1 itself would need
    0.7 s more to find the targets of the programs."""
    user, system = re.search(r"^start (\d+\.\d+) (\d+\.\d+)$", said, flags=re.M).groups()
    assert 0.1 < float(user) + float(system) < 2, said


def test_refresh_of_many_luns_takes_little_time(said):
    assert f"queues {QUEUES}\n" in said
    assert 0 < int(re.search(r"^refresh (\d+) us$", said, flags=re.M)[1]) < 50000, said
