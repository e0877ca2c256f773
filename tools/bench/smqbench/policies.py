# SPDX-License-Identifier: GPL-2.0
"""Tables of tools/bench/policies, each with a conclusion, and the limits that the policies have to
keep (bars)."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from . import matrix, tables
from .figures import METRICS, Figure, FigureSet
from .policybars import BARS, Judged, worst_batch
from .policyrows import POLICY_ROWS
from .rows import ROWS

INSTRUMENT = "policies"
TITLES = {"batch": "batch: one doorbell for several commands",
          "bucket": "bucket: one CPU rings the doorbell for all that share a hardware queue",
          "depth": "depth: what prio learns without a setting",
          "files": "files: prio in place, on a file system",
          "prio": "prio: sync before async",
          "steer": "steer: leave a busy hardware queue"}
COUNTS = ("waits", "shared", "transfers", "own_transfers", "insn", "locks", "doorbells")
# A report about steering on the mailing list: at the lowest threshold reads took this many times as
# long as with steering off.
REPORTED_LOSS = 1.1
LATENCIES = ("lat_p50", "lat_p99", "lat_p999")


@dataclass(frozen=True)
class Table:
    """A table, and its conclusion."""

    part: str
    title: str
    cells: Sequence[Sequence[str]]
    says: str
    command: str
    marks: list[str] = field(default_factory=list)


def _of(taken: FigureSet, prefixes: Sequence[str], **wanted: object) -> list[Figure]:
    names = {f"{prefix}_{word}" for prefix in prefixes for word in POLICY_ROWS[prefix].words}
    return [one for one in taken.find(instrument=INSTRUMENT, **wanted) if one.row in names]


def _value(taken: FigureSet, row: str, metric: str, **wanted: object) -> float | None:
    found = taken.find(instrument=INSTRUMENT, row=row, metric=metric, **wanted)
    return found[0].value if found else None


def _ratio(taken: FigureSet, metric: str, rows: tuple[str, str], **wanted: object) -> float | None:
    one, other = (_value(taken, row, metric, **wanted) for row in rows)
    return one / other if one is not None and other else None


def _times(value: float | None) -> str:
    return "not measured" if value is None else f"{value:.2f} times"


def _table(taken: FigureSet, part: str, title: str, prefixes: Sequence[str],
           metrics: Sequence[str], says: Callable[[FigureSet], str],
           **wanted: object) -> Iterator[Table]:
    """Rows by metrics and workloads."""
    found = [one for metric in metrics for one in _of(taken, prefixes, metric=metric, **wanted)]
    if not found:
        return
    short = matrix.short_names(found)
    columns = list(dict.fromkeys((one.metric, one.workload) for one in found))
    several = len({workload for _, workload in columns}) > 1
    by_place = {(one.row, one.metric, one.workload): one for one in found}
    head = ["", *(f"{METRICS[metric][1].split(',')[0]}, {METRICS[metric][0]}".rstrip(", ") +
                  (f": {short[workload]}" if several else "") for metric, workload in columns)]
    if any(metric in LATENCIES for metric, _ in columns):
        names = {"lat_p50": "p50", "lat_p99": "p99", "lat_p999": "p99.9"}
        head = ["", *((f"{names[metric]}, ms" if metric in names else
                       f"{METRICS[metric][1].split(',')[0]}, {METRICS[metric][0]}") +
                      (f": {short[workload]}" if several else "")
                      for metric, workload in columns)]
    labels = {row: ROWS[row].label for row in matrix.rows_of(found)}
    if len(prefixes) == 1:      # the words that all labels have are left out
        labels = {f"{prefixes[0]}_{word}": text
                  for word, text in POLICY_ROWS[prefixes[0]].words.items()}
    rows = [[labels[row], *(matrix.text_of(by_place.get((row, *column))) for column in columns)]
            for row in matrix.rows_of(found)]
    marks = sorted({text for one in found for text in one.note.split("; ")
                    if text.startswith(("forced:", "dropped:"))})
    yield Table(part, title, [head, *rows], says(taken), found[0].command, marks)


def _always(says: str) -> Callable[[FigureSet], str]:
    return lambda _: says


def _batch(taken: FigureSet) -> Iterator[Table]:
    def gain(qd: int, name: str, metric: str = "iops", batch: int = 1) -> float | None:
        return _ratio(taken, metric, (f"batch_{name}_batch", f"batch_{name}_direct"), qd=qd,
                      batch=batch)

    def wins(_: FigureSet) -> str:
        return (f"At QD64, where the CPU is the limit, batch rings a doorbell of 5 us "
                f"{_times(gain(64, 'bell', 'doorbells'))} as often as direct, and has "
                f"{_times(gain(64, 'bell'))} direct's rate.")

    def loses(_: FigureSet) -> str:
        worst = worst_batch(taken)
        return ("Where the device is the limit, to hold commands would cost rate: the layer finds "
                "that out, and the host runs as direct. "
                f"In the worst row batch has {_times(worst)} direct's rate.")
    names = ("batch_bell", "batch_free")
    yield from _table(taken, "batch", "Doorbells", names, ("doorbells",), wins)
    yield from _table(taken, "batch", "Commands a second", names, ("iops",), loses)
    yield from _table(taken, "batch", "Latency at QD32, one by one", names, LATENCIES,
                      lambda _: "Held commands wait for the doorbell, but each waits less "
                      "for the CPU than with direct.",
                      qd=32, batch=1)
    yield from _table(taken, "batch", "Instructions of the CPU", names, ("insn",),
                      lambda _: "A doorbell that is not rung leaves CPU time for other work.")


def _bucket(taken: FigureSet) -> Iterator[Table]:
    def part(metric: str, **wanted: object) -> str:
        return _times(_ratio(taken, metric, ("shared_bucket", "shared_direct"), **wanted))

    def waits(_: FigureSet) -> str:
        return (f"One by one, bucket has {part('waits', batch=1, jobs=2, qd=32)} as many waits as "
                f"direct; in batches of 16, {part('waits', batch=16, jobs=2, qd=32)}.")

    def lines(_: FigureSet) -> str:
        return ("With commands queued one by one, bucket moves "
                f"{part('transfers', batch=1, jobs=2)} as many cache lines as direct; in batches "
                f"of 16, {part('transfers', batch=16, jobs=2)}; with rq_affinity=2 " + _times(
                    _ratio(taken, "transfers", ("shared_home_bucket", "shared_home_direct"),
                           batch=1)) + ".")

    def alone(_: FigureSet) -> str:
        rows = ("shared_bucket", "shared_direct")
        one, other = (_value(taken, row, "insn", jobs=1, qd=32, batch=1, cpus=1) for row in rows)
        default = _value(taken, "shared_bucket_default", "insn", jobs=1, qd=32, batch=1, cpus=1)
        if one is None or other is None or default is None:
            return ""
        return (f"QD32 one by one: {round(default - other):+d} instructions with the default "
                "share: the policy has nothing to do, and the host runs as direct; "
                f"{round(one - other):+d} with share=0: the policy is always effective.")

    def native(_: FigureSet) -> str:
        gain = {name: _p10(taken, f"{name}_direct", f"{name}_bucket", batch=1, jobs=2)
                for name in ("shared", "shared_bell")}
        return (f"Two CPUs, one by one: {_times(gain['shared'])} direct's rate with a free "
                f"doorbell, {_times(gain['shared_bell'])} where a doorbell costs 1 us.")
    yield from _table(taken, "bucket", "Two CPUs in step: waits", ("shared",),
                      ("waits", "shared"), waits, jobs=2, cpus=2, path="io_uring")
    yield from _table(taken, "bucket", "Two CPUs in step: cache lines", ("shared", "shared_home"),
                      ("transfers", "own_transfers"), lines, jobs=2, cpus=2)
    yield from _table(taken, "bucket", "Two CPUs in step: instructions and doorbells", ("shared",),
                      ("insn", "doorbells"), lambda _: "The instructions are those of both "
                      "CPUs, waiting included.", jobs=2, cpus=2, path="io_uring")
    yield from _table(taken, "bucket", "One submitter: instructions", ("shared",), ("insn",),
                      alone, cpus=1)
    shapes = [one for one in _of(taken, ("shared", "shared_nomerges"), cpus=2, path="io_uring")
              if one.qd in (128, 4)]
    for metric, says in (("waits", "These are counts on two vCPUs, not the reported rates: waits "
                                   "depend on the number of CPUs, not on the number of jobs."),
                         ("insn", "Instructions of both CPUs per command, waiting included.")):
        found = FigureSet([one for one in shapes if one.metric == metric])
        yield from _table(found, "bucket", f"The reported shapes: {METRICS[metric][1]}",
                          ("shared", "shared_nomerges"), (metric,), _always(says))
    yield from _table(taken, "bucket", "Native speed", ("shared", "shared_bell"), ("time",),
                      native, path="in_kernel")


def _p10(taken: FigureSet, one: str, other: str, **wanted: object) -> float | None:
    found = [taken.find(instrument=INSTRUMENT, row=row, metric="time", **wanted)
             for row in (one, other)]
    return found[0][0].low / found[1][0].low if all(found) else None


def _prio(taken: FigureSet) -> Iterator[Table]:
    def faster(name: str, metric: str) -> str:
        return _times(_ratio(taken, metric, (f"{name}_direct", f"{name}_prio")))
    for name, title, metrics, says in (
            ("prio_full", "A device that is full: write and fsync", (*LATENCIES, "iops"),
             lambda _: f"p99 is {faster('prio_full', 'lat_p99')} lower with prio; the total is "
             + _times(_ratio(taken, "iops", ("prio_full_prio", "prio_full_direct")))
             + " direct's rate."),
            ("prio_rate", "10 MB/s, 1300 async writes wait, one file is saved",
             ("lat_p50", "lat_p999"), lambda _: "With prio a saved file does not wait for all "
             f"async writes; with direct a save takes {faster('prio_rate', 'lat_p50')} as long."),
            ("prio_crowd", "The bad case: more async writers than tags", LATENCIES,
             lambda _: "No policy sees a sync write that waits for a tag: with direct p99 is "
             f"{faster('prio_crowd', 'lat_p99')} as long."),
            ("prio_trap", "1 MB/s: small writes come when a write of 1 MB has waited 0.9 s",
             ("seconds",), lambda _: "The bytes saved up for the large write are kept for it: "
             "smaller commands cannot use them."),
            ("prio_load", "100 MB/s under mixed writes", ("mb_s", *LATENCIES),
             lambda _: "With direct the device limits the rate, with prio the policy, which "
             "reaches " + _times(_ratio(taken, "mb_s", ("prio_load_prio", "prio_load_direct")))
             + " direct's rate.")):
        yield from _table(taken, "prio", title, (name,), metrics, says)

    def ratio(_: FigureSet) -> str:
        low, high = (_value(taken, f"prio_ratio_{n}", "iops", path="page_cache") for n in (1, 16))
        slow, fast = (_value(taken, f"prio_ratio_{n}", "lat_p50") for n in (1, 16))
        if low is None or high is None or slow is None or fast is None:
            return ""
        return (f"With 16:1 a sync write takes {fast / slow:.2f} times as long as with 1:1, and "
                f"async writes have {high / low:.2f} times the rate.")
    yield from _table(taken, "prio", "The effect of the ratio", ("prio_ratio",),
                      ("iops", *LATENCIES), ratio)


def _beside_best(taken: FigureSet, name: str) -> str:
    """prio's p99 beside the lowest of the other rows."""
    found = {word: _value(taken, f"{name}_{word}", "lat_p99") for word in POLICY_ROWS[name].words}
    others = {word: value for word, value in found.items()
              if value is not None and word not in ("prio", "again")}
    if not others or found["prio"] is None:
        return ""
    best = min(others, key=others.__getitem__)
    return (f"p99 with prio is {_times(found['prio'] / others[best])} that of the best of the "
            f"others, {best}.")


