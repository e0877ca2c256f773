# SPDX-License-Identifier: GPL-2.0
"""Parameters of smq_hold, the test LLD that delays, loses and refuses commands."""
from pathlib import Path

import pytest

from . import cdb
from .debugfs import depths
from .host import Host, wait_for
from .sgio import SgDev

PARAMS = Path("/sys/module/smq_hold/parameters")
# The timeout of commands of smq_hold's disks, in whole seconds: the shortest possible.
TIMEOUT = 1


def set_param(name, value):
    """Sets a parameter of smq_hold."""
    (PARAMS / name).write_text(str(value), encoding="ascii")


def get_param(name):
    """A parameter of smq_hold."""
    return int((PARAMS / name).read_text(encoding="ascii"))


def raise_depth(host: Host, depth: int) -> None:
    """Sends a command that smq_hold refuses. The policy then advertises more commands than the
    device takes."""
    set_param("refuse", 1)
    with SgDev(host.luns()[0].sg) as sg:
        assert sg.cmd(cdb.blocks(cdb.READ_10, 0, 8), din=4096).good
    wait_for("a raised queue_depth", lambda: depths(host)[0] > depth)


def with_params(**params):
    """Parametrizes the fixture hold with one set of module parameters."""
    return pytest.mark.parametrize("hold", [params], indirect=True, ids=[""])
