# SPDX-License-Identifier: GPL-2.0
# on: uml sanitize 7.2
"""smq_sg on a kernel whose block layer was not checked. With checked_kernel=0 it treats this kernel
as such: it says so, keeps no request, creates no queue, and its commands end as elsewhere."""
import errno
import json
import os
from contextlib import contextmanager
from pathlib import Path

import pytest
from kit import cdb, sgio, smqsg
from kit.host import load, loaded, run, unload
from kit.memory import Memory
from kit.numbered import numbered_blocks
from kit.pool import run_slots
from kit.probe import calls
from kit.slots import BLOCK, FEATURE_HELD, SlotFile, read
from kit.uring import Ring

PARAMETER = Path("/sys/module/smq_sg/parameters/checked_kernel")
SG_IO = Path(__file__).resolve().parents[2] / "tools/sg_io"
COMMANDS = 8
WARNING = "the block layer of this kernel was not checked"


@contextmanager
def unchecked_node():
    """Yields the node of a disk of scsi_debug with numbered blocks."""
    load("smq_sg", checked_kernel=0)
    try:
        with loaded("scsi_debug", dev_size_mb=8, delay=0) as (host,):
            lun, = host.wait_luns(1)
            with open(lun.sd, "r+b", buffering=0) as disk:
                assert disk.write(numbered_blocks(0, COMMANDS)) == COMMANDS * BLOCK
                os.fsync(disk.fileno())
            yield smqsg.node(lun)
    finally:
        unload("smq_sg")


def test_an_unchecked_kernel_says_so(klog):
    """In the log, once, in sysfs, and in sg_io info. Nodes refuse the settings that need a checked
    kernel."""
    with unchecked_node() as path:
        klog.wait(WARNING)
        assert sum(WARNING in line for line in klog.lines()) == 1
        assert PARAMETER.read_text(encoding="ascii") == "N\n"
        assert "\nsmqsg checked kernel   no: " in run(SG_IO, "info", path).stdout
        assert json.loads(run(SG_IO, "info", "--json", path).stdout)[
            "smq"]["checked_kernel"] is False
        for name, value in (("pool_share", "50"), ("own_queue", "on")):
            with pytest.raises(OSError) as error:
                (smqsg.CLASS / Path(path).name / name).write_text(value, encoding="ascii")
            assert error.value.errno == errno.EOPNOTSUPP
    with smqsg.module():
        assert PARAMETER.read_text(encoding="ascii") == "Y\n"


@pytest.mark.smoke
def test_commands_take_the_long_way():
    """Each command of a slot gets its scatterlist from the mid-layer, and its request from the
    device's queue. The data is right in each way of sending it."""
    with unchecked_node() as path, SlotFile(path, COMMANDS) as file, Ring() as ring, calls(
            "scsi_mod", "scsi_alloc_sgtables") as mapped:
        assert not file.info().features & FEATURE_HELD
        area = Memory(COMMANDS * BLOCK)
        assert file.lend(0, area) == 0
        file.prepare([read(at, offset=at * BLOCK) for at in range(COMMANDS)])
        for way in ("alone", "batch", "ioctl") * 2:
            area[:] = bytes(area.size)
            before = mapped()
            run_slots(file, ring, way, range(COMMANDS))
            assert area[:] == numbered_blocks(0, COMMANDS), way
            assert before is None or mapped() - before == COMMANDS, way
            assert smqsg.attr(path, "own_queue_exists") == smqsg.attr(path, "pool") == 0
            smqsg.idle(path)
        with sgio.SgDev(path) as dev:
            assert dev.cmd(cdb.blocks(cdb.READ_10, 0, 1), BLOCK).good
