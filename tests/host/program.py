# SPDX-License-Identifier: GPL-2.0
"""Imports a program of tools/bench, whose file has no suffix."""
import sys
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path

BENCH = Path(__file__).resolve().parents[2] / "tools" / "bench"


def program(name):
    """Returns tools/bench/NAME as a module."""
    loader = SourceFileLoader(f"bench_{name}", str(BENCH / name))
    module = module_from_spec(spec_from_loader(loader.name, loader))
    # The program's dataclasses look for their module there.
    sys.modules[loader.name] = module
    loader.exec_module(module)
    return module
