# SPDX-License-Identifier: GPL-2.0
# vm: --qemu '-device virtio-scsi-pci,id=hba,num_queues=4,addr=0x10'
# vm: --qemu '-drive file={disk:a:64},if=none,id=a,format=raw'
# vm: --qemu '-device scsi-hd,bus=hba.0,drive=a,wwn=0x5000c500155a1234'
# not on uml: needs QEMU's devices
# not on sanitize: devices of QEMU
"""The layer's faults on demand, with LLDs that have no code for faults: smq_virtio, smq_lio, and
smq_old, which has queuecommand_lck."""
import os
import struct
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest
from kit import cdb, virtio
from kit.faults import Faults
from kit.fiojob import fio, load_on, total_ios
from kit.host import load, loaded, settle, unload, wait_for
from kit.lio import Wwn, lio_fabric, ramdisk
from kit.sgio import (DID_RESET, DID_TIME_OUT, RESERVATION_CONFLICT, SG_SCSI_RESET_DEVICE,
                      SG_SCSI_RESET_HOST, SG_SCSI_RESET_TARGET, SgDev)
from kit.trace import traced

SLOT = "0000:00:10.0"
VERIFY = {"ioengine": "io_uring", "rw": "randwrite", "bs": 4096, "iodepth": 32, "size": "4m",
          "verify": "crc32c", "verify_fatal": 1}
FAULTS = 4
READ = cdb.blocks(cdb.READ_10, 0, 8)
WRITE = cdb.blocks(cdb.WRITE_10, 0, 8)
# Kinds of faults after which only error handling ends the command.
LOST = ("dropped", "lost")


@contextmanager
def _virtio():
    def device():
        return virtio.device_at(SLOT, "vm/lld_faults")
    load("virtio_scsi")
    try:
        virtio.host_of(device())
        with virtio.module(lambda: [device()]):
            host = virtio.take(device())
            yield host, host.luns()[0]
    finally:
        unload("virtio_scsi")


@contextmanager
def _lio():
    with ramdisk("rd") as store, lio_fabric():
        wwn = Wwn()
        tpg = wwn.tpg()
        yield tpg.host, tpg.disk(0, store)
        wwn.remove()


@contextmanager
def _lck():
    """smq_old has queuecommand_lck: a command may end while it is submitted."""
    with loaded("smq_old", where=0) as (host,):
        yield host, host.luns()[0]


LLDS = {"virtio": _virtio, "lio": _lio, "lck": _lck}


@pytest.fixture(name="disk", params=LLDS, scope="module")
def fixture_disk(request):
    """An LLD's host, and one disk of it with a short timeout."""
    with LLDS[request.param]() as (host, disk):
        (disk.queue / "nomerges").write_text("2", encoding="ascii")
        (disk.sysfs / "timeout").write_text("1", encoding="ascii")
        faults = Faults(host)
        assert not faults.on
        # Faults are switched on before any load: QEMU has hung when the kernel's code was patched
        # while another CPU executed it.
        faults.arm("status", every=0)
        assert faults.on
        yield host, disk


@pytest.fixture(name="lld")
def fixture_lld(disk):
    """Yields the host, its disk, and its faults. At the end no fault is armed, and every command
    must be done."""
    host, disk = disk
    faults = Faults(host)
    before = settle(host)
    yield host, disk, faults
    faults.arm("none")
    # The device still works.
    fio(disk.sd, **VERIFY | {"size": "1m"})
    stats = settle(host)
    assert stats["queued"] - before["queued"] == stats["done"] - before["done"]


@pytest.mark.smoke
@pytest.mark.parametrize("kind", ["status", "task_set_full", "wrong_status", "short", "timeout",
                                  *LOST])
def test_verified_io_survives(lld, kind):
    host, disk, faults = lld
    before, injected = host.stats(), int(faults.get("injected"))
    with traced() as trace:
        with load_on(disk.sd, to_end=True, **VERIFY) as load_:
            faults.arm(kind, count=FAULTS, every=53, delay_ms=50)
        stats = settle(host)
    assert trace.check_once() >= total_ios(load_.result())
    assert (faults.get("count"), int(faults.get("injected")) - injected) == ("0", FAULTS)
    took = {name: stats[name] - before[name] for name in ("timeouts", "aborts", "lun_resets")}
    ended = FAULTS if kind in LOST else 0
    assert took == {"timeouts": ended, "aborts": ended, "lun_resets": 0}


