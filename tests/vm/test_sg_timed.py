# SPDX-License-Identifier: GPL-2.0
# on: uml sanitize 7.2
"""Timed batches: each entry is sent when it is due, has waited for what it names, and its slot is
free."""
import errno
import os
import random
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from kit import cdb, smqsg
from kit.child import as_nobody, ended, spawn
from kit.host import loaded, wait_for
from kit.memory import Memory
from kit.numbered import numbered_blocks
from kit.probe import calls
from kit.slots import (BATCH_RUNS, BATCH_TIMED, BLOCK, FEATURE_TIMED, RESULT_SENSE, RUN, RUN_BUFFER,
                       RUN_LBA, Field, RunBatch, command, ioctl, read)
from kit.slowdisk import DEPTH, opened, slow_disk, straight_disk
from kit.timed import (AFTER, MAX_FILES, MAX_SPIN, MAX_TIMED, MS, NOTHING, NUMBER, WINDOW, Entry,
                       Timed, entry, run_timed, soon)
from kit.uring import SETUP_IOPOLL, Ring

TUR = cdb.plain(cdb.TEST_UNIT_READY)
FOREVER = 1 << 62


@pytest.fixture
def at_once(sg_module):
    """A disk whose commands end inside queuecommand."""
    with straight_disk() as found:
        yield found


def runs(file, count):
    """How often each of the slots was run."""
    return [file.status(slot).runs for slot in range(count)]


# Wrong entry behind two correct ones: (members, errno, field).
WRONG = [
    ({"reserved": 1}, errno.EINVAL, Field.RESERVED),
    ({"flags": 4}, errno.EINVAL, Field.FLAGS),
    ({"flags": 0x800}, errno.EINVAL, Field.FLAGS),
    ({"flags": NOTHING | RUN_LBA}, errno.EINVAL, Field.FLAGS),
    ({"flags": NOTHING, "slot": 1}, errno.EINVAL, Field.SLOT),
    ({"due": 999}, errno.EINVAL, Field.DUE),
    ({"due": 1 << 63}, errno.EINVAL, Field.DUE),
    ({"due": (1 << 64) - 1}, errno.EINVAL, Field.DUE),
    ({"number": 7}, errno.EINVAL, Field.NUMBER),
    ({"number": 6}, errno.EINVAL, Field.NUMBER),
    ({"number": 8, "after": 8}, errno.EINVAL, Field.AFTER),
    ({"number": 8, "after": 9}, errno.EINVAL, Field.AFTER),
    ({"number": 8, "flags": AFTER}, errno.EINVAL, Field.AFTER),
    ({"file": 1}, errno.EINVAL, Field.FILE),
    ({"slot": 64}, errno.EINVAL, Field.SLOT),
    ({"slot": 0xffffffff}, errno.EINVAL, Field.SLOT),
    ({"slot": 63}, errno.ENODATA, Field.SLOT),
    ({"lba": 5}, errno.EINVAL, Field.LBA),
    ({"lba": 1 << 32, "flags": RUN_LBA}, errno.ERANGE, Field.LBA),
    ({"slot": 62, "flags": RUN_LBA}, errno.EOPNOTSUPP, Field.LBA),
    ({"buffer": 1}, errno.EINVAL, Field.BUFFER),
]
WRONG_HEAD = [
    ({"reserved": (0, 1)}, errno.EINVAL, Field.RESERVED),
    ({"flags": 1}, errno.EINVAL, Field.FLAGS),
    ({"nr_files": MAX_FILES + 1}, errno.EINVAL, Field.FILES),
    ({"files": 1}, errno.EINVAL, Field.FILES),
    ({"start": 1 << 63}, errno.EINVAL, Field.START),
    ({"spin": MAX_SPIN + 1}, errno.EINVAL, Field.SPIN),
    ({"entries": 16}, errno.EFAULT, Field.NONE),
]


