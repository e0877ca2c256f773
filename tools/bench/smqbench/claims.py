# SPDX-License-Identifier: GPL-2.0
"""Compares the figures taken here with what others reported about the legacy path (of 2013, and of
Linux 4.19) and about batching. Every number in an answer comes from a figure. A claim about the
legacy path is about one way of completion, and is answered by figures of that way."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from .acquisitions import HOST_LOCK, QUEUE_LOCK, REAL_QUEUE_LOCK
from .bothpaths import INLINE, INTERRUPT, MODES
from .figures import Figure, FigureSet
from .groups import BLOCK, COPY, LLD, LOCKS, MEMORY, PROGRAM, SCSI, TIME
from .rows import ROWS
from .timing import interval

NEAR = 0.15  # a figure reproduces the reported one if it differs by at most this fraction of it

# What a claim is about, in the order of the report.
TRACE, BATCHING = "trace", "batching"
ABOUT = {**{mode: f"The legacy path, {label}" for mode, label in MODES.items()},
         TRACE: "The trace of 2013", BATCHING: "Batching"}

REPRODUCED, IN_PART, NOT, UNKNOWN = "reproduced", "in part", "not reproduced", "not measured"


@dataclass(frozen=True)
class Answer:
    """The answer to one claim."""

    claim: str
    then: str
    here: str
    verdict: str
    why: str
    about: str = INLINE


class Missing(Exception):
    """A figure that a claim needs is missing. The text says why, if that is known."""

    @classmethod
    def figure(cls, taken: FigureSet, instrument: str, row: str) -> "Missing":
        """The error for a figure that a row does not have."""
        return cls(taken.skipped.get(f"{instrument} {row}") or taken.failed.get(instrument) or
                   taken.skipped.get(instrument) or
                   f"tools/bench/{instrument} took no such figure of {ROWS[row].label}")


# Answers a claim from our figures: here, verdict, why.
Ask = Callable[[FigureSet], tuple[str, str, str]]


@dataclass(frozen=True)
class Claim:
    """A reported claim, and the function that answers it from our figures."""

    text: str
    then: str
    ask: Ask
    about: str = INLINE

    def answer(self, taken: FigureSet) -> Answer:
        """The answer; UNKNOWN if a figure that the claim needs is missing."""
        try:
            return Answer(self.text, self.then, *self.ask(taken), self.about)
        except Missing as missing:
            return Answer(self.text, self.then, "", UNKNOWN, str(missing), self.about)


def _is_near(value: float, reported: float, within: float = NEAR) -> bool:
    return abs(value - reported) <= within * abs(reported)


def _word(good: bool, partly: bool = False) -> str:
    return REPRODUCED if good else IN_PART if partly else NOT


def _figure(taken: FigureSet, instrument: str, row: str, metric: str,
            **workload: Any) -> Figure:
    wanted: dict[str, Any] = {"path": "io_uring", "op": "read", "bs": 512, "qd": 32, "luns": 1,
                              "jobs": 1}
    wanted |= workload
    wanted.setdefault("batch", min(wanted["qd"], 16))
    found = taken.find(instrument=instrument, row=row, metric=metric, **wanted)
    if not found:
        raise Missing.figure(taken, instrument, row)
    return found[0]


def _lock(figure: Figure, name: str) -> float:
    locks = figure.parts.get("lock", {})
    # If neither lock is found, their names have changed, and 0 would be a wrong answer.
    if not locks.keys() & {QUEUE_LOCK, HOST_LOCK}:
        raise Missing(f"{figure.label}: the locks of the model were not recognised")
    return locks.get(name, 0.0)


def _group(figure: Figure, *names: str) -> float:
    """The share of these groups in the kernel's instructions, in per cent."""
    groups = figure.parts["group"]
    kernel = sum(groups.values()) - groups.get(PROGRAM, 0)
    return 100 * sum(groups.get(name, 0) for name in names) / kernel


def kernel_insns(figure: Figure) -> float:
    """The instructions of a figure, without the program's own."""
    return figure.value - figure.parts["group"].get(PROGRAM, 0)


# Two locks and 40 % of the CPU

