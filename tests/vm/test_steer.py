# SPDX-License-Identifier: GPL-2.0
# vm: --cpus 4
# on: uml sanitize 7.2
"""The policy "steer": commands move from a busy hardware queue to another one if they end sooner
there. Error handling, removal and CPU hotplug also work for moved commands.

Most tests use a host of smq_ram, each of whose hardware queues serves one command after the other.
"""
import os
import time
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from kit import cdb, debugfs
from kit.fiojob import fio, load_on, total_ios
from kit.hold import get_param, set_param, with_params
from kit.host import loaded, settle, under_way, wait_for
from kit.ramdir import RamDir, ram_host
from kit.sanitizing import TIME_FACTOR, repeats
from kit.sgio import SG_SCSI_RESET_DEVICE, SgDev
from kit.trace import traced

# One hardware queue for each CPU; under the sanitizers there are two CPUs.
QUEUES = min(4, os.cpu_count())
# How long a hardware queue takes for a command, in ns. Even on a slow machine four CPUs need less
# time to submit and complete four commands.
SLOW_NS = 2000000 * TIME_FACTOR
READS = {"ioengine": "libaio", "rw": "randread", "bs": 4096, "time_based": True, "runtime": 600}
PINNED = READS | {"iodepth": 64, "cpus_allowed": "0"}
VERIFY = {"ioengine": "io_uring", "rw": "randwrite", "bs": 4096, "iodepth": 64, "cpus_allowed": "0",
          "size": "4m", "verify": "crc32c", "verify_fatal": 1}
MODEL = {"hwq_ns": SLOW_NS, "service_ns": 0, "irq_affinity": 1}


@pytest.fixture(scope="module")
def shared():
    """Yields the directory of a host, and the host."""
    with ram_host(hw_queues=QUEUES, poll_queues=1, depth=256) as both:
        yield both


def serve_apart(host_dir):
    """Sets the model that most tests use: hardware queues that serve commands independently of each
    other."""
    for name, value in MODEL.items():
        host_dir.set(f"model/{name}", value)


@pytest.fixture
def device(shared):
    """Yields shared()'s host and its directory, with the model of serve_apart() and the policy
    "direct"."""
    host_dir, host = shared
    serve_apart(host_dir)
    choose(host, "direct", 16)
    yield shared
    settle(host)
    choose(host, "direct")


def choose(host, policy, threshold=None):
    """Sets the threshold, then a host's policy."""
    if threshold is not None:
        (host.sysfs / "smq_steer/threshold").write_text(str(threshold), encoding="ascii")
    (host.sysfs / "smq/policy").write_text(policy, encoding="ascii")


def counted(host, name):
    """Returns the sum of one of the policy's counters over all hardware queues."""
    return sum(row[name] for row in debugfs.policy_rows(host))


def is_on(host):
    """Returns whether a hardware queue has won its trial, so that its commands are steered."""
    return any(row["on"] for row in debugfs.policy_rows(host))


def steering(host, threshold=4):
    """Chooses "steer" under load, and waits until a trial was won and "steer" is effective."""
    def chosen():
        # Choose the policy again, because each choice begins with a look.
        choose(host, "direct")
        choose(host, "steer", threshold)
        with suppress(AssertionError):
            return wait_for("a trial", lambda: is_on(host), 1)
        return False
    wait_for("a busy hardware queue", chosen, 30)
    wait_for("an effective policy", lambda: debugfs.state(host)["effective"] == "steer")


def foreign(host):
    """Returns how many commands are on another hardware queue than their own."""
    return sum(row["foreign"] for row in host.hwqs())


def rate(host, seconds):
    """Measures for @seconds; returns how many commands completed per second."""
    start, before = time.monotonic(), host.stats()["done"]
    time.sleep(seconds)
    return (host.stats()["done"] - before) / (time.monotonic() - start)


def moved(trace, event="smq_done"):
    """Returns the trace events of commands on another hardware queue than the block layer's."""
    return [fields for name, fields in trace.events
            if name == event and fields["on"] != fields["hwq"]]


def cpus_of(lun, hwq):
    """Returns the CPUs that a hardware queue serves."""
    text = (lun.queue.parent / f"mq/{hwq}/cpu_list").read_text(encoding="ascii")
    return [int(cpu) for cpu in text.split(",")]


@contextmanager
def offline(cpu):
    """Takes a CPU offline during the block."""
    path = Path(f"/sys/devices/system/cpu/cpu{cpu}/online")
    path.write_text("0", encoding="ascii")
    try:
        yield
    finally:
        path.write_text("1", encoding="ascii")


