# SPDX-License-Identifier: GPL-2.0
"""Bars: limits that the dispatch policies have to keep."""

from collections.abc import Callable
from dataclasses import dataclass

from .figures import FigureSet
from .policyrows import POLICY_ROWS

# Two rows with direct that differ by more than this part have been disturbed.
CHANCE = 0.02
PASS, FAIL, UNKNOWN = "PASS", "MISSED", "not measured"


@dataclass(frozen=True)
class Bar:
    """A figure, or the ratio of two, and its limit."""

    part: str
    what: str
    limit: str
    ask: Callable[[FigureSet], float | None]    # None: not measured
    good: Callable[[float], bool]

    def judge(self, taken: FigureSet) -> "Judged":
        """Judges the bar by these figures."""
        value = self.ask(taken)
        return Judged(self, value)


@dataclass(frozen=True)
class Judged:
    """A bar and its measured figure."""

    bar: Bar
    value: float | None

    @property
    def ok(self) -> bool:
        """Whether the bar is kept. A bar without a figure is not missed."""
        return self.value is None or self.bar.good(self.value)

    @property
    def text(self) -> str:
        """The figure as text."""
        return "" if self.value is None else f"{self.value:.3g}"

    @property
    def word(self) -> str:
        """The verdict in a word."""
        return UNKNOWN if self.value is None else PASS if self.ok else FAIL


def _value(taken: FigureSet, row: str, metric: str, **wanted: object) -> float | None:
    found = taken.find(instrument="policies", row=row, metric=metric, **wanted)
    return found[0].value if found else None


def _by(row: str, other: str, metric: str, **wanted: object) -> Callable[[FigureSet], float | None]:
    def ask(taken: FigureSet) -> float | None:
        one, two = (_value(taken, name, metric, **wanted) for name in (row, other))
        return one / two if one is not None and two else None
    return ask


def _is(row: str, metric: str, **wanted: object) -> Callable[[FigureSet], float | None]:
    return lambda taken: _value(taken, row, metric, **wanted)


def _alike(taken: FigureSet, name: str, metric: str, **wanted: object) -> float | None:
    """The figure with direct; None if that with direct again differs by more than 2 %."""
    direct, again = (_value(taken, f"{name}_{word}", metric, **wanted)
                     for word in ("direct", "again"))
    if direct and again and abs(direct - again) <= CHANCE * direct:
        return direct
    return None


def worst_batch(taken: FigureSet) -> float | None:
    """The lowest rate with batch of all workloads, divided by direct's. Leaves out workloads in
    which two rows with direct differ by more than 2 %."""
    ratios = []
    for name in ("batch_free", "batch_bell"):
        for one in taken.find(instrument="policies", row=f"{name}_batch", metric="iops"):
            direct = _alike(taken, name, "iops", qd=one.qd, batch=one.batch)
            if direct:
                ratios.append(one.value / direct)
    return min(ratios, default=None)


def steer_times(taken: FigureSet) -> dict[tuple[str, str], float | None]:
    """How long each row with steer takes, divided by direct's time, by row and path; None if two
    rows with direct differ by more than 2 %."""
    found = {}
    for name, group in POLICY_ROWS.items():
        words = group.words.keys() - {"direct", "again"} if name.startswith("steer_") else ()
        for word in words:
            for metric in ("seconds", "iops"):
                for one in taken.find(instrument="policies", row=f"{name}_{word}", metric=metric):
                    direct = _alike(taken, name, metric, path=one.path)
                    ratio = one.value / direct if direct else None
                    found[one.row, one.path] = \
                        1 / ratio if ratio and metric == "iops" else ratio
    return found


def worst_steer(taken: FigureSet) -> float | None:
    """The longest time of all rows with steer, divided by direct's."""
    return max((one for one in steer_times(taken).values() if one is not None), default=None)


def _by_best(name: str, metric: str) -> Callable[[FigureSet], float | None]:
    """A latency with prio, divided by the lowest of the kernel's own means."""
    def ask(taken: FigureSet) -> float | None:
        mine, *others = (_value(taken, f"{name}_{word}", metric)
                         for word in ("prio", "wbt", "deadline", "bfq"))
        best = min((one for one in others if one), default=None)
        return mine / best if mine is not None and best else None
    return ask


def _native(name: str, batch: int) -> Callable[[FigureSet], float | None]:
    """bucket's rate divided by direct's, on two CPUs, from p10 of all chunks."""
    def ask(taken: FigureSet) -> float | None:
        found = [taken.find(instrument="policies", row=f"{name}_{word}", metric="time", jobs=2,
                            batch=batch) for word in ("direct", "bucket")]
        return found[0][0].low / found[1][0].low if all(found) else None
    return ask


def beyond_spread(taken: FigureSet) -> float | None:
    """How much slower bucket is than direct, as a multiple of direct's spread. That spread is the
    difference between two rows with direct, plus half the spread of the first row's repeats."""
    same = {"instrument": "policies", "metric": "time", "jobs": 2, "batch": 1}
    found = [taken.find(row=f"shared_{word}", **same) for word in ("direct", "again", "bucket")]
    if not all(found):
        return None
    direct, again, bucket = (one[0].low for one in found)
    spread = max(direct, again) - min(direct, again) + found[0][0].spread / 2
    return (bucket - max(direct, again)) / spread if spread else 0.0


def _more(row: str, other: str, metric: str,
          **wanted: object) -> Callable[[FigureSet], float | None]:
    """How much more a row has than another row."""
    def ask(taken: FigureSet) -> float | None:
        one, two = (_value(taken, name, metric, **wanted) for name in (row, other))
        return None if one is None or two is None else one - two
    return ask