def _two_locks(taken: FigureSet) -> tuple[str, str, str]:
    pair = {"luns": 10, "jobs": 2}
    model, mq = (_figure(taken, "locks", row, "lock_share", **pair)
                 for row in ("legacy_2013", "smq_ram"))
    found = _figure(taken, "locks", "legacy_2013", "contended", **pair)
    here = (f"{model.value:.0f} % of the instructions of two CPUs in locks and waiting for them "
            f"(scsi-mq on smq_ram: {mq.value:.1f} %)")
    why = (f"with only two CPUs host_lock, which all LUNs share, was found taken "
           f"{_lock(found, HOST_LOCK):.0f} % of the times, queue_lock "
           f"{_lock(found, QUEUE_LOCK):.0f} %. More CPUs wait more; and instruction counts do not "
           "show the cache misses of the locks")
    return here, _word(_is_near(model.value, 40, 0.25), model.value > max(10, 5 * mq.value)), why


def _one_lun(taken: FigureSet) -> tuple[str, str, str]:
    raw = _figure(taken, "locks", "null_blk", "insn", luns=2, jobs=2)
    model, mq = (_figure(taken, "locks", row, "insn", jobs=2) for row in ("legacy_2013", "smq_ram"))
    share, ours = raw.value / model.value, raw.value / mq.value
    here = (f"{share:.2f} of null_blk's rate by instructions, two CPUs on one LUN "
            f"(scsi-mq on smq_ram: {ours:.2f})")
    found = _figure(taken, "locks", "legacy_2013", "contended", jobs=2)
    why = (f"{model.value:.0f} instructions per I/O, waits for locks included, against "
           f"{raw.value:.0f}. With two CPUs queue_lock was found taken "
           f"{_lock(found, QUEUE_LOCK):.0f} % of the times; in 2013 more CPUs used the LUN, and "
           "misses of the lock's cache line took time, which they do not here")
    return here, _word(_is_near(share, 0.25, 0.4), share < 0.8 * ours), why


def _contended(luns: int, reported: float) -> Ask:
    def ask(taken: FigureSet) -> tuple[str, str, str]:
        found = _figure(taken, "locks", "legacy_419", "contended", luns=luns, jobs=2)
        value = _lock(found, QUEUE_LOCK)
        good = value < 3 if not reported else _is_near(value, reported, 0.4)
        why = "each LUN has a queue_lock of its own"
        if reported:
            why = ("the model understates contention about ten times: on 4.19.222 two CPUs in step "
                   "found 49 % taken")
        return f"{value:.1f} % of queue_lock's acquisitions", _word(good, value > 5), why
    return ask


def _bounces(taken: FigureSet) -> tuple[str, str, str]:
    model, mq = (_figure(taken, "lines", row, "transfers", jobs=2)
                 for row in ("legacy_419", "smq_ram_1q"))
    more = model.value - mq.value
    here = f"{more:.1f} cache lines per I/O more than scsi-mq's {mq.value:.1f} on the same device"
    why = ("then only bounces of queue_lock's line were counted; here all lines that move, less "
           "those that scsi-mq moves")
    return here, _word(_is_near(more, 2.6, 0.5), more > 0.5), why


# Locks per command

def _acquisitions(row: str, name: str, *reported: float, but: str = "", **workload: Any) -> Ask:
    """The claim is reproduced if one of the reported numbers is reproduced. @but: why the model
    differs from the reported kernel."""
    def ask(taken: FigureSet) -> tuple[str, str, str]:
        found = _figure(taken, "locks", row, "locks", **workload)
        value = _lock(found, name)
        good = any(abs(value - one) <= max(0.1, NEAR * one) for one in reported)
        return (f"{value:.2f}", _word(good),
                "counted at the calls of the lock functions, by the lock's address" +
                ("" if good or not but else f"; {but}"))
    return ask


def _no_mq_lock(taken: FigureSet) -> tuple[str, str, str]:
    found = {row: _figure(taken, "locks", row, "locks") for row in ("scsi_debug", "smq_ram")}
    shares = {row: sum(figure.parts["group"].get(name, 0) for name in (SCSI, LLD))
              for row, figure in found.items()}
    here = ", ".join(f"{row} {value:.2f}" for row, value in shares.items()) + " per I/O"
    why = "the rest is the lock of the tag map, taken when the map has to be swept"
    return here, _word(max(shares.values()) < 0.1), why


# Instructions

