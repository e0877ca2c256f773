# SPDX-License-Identifier: GPL-2.0
"""smq_hold, the LLD that keeps, loses and refuses commands: its parameters."""
from pathlib import Path

import pytest

PARAMS = Path("/sys/module/smq_hold/parameters")
# The block timer of its disks, in seconds: the least there is.
TIMEOUT = 1


def put(name, value):
    """Sets a parameter of smq_hold."""
    (PARAMS / name).write_text(str(value), encoding="ascii")


def get(name):
    """A parameter of smq_hold."""
    return int((PARAMS / name).read_text(encoding="ascii"))


def with_params(**params):
    """Parametrizes the fixture hold with one set of module parameters."""
    return pytest.mark.parametrize("hold", [params], indirect=True, ids=[""])
