# SPDX-License-Identifier: GPL-2.0
"""Finds the headers of the kernels that are prepared. Downloads nothing."""

import re
import subprocess
from pathlib import Path

import pytest

TOP = Path(__file__).resolve().parents[2]


def include(series):
    """The folder include/ of a kernel's source; skips the test if its headers are not here."""
    done = subprocess.run([TOP / "tools/kernels", "path", series], capture_output=True, text=True,
                          check=False)
    settings = dict(line.split("=", 1) for line in done.stdout.splitlines())
    root = settings.get("CHROOT", "")
    make = Path(root + settings.get("KDIR", "/nowhere"), "Makefile")
    if not make.exists():
        pytest.skip(f"no headers of {series}: tools/kernels prepare {series}")
    # Debian's headers are in the folder of another package, whose Makefile this one includes.
    common = re.search(r"^include (\S+)/Makefile$", make.read_text(encoding="utf-8"), re.M)
    source = Path(root + common[1]) if common else make.parent
    return source / "include"
