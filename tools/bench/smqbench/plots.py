# SPDX-License-Identifier: GPL-2.0
"""The report's pictures."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from . import groups, paths
from .errors import BenchError
from .figures import METRICS, Figure, FigureSet
from .matrix import columns_of, number, rows_of, short_names
from .report import VIRTIO_ROWS, Plot
from .rows import ROWS

# Colours that people with red-green colour blindness can distinguish.
COLOURS = ["#4477aa", "#ee6677", "#228833", "#ccbb44", "#66ccee", "#aa3377", "#bbbbbb", "#222222",
           "#994455", "#997700", "#6699cc"]
MODEL_HATCH = "///"
BAR = 0.22          # inches per bar


def _pyplot() -> Any:
    """Imports matplotlib, set to draw into files."""
    try:
        import matplotlib
    except ImportError as error:
        raise BenchError(f"{error}; as root: apt-get install python3-matplotlib") from error
    matplotlib.use("Agg")
    from matplotlib import pyplot
    pyplot.rcParams.update({"font.size": 9, "axes.spines.top": False, "axes.spines.right": False,
                            "hatch.linewidth": 0.5, "svg.fonttype": "none",
                            # Constant, so that the same figures make the same file.
                            "svg.hashsalt": "smq"})
    return pyplot


def need() -> None:
    """Fails at once if matplotlib is missing, instead of after all measurements."""
    _pyplot()


def _finish(pyplot: Any, figure: Any, path: Path) -> None:
    figure.savefig(path, bbox_inches="tight", metadata={"Date": None})
    pyplot.close(figure)


def bars(path: Path, title: str, figures: Sequence[Figure]) -> None:
    """Draws a row for each device, with a bar for each workload and its value at the end."""
    pyplot = _pyplot()
    rows, columns = rows_of(figures), columns_of(figures)
    short = short_names(figures)
    by_place = {(one.row, one.workload): one for one in figures}
    height = max(2.2, BAR * len(rows) * (len(columns) + 1) + 1.2)
    figure, axes = pyplot.subplots(figsize=(9.5, height))
    step = 1 / (len(columns) + 1)
    most = max((one.value + one.spread / 2 for one in figures), default=0) or 1
    for n, column in enumerate(columns):
        places, values, spreads = [], [], []
        for at, row in enumerate(rows):
            one = by_place.get((row, column))
            if one:
                places.append(at + (n - (len(columns) - 1) / 2) * step)
                values.append(one.value)
                spreads.append(one.spread / 2)
        drawn = axes.barh(places, values, step * 0.9, xerr=spreads, label=short[column],
                          color=COLOURS[n % len(COLOURS)], error_kw={"elinewidth": 0.8})
        models = [ROWS[row].model for row in rows if (row, column) in by_place]
        for bar, is_model in zip(drawn, models):
            bar.set_hatch(MODEL_HATCH if is_model else "")
        for place, value, spread in zip(places, values, spreads):
            axes.text(value + spread + most * 0.008, place, number(value), va="center", fontsize=7)
    axes.set_yticks(range(len(rows)), [ROWS[row].label for row in rows])
    axes.invert_yaxis()
    axes.set_xlim(0, most * 1.12)
    axes.set_xlabel(METRICS[figures[0].metric][0])
    axes.set_title(title, loc="left")
    axes.legend(loc="upper left", bbox_to_anchor=(1.01, 1), frameon=False, fontsize=8)
    _finish(pyplot, figure, path)


def split(path: Path, title: str, figures: Sequence[Figure]) -> None:
    """Draws one bar for each device, stacked from its groups."""
    pyplot = _pyplot()
    figure, axes = pyplot.subplots(figsize=(9.5, max(2.2, 0.42 * len(figures) + 1.2)))
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
    axes.invert_yaxis()
    axes.set_xlabel("instructions per I/O")
    axes.set_title(title, loc="left")
    axes.legend(loc="upper left", bbox_to_anchor=(1.01, 1), frameon=False, fontsize=8)
    _finish(pyplot, figure, path)


def ratio(path: Path, title: str, taken: FigureSet) -> None:
    """Draws the rates of sync and async writes, and the latency of sync writes, for each ratio of
    the policy prio."""
    pyplot = _pyplot()
    figure, axes = pyplot.subplots(figsize=(7, 3.4))
    right = axes.twinx()
    words = sorted(int(one.row.rpartition("_")[2]) for one in taken.find(
        metric="lat_p50") if one.row.startswith("prio_ratio_") and one.row[-1].isdigit())
    for colour, path_name, metric, on, label in (
            (COLOURS[0], "direct", "iops", axes, "sync writes, IO/s"),
            (COLOURS[1], "page_cache", "iops", axes, "async writes, IO/s"),
            (COLOURS[2], "direct", "lat_p50", right, "a sync write, ms, median")):
        values = [taken.find(row=f"prio_ratio_{word}", path=path_name, metric=metric)[0].value
                  for word in words]
        on.plot(words, values, "o-", color=colour, label=label)
    axes.set_xscale("log", base=2)
    axes.set_xticks(words, [f"{word}:1" for word in words])
    axes.set_xlabel("smq_prio/ratio")
    axes.set_ylim(bottom=0)
    right.set_ylim(bottom=0)
    axes.set_ylabel("IO/s")
    right.set_ylabel("ms")
    axes.set_title(title, loc="left")
    figure.legend(loc="upper left", bbox_to_anchor=(1.01, 0.9), frameon=False, fontsize=8)
    _finish(pyplot, figure, path)


def _policies(taken: FigureSet, folder: Path) -> list[Plot]:
    """Draws the figures of each policy and of direct."""
    def rows(metric: str, *starts: str, **wanted: object) -> list[Figure]:
        return [one for one in taken.find(instrument="policies", metric=metric, **wanted)
                if one.row.startswith(starts)]
    plots = []
    for name, title, figures in (
            ("policy-batch.svg", "batch: commands a second under icount, one by one",
             rows("iops", "batch_", batch=1)),
            ("policy-bucket.svg", "bucket: waits for locks per command, two CPUs in step",
             rows("waits", "shared_", jobs=2)),
            ("policy-prio.svg", "prio: a sync write on a full device, ms",
             rows("lat_p99", "prio_full_")),
            ("policy-steer.svg", "steer: commands a second, four hardware queues",
             rows("iops", "steer_"))):
        if figures:
            bars(folder / name, title, figures)
            plots.append(Plot(name, title))
    if rows("lat_p50", "prio_ratio_1"):
        title = "prio: the effect of the ratio"
        ratio(folder / "policy-ratio.svg", title, taken)
        plots.append(Plot("policy-ratio.svg", title))
    return plots


def draw(taken: FigureSet, folder: Path) -> list[Plot]:
    """Draws each plot that has figures, and returns them."""
    wanted = [
        ("insn.svg", "Instructions per I/O, one LUN, 512 bytes",
         [one for one in taken.find(instrument="insn", metric="insn", luns=1, bs=512)
          if one.batch == min(one.qd, 16) and one.row not in VIRTIO_ROWS and
          not (ROWS[one.row].waits and one.row.startswith("smq_ram"))]),
        ("virtio.svg", "virtio-scsi: instructions of the LLD per I/O",
         taken.find(instrument="insn", metric="insn_lld", path="io_uring")),
        ("doorbells.svg", "Instructions per I/O, the policy batch beside direct",
         [one for one in taken.find(instrument="insn", metric="insn")
          if ROWS[one.row].waits and one.row.startswith("smq_ram")]),
        ("locks.svg", "Instructions in locks and waiting for them, two CPUs, %",
         taken.find(instrument="locks", metric="lock_share")),
        ("lines.svg", "Cache lines that move between two CPUs, per I/O",
         taken.find(instrument="lines", metric="transfers")),
        ("native.svg", "Native speed: time per I/O",
         [one for one in taken.find(instrument="native", metric="time") if not paths.is_one(one)]),
        (paths.PLOT, "Native speed from user space, time per I/O, two processes with a LUN each",
         paths.times(taken, 2)),
    ]
    plots = []
    for name, title, figures in wanted:
        if figures:
            bars(folder / name, title, figures)
            plots.append(Plot(name, title))
    found = taken.find(instrument="insn", metric="insn", path="io_uring", qd=1, bs=512, luns=1)
    found = [one for one in found if not ROWS[one.row].waits]
    if found:
        title = f"Instructions by group of functions, {found[0].workload}"
        split(folder / "split.svg", title, found)
        plots.append(Plot("split.svg", title))
    return plots + _policies(taken, folder)