@pytest.mark.smoke
def test_a_wrong_field_is_named_before_a_command_is_sent(device, klog):
    with opened(device.path) as file:
        assert file.info().features & FEATURE_TIMED
        file.prepare([command(b"")], 63)
        file.prepare([command(TUR)], 62)
        good = [entry(0, 1000), entry(1, 1000, 7)]
        for members, error, field in WRONG:
            bad = entry(**{"due": 1000} | members)
            got = run_timed(file, [*good, bad, entry(3, FOREVER)])
            assert got.fault == (error, 2, field), members
        # A number without its flag, and after without one of them.
        for members, field in (({"number": 8}, Field.NUMBER), ({"after": 7}, Field.AFTER),
                               ({"flags": AFTER, "after": 7}, Field.FLAGS),
                               ({"flags": NUMBER}, Field.NUMBER)):
            got = run_timed(file, [*good, Entry(due=1000, **members)])
            assert got.fault == (errno.EINVAL, 2, field), members
        for members, error, field in WRONG_HEAD:
            got = run_timed(file, good, **members)
            assert got.fault == (error, 2, field), members
        for flags, count, field in ((BATCH_TIMED | BATCH_RUNS, 1, Field.FLAGS),
                                    (BATCH_TIMED, 0, Field.COUNT),
                                    (BATCH_TIMED, MAX_TIMED + 1, Field.COUNT)):
            arg = RunBatch(flags=flags, count=count)
            assert (ioctl(file.fd, RUN, arg), arg.field) == (errno.EINVAL, field)
        assert ioctl(file.fd, RUN, RunBatch(flags=BATCH_TIMED, count=1)) == errno.EFAULT
        assert not any(runs(file, 64)) and smqsg.attr(device.path, "inflight") == 0
    assert not klog.matching("smq_sg: ")


@pytest.mark.smoke
def test_the_past_has_a_bound(device):
    with opened(device.path) as file:
        ago = time.monotonic_ns() - 1000 * MS
        assert run_timed(file, [entry(0)], start=ago).fault == (errno.EINVAL, 0, Field.DUE)
        got = run_timed(file, [entry(0, 100 * MS)], start=ago, max_past=800 * MS)
        assert got.fault == (errno.EINVAL, 0, Field.DUE) and not any(runs(file, 1))
        got = run_timed(file, [entry(0, 100 * MS)], start=ago, max_past=FOREVER)
        assert (got.error, got.failed, got.head.done, got.head.start) == (0, 0, 1, ago)
        assert got.results[0].issued > 900 * MS
        assert run_timed(file, [entry(0, 2000 * MS)], start=ago).error == 0


@pytest.mark.smoke
def test_entries_are_sent_in_order_when_they_are_due(device):
    """Each with its own slot, LBA and time; the results say when, and what came of it."""
    Path(device.lun.sd).write_bytes(numbered_blocks(0, 256))
    with opened(device.path) as file, Ring() as ring:
        dues = [number * 2 * MS for number in range(50)]
        entries = [entry(number, due, flags=RUN_LBA, lba=100 + number)
                   for number, due in enumerate(dues)]
        for by_ring in (False, True):
            got = Timed.of(entries, spin=MAX_SPIN)
            before = time.monotonic_ns()
            if by_ring:
                got.push(ring, file, 5)
                ring.submit()
                assert ring.wait(1) == [(5, 0)]
            else:
                got.run(file)
            assert (got.error, got.failed, got.head.done) == (0, 0, 50)
            assert before <= got.head.start <= time.monotonic_ns()
            issued = [result.issued for result in got.results]
            assert issued == sorted(issued)
            assert all(at >= due for at, due in zip(issued, dues, strict=True))
            assert all(result.ended >= result.issued for result in got.results)
            assert time.monotonic_ns() - before >= dues[-1]
            assert 0 < got.head.spun <= time.monotonic_ns() - before
            assert file.memory[:50 * BLOCK] == numbered_blocks(100, 50)
            file.memory[:50 * BLOCK] = bytes(50 * BLOCK)
        assert runs(file, 50) == [2] * 50
        # The CPU is busy for as long as was allowed, not until the entry is due.
        got = run_timed(file, [entry(0, 400 * MS)], spin=MAX_SPIN)
        assert (got.error, got.failed) == (0, 0) and 0 < got.head.spun < 200 * MS