_ALONE = {"qd": 32, "batch": 1, "jobs": 1, "cpus": 1}
_PAIR = {"qd": 32, "jobs": 2, "cpus": 2}
BARS = [
    Bar("batch", "doorbell 5 us, QD64 one by one: doorbells / direct's", "< 0.25",
        _by("batch_bell_batch", "batch_bell_direct", "doorbells", qd=64, batch=1),
        lambda x: x < 0.25),
    Bar("batch", "doorbell 5 us, QD64 one by one: commands a second / direct's", ">= 1.2",
        _by("batch_bell_batch", "batch_bell_direct", "iops", qd=64, batch=1), lambda x: x >= 1.2),
    Bar("batch", "the worst row: commands a second / direct's", ">= 0.98", worst_batch,
        lambda x: x >= 0.98),
    Bar("bucket", "two CPUs one by one: waits for locks / direct's", "<= 0.5",
        _by("shared_bucket", "shared_direct", "waits", **_PAIR, batch=1), lambda x: x <= 0.5),
    Bar("bucket", "two CPUs in batches of 16: waits for locks / direct's", "<= 0.5",
        _by("shared_bucket", "shared_direct", "waits", **_PAIR, batch=16), lambda x: x <= 0.5),
    Bar("bucket", "two CPUs one by one: lines moved more than direct", "<= 1",
        _more("shared_bucket", "shared_direct", "transfers", batch=1, jobs=2), lambda x: x <= 1),
    Bar("bucket", "two CPUs in batches of 16: lines moved more than direct", "<= 1",
        _more("shared_bucket", "shared_direct", "transfers", batch=16, jobs=2), lambda x: x <= 1),
    Bar("bucket", "one submitter, QD32 one by one: instructions more than direct", "<= 2",
        _more("shared_bucket_default", "shared_direct", "insn", **_ALONE), lambda x: x <= 2),
    Bar("bucket", "two CPUs, native speed: slower than direct, in spreads", "<= 1",
        beyond_spread, lambda x: x <= 1),
    Bar("bucket", "two CPUs, native speed, doorbell 1 us: rate / direct's", ">= 1.3",
        _native("shared_bell", 1), lambda x: x >= 1.3),
    Bar("depth", "10 MB/s, takes 128 commands: p99 of write and fsync, ms", "<= 500",
        _is("depth_link_prio", "lat_p99"), lambda x: x <= 500),
    Bar("depth", "the same: MB/s / direct's", ">= 0.97",
        _by("depth_link_prio", "depth_link_direct", "mb_s"), lambda x: x >= 0.97),
    Bar("depth", "the same, claimed: p99 of write and fsync, ms", "<= 500",
        _is("depth_conv_prio", "lat_p99"), lambda x: x <= 500),
    Bar("depth", "the same, in place: p99 / that of the best of wbt, mq-deadline, bfq", "<= 1",
        _by_best("depth_place", "lat_p99"), lambda x: x <= 1),
    Bar("depth", "the same, in place: MB/s / direct's", ">= 0.97",
        _by("depth_place_prio", "depth_place_direct", "mb_s"), lambda x: x >= 0.97),
    Bar("depth", "needs 64 commands: commands a second / direct's", ">= 0.97",
        _by("depth_lanes_prio", "depth_lanes_direct", "iops"), lambda x: x >= 0.97),
    Bar("files", "appends with fsync, an ext4 of their own: p50, ms", "<= 500",
        _is("files_appends_prio", "lat_p50"), lambda x: x <= 500),
    Bar("files", "the same: p50 / that of the best of wbt, mq-deadline, bfq", "<= 1",
        _by_best("files_appends", "lat_p50"), lambda x: x <= 1),
    Bar("files", "the same: the bulk writer's MB/s / direct's", ">= 0.97",
        _by("files_appends_prio", "files_appends_direct", "mb_s"), lambda x: x >= 0.97),
    Bar("files", "appends with fsync, one ext4: p50 / that of the best", "<= 1.05",
        _by_best("files_appends_one", "lat_p50"), lambda x: x <= 1.05),
    Bar("prio", "full device: p99 of write and fsync, direct's / prio's", ">= 10",
        _by("prio_full_direct", "prio_full_prio", "lat_p99"), lambda x: x >= 10),
    Bar("prio", "full device: commands a second / direct's", "0.97..1.03",
        _by("prio_full_prio", "prio_full_direct", "iops"), lambda x: 0.97 <= x <= 1.03),
    Bar("prio", "10 MB/s, 1300 writes wait: write and fsync, ms", "< 500",
        _is("prio_rate_prio", "lat_p999"), lambda x: x < 500),
    Bar("prio", "1 MB/s, a large write and four sync ones: s", "< 1.1",
        _is("prio_trap_prio", "seconds"), lambda x: x < 1.1),
    Bar("prio", "100 MB/s under mixed writes: MB/s used", ">= 98",
        _is("prio_load_prio", "mb_s"), lambda x: x >= 98),
    Bar("steer", "one pinned task, 4 queues: commands a second / direct's", ">= 2.5",
        _by("steer_apart_steer", "steer_apart_direct", "iops"), lambda x: x >= 2.5),
    Bar("steer", "balanced load: % steered", "< 1",
        _is("steer_balanced_steer", "steered"), lambda x: x < 1),
    Bar("steer", "queues served alike: % steered", "< 1",
        _is("steer_pool_steer", "steered"), lambda x: x < 1),
    Bar("steer", "the worst row: time of the load / direct's", "<= 1.05", worst_steer,
        lambda x: x <= 1.05),
]
