# SPDX-License-Identifier: GPL-2.0
"""sg_io's results: latency percentiles, and outcomes, which are counted by kind and decoded."""

import random

import pytest
from sg_io_build import COMMAND_FILE, part, run

PERMILLES = (1, 500, 990, 999, 1000)


def percentiles(values):
    done = run(part("sg_io_hist", "issue/workers/hist.c"), *map(str, PERMILLES),
               stdin="\n".join(map(str, values)).encode())
    count, highest, *rest = map(int, done.stdout.split())
    return count, highest, rest


def exact(values, permille):
    """The smallest value V such that at least @permille thousandths of all values are V or less."""
    return sorted(values)[max(-(-len(values) * permille // 1000), 1) - 1]


def samples():
    rng = random.Random(5)
    yield [0]
    yield [127, 128]
    yield [(1 << 64) - 1, 0, 1 << 63]
    yield list(range(1000))
    yield [rng.randrange(1 << rng.randrange(1, 64)) for _ in range(5000)]
    yield [int(rng.lognormvariate(11, 1.5)) for _ in range(5000)]
    yield [100] * 999 + [10 ** 9]
    yield [1 << n for n in range(64)] + [(1 << n) - 1 for n in range(64)]


@pytest.mark.parametrize("values", list(samples()))
def test_percentiles_are_exact_to_one_part_in_64(values):
    count, highest, got = percentiles(values)
    assert (count, highest) == (len(values), max(values))
    for permille, value in zip(PERMILLES, got):
        want = exact(values, permille)
        assert want <= value <= want + want // 64
        if want < 128:
            assert value == want
    assert got[-1] == max(values)


def test_percentiles_of_no_values_are_zero():
    assert percentiles([]) == (0, 0, [0] * len(PERMILLES))


READ = "28000000000000000800 in 4096"
FIXED = "70 00 05 00 00 00 00 0a 00 00 00 00 21 00 00 00 00 00".replace(" ", "")
DESCRIPTOR = "72 05 21 00 00 00 00 00".replace(" ", "")


def outcomes(tmp_path, *rows):
    """The counts of good and other outcomes, and the kinds of these. A row is a line of a command
    file, how its command ended, and the byte that its data-in consists of."""
    path = tmp_path / "cmds"
    path.write_text("".join(f"{line}\n" for line, *_ in rows), encoding="ascii")
    program = part("sg_io_outcome", "issue/workers/outcome.c", *COMMAND_FILE,
                   libsmq=("outcome.c", "device.c", "strerror.c"))
    done = run(program, path, stdin="".join(f"{end} {byte}\n" for _, end, byte in rows).encode())
    head, *entries = done.stdout.splitlines()
    good, bad = map(int, head.split())
    return good, bad, [tuple(entry.split("|")) for entry in entries]


def ends_of_reads(tmp_path, *ends):
    return outcomes(tmp_path, *((READ, end, 0) for end in ends))


def test_good_outcomes_are_counted(tmp_path):
    rows = ["0 0 0 0 0 -", "0 4 0 0 0 -", "0 0 0 8 0 -"]
    assert ends_of_reads(tmp_path, *rows) == (3, 0, [])


def test_fixed_and_descriptor_sense_count_as_one_result(tmp_path):
    good, bad, entries = ends_of_reads(tmp_path, f"0 2 0 8 0 {FIXED}", f"0 2 0 0 0 {DESCRIPTOR}")
    assert (good, bad) == (0, 2)
    assert entries == [(
        "2", "1", "CHECK CONDITION",
        "CHECK CONDITION: Illegal Request (5h): Logical block address out of range (21h/00h)")]


@pytest.mark.parametrize("row,name,text", [
    ("0 8 0 0 0 -", "BUSY", "BUSY"),
    ("0 0 3 6 0 -", "DID_TIME_OUT", "DID_TIME_OUT, DRIVER_TIMEOUT"),
    ("0 0 0 6 0 -", "DRIVER_TIMEOUT", "DRIVER_TIMEOUT"),
    ("5 0 0 0 0 -", "EIO", "EIO: Input/output error"),
    ("0 0 0 0 512 -", "UNDERRUN",
     "GOOD status, but fewer bytes were moved than the CDB asks for"),
    ("0 2 0 0 0 700006000000000a00000000290000000000", "CHECK CONDITION",
     "CHECK CONDITION: Unit Attention (6h): Power on, reset, or bus device reset occurred "
     "(29h/00h)"),
])
def test_each_kind_of_bad_outcome_has_name_and_text(tmp_path, row, name, text):
    """test_libsmq.py has the texts of more statuses, host bytes and errors."""
    assert ends_of_reads(tmp_path, row) == (0, 1, [("1", "1", name, text)])


def test_short_inquiry_is_good(tmp_path):
    assert outcomes(tmp_path, ("120000006000 in 96", "0 0 0 0 60 -", 0)) == (1, 0, [])


def test_results_are_listed_in_order_of_appearance(tmp_path):
    rows = ["0 0 0 0 0 -", "5 0 0 0 0 -", "0 8 0 0 0 -",
            "0 8 0 0 0 -", "5 0 0 0 0 -", f"0 2 0 0 0 {FIXED}",
            "5 0 0 0 0 -"]
    good, bad, entries = ends_of_reads(tmp_path, *rows)
    assert (good, bad) == (1, 6)
    assert [entry[:3] for entry in entries] == [
        ("3", "2", "EIO"), ("2", "3", "BUSY"), ("1", "6", "CHECK CONDITION")]


def test_200_kinds_are_counted_separately(tmp_path):
    rows = [f"0 2 0 0 0 7203{n:02x}00" for n in range(200)]
    good, bad, entries = ends_of_reads(tmp_path, *rows, *rows)
    assert (good, bad, len(entries)) == (0, 400, 200)
    assert [int(entry[1]) for entry in entries] == list(range(1, 201))