def _depth(taken: FigureSet) -> Iterator[Table]:
    def lanes(_: FigureSet) -> str:
        rate = _ratio(taken, "iops", ("depth_lanes_prio", "depth_lanes_direct"))
        return f"{_times(rate)} direct's rate, once the depth is learned."
    yield from _table(taken, "depth", "A slow device that takes 128 commands: write and fsync",
                      ("depth_link",), (*LATENCIES, "mb_s"),
                      lambda _: _beside_best(taken, "depth_link"))
    yield from _table(taken, "depth", "The same, claimed by smq_conv", ("depth_conv",),
                      (*LATENCIES, "mb_s"), _always("The upper host's policy holds."))
    yield from _table(taken, "depth", "The same, in place on a host of tcm_loop", ("depth_place",),
                      (*LATENCIES, "mb_s"), lambda _: _beside_best(taken, "depth_place"))
    yield from _table(taken, "depth", "A device that needs 64 commands", ("depth_lanes",),
                      ("iops",), lanes)


def _files(taken: FigureSet) -> Iterator[Table]:
    for name, title in (("files_appends", "Appends with fsync, an ext4 of their own"),
                        ("files_appends_one", "Appends with fsync, one ext4"),
                        ("files_reads", "Reads beside bulk writes")):
        yield from _table(taken, "files", title, (name,), (*LATENCIES, "mb_s"),
                          _always(_beside_best(taken, name)))
    for name, title in (("files_one", "All on one ext4"),
                        ("files_writeback", "All on one ext4, data=writeback"),
                        ("files_apart", "An ext4 for the database")):
        def says(_: FigureSet, name: str = name) -> str:
            untar, copy = (_times(_ratio(taken, metric, (f"{name}_prio", f"{name}_direct")))
                           for metric in ("seconds", "mb_s"))
            return (f"{_beside_best(taken, name)} The untar takes {untar} as long as with direct, "
                    f"the copy has {copy} its rate.")
        yield from _table(taken, "files", title, (name,), ("lat_p50", "lat_p99", "seconds", "mb_s"),
                          says)