def _ratio(reported: float, difference: float, suffix: str = "", **workload: Any) -> Ask:
    def ask(taken: FigureSet) -> tuple[str, str, str]:
        model, mq = (_figure(taken, "insn", row + suffix, "insn", **workload)
                     for row in ("legacy_419", "smq_ram_1q"))
        one, other = kernel_insns(model), kernel_insns(mq)
        here = f"{one / other:.2f} ({one - other:+.0f} on {other:.0f} kernel instructions)"
        good = _is_near(one - other, difference)
        why = (f"then {difference:+d} on {difference / (reported - 1):.0f}; the modern path under "
               "the model is not that of 4.19, so the differences are compared, not the ratios")
        if workload.get("qd") == 1 and not suffix:
            why += (". At delay=0 the legacy path also paid 2500 to 3300 instructions to "
                    "wake ksoftirqd, which a device with an interrupt and the model do not need")
        return here, _word(good, one > 1.02 * other), why
    return ask


def _given_kernel(reported: float, suffix: str = "", **workload: Any) -> Ask:
    def ask(taken: FigureSet) -> tuple[str, str, str]:
        legacy, mq = (_figure(taken, "legacy-kernel", row + suffix, "insn_kernel", **workload)
                      for row in ("kernel_legacy", "kernel_mq"))
        ratio = legacy.value / mq.value
        return (f"{ratio:.2f} ({legacy.value:.0f} against {mq.value:.0f})",
                _word(_is_near(ratio, reported, 0.05), ratio > 1),
                f"measured on {legacy.kernel}, the kernel that was given")
    return ask


def _given_locks(reported: float, metric: str = "locks", row: str = "kernel_legacy",
                 **workload: Any) -> Ask:
    """Asks how often a given kernel takes queue_lock or, with metric "waits", finds it taken."""
    def ask(taken: FigureSet) -> tuple[str, str, str]:
        found = _figure(taken, "legacy-kernel", row, metric, **workload)
        locks = found.parts["lock"]
        value = sum(value for name, value in locks.items()
                    if REAL_QUEUE_LOCK in name)
        if not value and reported and metric == "locks":
            raise Missing(f"{found.label}: queue_lock was not recognised")
        good = abs(value - reported) <= max(0.1, (NEAR if metric == "locks" else 0.4) * reported)
        return (f"{value:.2f} per I/O", _word(good, value > 0.1),
                f"measured on {found.kernel}, the kernel that was given")
    return ask


def _given_times(reported: float, **workload: Any) -> Ask:
    def ask(taken: FigureSet) -> tuple[str, str, str]:
        found = _figure(taken, "legacy-kernel", "kernel_legacy", "against_mq", **workload)
        low, high = interval(found.values) or (found.value, found.value)
        return (f"{found.value:.2f} [{low:.2f}-{high:.2f}]",
                _word(_is_near(found.value, reported) or low <= reported <= high, found.value < 1),
                f"on an emulated CPU, median of {found.repeats} rounds with the interval in which "
                f"the true one lies; measured on {found.kernel}, the kernel that was given")
    return ask


# The trace of 2013: 42.3 us in all

def _trace(reported: float, row: str, *groups: str, most: bool = False) -> Ask:
    """Asks whether the share of @groups is near the reported one; with @most, whether it is not
    larger."""
    def ask(taken: FigureSet) -> tuple[str, str, str]:
        found = _figure(taken, "insn", row, "insn", qd=1)
        value = _group(found, *groups)
        return (f"{value:.1f} % of {found.label}'s kernel instructions at QD1",
                _word(value <= reported if most else _is_near(value, reported, 0.35)),
                f"time on hardware then, instructions here; counted as: {', '.join(groups)}")
    return ask


# Batching

def _batch_gain(taken: FigureSet) -> tuple[str, str, str]:
    direct, batch = _policy(taken, "smq_ram_doorbell", "insn")
    before, after = _policy(taken, "smq_ram_doorbell", "doorbells")
    gain = 100 * (direct / batch - 1)
    return (f"{gain:+.0f} % I/O per CPU at QD32, one by one, where a doorbell costs 5 us",
            _word(gain >= 50, gain > 10),
            f"{after:.3f} doorbells per I/O rather than {before:.3f}")


