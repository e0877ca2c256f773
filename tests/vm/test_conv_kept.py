# SPDX-License-Identifier: GPL-2.0
# vm: --cpus 4
# on: uml sanitize 7.2
"""smq_conv keeps the lower request of a tag's last command for the next one. Others who need these
requests, their tags or their queue, get them within 50 ms."""
import mmap
import os
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest
from kit import conv, smqsg
from kit.fiojob import fio, load_on
from kit.host import loaded, run, seconds_of, under_way, wait_for
from kit.pool import on_cpus, pool_share, without_elevator
from kit.probe import calls
from kit.quiesce import quiescer, set_state
from kit.sanitizing import SANITIZING
from kit.sgio import DID_TIME_OUT, SgDev
from kit.slowdisk import opened

CPU = 3
PSEUDO = Path("/sys/bus/pseudo/drivers/scsi_debug")
READ = bytes.fromhex("28000000000000000800")
READS = {"ioengine": "io_uring", "rw": "randread", "bs": 512, "iodepth": 16, "size": "1m"}
VERIFIED = {"ioengine": "io_uring", "rw": "randwrite", "bs": 4096, "iodepth": 16, "size": "2m",
            "verify": "crc32c", "verify_fatal": 1, "loops": 1000}
DEBUG = {"delay": 0, "submit_queues": 4, "max_queue": 64, "io_errors": True}
# An operation usually takes a moment; requests that nobody gives back would delay it for a second,
# which is how long an unused request is kept.
MAX_DELAY = 0.3


@pytest.fixture(name="lower")
def lower_fixture():
    """A claimed LUN of scsi_debug with a hardware queue for each CPU; yields it with its upper
    LUN."""
    assert os.cpu_count() == 4
    with loaded("scsi_debug", **DEBUG) as (host,), conv.module(io_errors=True):
        low = host.luns()[0]
        upper = conv.claim(low)
        without_elevator(upper)
        yield low, upper


def keep(upper, cpu: int = CPU) -> None:
    """Makes commands of a CPU keep lower requests."""
    with on_cpus({cpu}):
        fio(upper.sd, **READS)


@pytest.mark.smoke
def test_commands_use_the_requests_again(lower):
    keep(lower[1])
    with calls("scsi_mod", "scsi_alloc_request") as allocated:
        keep(lower[1])
        count = allocated()
    # 2048 commands; without kept requests each allocates one.
    assert count is None or count < 100


@pytest.mark.parametrize("protection", ({}, {"dif": 1, "dix": 1}), ids=("plain", "protected"))
def test_lower_commands_end_without_the_lower_mid_layer(protection):
    """Also on a host with protection information, which claimed disks do not use."""
    with loaded("scsi_debug", **DEBUG, **protection) as (host,), conv.module(io_errors=True):
        upper = conv.claim(host.luns()[0])
        without_elevator(upper)
        keep(upper)
        before = conv.dispatched(upper)
        with calls("scsi_mod", "scsi_finish_command") as ended:
            keep(upper)
            count = ended()
        # The upper mid-layer ends each command.
        assert count is None or count < 1.1 * (conv.dispatched(upper) - before)


def test_a_request_is_given_back_when_no_command_uses_it(lower):
    keep(lower[1])
    time.sleep(3)
    with calls("scsi_mod", "scsi_alloc_request") as allocated, on_cpus({CPU}):
        run("dd", f"if={lower[1].sd}", "of=/dev/null", "bs=512", "count=1", "iflag=direct")
        count = allocated()
    assert count is None or count


def test_requests_are_seldom_read_while_a_cpu_is_offline(lower):
    """The scan reads all kept requests every half second. Only when a CPU has gone offline it reads
    them at once, and not again as long as the CPU is offline."""
    online = Path(f"/sys/devices/system/cpu/cpu{CPU}/online")
    with calls("smq_conv", "conv_kept_collect") as reads:
        if reads() is None:
            pytest.skip("this kernel has no kprobes")
        try:
            online.write_text("0", encoding="ascii")
            keep(lower[1], 0)
            time.sleep(0.1)
            before, began = reads(), time.monotonic()
            while time.monotonic() < began + 2:
                keep(lower[1], 0)
            elapsed = time.monotonic() - began
            assert 1 <= reads() - before <= 2 * elapsed + 3
        finally:
            online.write_text("1", encoding="ascii")


@pytest.mark.smoke
@pytest.mark.skipif(SANITIZING, reason="measures times, which sanitizers distort")
@pytest.mark.parametrize("name", (
    "quiesce", pytest.param("cpu", marks=pytest.mark.not_uml("it cannot take a CPU offline")),
    pytest.param("release", marks=pytest.mark.not_uml("a release takes half a second there"))))
def test_operations_do_not_wait_for_kept_requests(lower, name):
    low, upper = lower
    online = Path(f"/sys/devices/system/cpu/cpu{CPU}/online")
    took = []
    with quiescer():
        for _ in range(3):
            keep(upper)
            if name == "quiesce":
                took.append(seconds_of(lambda: set_state("quiesce", low.address)))
                set_state("quiesce", "")
            elif name == "cpu":
                took.append(seconds_of(lambda: online.write_text("0", encoding="ascii")))
                online.write_text("1", encoding="ascii")
            else:
                took.append(seconds_of(lambda: conv.ask("release", low.address)))
                low = conv.again(low)
                upper = conv.claim(low)
                without_elevator(upper)
    print(name, took)
    assert min(took) < MAX_DELAY, took