def _steer(taken: FigureSet) -> Iterator[Table]:
    for name, title in (("steer_apart", "It wins: one pinned task, queues served apart"),
                        ("steer_balanced", "Nothing to win: a task on each queue"),
                        ("steer_pool", "It does not help: the device serves all queues alike")):
        def says(_: FigureSet, name: str = name) -> str:
            gain = _ratio(taken, "iops", (f"{name}_steer", f"{name}_direct"))
            share = _value(taken, f"{name}_steer", "steered")
            moved = "not measured" if share is None else f"{share:.2f} %"
            return f"{_times(gain)} direct's rate, {moved} of the commands steered."
        yield from _table(taken, "steer", title, (name,), ("iops", "steered", *LATENCIES), says)
    for kind in ("tagset", "map", "alike"):
        def seen(_: FigureSet, kind: str = kind) -> str:
            found = {(one.path, one.row.rpartition("_")[2]): one.value
                     for one in _of(taken, (f"steer_{kind}",), metric="seconds")}
            words, losses = [], []
            for path, name in (("buffered", "unpinned"), ("buffered_pinned", "pinned")):
                off = found.get((path, "off"))
                rest = {word: value for (where, word), value in found.items()
                        if where == path and word.isdigit()}
                if off and rest:
                    losses.append(rest.get("2", 0) > REPORTED_LOSS * off)
                    words.append(f"{name}: {min(rest.values()) / off:.2f} to "
                                 f"{max(rest.values()) / off:.2f} times as long as with steer off")
            if not words:
                return "The times were not measured."
            return "; ".join(words) + ". " + (
                "The reported loss at low thresholds is reproduced." if losses and all(losses) else
                "The reported loss at low thresholds is not reproduced on this machine.")
        title = f"The reported experiment: {POLICY_ROWS[f'steer_{kind}'].label}"
        yield from _table(taken, "steer", title, (f"steer_{kind}",),
                          ("seconds", "steered", "migrations"), seen)