def _batch_loss(taken: FigureSet) -> tuple[str, str, str]:
    direct, batch = _policy(taken, "smq_ram_timer", "insn")
    loss = 100 * (1 - direct / batch)
    return (f"{loss:.1f} % fewer I/O per CPU at QD32, one by one, where a doorbell is free",
            _word(loss >= 15, loss > 3),
            f"{batch - direct:+.0f} instructions per I/O: the policy measures what a doorbell "
            "costs, and holds nothing where it is cheap")


def _native_batch(row: str, gains: bool) -> Ask:
    def ask(taken: FigureSet) -> tuple[str, str, str]:
        direct, batch = (_figure(taken, "native", name, "time", path="in_kernel", batch=1)
                         for name in (row, f"{row}_batch"))
        gain = 100 * (direct.low / batch.low - 1)
        good, partly = (gain >= 50, gain > 10) if gains else (gain <= -15, gain < -3)
        return (f"{gain:+.0f} % I/O per CPU at QD32, one by one", _word(good, partly),
                f"p10 of {batch.low:.0f} ns per command rather than {direct.low:.0f} ns, "
                "User Mode Linux")
    return ask


def _policy(taken: FigureSet, row: str, metric: str) -> tuple[float, float]:
    """The figures of a metric with direct and with batch."""
    pair = []
    for name in (row, f"{row}_batch"):
        one = taken.one(instrument="insn", row=name, metric=metric, qd=32, batch=1, luns=1,
                        jobs=1, bs=512, path="io_uring", op="read")
        if not one:
            raise Missing.figure(taken, "insn", name)
        pair.append(one.value)
    return pair[0], pair[1]


