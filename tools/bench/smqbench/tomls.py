# SPDX-License-Identifier: GPL-2.0
"""The tables below tools/bench/tables."""

import tomllib
from functools import cache
from pathlib import Path
from typing import Any

TABLES = Path(__file__).resolve().parents[1] / "tables"


@cache
def table(name: str) -> dict[str, Any]:
    """A whole file."""
    with (TABLES / f"{name}.toml").open("rb") as file:
        return tomllib.load(file)
