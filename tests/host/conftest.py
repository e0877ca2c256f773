# SPDX-License-Identifier: GPL-2.0
"""Where the tests find the Python modules of the tools."""
import sys
from pathlib import Path

TOOLS = Path(__file__).resolve().parents[2] / "tools"
sys.path[1:1] = [str(TOOLS / name) for name in ("bench", "demos", ".")]
