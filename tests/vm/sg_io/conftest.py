# SPDX-License-Identifier: GPL-2.0
"""Fixtures of sg_io's tests; they run as root in a VM that has scsi_debug."""

import subprocess

import pytest
import vmdisk
from kit.host import unload


@pytest.fixture(scope="module")
def disk():
    with vmdisk.disks() as found:
        yield found[0]


@pytest.fixture(scope="module")
def fast_path():
    """Loads smq_sg, so that each disk has a node /dev/smqsgN."""
    subprocess.run(["modprobe", "smq_sg"], check=True, timeout=vmdisk.TIMEOUT)
    yield
    unload("smq_sg")


@pytest.fixture(scope="module")
def three(fast_path):
    """Three disks, each on a host of its own."""
    with vmdisk.disks(hosts=3) as found:
        yield found


@pytest.fixture(scope="module")
def smq_disk(three):
    return three[0]


@pytest.fixture
def reads(tmp_path):
    return vmdisk.generate(tmp_path / "reads", "--op", "read10", "--blocks", 8, "--count", 100)
