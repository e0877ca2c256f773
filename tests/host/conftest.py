# SPDX-License-Identifier: GPL-2.0
"""Where the tests find the Python modules of the tools."""
import sys
from pathlib import Path

TOOLS = Path(__file__).resolve().parents[2] / "tools"
sys.path[1:1] = [str(TOOLS / name) for name in ("bench", "demos", ".")]
# A Python beside Debian's own does not see Debian's packages.
sys.path.append("/usr/lib/python3/dist-packages")
