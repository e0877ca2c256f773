# SPDX-License-Identifier: GPL-2.0
"""Parameters of smq_hold, the test LLD that delays, loses and refuses commands."""
from pathlib import Path

import pytest

PARAMS = Path("/sys/module/smq_hold/parameters")
# The timeout of commands of smq_hold's disks, in whole seconds: the shortest possible.
TIMEOUT = 1


def set_param(name, value):
    """Sets a parameter of smq_hold."""
    (PARAMS / name).write_text(str(value), encoding="ascii")


def get_param(name):
    """A parameter of smq_hold."""
    return int((PARAMS / name).read_text(encoding="ascii"))


def with_params(**params):
    """Parametrizes the fixture hold with one set of module parameters."""
    return pytest.mark.parametrize("hold", [params], indirect=True, ids=[""])
