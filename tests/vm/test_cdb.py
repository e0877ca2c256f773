# SPDX-License-Identifier: GPL-2.0
# on: uml sanitize
"""Every CDB that smq_ram knows, valid and invalid, compared with scsi_debug: status, sense,
residual, data."""
import pytest
from cdb_cases import BLOCK, CASES
from kit.host import SgDev, loaded
from kit.outcome import outcome

ORACLE = {"dev_size_mb": 16, "sector_size": BLOCK, "delay": 0, "lbpu": 1, "lbpws": 1,
          "lbpws10": 1, "unmap_max_desc": 256, "unmap_max_blocks": 0x7fffffff,
          "write_same_length": 0x7fffffff}


@pytest.fixture(scope="module")
def pair():
    """The open disks of smq_ram and of scsi_debug, which have the same size."""
    # io_errors, because the kernel logs commands that end with DID_ERROR: those whose buffer has
    # the wrong direction.
    with loaded("smq_ram", io_errors=True, size_mb=16, sector_size=BLOCK) as ours, \
            loaded("scsi_debug", io_errors=True, names=("add_host", "max_luns"),
                   **ORACLE) as theirs, \
            SgDev(ours[0].luns()[0].sd) as dev, SgDev(theirs[0].luns()[0].sd) as oracle:
        yield dev, oracle


# Commands that scsi_debug answers in another way in 7.2.
CHANGED = ("mode-sense6-unknown-00", "mode-sense10-unknown-00", "sai16-16")
NOT_UML = pytest.mark.not_uml("scsi_debug of 7.2 behaves differently")


@pytest.mark.parametrize("case", [
    pytest.param(case, id=case.name, marks=[NOT_UML] if case.name in CHANGED else [])
    for case in CASES])
def test_cdb(pair, case):
    """The outcome equals scsi_debug's or, where scsi_debug does not follow the standard, what the
    standard demands."""
    dev, oracle = pair
    data = case.data and not case.want
    got = outcome(dev.cmd(case.cdb, case.din, case.dout), data)
    theirs = None if case.alone else outcome(oracle.cmd(case.cdb, case.din, case.dout), data)
    want = case.want or theirs
    if got != want:
        pytest.fail(f"{case.cdb.hex(' ')}\n  got        {got}\n  want       {want}\n"
                    f"  scsi_debug {theirs}\n  {case.why}", pytrace=False)
    if case.why and theirs == want:
        pytest.fail(f"scsi_debug no longer differs: {case.why}", pytrace=False)
    if not case.why and not case.alone and theirs != want:
        pytest.fail(f"scsi_debug differs, and no reason is given: {theirs}", pytrace=False)