def all_tables(taken: FigureSet) -> list[Table]:
    """All tables, in the order of the policies."""
    return [*_batch(taken), *_bucket(taken), *_depth(taken), *_files(taken),
            *_prio(taken), *_steer(taken)]


def judged(taken: FigureSet, parts: Sequence[str] = tuple(TITLES)) -> list[Judged]:
    """The limits of these parts, each with its verdict."""
    return [bar.judge(taken) for bar in BARS if bar.part in parts]


def bar_cells(found: Sequence[Judged]) -> list[list[str]]:
    """The head and the rows of the table of limits."""
    return [["", "must be", "is", ""],
            *([f"{one.bar.part}: {one.bar.what}", one.bar.limit, one.text, one.word]
              for one in found)]


def _parts(taken: FigureSet) -> list[str]:
    rows = {one.row for one in taken.find(instrument=INSTRUMENT)}
    starts = {"bucket": "shared"}
    return [part for part in TITLES
            if any(row.startswith(starts.get(part, part) + "_") for row in rows)]


def text(taken: FigureSet) -> list[str]:
    """The tables for a terminal."""
    lines: list[str] = []
    for table in all_tables(taken):
        head, *rows = [list(column) for column in zip(*table.cells)]
        lines += [f"{table.part}: {table.title}", *tables.table(head, rows), *table.marks,
                  table.says, f"{table.command}", ""]
    for what, why in (taken.skipped | taken.failed).items():
        lines += [f"{what}: {why}"]
    head, *rows = bar_cells(judged(taken, _parts(taken)))
    return [*lines, *tables.table(head, rows)]


def markdown(taken: FigureSet, plot: Callable[[str], list[str]]) -> list[str]:
    """The tables for the report; plot(NAME) returns the lines of a picture."""
    parts = _parts(taken)
    if not parts:
        return []
    lines = ["## Dispatch policies", "", "Each policy is compared with `direct`, and `direct` with "
             "itself, in the same run. The limits that each policy has to keep:", "",
             *_markdown(bar_cells(judged(taken, parts))), ""]
    found = all_tables(taken)
    for part in parts:
        lines += [f"### {TITLES[part]}", ""]
        for name in PLOTS.get(part, ()):
            lines += plot(name)
        for table in found:
            if table.part == part:
                lines += [f"#### {table.title}", "", *_markdown(list(zip(*table.cells))), "",
                          *(f"**{mark}**\n" for mark in table.marks), table.says, "",
                          f"Taken by `{table.command}`", ""]
    return lines


# The pictures of each part.
PLOTS = {"batch": ("policy-batch.svg",), "bucket": ("policy-bucket.svg",),
         "prio": ("policy-prio.svg", "policy-ratio.svg"), "steer": ("policy-steer.svg",)}


def _markdown(cells: Sequence[Sequence[str]]) -> list[str]:
    head, *rows = cells
    return ["| " + " | ".join(head) + " |", "|" + " --- |" * len(head),
            *("| " + " | ".join(row) + " |" for row in rows)]