def test_programs_see_injected_faults(lld):
    _, disk, faults = lld
    with SgDev(disk.sg) as dev:
        assert dev.cmd(WRITE, dout=bytes(4096)).good
        faults.arm("sense", count=1, sense=0x031100)
        # It has no data.
        assert dev.cmd(cdb.plain(cdb.TEST_UNIT_READY)).good
        assert dev.cmd(READ, din=4096).triple == (3, 0x11, 0)
        faults.arm("short", count=2)
        assert dev.cmd(WRITE, dout=b"\x5a" * 4096).resid == 2048
        result = dev.cmd(READ, din=4096)
        assert (result.status, result.resid, result.data) == (0, 2048, b"\x5a" * 2048)
        # Half of one block rounds down to no block.
        faults.arm("short", count=1)
        one = dev.cmd(cdb.blocks(cdb.READ_10, 0, 1), din=512)
        assert (one.status, one.resid) == (0, 512)
        # A fault for LBA 100 does not hit this READ. The short WRITE wrote only half of its data.
        faults.arm("wrong_status", count=1, status=RESERVATION_CONFLICT,
                   first_lba=100, last_lba=100)
        assert dev.cmd(READ, din=4096).data == b"\x5a" * 2048 + bytes(2048)
        # The WRITE is executed, although its status says otherwise.
        there = cdb.blocks(cdb.WRITE_10, 100, 8)
        assert dev.cmd(there, dout=b"\xa5" * 4096).status == RESERVATION_CONFLICT
        assert dev.cmd(cdb.blocks(cdb.READ_10, 100, 8), din=4096).data == b"\xa5" * 4096


def test_atomic_writes_have_faults(lld):
    """The length of WRITE ATOMIC(16) is in bytes 12 and 13, behind the boundary."""
    _, disk, faults = lld
    faults.arm("status", status=RESERVATION_CONFLICT, first_lba=8, last_lba=8)
    statuses = []
    with SgDev(disk.sg) as dev:
        for lba in (0, 1, 8, 9):
            raw = struct.pack(">BxQHHxx", 0x9c, lba, 1, 8)
            statuses.append(dev.cmd(raw, dout=bytes(8 * 512)).status == RESERVATION_CONFLICT)
    assert statuses == [False, True, True, False]


def test_delayed_commands_complete_or_are_aborted(lld):
    host, disk, faults = lld
    aborts = host.stats()["aborts"]
    with SgDev(disk.sg) as dev:
        faults.arm("timeout", count=1, delay_ms=300)
        assert dev.cmd(READ, din=4096, timeout_ms=20000).good
        faults.arm("timeout", count=1, delay_ms=30000)
        assert dev.cmd(READ, din=4096, timeout_ms=300).host == DID_TIME_OUT
    assert settle(host)["aborts"] - aborts == 1


def test_resets_take_back_withheld_commands(lld):
    host, disk, faults = lld
    levels = (SG_SCSI_RESET_DEVICE, SG_SCSI_RESET_TARGET, SG_SCSI_RESET_HOST)
    if host.attr("proc_name") == "smq_old":
        levels = (SG_SCSI_RESET_HOST,)
    before = host.stats()
    with SgDev(disk.sg) as dev, ThreadPoolExecutor(4) as pool:
        for kind in (*LOST, "timeout"):
            for level in levels:
                faults.arm(kind, count=4, delay_ms=60000)
                sent = [pool.submit(_read, disk.sg) for _ in range(4)]
                wait_for("the faults", lambda: faults.get("count") == "0")
                wait_for("the commands", lambda: host.attr("smq/inflight") == "4")
                dev.reset(level)
                assert {one.result().host for one in sent} == {DID_RESET}
                # Clears the unit attention of the reset.
                dev.cmd(cdb.plain(cdb.TEST_UNIT_READY))
    stats = settle(host)
    assert stats["reset_cmds"] - before["reset_cmds"] == 4 * len(levels) * 3
    assert stats["timeouts"] == before["timeouts"]


def _read(path):
    with SgDev(path) as dev:
        return dev.cmd(READ, din=4096)


def test_failed_steps_escalate(lld):
    host, disk, faults = lld
    # smq_old has no target reset.
    last = "host_resets" if host.attr("proc_name") == "smq_old" else "target_resets"
    before = host.stats()
    for name in ("fail_abort", "fail_lun_reset"):
        faults.set(name, -1)
    with load_on(disk.sd, to_end=True, **VERIFY):
        faults.arm("dropped", count=1, every=20)
        wait_for("the last step", lambda: host.stats()[last] > before[last], 30)
        for name in ("fail_abort", "fail_lun_reset"):
            faults.set(name, 0)
    stats = settle(host)
    assert stats["lun_resets"] > before["lun_resets"]
    assert last == "host_resets" or stats["host_resets"] == before["host_resets"]


def test_only_the_armed_host_has_faults(lld):
    _, disk, faults = lld
    with loaded("smq_ram") as (other,):
        mine, others = faults, Faults(other)
        others.arm("sense", count=-1)
        with SgDev(disk.sg) as dev, SgDev(other.luns()[0].sg) as dev_other:
            assert dev.cmd(READ, din=4096).good
            assert dev_other.cmd(READ, din=4096).triple == (3, 0x11, 0)
            mine.arm("status", count=1)
            others.set("kind", "none")
            assert dev_other.cmd(READ, din=4096).good
            with open(disk.sd, "rb") as file:
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
                assert len(file.read(4096)) == 4096
        # The host is removed while its fault is armed.
        others.arm("lost", count=-1)