@pytest.mark.smoke
def test_threshold_is_checked_and_limits_moves(device, klog):
    _, host = device
    assert host.attr("smq_steer/threshold") == "16"
    for value in (0, 4097, "x"):
        with pytest.raises(OSError):
            choose(host, "steer", value)
        klog.wait(f"smq_steer/threshold={value} is no number in 1..4096")
    # No queue is long enough for this threshold: no command moves.
    choose(host, "steer", 4096)
    with load_on(host.luns()[0].sd, **PINNED):
        under_way(host.luns()[0])
    assert counted(host, "steered") == 0
    # The policy holds no command, so the host advertises no more than the device takes.
    assert host.attr("can_queue") == "256" and settle(host)["held"] == 0


@pytest.mark.smoke
def test_steer_is_refused_if_tags_belong_to_a_hardware_queue(klog):
    with loaded("smq_zero", disks=False) as (host,):
        with pytest.raises(OSError):
            choose(host, "steer")
        klog.wait("smq_zero takes a command on its own hardware queue only")
        assert host.policy() == "direct"


@pytest.mark.smoke
@pytest.mark.not_sanitized("needs four CPUs")
def test_pinned_task_gets_the_queues_of_all_cpus(device):
    """A task that is pinned to a CPU gets at least 2.5 times as many commands per second as its own
    hardware queue allows. The commands end on all CPUs."""
    _, host = device
    lun = host.luns()[0]
    with load_on(lun.sd, **PINNED):
        under_way(lun, 50)
        direct = rate(host, 1)
        steering(host, 16)
        # The best of five measurements: a busy machine may run the virtual CPUs one after another.
        steered = 0
        for _ in range(5):
            steered = max(steered, rate(host, 1))
            if steered >= 2.5 * direct:
                break
        wait_for("commands that end on each CPU", lambda: {
            row["cpu"] for row in debugfs.policy_rows(host)[:QUEUES]} == set(range(QUEUES)))
        rows = debugfs.policy_rows(host)
        print(f"direct {direct:.0f}/s, steered {steered:.0f}/s, {counted(host, 'steered')} moved")
    # The model does not allow a hardware queue a higher rate.
    assert direct < 1.1e9 / SLOW_NS
    assert steered >= 2.5 * direct
    assert sum(row["backed_off"] for row in rows) == 0


def test_steer_stops_if_another_queue_is_no_faster(device):
    """If the device serves all commands at the same time, the policy makes a trial. Then the host
    runs as direct."""
    host_dir, host = device
    host_dir.set("model/hwq_ns", 0)
    host_dir.set("model/service_ns", 20000000)
    lun = host.luns()[0]
    with load_on(lun.sd, **PINNED):
        under_way(lun, 50)
        before = host.stats()["done"]
        choose(host, "steer")
        wait_for("a trial", lambda: counted(host, "steered"))
        wait_for("the end of the look", lambda: debugfs.state(host)["effective"] == "direct")
        wait_for("commands", lambda: host.stats()["done"] > before + 1000)
        done, steered = host.stats()["done"] - before, counted(host, "steered")
    print(f"{steered} of {done} commands moved")
    assert 0 < steered < done / 100
    # When each hardware queue serves one command at a time, the policy becomes effective by itself.
    host_dir.set("model/service_ns", 0)
    host_dir.set("model/hwq_ns", SLOW_NS)
    with load_on(lun.sd, **PINNED):
        wait_for("steering", lambda: is_on(host), 30)


