# SPDX-License-Identifier: GPL-2.0
"""The report's pictures: tables/plots.toml."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from . import groups
from .bars import is_one
from .errors import BenchError
from .figures import METRICS, Figure, FigureSet
from .matrix import columns_of, number, rows_of, short_names
from .report import Plot
from .rows import ROWS
from .tomls import table

# Colours that people with red-green colour blindness can distinguish.
COLOURS = ["#4477aa", "#ee6677", "#228833", "#ccbb44", "#66ccee", "#aa3377", "#bbbbbb", "#222222",
           "#994455", "#997700", "#6699cc"]
MODEL_HATCH = "///"
BAR = 0.22          # inches per bar


def pyplot() -> Any:
    """Imports matplotlib, set to draw into files that are the same for the same figures."""
    try:
        import matplotlib
    except ImportError as error:
        raise BenchError(f"{error}; as root: apt-get install python3-matplotlib") from error
    matplotlib.use("Agg")
    from matplotlib import pyplot as plot
    plot.rcParams.update({"font.size": 9, "axes.spines.top": False, "axes.spines.right": False,
                          "hatch.linewidth": 0.5, "svg.fonttype": "none", "svg.hashsalt": "smq"})
    return plot


def _bars(axes: Any, figures: Sequence[Figure]) -> None:
    """Draws a row for each device, with a bar for each workload and its value at the end."""
    rows, columns, short = rows_of(figures), columns_of(figures), short_names(figures)
    by_place = {(one.row, one.workload): one for one in figures}
    step = 1 / (len(columns) + 1)
    most = max((one.value + one.spread / 2 for one in figures), default=0) or 1
    for n, column in enumerate(columns):
        found = [(at + (n - (len(columns) - 1) / 2) * step, one) for at, row in enumerate(rows)
                 if (one := by_place.get((row, column)))]
        drawn = axes.barh([place for place, _ in found], [one.value for _, one in found],
                          step * 0.9, xerr=[one.spread / 2 for _, one in found],
                          label=short[column], color=COLOURS[n % len(COLOURS)],
                          error_kw={"elinewidth": 0.8})
        for bar, (place, one) in zip(drawn, found):
            bar.set_hatch(MODEL_HATCH if one.model else "")
            axes.text(one.value + one.spread / 2 + most * 0.008, place, number(one.value),
                      va="center", fontsize=7)
    axes.set_yticks(range(len(rows)), [ROWS[row].label for row in rows])
    axes.set_xlim(0, most * 1.12)
    axes.set_xlabel(METRICS[figures[0].metric][0])


def _stacked(axes: Any, figures: Sequence[Figure]) -> None:
    """Draws one bar for each device, stacked from its groups."""
    left = [0.0] * len(figures)
    for n, name in enumerate(groups.ORDER):
        values = [one.parts["group"].get(name, 0) for one in figures]
        if max(values) < 1:
            continue
        axes.barh(range(len(figures)), values, 0.7, left=left, label=name,
                  color=COLOURS[n % len(COLOURS)])
        for at, value in enumerate(values):
            if value > 0.05 * max(one.value for one in figures):
                axes.text(left[at] + value / 2, at, f"{value:.0f}", ha="center", va="center",
                          fontsize=7, color="white")
        left = [a + b for a, b in zip(left, values)]
    axes.set_yticks(range(len(figures)), [one.label for one in figures])
    axes.set_xlabel("instructions per I/O")


def draw(taken: FigureSet, folder: Path) -> list[Plot]:
    """Draws each plot that has figures, and returns them."""
    plots, plot = [], pyplot()
    for spec in table("plots")["plot"]:
        figures = [one for one in taken.figures if is_one(one, spec["where"])]
        if not figures:
            continue
        stacked = spec.get("stacked", False)
        lines = 0.42 * len(figures) if stacked else \
            BAR * len(rows_of(figures)) * (len(columns_of(figures)) + 1)
        figure, axes = plot.subplots(figsize=(9.5, max(2.2, lines + 1.2)))
        (_stacked if stacked else _bars)(axes, figures)
        axes.invert_yaxis()
        axes.set_title(spec["title"], loc="left")
        axes.legend(loc="upper left", bbox_to_anchor=(1.01, 1), frameon=False, fontsize=8)
        figure.savefig(folder / spec["name"], bbox_inches="tight", metadata={"Date": None})
        plot.close(figure)
        plots.append(Plot(spec["name"], spec["title"], spec["where"]["instrument"]))
    return plots
