# SPDX-License-Identifier: GPL-2.0
"""The bench makes figures and verdicts from the output of guest and plugins."""

import pytest
from smqbench import bars, counts, groups, guestlog, instrument, measure, transfers
from smqbench.errors import BenchError
from smqbench.figures import FigureSet
from smqbench.plan import Workload
from smqbench.symbols import USER, Function, Symbols
from smqbench.tally import Tally

KALLSYMS = """\
0000000000001000 A per_cpu_thing
ffffffff81000000 T scsi_like
ffffffff81000100 t helper.isra.0
ffffffff81000200 D a_datum
ffffffff81000300 T kmalloc_trace
ffffffffc0001000 t ram_queue_cmd\t[smq_ram]
ffffffffc0001080 t ram_other\t[smq_ram]
"""
QUEUE_CMD, OTHER, ALLOC = "ffffffffc0001000", "ffffffffc0001080", "ffffffff81000300"


@pytest.fixture(name="folder")
def fixture_folder(tmp_path):
    """Writes the files of a guest for one row and workload: runs of 100 and 300 I/Os."""
    (tmp_path / "kallsyms.1").write_text(KALLSYMS)
    (tmp_path / "log").write_text(
        "kernel 6.1\ncpu any\ncmdline quiet\nparam smq_ram modprobe smq_ram null=0\n"
        "queue smq_ram sda iostats=1\nrow smq_ram 1\n"
        'run plain-512 {"count": 100, "ns": 11000, "devices": ["/dev/sda"]}\n'
        'run plain-512 {"count": 300, "ns": 31000, "devices": ["/dev/sda"]}\nend\n')
    (tmp_path / "out").write_text("run=1 symbols=1 wall_ms=1 insns=11000 own=2000 irq=0\n"
                                  "run=2 symbols=1 wall_ms=1 insns=31000 own=6000 irq=0\n")
    for run, ios in ((1, 100), (2, 300)):
        (tmp_path / f"hist.{run}").write_text(
            f"block {QUEUE_CMD} 10 {ios} {ios} 0\nblock {OTHER} 5 {ios * 2} {ios * 2} 0\n"
            f"block ffffffff81000010 80 {ios} 0 0\nblock 400000 1000 1 0 0\n"
            f"block {ALLOC} 0 {ios} 0 0\n"
            f"call {ALLOC} ffffffff81000010 0 {ios}\n"
            f"call {ALLOC} ffffffffc0001090 {ios // 2} 0\n")
    return tmp_path


def test_only_symbols_of_code_count(tmp_path):
    """Symbols of data are ignored. A function that the compiler has cloned keeps its name."""
    path = tmp_path / "kallsyms"
    path.write_text(KALLSYMS)
    symbols = Symbols(path)
    assert symbols.function(0xffffffff81000105) == Function("helper")
    assert symbols.function(0xffffffff81000250) == Function("helper")
    assert symbols.function(0xffffffffc0001010) == Function("ram_queue_cmd", "smq_ram")
    assert symbols.function(0x400000) == USER
    assert symbols.is_entry(0xffffffffc0001000)
    assert not symbols.is_entry(0xffffffffc0001010)


def test_figures_are_differences_of_two_runs(folder):
    """Figures per I/O are the difference of two runs, so the fixed part of a run does not count."""
    log = guestlog.read(folder)
    assert log.parameters == {"smq_ram": ["modprobe smq_ram null=0"]}
    cell = counts.cells(log, folder)["smq_ram", "plain-512"]
    assert cell.values == [100] and sum(cell.per_io.insns.values()) == 100
    assert cell.per_io.own == {Function("ram_queue_cmd", "smq_ram"): 10,
                               Function("ram_other", "smq_ram"): 10}
    assert USER not in cell.per_io.insns
    assert cell.per_io.calls[Function("ram_queue_cmd", "smq_ram")] == 1
    assert cell.per_io.callers == {
        (Function("kmalloc_trace"), Function("scsi_like"), False): 1,
        (Function("kmalloc_trace"), Function("ram_other", "smq_ram"), True): 0.5}


@pytest.mark.parametrize("name, old, new, message", [
    ("log", "end\n", "", "did not finish"),
    ("log", "run plain", "what plain", "unknown line"),
    ("log", '"ns": 31000', '"ns": 36000', "by the guest's clock"),
    ("out", "run=2", "run=3", "expected"),
    ("out", "run=2 symbols=1 wall_ms=1 insns=31000 own=6000 irq=0\n", "", "the plugin 1"),
    ("hist.1", "block ", "lump ", "unknown record"),
])
def test_damage_is_noticed(folder, name, old, new, message):
    """Damaged files, and files that do not match each other, give an error."""
    path = folder / name
    path.write_text(path.read_text().replace(old, new, 1))
    with pytest.raises(BenchError, match=message):
        counts.cells(guestlog.read(folder), folder)


QUICK = ["null_blk", "scsi_debug", "smq_ram_null", "smq_ram"]


