# SPDX-License-Identifier: GPL-2.0
"""The parts of sg_io: each uses only those below it."""
import re

import pytest
from sg_io_build import SRC

INCLUDE = re.compile(r'^#include "(issue|replay|judge)/', re.MULTILINE)


@pytest.mark.parametrize("part,below", [("issue", set()), ("replay", {"issue"}),
                                        ("judge", {"issue", "replay"})])
def test_a_part_uses_those_below_it(part, below):
    files = [path for path in (SRC / part).rglob("*") if path.suffix in (".c", ".h")]
    assert files
    for path in files:
        assert set(INCLUDE.findall(path.read_text(encoding="utf-8"))) <= below | {part}, path
