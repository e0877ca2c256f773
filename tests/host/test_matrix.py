# SPDX-License-Identifier: GPL-2.0
"""docs/devices.md has the table of tests/vm/kit/devices.py. vm/matrix and slow/matrix_more compare
this table with real behaviour. This file also tests how both check a disk's data."""
import sys
import time
from pathlib import Path

import pytest

TOP = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(TOP / "tests/vm"))

from kit import devices, stamped  # noqa: E402
from kit.host import Lun  # noqa: E402


def test_the_table_is_in_the_docs():
    text = (TOP / "docs/devices.md").read_text(encoding="utf-8")
    assert devices.table() in text, devices.table()


def test_each_device_is_listed_once():
    assert not set(devices.DEFAULT) & set(devices.MORE)
    assert {"scsi_debug", "soft FC", "iSCSI, LIO"} <= set(devices.DEFAULT)


@pytest.fixture(name="disk")
def _disk(tmp_path):
    """A file in place of a disk, filled with cells."""
    path = tmp_path / "disk"
    with path.open("wb") as file:
        file.truncate(stamped.BASE + stamped.THREADS * stamped.CELLS * stamped.CELL)
    lun = Lun("0:0:0:0", str(path), "", "")
    cells = stamped.Stamped()
    try:
        cells.fill(lun)
    except OSError as error:
        pytest.skip(f"{tmp_path}: {error}")
    return cells, lun, path


def spoil(path, cell, data):
    """Overwrites a cell in the file. The object that checks the cells does not know of it."""
    with path.open("r+b") as file:
        file.seek(stamped.BASE + cell * stamped.CELL)
        file.write(data)


def test_reading_returns_what_was_written(disk):
    cells, lun, _ = disk
    for _ in range(2):
        with cells.running(lun):
            cells.wait(100)
        assert not cells.errors
        cells.check(lun)


@pytest.mark.parametrize("how", ["lost", "another", "zeroes"])
def test_wrong_sector_is_found(disk, how):
    """The check finds a sector with older data, with another cell's data, or with zeroes."""
    cells, lun, path = disk
    with path.open("rb") as file:
        file.seek(stamped.BASE + 5 * stamped.CELL)
        old = file.read(stamped.SECTOR)
        file.seek(stamped.BASE + 6 * stamped.CELL)
        other = file.read(stamped.SECTOR)
    with cells.running(lun):
        cells.wait(1500)
    spoil(path, 5, {"lost": old, "another": other, "zeroes": bytes(stamped.SECTOR)}[how])
    with pytest.raises(AssertionError, match="cell 5, sector 0"):
        cells.check(lun)


def test_reading_threads_report_wrong_data(disk):
    cells, lun, path = disk
    for cell in range(stamped.CELLS):
        spoil(path, cell, bytes(stamped.CELL))
    with pytest.raises(AssertionError, match="sector"), cells.running(lun, writes=False):
        time.sleep(0.3)
