# SPDX-License-Identifier: GPL-2.0
"""Figures of locks from the plugin's output: locks are distinguished by address and named after
their callers."""

import pytest
from smqbench import acquisitions, guestlog
from smqbench.errors import BenchError

KALLSYMS = """\
ffffffff81000000 T _raw_spin_lock
ffffffff81000100 T native_queued_spin_lock_slowpath
ffffffff81000200 T scsi_queue_rq\t[scsi_mod]
ffffffff81000300 T io_submit_sqes
ffffffff81000400 T scsi_done\t[scsi_mod]
ffffffffc0001000 t legacy_request_fn\t[smq]
ffffffffc0001100 t legacy_host_ready_2013\t[smq]
ffffffffc0001200 t legacy_unbusy_2013\t[smq]
"""
LOCK, SLOW = "ffffffff81000000", "ffffffff81000100"
QUEUE_RQ, SUBMIT, DONE = "ffffffff81000210", "ffffffff81000310", "ffffffff81000410"
QUEUE, HOST, BOTH = "ffffffffc0001010", "ffffffffc0001110", "ffffffffc0001210"
LUN0, LUN1, SHOST, RING = "ffff888000000010", "ffff888000000110", "ffff888000000210", "ffff8880003"


def write_files(folder, runs, counts, jobs=1):
    """Writes the files that a guest and the plugin write; returns the log that is read from them.
    @runs: the hist lines of each run. @counts: the I/Os of a job in each run."""
    (folder / "kallsyms.1").write_text(KALLSYMS)
    log = "kernel 6.1\nparam smq_ram modprobe smq_ram\nqueue smq_ram sda iostats=1\nrow smq_ram 1\n"
    out = ""
    for number, (lines, count) in enumerate(zip(runs, counts), 1):
        log += (f'run key {{"count": {count}, "ns": 1, "jobs": {jobs}, "warmup": 0, '
                '"devices": ["/dev/sda"]}\n')
        out += f"run={number} symbols=1 insns=1 irq=0 slips=0 overflow=0\n"
        (folder / f"hist.{number}").write_text("".join(line + "\n" for line in lines))
    (folder / "log").write_text(log + "end\n")
    (folder / "out").write_text(out)
    return guestlog.read(folder)


def one(folder, lines, count=100, jobs=1):
    """The locks of a single run."""
    log = write_files(folder, [lines], [count], jobs)
    locks, = acquisitions.cells(log, folder)["smq_ram", "key"]
    return locks


def test_figures_are_differences_of_two_runs(tmp_path):
    """The difference of two runs has the locks of each I/O, without those taken once in a run."""
    log = write_files(tmp_path, [
        [f"lock {LOCK} {QUEUE_RQ} {LUN0} 105 0 0", f"lock {LOCK} {SUBMIT} {RING} 1 0 0"],
        [f"lock {LOCK} {QUEUE_RQ} {LUN0} 305 0 0", f"lock {LOCK} {SUBMIT} {RING} 1 0 0"],
    ], [100, 300])
    locks, = acquisitions.cells(log, tmp_path)["smq_ram", "key"]
    assert locks.total() == 1
    assert locks.by_site() == {"scsi_queue_rq [scsi_mod]: spin_lock": 1}
    assert locks.by_group() == {"SCSI mid-layer, sd": 1}


def test_locks_are_distinguished_by_address(tmp_path):
    """Two addresses are two instances of a lock, even if one function takes both: with two LUNs a
    lock of the LUN has two instances, and a lock of the host has one."""
    locks = one(tmp_path, [
        f"lock {LOCK} {QUEUE_RQ} {LUN0} 50 0 0", f"lock {LOCK} {QUEUE_RQ} {LUN1} 50 0 0",
        f"lock {LOCK} {DONE} {LUN0} 50 0 0", f"lock {LOCK} {DONE} {LUN1} 50 0 0",
        f"lock {LOCK} {SUBMIT} {SHOST} 300 0 0"])
    assert locks.by_lock() == {"io_uring's locks": 3,
                               "of scsi_done, scsi_queue_rq": 2}
    assert locks.instances() == {"io_uring's locks": 1, "of scsi_done, scsi_queue_rq": 2}


