# SPDX-License-Identifier: GPL-2.0
# vm: --qemu '-device virtio-scsi-pci,id=hba,num_queues=4,addr=0x10'
# vm: --qemu '-drive file={disk:a:64},if=none,id=a,format=raw'
# vm: --qemu '-device scsi-hd,bus=hba.0,drive=a,wwn=0x5000c500155a1234'
# on: 7.2
# not on uml: needs QEMU's devices
# not on sanitize: that guest has no PCI device
"""Polled rings on QEMU's virtio-scsi: with smq_virtio, and with the kernel's virtio_scsi, which has
poll queues on some kernels."""
import errno
import os
import random
from contextlib import contextmanager, nullcontext
from pathlib import Path

import pytest
from kit import smqsg, virtio
from kit.host import load, run, settle, unload
from kit.probe import calls
from kit.slots import BLOCK, read, write
from kit.slowdisk import opened
from kit.uring import SETUP_IOPOLL, Ring

SLOT = "0000:00:10.0"
pytestmark = pytest.mark.usefixtures("sg_module")


def device():
    """Returns the virtio device."""
    return virtio.device_at(SLOT, "vm/sg_poll_virtio")


def interrupts() -> int:
    """Returns how many interrupts the virtqueues for commands have raised so far."""
    return sum(int(word) for line in Path("/proc/interrupts").read_text(
        encoding="ascii").splitlines() if "-request" in line
        for word in line.split()[1:os.cpu_count() + 1])


def transfer(path: str, counted=nullcontext) -> None:
    """Writes and reads 64 blocks by single commands and batches. Submits more commands at once than
    the device's depth allows. @counted is the context in which the polled commands run."""
    data = random.Random(1).randbytes(64 * BLOCK)
    with opened(path) as file, Ring(64, SETUP_IOPOLL) as ring:
        file.prepare([write(slot, offset=slot * BLOCK) for slot in range(64)])
        file.memory[:] = data
        before = interrupts()
        assert file.run(range(64)) == (0, 0) and interrupts() > before
        with counted():
            for turn in range(4):
                for slot in range(32):
                    file.push(ring, slot)
                file.push_batch(ring, range(32, 64), 100)
                ring.submit()
                assert sorted(ring.wait(33, spin=bool(turn % 2))) == [
                    (slot, 0) for slot in range(32)] + [(100, 0)]
                if not turn:
                    file.memory[:] = bytes(64 * BLOCK)
                    file.prepare([read(slot, offset=slot * BLOCK) for slot in range(64)])
                assert turn == 0 or file.memory[:] == data


@contextmanager
def without_interrupts():
    """Checks that the block causes neither interrupts nor task work. No other program may use the
    disk meanwhile."""
    before = interrupts()
    with calls("smq_sg", "smqsg_slot_task_work") as slots, \
            calls("smq_sg", "smqsg_batch_task_work") as batches:
        yield
        assert (slots(), batches(), interrupts() - before) == (0, 0, 0)


@pytest.fixture
def in_tree_driver():
    """Binds the device to virtio_scsi."""
    load("virtio_scsi")
    virtio.host_of(device())
    yield
    unload("virtio_scsi")


@pytest.mark.smoke
def test_polled_rings_on_smq_virtio_cause_no_interrupts(in_tree_driver):
    with virtio.module(lambda: [device()], poll_queues=2):
        host = virtio.take(device())
        lun = host.luns()[0]
        with smqsg.depth(lun, 8):
            before = settle(host)["polled"]
            transfer(smqsg.node(lun), without_interrupts)
            assert settle(host)["polled"] - before == 4 * 64


@pytest.mark.smoke
def test_polled_rings_on_virtio_scsi_need_poll_queues():
    """Linux 7.2's virtio_scsi has a parameter for poll queues. Without poll queues, commands of a
    polled ring are refused."""
    can_poll = "virtscsi_poll_queues" in run("modinfo", "-p", "virtio_scsi").stdout
    for queues in (0, 2) if can_poll else (0,):
        load("virtio_scsi", **({"virtscsi_poll_queues": queues} if queues else {}))
        try:
            lun = virtio.host_of(device()).luns()[0]
            path = smqsg.node(lun)
            if queues:
                transfer(path, without_interrupts)
                continue
            with opened(path) as file, Ring(8, SETUP_IOPOLL) as ring:
                file.push(ring, 0)
                ring.submit()
                assert ring.wait(1) == [(0, -errno.EOPNOTSUPP)]
        finally:
            unload("virtio_scsi")
