# SPDX-License-Identifier: GPL-2.0
# on: uml
# not on sanitize: it tests programs, which are the same there
"""Tab completion of sg_io's arguments, with real nodes."""

import os
import subprocess

import vmdisk

COMPLETION = vmdisk.ROOT / "tools/src/sg_io/sg_io.bash"
PRESS = """
source "$1"
COMP_LINE=$3 COMP_POINT=${#3}
_sg_io "$2"
printf '%s\\n' "${COMPREPLY[@]}"
"""


def complete(line):
    """The words that the completion offers."""
    done = subprocess.run(["bash", "--norc", "-c", PRESS, "-", COMPLETION, vmdisk.SG_IO, line],
                          capture_output=True, text=True, check=True, timeout=vmdisk.TIMEOUT)
    return done.stdout.split()


def test_completion_offers_devices(smq_disk):
    """The completion offers each node of a disk, and the disk's address. For a word with colons
    bash expects only the part after the last colon."""
    disk = smq_disk
    nodes = {disk.sd, disk.sg, disk.bsg, disk.smq, disk.hctl}
    assert nodes <= set(complete("sg_io run --depth 2 "))
    assert disk.sg in complete("sg_io info /dev/sg")
    assert not set(complete("sg_io info /dev/smq")) - {
        f"/dev/{name}" for name in os.listdir("/sys/class/smq_sg")}
    assert complete(f"sg_io info {disk.bsg[:-1]}") == [disk.bsg.rpartition(":")[2]]
    assert disk.smq in complete(f"sg_io run {disk.sg} /dev/smq")
    # compare takes a file after its device.
    assert "/etc/hostname" in complete(f"sg_io compare {disk.sg} /etc/hostn")
    assert disk.smq not in complete(f"sg_io compare {disk.sg} ")
    # The output of record is a file, not a device.
    for output in ("-o ", "--output ", "--output="):
        assert [word.rpartition("=")[2] for word in complete(
            f"sg_io record {output}/etc/hostn")] == ["/etc/hostname"]
        assert disk.sg not in complete(f"sg_io record {output}")
    assert disk.sg in complete("sg_io record -o out ")


def test_completion_offers_no_partition(smq_disk):
    partition = smq_disk.make_partition()
    assert partition not in complete("sg_io info /dev/sd")
    assert smq_disk.sd in complete("sg_io info /dev/sd")
