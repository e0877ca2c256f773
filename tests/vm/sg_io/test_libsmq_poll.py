# SPDX-License-Identifier: GPL-2.0
# on: uml
# not on sanitize: it tests programs, which are the same there
"""libsmq's polled rings."""

import errno

import pytest
import vmdisk
from smqlib import IN, Device, Memory, Ring, Slot, library, opened, slot_range

POLL = 2
READ = "88000000000000000000000000010000"
SLOW_NS = 900_000_000


@pytest.fixture(scope="module")
def lib():
    return library()


def test_polled_ring_reaps_by_polling(lib, fast_path):
    """smq_reap() polls until it has enough events, or until its time limit if it has one."""
    with vmdisk.disks(submit_queues=2, poll_queues=1) as found, \
            opened(Device, lib, found[0].smq) as dev, opened(Ring, lib, flags=POLL) as ring:
        vmdisk.set_param("ndelay", SLOW_NS)
        memory = Memory()
        assert dev.setup(8) == 0 and dev.lend(0, memory) == 0 and ring.add(dev) == 0
        assert dev.prepare(0, *[Slot(READ, IN, 512)] * 8) == (0, 8)
        assert ring.run(dev, 3, 77) == 0
        # Without its time limit it would wait for the command.
        assert ring.reap(seconds=0.05) == []
        assert ring.reap(least=0) == []
        assert ring.reap() == [(77, 0)]
        assert ring.batch(dev, slot_range(0, 8), 78) == 0 and ring.run(dev, 8, 79) == 0
        assert sorted(ring.reap(least=2)) == [(78, 0), (79, -errno.EINVAL)]
        assert ring.run(dev, 0, 80) == 0
        assert ring.reap(seconds=-1e-9) == [(80, 0)]
        assert ring.remove(dev) == 0
        vmdisk.set_param("delay", 0)


def test_polled_ring_needs_poll_queues(lib, fast_path):
    with vmdisk.disks() as found, opened(Device, lib, found[0].smq) as dev, \
            opened(Ring, lib, flags=POLL) as ring:
        assert dev.setup(1) == 0 and ring.run(dev, 0, 1) == 0
        assert ring.reap() == [(1, -errno.EOPNOTSUPP)]
        assert b"no poll queues" in lib.smq_strerror(6, -errno.EOPNOTSUPP)