def test_a_slot_in_flight_is_waited_for(device):
    with opened(device.path) as file:
        device.slow(2 * MS)
        got = run_timed(file, [entry(number % 2) for number in range(40)])
        assert (got.error, got.failed) == (0, 0) and runs(file, 2) == [20, 20]
        for number in range(2, 40):
            assert got.results[number].issued >= got.results[number - 2].ended - MS // 10
        # A slot that is in flight for others.
        device.slow(50 * MS)
        with Ring() as ring:
            file.push(ring, 0)
            ring.submit()
            got = run_timed(file, [entry(0), entry(1)])
            assert (got.error, got.failed, ring.wait(1)) == (0, 0, [(0, 0)])
            assert got.results[1].issued >= got.results[0].issued > 20 * MS


@pytest.mark.parametrize("spin", (0, MAX_SPIN))
def test_an_entry_waits_for_the_end_of_another(device, spin):
    with opened(device.path) as file:
        device.slow(3 * MS)
        entries = [entry(0, number=10), entry(1, number=11, after=10), entry(2),
                   entry(flags=NOTHING, number=12, after=11), entry(3, number=14, after=12)]
        got = run_timed(file, entries, spin=spin)
        first, second, third, nothing, last = got.results
        assert (got.error, got.failed, got.codes) == (0, 0, [0] * 5)
        assert second.issued >= first.ended and third.issued >= second.issued
        assert nothing.issued == nothing.ended >= second.ended and last.issued >= nothing.ended
        # An entry that fails ends, too; and with it those whose numbers are a window behind.
        entries = [entry(4, number=WINDOW + 20, flags=RUN_BUFFER, buffer=9),
                   entry(5, number=WINDOW + 21, after=WINDOW + 20),
                   entry(6, number=2 * WINDOW, after=20)]
        got = run_timed(file, entries)
        assert (got.error, got.failed, got.codes) == (0, 1, [-errno.ENOENT, 0, 0])


def test_threads_wait_for_each_other(device):
    """Two threads on one file, each waits for an entry of the other; one has it in its first
    batch, the other in its second."""
    with opened(device.path) as file:
        device.slow(2 * MS)
        start = soon()
        one = Timed.of([entry(0, number=1), entry(1, number=3, after=2),
                        entry(2, number=6, after=5)], start=start, max_past=FOREVER)
        two = [Timed.of([entry(10, number=2, after=1)], start=start, max_past=FOREVER),
               Timed.of([entry(11, number=5, after=3)], start=start, max_past=FOREVER)]
        thread = threading.Thread(target=lambda: one.run(file))
        thread.start()
        for batch in two:
            assert batch.run(file).error == 0
        thread.join(20)
        assert one.error == 0 and one.codes == [0, 0, 0]
        order = [one.results[0], two[0].results[0], one.results[1], two[1].results[0],
                 one.results[2]]
        for before, behind in zip(order, order[1:]):
            assert behind.issued >= before.ended


def test_end_of_a_command_looks_at_a_bounded_number_of_callers(device):
    """Any number of callers may wait. The end of each command looks at 64 of them; the others look
    themselves, and none waits for ever."""
    callers, commands, begun = 90, 40, []
    with opened(device.path) as file, calls("smq_sg", "smqsg_timed_wake") as looks:
        if looks() is None:
            pytest.skip("this kernel has no kprobes")
        batches = [Timed.of([entry(number=2, after=1, flags=NOTHING)]) for _ in range(callers)]

        def wait(batch):
            begun.append(batch)
            batch.run(file)
        with ThreadPoolExecutor(callers) as pool:
            pool.map(wait, batches)
            try:
                wait_for("the callers", lambda: len(begun) == callers)
                time.sleep(1)
                before = looks()
                assert run_timed(file, [entry(slot) for slot in range(commands)]).error == 0
                assert 32 * commands < looks() - before <= 64 * commands
            finally:
                assert run_timed(file, [entry(number=1, flags=NOTHING)]).error == 0
        assert not any(batch.error for batch in batches)


