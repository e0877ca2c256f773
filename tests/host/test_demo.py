# SPDX-License-Identifier: GPL-2.0
"""The demo's table. If figures of a row are missing, the program prints an error instead."""

import subprocess
import sys
from pathlib import Path

import pytest
import table

ROOT = Path(__file__).resolve().parents[2]
TABLE = ROOT / "tools" / "demos" / "table.py"


@pytest.fixture(name="folder")
def fixture_folder(tmp_path):
    """A folder with results as the guest writes them: the times of three rounds of 1000 I/Os, and
    the instructions of two runs."""
    wall, insn = [], []
    for n, row in enumerate(table.ROWS, 1):
        for loop in table.LOOPS:
            if loop == "sg_io" and row in table.NO_SG:
                continue
            wall += [f"{row} {loop} 1000 {1000 * ns}" for ns in (9000 * n, 10000 * n, 11000 * n)]
            if row not in table.NOT_COUNTED:
                insn += [f"{row} {loop} 1000 {7000 * n}", f"{row} {loop} 3000 {9000 * n}"]
    (tmp_path / "wall").write_text("\n".join(wall))
    (tmp_path / "insn").write_text("\n".join(insn))
    return tmp_path


def show(folder):
    """Runs the program that prints the table."""
    return subprocess.run([sys.executable, "-B", TABLE, folder], capture_output=True, text=True,
                          check=False)


def test_each_driver_is_listed_after_the_one_that_it_replaces(folder):
    done = show(folder)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    rows = lines[4:4 + len(table.ROWS)]
    assert [line[:24].strip() for line in rows[-4:]] == [
        "tcm_loop, LIO RAM disk", "smq_lio, LIO RAM disk", "virtio_scsi", "smq_virtio"]
    assert max(map(len, lines)) <= 80
    # 1000 I/Os take 10 ms; 2000 more I/Os take 2000 more instructions, which is 1 for each.
    assert rows[0].split() == ["null_blk", "(not", "SCSI)", "100000", "+-10", "%", "-", "1", "-"]
    assert rows[-1].split()[-2:] == ["-", "-"], "smq_virtio must have no instruction count"


def test_rounds_that_scatter_are_not_printed(folder):
    """Beside other work the three rounds of a row differ by a factor: no median is true."""
    wall = (folder / "wall").read_text().replace("null_blk io_uring 1000 11000000",
                                                 "null_blk io_uring 1000 90000000")
    (folder / "wall").write_text(wall)
    rows = show(folder).stdout.splitlines()[4:6]
    assert "      busy machine              -" in rows[0] and "+-" not in rows[0]
    assert "busy machine" not in rows[1]


@pytest.mark.parametrize("row", list(table.ROWS))
def test_missing_figures_of_a_row_are_an_error(folder, row):
    kept = [line for line in (folder / "wall").read_text().splitlines()
            if not line.startswith(f"{row} io_uring ")]
    (folder / "wall").write_text("\n".join(kept))
    done = show(folder)
    assert done.returncode == 1
    assert done.stdout == ""
    assert done.stderr.startswith("tools/demo: ")