def read_block(path: str, block: int) -> None:
    """Reads a block, without the page cache."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECT)
    try:
        os.preadv(fd, [mmap.mmap(-1, 4096)], block * 4096)
    finally:
        os.close(fd)


@contextmanager
def lost_commands():
    """During the block scsi_debug loses each command."""
    conv.write(PSEUDO / "opts", 4)
    conv.write(PSEUDO / "every_nth", 1)
    try:
        yield
    finally:
        conv.write(PSEUDO / "every_nth", 0)
        conv.write(PSEUDO / "opts", 0)


def test_another_lun_gets_the_tags():
    """The claimed LUN keeps seven of eight tags; eight reads at a time of the other LUN, of 0.2 s
    each, have all of them soon."""
    with loaded("scsi_debug", luns=2, names=("add_host", "max_luns"), delay=0, submit_queues=1,
                max_queue=8) as (host,), conv.module():
        low, other = host.luns()
        upper = conv.claim(low)
        without_elevator(upper, other)
        slow = PSEUDO / "ndelay"
        with ThreadPoolExecutor(8) as pool:
            fio(upper.sd, **READS)
            slow.write_text("200000000", encoding="ascii")
            took = seconds_of(lambda: list(pool.map(read_block, [other.sd] * 8, range(8))))
            slow.write_text("0", encoding="ascii")
        # One after the other they take 1.6 s.
        assert took < 1.2, took


@pytest.mark.skipif(SANITIZING, reason="measures times, which sanitizers distort")
def test_a_task_that_sleeps_for_a_tag_gets_a_kept_one():
    """Of two tags one has a command that waits, and the claimed LUN keeps the other. Without a look
    for tasks that sleep each read would wait for half a second or more: it begins just after the
    look that found the one before."""
    with loaded("scsi_debug", luns=3, names=("add_host", "max_luns"), delay=0, submit_queues=1,
                max_queue=2) as (host,), conv.module(), ThreadPoolExecutor(1) as pool, quiescer():
        low, blocked, third = host.luns()
        upper = conv.claim(low)
        without_elevator(upper, blocked, third)
        set_state("block", blocked.address)
        pool.submit(read_block, blocked.sd, 0)
        wait_for("both tags to be used",
                 lambda: read_block(upper.sd, 0) or smqsg.tags(blocked) == 2)
        took = []
        for block in range(9):
            read_block(upper.sd, block)
            took.append(seconds_of(lambda block=block: read_block(third.sd, block)))
        set_state("block", "")
    print(took)
    assert sorted(took)[len(took) // 2] < MAX_DELAY, took


@pytest.mark.limit(180)
def test_another_lun_goes_on_if_two_modules_keep_all_tags():
    """smq_conv and smq_sg each keep at most seven eighths of the tags, and neither knows of the
    other: together they may keep all. A third LUN still gets a tag soon, for block I/O and for a
    command that error handling has to end."""
    with loaded("scsi_debug", luns=3, names=("add_host", "max_luns"), delay=0, submit_queues=1,
                max_queue=8, io_errors=True) as (host,), conv.module(io_errors=True), \
            smqsg.module(), on_cpus({0}):
        low, second, third = host.luns()
        upper, path = conv.claim(low), smqsg.node(second)
        without_elevator(upper, second, third)
        for lun in (second, third):
            # A queue counts as active, and has a share of the tags, until its timer expires.
            conv.write(lun.sysfs / "timeout", 2)
        with pool_share(path, 100), opened(path, 1) as file, SgDev(third.sg) as sg, \
                ThreadPoolExecutor(1) as pool:
            def all_kept():
                fio(upper.sd, **READS)
                return file.run([0]) == (0, 0) and smqsg.tags(third) == 8

            took = []
            for block in range(3):
                wait_for("all tags to be kept", all_kept, 40)
                took.append(seconds_of(lambda block=block: read_block(third.sd, block)))
            wait_for("all tags to be kept", all_kept, 40)
            sent = conv.dispatched(third)
            with lost_commands():
                job = pool.submit(sg.cmd, READ, din=4096, timeout_ms=2000)
                wait_for("the command", lambda: conv.dispatched(third) > sent)
            assert job.result().host == DID_TIME_OUT
            assert sg.cmd(READ, din=4096).good
        print(took)
        assert min(took) < MAX_DELAY, took


@pytest.mark.limit(60)
def test_elevator_of_the_upper_disk_is_changed_under_verified_load(lower):
    """An elevator has requests of its own, which end with it: they keep no lower request."""
    run("modprobe", "mq-deadline")
    low, upper = lower
    with load_on(upper.sd, **VERIFIED):
        for _ in range(4):
            for name in ("mq-deadline", "none"):
                under_way(upper, 100)
                (upper.queue / "scheduler").write_text(name, encoding="ascii")
    assert seconds_of(lambda: conv.ask("release", low.address)) < 10


@pytest.mark.limit(60)
def test_two_claims_take_turns_with_the_tags_of_their_host():
    """A tag of the upper host keeps a request of the LUN that used it last. (The LUNs have the same
    data.)"""
    with loaded("scsi_debug", luns=2, names=("add_host", "max_luns"), **DEBUG) as (host,), \
            conv.module():
        lows = host.luns()
        ups = [conv.claim(low) for low in lows]
        with load_on(ups[1].sd, **VERIFIED):
            for _ in range(3):
                fio(ups[0].sd, **VERIFIED | {"loops": 1, "offset": "4m"})
                conv.release(lows[0])
                ups[0] = conv.claim(lows[0])
            under_way(ups[1], 100)