def inflight_at_most(results):
    """The most commands in flight at a time."""
    events = sorted([(result.issued, 1) for result in results] +
                    [(result.ended, -1) for result in results])
    most = now = 0
    for _, step in events:
        now += step
        most = max(most, now)
    return most


def test_commands_in_flight_have_a_limit(device):
    with opened(device.path) as file:
        device.slow(2 * MS)
        for limit in (1, 3):
            got = run_timed(file, [entry(number, inflight=limit) for number in range(20)])
            assert (got.error, got.failed) == (0, 0)
            assert inflight_at_most(got.results) == limit
        # Batches of one file are counted together.
        start = soon()
        batches = [Timed.of([entry(20 * part + number, inflight=2) for number in range(20)],
                            start=start, max_past=FOREVER) for part in range(2)]
        threads = [threading.Thread(target=batch.run, args=(file,)) for batch in batches]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(20)
        assert [batch.codes for batch in batches] == [[0] * 20] * 2
        assert inflight_at_most([*batches[0].results, *batches[1].results]) == 2


def test_fdinfo_has_the_figures_of_a_batch(device):
    """Of the file whose slots the entries run: not of that on which the batch was submitted."""
    def figures(file):
        text = Path(f"/proc/self/fdinfo/{file.fd}").read_text(encoding="ascii")
        lines = [line.split(":") for line in text.splitlines()]
        return {name: int(value) for name, value in lines if name in ("slots", "inflight")}

    with opened(device.path) as leader, opened(device.path) as file:
        device.slow(300 * MS)
        leader.prepare([command(TUR)], 0)
        got = Timed.of([entry(number, inflight=3) for number in range(6)], of_files=[file.fd])
        thread = threading.Thread(target=got.run, args=(leader,))
        thread.start()
        wait_for("commands in flight", lambda: figures(file)["inflight"] == 3)
        assert figures(leader)["inflight"] == 0
        thread.join(20)
        assert (got.error, got.codes) == (0, [0] * 6)
        assert figures(file) == {"slots": 64, "inflight": 0}


def test_queue_depth_is_kept(device):
    """More commands are due than the device takes, and others want places, too."""
    with opened(device.path) as file, opened(device.path) as other, Ring() as ring:
        device.slow(MS)
        got = Timed.of([entry(number % 64) for number in range(400)])
        thread = threading.Thread(target=got.run, args=(file,))
        thread.start()
        for turn in range(20):
            for slot in range(8):
                other.push(ring, slot)
            ring.submit()
            assert smqsg.attr(device.path, "inflight") <= DEPTH, turn
            assert [result for _, result in ring.wait(8)] == [0] * 8
        thread.join(30)
        assert (got.error, got.failed) == (0, 0)


def test_commands_that_end_at_once(at_once):
    """Any number of them in a row, on one slot or many."""
    with opened(at_once.path) as file:
        for slots in (1, 64):
            got = run_timed(file, [entry(number % slots) for number in range(4000)])
            assert (got.error, got.failed, got.head.done) == (0, 0, 4000)
            assert not any(got.codes)
        # Without results.
        got = run_timed(file, [entry(number % 64) for number in range(4000)], results=0)
        assert (got.error, got.failed) == (0, 0) and not any(r.ended for r in got.results)
        assert sum(runs(file, 64)) == 12000