SG: dict[str, Any] = {"path": "sg_io", "qd": 1}
SD = {**SG, "path": "sd_sg_io"}    # the path that was measured on 4.19
AIO: dict[str, Any] = {"path": "libaio", "bs": 4096}
AIO_1: dict[str, Any] = {**AIO, "qd": 1}
GIVEN = "a given kernel"
CLAIMS = [
    Claim("2013: 10 LUNs at 1M IOPS spend much of the CPU in host_lock and queue_lock", "~40 %",
          _two_locks),
    Claim("2013: one LUN reaches far fewer IOPS than a raw block driver",
          "250K of 1M: 0.25", _one_lun),
    Claim("2013: host_lock per command, QD32", "3, and 1 for a driver with DEF_SCSI_QCMD",
          _acquisitions("legacy_2013", HOST_LOCK, 3, 4)),
    Claim("2013: queue_lock per command, QD32", "about 5 and 2 per batch",
          _acquisitions("legacy_2013", QUEUE_LOCK, 5 + 2 / 16)),
    Claim("4.19: queue_lock per command, QD32", "4.06",
          _acquisitions("legacy_419", QUEUE_LOCK, 4.06)),
    Claim("4.19: queue_lock per command, QD1", "5",
          _acquisitions("legacy_419", QUEUE_LOCK, 5, qd=1)),
    Claim("4.19: queue_lock per command, /dev/sg", "5",
          _acquisitions("legacy_419", QUEUE_LOCK, 5, **SG)),
    Claim("4.19: queue_lock per command, SG_IO on the disk", "6",
          _acquisitions("legacy_419", QUEUE_LOCK, 6, **SD,
                        but="the model takes the same locks for each command, without the one of "
                        "4.19's blk_put_request")),
    Claim(f"4.19: queue_lock per command, QD32, {GIVEN}", "4.06", _given_locks(4.06, **AIO)),
    Claim(f"4.19: queue_lock per command, SG_IO on the disk, {GIVEN}", "6",
          _given_locks(6, **SD)),
    Claim(f"4.19: queue_lock per command, QD1, {GIVEN}", "5", _given_locks(5, **AIO_1)),
    Claim(f"4.19: queue_lock per command, /dev/sg, {GIVEN}", "5", _given_locks(5, **SG)),
    Claim(f"4.19: queue_lock per command on scsi-mq, QD32, {GIVEN}", "0",
          _given_locks(0, row="kernel_mq", **AIO)),
    Claim("4.19: host_lock is gone from the fast path", "0",
          _acquisitions("legacy_419", HOST_LOCK, 0)),
    Claim("scsi-mq takes no lock of the mid-layer per command", "0", _no_mq_lock),
    Claim("4.19: queue_lock is contended, two jobs on one LUN", "40 %", _contended(1, 40)),
    Claim(f"4.19: queue_lock is found taken, two jobs on one LUN, {GIVEN}", "1.63 per I/O",
          _given_locks(1.63, "waits", jobs=2, **AIO)),
    Claim(f"4.19: queue_lock is not found taken, two jobs on ten LUNs, {GIVEN}", "0 per I/O",
          _given_locks(0, "waits", jobs=2, luns=10, **AIO)),
    Claim(f"4.19: I/O per second, legacy ÷ scsi-mq, two jobs on one LUN, {GIVEN}",
          "0.60, on 4.19.222", _given_times(0.60, jobs=2, **AIO)),
    Claim("4.19: queue_lock is not contended, two jobs on two LUNs", "0 %", _contended(2, 0)),
    Claim("4.19: the lock's cache line bounces, two jobs on one LUN", "2.6 per I/O", _bounces),
    Claim("4.19: legacy against scsi-mq, 4k QD32, model", "1.21", _ratio(1.21, 1262, bs=4096)),
    Claim("4.19: legacy against scsi-mq, 4k QD1, model", "1.58", _ratio(1.58, 3539, bs=4096, qd=1)),
    Claim("4.19: legacy against scsi-mq, SG_IO 512, model", "1.79", _ratio(1.79, 4035, **SD)),
    Claim(f"4.19: legacy against scsi-mq, 4k QD32, {GIVEN}", "1.21", _given_kernel(1.21, **AIO)),
    Claim(f"4.19: legacy against scsi-mq, 4k QD1, {GIVEN}", "1.58", _given_kernel(1.58, **AIO_1)),
    Claim(f"4.19: legacy against scsi-mq, SG_IO 512, {GIVEN}", "1.79", _given_kernel(1.79, **SD)),
    Claim("4.19: legacy against scsi-mq, 4k QD32, by interrupt, model", "1.22",
          _ratio(1.22, 1524, "_timer", bs=4096), INTERRUPT),
    Claim("4.19: legacy against scsi-mq, 4k QD1, by interrupt, model", "1.10",
          _ratio(1.10, 1067, "_timer", bs=4096, qd=1), INTERRUPT),
    Claim("4.19: legacy against scsi-mq, SG_IO 512, by interrupt, model", "1.08",
          _ratio(1.08, 717, "_timer", **SD), INTERRUPT),
    Claim(f"4.19: legacy against scsi-mq, 4k QD32, by interrupt, {GIVEN}", "1.22",
          _given_kernel(1.22, "_timer", **AIO), INTERRUPT),
    Claim(f"4.19: legacy against scsi-mq, 4k QD1, by interrupt, {GIVEN}", "1.10",
          _given_kernel(1.10, "_timer", **AIO_1), INTERRUPT),
    Claim(f"4.19: legacy against scsi-mq, SG_IO 512, by interrupt, {GIVEN}", "1.08",
          _given_kernel(1.08, "_timer", **SD), INTERRUPT),
    Claim("the trace of 2013: submission and direct I/O set-up are half of the path", "52 %",
          _trace(52, "smq_ram", BLOCK, MEMORY, COPY), TRACE),
    Claim("the trace of 2013: the mid-layer (scsi_request_fn without the driver) is a quarter",
          "25 %", _trace(25, "smq_ram", SCSI, LOCKS, TIME), TRACE),
    Claim("the trace of 2013: the driver is the smallest part of the path", "7.6 %",
          _trace(7.6, "smq_ram", LLD, most=True), TRACE),
    Claim("2020 (i10): batching gains where doorbells dominate", "+60 % IOPS per core",
          _batch_gain, BATCHING),
    Claim("2020 (i10): batching loses on a fast local device", "-20 % peak", _batch_loss,
          BATCHING),
    Claim("2020 (i10): batching gains where doorbells dominate, native speed",
          "+60 % IOPS per core", _native_batch("smq_ram_100us_doorbell", True), BATCHING),
    Claim("2020 (i10): batching loses on a fast local device, native speed", "-20 % peak",
          _native_batch("smq_ram_20us", False), BATCHING),
]


def answers(taken: FigureSet) -> list[Answer]:
    """The answers to all claims."""
    return [claim.answer(taken) for claim in CLAIMS]
