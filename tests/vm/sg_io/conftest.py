# SPDX-License-Identifier: GPL-2.0
"""Fixtures of sg_io's tests; they run as root in a VM that has scsi_debug."""

import pytest
import vmdisk


@pytest.fixture(scope="module")
def disk():
    with vmdisk.disks() as found:
        yield found[0]


@pytest.fixture
def reads(tmp_path):
    return vmdisk.generate(tmp_path / "reads", "--op", "read10", "--blocks", 8, "--count", 100)