def test_results_are_exact(at_once):
    with opened(at_once.path) as file:
        file.prepare([read(0x7fffffff, offset=BLOCK)], 1)
        spare = Memory(64 * BLOCK)
        assert file.lend(1, spare) == 0
        got = run_timed(file, [entry(0), entry(1), entry(2, flags=RUN_BUFFER, buffer=1),
                               entry(3, flags=RUN_BUFFER, buffer=2),
                               entry(flags=NOTHING), entry(4, flags=RUN_LBA, lba=0x7fffffff)])
        status = file.status(1)
        assert status.result == 2 | RESULT_SENSE | (got.codes[1] & 0x20000)
        assert got.codes == [0, status.result, 0, -errno.ENOENT, 0, status.result]
        for at in (1, 5):
            bad = got.results[at]
            assert (bad.sense_key, bad.asc, bad.ascq) == status.triple == (5, 0x21, 0)
            assert bad.resid == status.resid
        assert (got.failed, got.error, got.head.done) == (3, 0, 6)
        assert file.status(3).result == -errno.ENOENT
        assert spare[2 * BLOCK:3 * BLOCK] == file.memory[2 * BLOCK:3 * BLOCK]
        # Results into memory that is not there.
        bad = run_timed(file, [entry(0)], results=16)
        assert bad.error == errno.EFAULT and file.status(0).result == 0


