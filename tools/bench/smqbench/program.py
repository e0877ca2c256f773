# SPDX-License-Identifier: GPL-2.0
"""The instruments of the test VM: tools/bench/NAME."""

import sys
from argparse import Namespace
from pathlib import Path

from . import bars, instrument, measure, policies, show
from .figures import FigureSet
from .rows import ROWS
from .tomls import table

INSTRUMENTS = ("insn", "quick", "fastpath", "locks", "lines", "policies", "convert")


def main(name: str) -> int:
    """Measures, shows the tables, and judges the bars."""
    for program, option, other in (("insn", "--virtio", "virtio"), ("convert", "--conv", "conv")):
        if name == program and option in sys.argv:
            sys.argv.remove(option)
            name = other
    spec = table("instruments")[name]
    options = instrument.parse(name)
    options.repeat = max(options.repeat, spec.get("least_repeat", 1))

    def measured(options: Namespace, folder: Path) -> FigureSet:
        if name == "policies":
            return policies.measured(options, folder)
        mark = instrument.refuse_busy(options.force) if spec.get("two_cpus") else ""
        return measure.measure(name, options, folder, mark=mark,
                               instrument_name=spec.get("instrument", name))
    sections, rows = [name], options.rows
    if name == "policies":
        sections, rows = options.rows, list(ROWS)
    return instrument.run(
        name, options, measured, lambda taken: show.text(taken, name),
        lambda taken: [one for section in sections if section in bars.SECTIONS
                       for one in bars.judged(section, taken, rows)])