def judged(null=6350, data=6470, data_4k=6900, allocations=0.0, own=(0.0, 0.049), kernel="6.1.0"):
    """The verdicts on these figures of tools/bench/quick."""
    taken = FigureSet()

    def add(row, metric, *values, bs=512, jobs=1):
        for path in ("io_uring", "io_uring_fixed"):
            taken.add(instrument.figure(
                instrument="quick", row=row, kernel=kernel, parameters={}, cpus=jobs,
                command="tools/bench/quick", **instrument.fields(
                    Workload(path, "read", bs, 32, 16, jobs, jobs), values, metric)))
    add("scsi_debug", "insn", 6430)
    for row, small, large in (("smq_ram_null", null, null), ("smq_ram", data, data_4k)):
        add(row, "insn", small)
        add(row, "insn", large, bs=4096)
        add(row, "allocations", allocations)
        add(row, "own_transfers", *own, jobs=2)
    return bars.judged("quick", taken, QUICK)


@pytest.mark.parametrize("change, missed", [
    ({}, 0),
    ({"null": 6370}, 0), ({"null": 6371}, 2),
    ({"data": 6490}, 0), ({"data": 6491}, 2),
    ({"data_4k": 6940}, 0), ({"data_4k": 6941}, 2),
    ({"allocations": 0.01}, 2), ({"own": (0.0, 0.05)}, 4),
    # Bars on instructions are for 6.1.
    ({"data": 9000, "allocations": 1, "kernel": "6.12.1"}, 2),
])
def test_each_bound_holds_up_to_its_limit(change, missed):
    """Each bound holds up to its limit and not beyond; the worst repeat counts."""
    found = judged(**change)
    assert [one.ok for one in found].count(False) == missed
    assert all(one.value is not None for one in found)


def test_unmeasured_bounds_do_not_pass():
    """A bound without a figure does not pass."""
    assert {one.word for one in bars.judged("quick", FigureSet(), QUICK)} == {"not measured"}


def test_zero_without_other_counts_is_an_error():
    """A count of 0 is valid only if the instrument has counted something else."""
    log, read = guestlog.GuestLog(), Workload("sg_io", "read", 512, 1, 1)

    def made(row, **spec):
        cell = counts.Cell([6470])
        list(measure._counts(cell, read, log, row, spec))
    with pytest.raises(BenchError, match="none of our functions"):
        made("smq_ram")
    with pytest.raises(BenchError, match="missed those of sg"):
        made("scsi_debug", arguments=["allocators"])
    with pytest.raises(BenchError, match="none of our accesses"):
        list(measure._lines("smq_ram", read, transfers.Sharing(own=[0.0])))


@pytest.mark.parametrize("name, module, group", [
    ("scsi_queue_rq", "scsi_mod", groups.SCSI), ("__sg_alloc_table", "", groups.SCSI),
    ("ram_queue_cmd", "smq_ram", groups.LLD), ("schedule_resp", "scsi_debug", groups.LLD),
    ("get_user_pages_fast", "", groups.BLOCK), ("blk_account_io_done", "", groups.TIME),
    ("kmem_cache_alloc", "", groups.MEMORY), ("__rcu_read_unlock", "", groups.LOCKS),
    ("try_to_wake_up", "", groups.SCHED), ("__memcpy", "", groups.COPY),
    ("asm_sysvec_apic_timer_interrupt", "", groups.ENTRY), ("zorro_probe", "", groups.OTHER),
])
def test_functions_are_in_their_groups(name, module, group):
    """Well-known functions are in the expected groups."""
    assert groups.group(Function(name, module)) == group


def test_each_instruction_is_in_one_group():
    """Every instruction is in one group."""
    made = Tally({Function("ram_queue_cmd", "smq_ram"): 10, Function("zorro_probe"): 7})
    assert sum(groups.split(made).values()) == sum(made.values())


def test_transfers_are_per_io_of_all_jobs(tmp_path):
    """Transfers are per I/O of all jobs. Those in interrupts are counted separately, and the
    kind of a record tells which are ours."""
    (tmp_path / "kallsyms.1").write_text(KALLSYMS)
    (tmp_path / "log").write_text(
        "kernel 6.1\nrow smq_ram_luns 1\n"
        'run plain-512 {"count": 100, "ns": 1, "devices": ["/dev/sda", "/dev/sdb"]}\nend\n')
    (tmp_path / "out").write_text(
        "run=1 symbols=1 insns=1 accesses=9 own_accesses=400 reads=30 writes=10 irq=20 own=6 "
        "lost=4 slips=2 beyond=0 overflow=0\n")
    (tmp_path / "hist.1").write_text(
        f"line 1 ffff888000000040 {QUEUE_CMD} wo 6\nline 1 ffff888000000040 {ALLOC} rl 4\n"
        f"line 2 ffff888000000080 {ALLOC} ri 20\nline 3 ffff8880000000c0 {ALLOC} r 26\n")
    log = guestlog.read(tmp_path)
    sharing = transfers.sharings(log, tmp_path)["smq_ram_luns", "plain-512"]
    assert (sharing.own, sharing.totals) == ([0.05], [0.2])
    assert sharing.own_accesses == 2
    assert sharing.own_top == {("ram_queue_cmd [smq_ram]", "write"): 0.03,
                               ("kmalloc_trace", "read"): 0.02}
    assert sharing.top["kmalloc_trace", "read"] == 0.15