def test_several_luns_in_one_batch(sg_module):
    """One time line for two LUNs, submitted on the file of a third."""
    with loaded("scsi_debug", names=("add_host", "max_luns"), luns=3, delay=0) as (host,):
        paths = [smqsg.node(lun) for lun in host.wait_luns(3)]
        with opened(paths[0]) as leader, opened(paths[1]) as one, opened(paths[2]) as two:
            fds = [one.fd, two.fd]
            got = run_timed(leader, [entry(n, n * MS // 10, file=n % 2) for n in range(60)],
                            of_files=fds)
            assert (got.error, got.failed) == (0, 0)
            assert [sum(runs(file, 64)) for file in (leader, one, two)] == [0, 30, 30]
            issued = [result.issued for result in got.results]
            assert issued == sorted(issued)
            for wrong in ([one.fd, -1], [one.fd, 1000], [one.fd, 0]):
                got = run_timed(leader, [entry(0)], of_files=wrong)
                assert got.fault == (errno.EBADF, 1, Field.FILES)
            assert as_nobody(lambda: run_timed(leader, [entry(0)], of_files=fds).error
                             ) == errno.EPERM
            # The descriptors may be closed meanwhile.
            late = Timed.of([entry(5, 200 * MS, file=1)], of_files=fds)
            thread = threading.Thread(target=late.run, args=(leader,))
            thread.start()
            time.sleep(0.1)
            before = two.status(5).runs
            os.close(os.dup(two.fd))
            thread.join(10)
            assert late.codes == [0] and two.status(5).runs == before + 1


def late_batch(file, **more):
    """A batch in whose middle is an entry that is due too late, and a thread that runs it."""
    got = Timed.of([entry(0), entry(1), entry(2, FOREVER >> 1, number=7), entry(3, FOREVER >> 1)],
                   **more)
    thread = threading.Thread(target=got.run, args=(file,))
    thread.start()
    wait_for("two commands", lambda: runs(file, 2)[1])
    return got, thread


def test_a_batch_is_cancelled(device):
    with opened(device.path) as file, Ring() as ring:
        got, thread = late_batch(file)
        start = time.monotonic()
        assert file.cancel() == (0, 1)
        thread.join(5)
        assert time.monotonic() - start < 2
        assert (got.error, got.failed, got.head.done) == (0, 2, 2)
        assert got.codes == [0, 0, -errno.ECANCELED, -errno.ECANCELED]
        assert file.status(3).result == -errno.ECANCELED and file.cancel() == (0, 0)
        # By a ring; then one that waits for an entry that never ends, and one for a place.
        for entries in ([entry(0, FOREVER >> 1)], [entry(0, number=20, after=19)]):
            got = Timed.of(entries).push(ring, file, 4)
            ring.submit()
            wait_for("the batch", lambda: file.cancel() == (0, 1))
            assert ring.wait(1) == [(4, 1)] and got.codes == [-errno.ECANCELED]
        device.slow()
        got = Timed.of([entry(number) for number in range(DEPTH + 2)])
        thread = threading.Thread(target=got.run, args=(file,))
        thread.start()
        wait_for("a waiting command", lambda: smqsg.attr(device.path, "waiting"))
        assert file.cancel() == (0, 2)
        device.slow(0)
        thread.join(10)
        assert got.codes == [0] * DEPTH + [-errno.ECANCELED] * 2 and got.failed == 2


def test_a_closed_ring_ends_its_batch(device):
    with opened(device.path) as file:
        with Ring() as ring:
            got = Timed.of([entry(0), entry(1, FOREVER >> 1)]).push(ring, file)
            ring.submit()
            wait_for("a command", lambda: runs(file, 1)[0])
        wait_for("the batch's end", lambda: file.cancel() == (0, 0))
        assert got.codes[0] == 0 and run_timed(file, [entry(0)]).error == 0


@pytest.mark.parametrize("by_ring", (False, True))
@pytest.mark.parametrize("spin", (0, MAX_SPIN))
def test_signals(device, by_ring, spin):
    """SIGKILL ends the batch of a process, while it sleeps or spins, or with commands in flight;
    SIGSTOP and SIGCONT do not disturb it."""
    def child(file, entries):
        got = Timed.of(entries, spin=spin)
        if not by_ring:
            return got.run(file).error
        with Ring() as ring:
            got.push(ring, file)
            ring.submit()
            return ring.wait(1, 100)[0][1]
    with opened(device.path) as file:
        entries = [entry(0), entry(1)]
        late = [*entries, entry(2, FOREVER >> 1)]
        often = [*entries, *(entry(2, number * MS // 2) for number in range(20000))]
        for what, numbers in ((late, (signal.SIGKILL,)), (often, (signal.SIGKILL,)),
                              (late, (signal.SIGSTOP, signal.SIGCONT, signal.SIGKILL))):
            before = runs(file, 2)[1]
            pid = spawn(lambda what=what: child(file, what))
            wait_for("two commands", lambda before=before: runs(file, 2)[1] > before)
            for number in numbers:
                os.kill(pid, number)
                time.sleep(0.05)
            assert ended(pid, 5) == -signal.SIGKILL
            wait_for("the batch's end", lambda: file.cancel() == (0, 0))
        device.slow()
        pid = spawn(lambda: child(file, [entry(number) for number in range(9)]))
        wait_for("a waiting command", lambda: smqsg.attr(device.path, "waiting"))
        os.kill(pid, signal.SIGKILL)
        assert ended(pid, 10) == -signal.SIGKILL
        device.slow(0)
        device.idle()
        assert run_timed(file, [entry(0)]).codes == [0]


@pytest.mark.parametrize("spin", (0, MAX_SPIN))
def test_interrupted_batch_reports_what_was_done(device, spin):
    """A handled signal ends SMQ_SG_RUN while commands are in flight; those end by themselves."""
    with opened(device.path) as file:
        device.slow()
        got = Timed.of([entry(0), entry(1), entry(2, FOREVER >> 1), entry(flags=NOTHING,
                                                                          due=FOREVER >> 1)],
                       spin=spin)
        main = threading.get_ident()
        timer = threading.Timer(0.2, lambda: signal.pthread_kill(main, signal.SIGUSR1))
        old = signal.signal(signal.SIGUSR1, lambda *_: None)
        timer.start()
        try:
            got.run(file)
        finally:
            signal.signal(signal.SIGUSR1, old)
        assert got.error == errno.EINTR and got.head.done == 2
        assert got.codes == [0, 0, -errno.ECANCELED, -errno.ECANCELED]
        assert not got.results[0].ended and smqsg.attr(device.path, "inflight") == 2
        device.slow(0)
        wait_for("their end", lambda: runs(file, 2) == [1, 1])


def test_removal_ends_the_batch(device):
    with opened(device.path) as file:
        got, thread = late_batch(file)
        device.dir.set("power", 0)
        thread.join(10)
        assert got.codes == [0, 0, -errno.ENODEV, -errno.ENODEV] and got.failed == 2
        assert run_timed(file, [entry(0)]).codes == [-errno.ENODEV]


@pytest.mark.limit(120)
def test_removal_and_cancels_under_load(sg_module):
    """Each entry ends once, whatever happens meanwhile."""
    for turn in range(6):
        with slow_disk() as device, opened(device.path) as file:
            device.slow(100_000)
            batches = [Timed.of([entry(32 * part + n % 32, n * 50_000, inflight=n % 5)
                                 for n in range(2000)]) for part in range(2)]
            threads = [threading.Thread(target=batch.run, args=(file,)) for batch in batches]
            for thread in threads:
                thread.start()
            time.sleep(random.Random(turn).uniform(0.01, 0.06))
            if turn % 2:
                file.cancel()
            else:
                device.dir.set("power", 0)
            for thread in threads:
                thread.join(20)
            for batch in batches:
                assert batch.error == 0 and batch.head.done <= 2000
                assert batch.failed == sum(code != 0 for code in batch.codes)
                assert all(result.ended for result in batch.results)


def test_error_handling_and_a_frozen_queue(device):
    """A command that times out, and a queue that is frozen now and then, only delay a batch."""
    with opened(device.path) as file:
        device.slow(MS)
        got = Timed.of([entry(n % 32, n * MS // 2) for n in range(1000)])
        thread = threading.Thread(target=got.run, args=(file,))
        thread.start()
        depth = device.lun.queue / "nr_requests"
        while thread.is_alive():
            for number in ("64", "128"):
                depth.write_text(number, encoding="ascii")
                time.sleep(0.02)
        thread.join()
        assert (got.error, got.failed) == (0, 0)
        device.slow(600 * MS)
        file.prepare([read(0, offset=0, timeout_ms=200)])
        got = run_timed(file, [entry(0), entry(1), entry(0)])
        assert got.error == 0 and got.codes[1] == 0
        device.slow(0)


def test_memory_is_bounded(device):
    """The longest batch."""
    with opened(device.path) as file:
        got = Timed.of([Entry(flags=NOTHING)] * MAX_TIMED)
        assert (got.run(file).error, got.failed, got.head.done) == (0, 0, MAX_TIMED)


def test_polled_rings_are_refused(polled):
    with opened(polled.path) as file, Ring(8, SETUP_IOPOLL) as ring:
        got = Timed.of([entry(0)]).push(ring, file, 3)
        ring.submit()
        assert ring.wait(1) == [(3, -errno.EOPNOTSUPP)] and not got.results[0].ended


def test_suspend_freezes_the_caller(device):
    """While the system's tasks are frozen nothing is sent; then the batch goes on."""
    if not Path("/sys/power/pm_test").exists():
        pytest.skip("a kernel that cannot test the freezer")
    with opened(device.path) as file, Ring() as ring:
        for by_ring in (False, True):
            got = Timed.of([entry(n % 8, n * MS) for n in range(1500)])
            if by_ring:
                got.push(ring, file)
                ring.submit()
            thread = threading.Thread(target=lambda got=got, by_ring=by_ring: by_ring or
                                      got.run(file))
            thread.start()
            wait_for("a command", lambda: runs(file, 8)[7])
            Path("/sys/power/pm_test").write_text("freezer", encoding="ascii")
            Path("/sys/power/state").write_text("freeze", encoding="ascii")
            Path("/sys/power/pm_test").write_text("none", encoding="ascii")
            thread.join(20)
            if by_ring:
                assert ring.wait(1, 20) == [(0, 0)]
            assert (got.error, got.failed, got.head.done) == (0, 0, 1500)