def test_legacy_locks_have_names(tmp_path):
    """The legacy model's locks have names, each with the word "model"."""
    # The function BOTH takes both locks: only their addresses distinguish them.
    locks = one(tmp_path, [f"lock {LOCK} {QUEUE} {LUN0} 306 160 0",
                           f"lock {LOCK} {BOTH} {LUN0} 100 0 0",
                           f"lock {LOCK} {BOTH} {SHOST} 100 0 0",
                           f"lock {LOCK} {HOST} {SHOST} 200 3 0"])
    assert locks.by_lock() == {acquisitions.QUEUE_LOCK: 4.06, acquisitions.HOST_LOCK: 3}
    assert all("model" in name for name in locks.by_lock())
    assert locks.contended_share(acquisitions.QUEUE_LOCK) == pytest.approx(100 * 160 / 406)
    assert locks.contended_share(acquisitions.HOST_LOCK) == pytest.approx(1)
    assert locks.contended_share() == pytest.approx(100 * 163 / 706)


def test_locks_of_interrupts_are_not_counted(tmp_path):
    """A lock that an interrupt takes does not count for the command."""
    locks = one(tmp_path, [f"lock {LOCK} {QUEUE_RQ} {LUN0} 130 10 30",
                           f"lock {LOCK} {DONE} {SHOST} 50 50 50"])
    assert locks.total() == 1
    assert locks.contended_share() == 10
    # Here 110 acquisitions were contended, but only 100 were outside interrupts: 100 %, not more.
    locks = one(tmp_path, [f"lock {LOCK} {QUEUE_RQ} {LUN0} 130 110 30"])
    assert locks.contended_share() == 100


def test_figures_are_per_io_of_all_jobs(tmp_path):
    """Figures are per I/O of all jobs together."""
    assert one(tmp_path, [f"lock {LOCK} {QUEUE_RQ} {LUN0} 200 0 0"], 100, 2).total() == 1


def test_share_of_locking_includes_waiting(tmp_path):
    """The share of instructions for locking includes those for waiting."""
    locks = one(tmp_path, [f"block {LOCK} 10 30 0 0", f"block {SLOW} 5 20 0 0",
                           f"block {QUEUE_RQ} 60 10 0 0", "block 400000 1 0 0 0"])
    assert locks.insn_share(acquisitions.LOCK_CODE) == pytest.approx(100 * 400 / 1000)
    assert locks.insn_share(acquisitions.WAITING) == pytest.approx(100 * 100 / 1000)


@pytest.mark.parametrize("line, message", [
    ("lump 1 2 3", "unknown record lump"),
    (f"lock {LOCK} {QUEUE_RQ} {LUN0} 1 2 0", "2 of 1 contended"),
    (f"lock {LOCK} {QUEUE_RQ}", "hist.1"),
])
def test_damage_is_noticed(tmp_path, line, message):
    """Damaged output gives an error, not a figure."""
    with pytest.raises(BenchError, match=message):
        one(tmp_path, [line])


def test_hardly_any_locks_are_an_error(tmp_path):
    """If hardly any locks were counted, that is an error: every path takes some."""
    found = {("smq_ram", "key"): [one(tmp_path, [f"lock {LOCK} {QUEUE_RQ} {LUN0} 1 0 0"])]}
    with pytest.raises(BenchError, match="hardly any locks"):
        acquisitions.check(found)


def test_full_table_is_noticed(tmp_path):
    """A full table of the plugin is an error, because locks are missing."""
    log = write_files(tmp_path, [[]], [100])
    log.runs[0].figures["overflow"] = 1
    with pytest.raises(BenchError, match="ran out of room"):
        acquisitions.cells(log, tmp_path)