@pytest.mark.smoke
@pytest.mark.limit(90)
@pytest.mark.not_uml("it cannot take a CPU offline")
def test_cpus_go_offline_and_come_back_under_verified_load(device):
    """While the CPU of a hardware queue is offline, the queue neither has nor gets foreign
    commands."""
    host_dir, host = device
    lun = host.luns()[0]
    queue_of = {cpu: hwq for hwq in range(QUEUES) for cpu in cpus_of(lun, hwq)}
    cycles = 0

    def row(cpu):
        return host.hwqs()[queue_of[cpu]]
    with traced(32768) as trace:
        with load_on(lun.sd, to_end=True, **VERIFY | {"size": f"{repeats(8)}m"}) as load:
            steering(host)
            host_dir.set("model/hwq_ns", SLOW_NS // 2)
            while load.running and cycles < QUEUES - 1:
                cpu = 1 + cycles
                wait_for("foreign commands", lambda cpu=cpu: row(cpu)["foreign"] > 0 or
                         not load.running)
                with offline(cpu):
                    gone = row(cpu)
                    assert gone["foreign"] == gone["inflight"] == 0
                    time.sleep(0.1)
                    assert row(cpu)["queued"] == gone["queued"]
                cycles += 1
        stats = settle(host)
    assert trace.check_once() >= total_ios(load.result())
    assert cycles == QUEUES - 1 and stats["timeouts"] == stats["held"] == foreign(host) == 0


@pytest.mark.smoke
@pytest.mark.not_uml("it cannot take a CPU offline")
def test_cpu_goes_offline_after_foreign_commands_end(device):
    """If a CPU goes offline while its hardware queue has slow foreign commands, the layer waits for
    them: the block layer does not know of them."""
    host_dir, host = device
    lun = host.luns()[0]
    hwq = next(hwq for hwq in range(QUEUES) if 1 in cpus_of(lun, hwq))
    with load_on(lun.sd, **PINNED):
        steering(host)
        host_dir.arm("timeout", count=40, delay_ms=2000)
        wait_for("the last fault", lambda: host_dir.get("fault/count") == "0")
        assert host.hwqs()[hwq]["foreign"] > 0
        with offline(1):
            assert host.hwqs()[hwq]["foreign"] == 0
    host_dir.arm("none")


@pytest.mark.not_uml("it cannot take a CPU offline")
def test_cpu_goes_offline_while_its_commands_are_foreign(device):
    """When a CPU goes offline, the block layer waits for the commands of the CPU's hardware queue,
    even if they have moved to another hardware queue."""
    host_dir, host = device
    before = settle(host)["timeouts"]
    with traced() as trace:
        with load_on(host.luns()[0].sd, to_end=True, **VERIFY | {"cpus_allowed": "1"}):
            steering(host)
            with offline(1):
                time.sleep(0.2)
            host_dir.set("model/hwq_ns", SLOW_NS // 4)
        stats = settle(host)
    trace.check_once()
    assert moved(trace) and stats["timeouts"] == before


@pytest.mark.limit(90)
def test_lost_foreign_commands_are_aborted(device):
    host_dir, host = device
    lun = host.luns()[0]
    (lun.sysfs / "timeout").write_text("2", encoding="ascii")
    for limit in lun.sysfs.glob("scsi_disk/*/max_medium_access_timeouts"):
        limit.write_text("1000", encoding="ascii")
    before = settle(host)["aborts"]
    with traced() as trace:
        with load_on(lun.sd, to_end=True, **VERIFY):
            steering(host)
            host_dir.set("model/hwq_ns", SLOW_NS // 4)
            host_dir.arm("lost", count=8, every=31)
            wait_for("the last fault", lambda: host_dir.get("fault/count") == "0")
        stats = settle(host, 30)
    host_dir.arm("none")
    (lun.sysfs / "timeout").write_text("30", encoding="ascii")
    trace.check_once()
    assert stats["aborts"] > before
    assert moved(trace, "smq_taken"), "no lost command had been moved"
    assert foreign(host) == 0


@pytest.mark.smoke
def test_resets_find_steered_commands(device):
    """A reset ends the lost commands on all hardware queues, so no command times out."""
    host_dir, host = device
    lun = host.luns()[0]
    before = settle(host)
    with traced() as trace:
        with load_on(lun.sd, to_end=True, **VERIFY), SgDev(lun.sg) as sg:
            steering(host)
            for _ in range(3):
                host_dir.arm("lost", count=8, every=5)
                wait_for("the last fault", lambda: host_dir.get("fault/count") == "0")
                sg.reset(SG_SCSI_RESET_DEVICE)
        stats = settle(host)
    host_dir.arm("none")
    trace.check_once()
    assert stats["reset_cmds"] > before["reset_cmds"] and moved(trace, "smq_taken")
    assert stats["timeouts"] == before["timeouts"] and foreign(host) == 0


@pytest.mark.smoke
def test_switching_and_freezing_under_verified_load(device):
    """Policy and scheduler change under load. The block layer freezes the queue to change the
    scheduler."""
    host_dir, host = device
    lun = host.luns()[0]
    switched, before = 0, settle(host)["timeouts"]

    def passed(commands, start, load):
        wait_for("commands", lambda: host.stats()["done"] > start + commands or not load.running)
    with traced(32768) as trace:
        with load_on(lun.sd, to_end=True, **VERIFY | {"size": "8m"}) as load:
            steering(host)
            host_dir.set("model/hwq_ns", SLOW_NS // 8)
            while load.running and switched < 40:
                choose(host, ("batch", "steer", "direct", "steer")[switched % 4], 4)
                passed(100, host.stats()["done"], load)
                (lun.queue / "scheduler").write_text(("mq-deadline", "none")[switched % 2],
                                                     encoding="ascii")
                switched += 1
        stats = settle(host)
    assert switched >= 4 and trace.check_once() >= total_ios(load.result())
    assert moved(trace) and stats["timeouts"] == before and stats["held"] == 0


def test_flushes_passthrough_and_polled_commands_never_move(device):
    """Flushes, requests that wait for a flush, passthrough and polled commands never move, although
    other commands move at the same time."""
    host_dir, host = device
    lun = host.luns()[0]
    cache = next((lun.sysfs / "scsi_disk").glob("*")) / "cache_type"
    cache.write_text("temporary write back", encoding="ascii")
    try:
        with traced() as trace:
            with load_on(lun.sd, **PINNED), SgDev(lun.sg) as sg:
                steering(host)
                host_dir.set("model/hwq_ns", SLOW_NS // 8)
                fio(lun.sd, ioengine="psync", rw="write", bs=4096, size="32k", fsync=1, sync=1,
                    cpus_allowed="0")
                for lba in range(10):
                    assert sg.cmd(cdb.blocks(cdb.READ_10, lba, 1), din=512).good
                fio(lun.sd, ioengine="io_uring", hipri=True, rw="randread", bs=4096, iodepth=8,
                    size="512k", cpus_allowed="0")
                wait_for("moved commands", lambda: counted(host, "steered") > 150, 60)
            settle(host)
    finally:
        cache.write_text("temporary write through", encoding="ascii")
    away = moved(trace)
    assert len(away) > 100 and {fields["op"] for fields in away} == {"0x28"}
    # Passthrough commands are READs of one block; polled commands are on the last hardware queue.
    assert all(fields["bytes"] != "512" and int(fields["hwq"]) < QUEUES for fields in away)
    ended = [fields for name, fields in trace.events if name == "smq_done"]
    assert sum(fields["op"] == "0x35" for fields in ended) >= 8
    assert sum(fields["op"] == "0x2a" for fields in ended) >= 8
    assert sum(fields["bytes"] == "512" for fields in ended) >= 10
    assert sum(int(fields["on"]) == QUEUES for fields in ended) > 50


@pytest.mark.smoke
@pytest.mark.usefixtures("shared")
def test_moved_commands_have_unique_tags():
    """With host_tagset no two commands of the host have the same tag at the same time."""
    host_dir = RamDir("tags")
    for name, value in {"hw_queues": QUEUES, "depth": 64, "host_tagset": 1,
                        "model/hwq_ns": SLOW_NS}.items():
        host_dir.set(name, value)
    host_dir.add_lun(0, size_mb=64)
    host = host_dir.power_on(1)
    lun = host.luns()[0]
    assert host_dir.get("host_tagset") == "1"
    try:
        with traced() as trace:
            with load_on(lun.sd, to_end=True, **VERIFY):
                steering(host)
                host_dir.set("model/hwq_ns", SLOW_NS // 4)
            settle(host)
    finally:
        host_dir.remove()
    assert trace.check_once() and moved(trace)
    used = set()
    for name, fields in trace.events:
        if name == "smq_queue":
            assert fields["tag"] not in used
            used.add(fields["tag"])
        elif name in ("smq_done", "smq_busy", "smq_taken"):
            used.remove(fields["tag"])


@pytest.mark.smoke
@with_params(hw_queues=2, depth=16, delay_us=20000)
def test_refused_foreign_command_returns_to_its_own_queue(hold):
    """If the other hardware queue refuses every command, the layer issues each command to its own
    queue, and returns none to the mid-layer."""
    lun = hold.luns()[0]
    before = [row["done"] for row in hold.hwqs()]
    fio(lun.sd, **PINNED | {"iodepth": 4, "runtime": 1})
    done = [row["done"] - old for row, old in zip(hold.hwqs(), before, strict=True)]
    own = done.index(max(done))
    assert done[1 - own] == 0
    set_param("refuse_hwq", 1 - own)
    set_param("refuse", 1000)
    with traced() as trace:
        with load_on(lun.sd, **PINNED | {"iodepth": 16}):
            under_way(lun, 50)
            choose(hold, "steer", 2)
            wait_for("a trial", lambda: counted(hold, "fell_back") >= 8)
        stats = settle(hold)
    set_param("refuse", 0)
    trace.check_once()
    assert not moved(trace) and counted(hold, "steered") >= 8
    assert hold.hwqs()[1 - own]["busy_host"] >= 8
    assert stats["busy"] == stats["timeouts"] == 0 and get_param("inflight") == 0
    choose(hold, "direct", 16)


def test_lun_and_host_are_removed_while_commands_are_foreign(shared):
    """A LUN and then the host are removed while they have foreign commands. This must be the last
    test that uses the host."""
    host_dir, host = shared
    serve_apart(host_dir)
    host_dir.add_lun(1, size_mb=64)
    gone = host.wait_luns(2)[1]
    with load_on(gone.sd, ok=False, **PINNED) as load:
        steering(host)
        wait_for("foreign commands", lambda: foreign(host))
        host_dir.remove_lun(1)
        load.kill()
    assert foreign(host) == 0
    with load_on(host.luns()[0].sd, ok=False, **PINNED) as load:
        wait_for("foreign commands", lambda: foreign(host), 30)
        host_dir.set("power", 0)
        load.kill()
    assert not host.sysfs.exists()
