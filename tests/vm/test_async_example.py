# SPDX-License-Identifier: GPL-2.0
# on: uml sanitize 7.2
"""The LLD that the guide gives authors as an example of commands that end later: smq_async."""
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from kit import cdb
from kit.faults import Faults
from kit.fiojob import fio
from kit.host import loaded, settle, wait_for
from kit.sgio import DID_RESET, DID_TIME_OUT, SG_SCSI_RESET_DEVICE, SG_SCSI_RESET_HOST, SgDev
from kit.trace import traced

USECS = Path("/sys/module/smq_async/parameters/usecs")
READ, WRITE = (cdb.blocks(opcode, 0, 8) for opcode in (cdb.READ_10, cdb.WRITE_10))
VERIFY = {"ioengine": "io_uring", "rw": "randwrite", "bs": 4096, "iodepth": 32, "size": "8m",
          "verify": "crc32c", "verify_fatal": 1}


@pytest.fixture(name="host")
def host_fixture():
    """A host of smq_async. Its disk has the shortest timeout."""
    with loaded("smq_async") as (host,):
        (host.luns()[0].sysfs / "timeout").write_text("1", encoding="ascii")
        yield host


def set_usecs(usecs):
    """Sets how long each of the following commands takes."""
    USECS.write_text(str(usecs), encoding="ascii")


@pytest.mark.smoke
def test_verified_io_and_a_lost_command(host):
    """The disk stores data. A command whose completion was lost is aborted and repeated."""
    disk, faults = host.luns()[0].sd, Faults(host)
    with traced() as trace:
        fio(disk, **VERIFY)
        faults.arm("lost", count=1, every=100)
        fio(disk, **VERIFY)
        stats = settle(host)
    assert trace.check_once() >= 4 * 2048
    assert (stats["timeouts"], stats["aborts"], stats["lun_resets"]) == (1, 1, 0)
    faults.arm("none")


@pytest.mark.smoke
def test_abort_takes_a_command_back_from_the_device(host):
    """A WRITE that times out is aborted: it is not executed, not even later."""
    with SgDev(host.luns()[0].sg) as sg:
        assert sg.cmd(WRITE, dout=bytes([1]) * 4096).good
        start = time.monotonic()
        set_usecs(4000000)
        assert sg.cmd(WRITE, dout=bytes([2]) * 4096, timeout_ms=300).host == DID_TIME_OUT
        set_usecs(100)
        assert settle(host)["aborts"] == 1
        while time.monotonic() < start + 4.5:
            assert sg.cmd(READ, din=4096).data == bytes([1]) * 4096
            time.sleep(0.1)
        # The device says which bytes it moved, and refuses what it does not have.
        assert sg.cmd(cdb.blocks(cdb.READ_10, 0, 1), din=4096).resid == 4096 - 512
        assert sg.cmd(cdb.blocks(cdb.READ_10, 32768, 1), din=512).triple == (5, 0x21, 0)


@pytest.mark.parametrize("level", (SG_SCSI_RESET_DEVICE, SG_SCSI_RESET_HOST),
                         ids=("lun", "host"))
def test_resets_take_all_commands_back(host, level):
    def read():
        with SgDev(host.luns()[0].sg) as sg:
            return sg.cmd(READ, din=4096, timeout_ms=60000)

    set_usecs(60000000)
    with SgDev(host.luns()[0].sg) as sg, ThreadPoolExecutor(4) as pool:
        sent = [pool.submit(read) for _ in range(4)]
        wait_for("the commands", lambda: host.attr("smq/inflight") == "4")
        sg.reset(level)
        assert {one.result().host for one in sent} == {DID_RESET}
        set_usecs(100)
        # Clears the unit attention of the reset.
        sg.cmd(cdb.plain(cdb.TEST_UNIT_READY))
        assert sg.cmd(READ, din=4096).good
    assert settle(host)["timeouts"] == 0
