# SPDX-License-Identifier: GPL-2.0
"""sg_io fidelity: how faithful a replay was, from a recording of it and the original one."""

import json
import os
import re
import sys
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from judge import columns, figures, pairs, picture, text
from judge.columns import Numbers
from judge.options import Command, Option

TIMER_US = 15       # a timer that is later (p99) is mentioned
HEAD_LINES = 8      # of a recording, in which record's figure of the timer is
MODES = ("time", "max", "load", "depend")
# How far a load may differ: in the mean, and in the curve as a share of the mean.
LOAD_ERROR, CURVE_ERROR = 0.02, 0.1
LEAST_OF_MOST = 4   # a replay never has less in flight than a quarter of the original's most

COMMAND = Command(
    "fidelity", "ORIGINAL REPLAYED",
    "Tell how faithful a replay was: REPLAYED is a recording of the replay of\nORIGINAL.",
    (Option("json", "", "One JSON object on standard output"),
     Option("late", "US",
            "Call a replay late if p99 of its issue error is over US microseconds (50)"),
     Option("map", "OLD=NEW[,offset=BLOCKS][,scale=X]",
            "The mapping of the replay; NEW is the name in REPLAYED"),
     Option("mode", "MODE", "The --mode of the replay (time)"),
     Option("speed", "X", "The --speed of the replay (1)"),
     Option("svg", "FILE", "Write a picture: commands in flight and lateness over time"),
     Option("window", "MS", "The --window of the replay (100)")),
    """\
The nth of equal commands of a device in ORIGINAL is paired with the nth in
REPLAYED. If REPLAYED has more, the first are left over: a replay begins with
reads that look for a file system. 'issue error' is how late each was issued,
compared with the one that was the least late. The Kolmogorov-Smirnov distance
is the greatest difference between the distributions of the times between
commands, 0 to 1. An inversion is a pair of commands that were issued in the
other order; commands of the same microsecond have no order. 'run time' and
the means are from the first command to the end of the last; 'idle' is the time
in it without a command in flight. 'the curves differ by' is the mean distance
of the commands in flight, as a share of the original's mean: over time, or
with another --mode than time over groups of 64 commands, while any of them was
in flight.

The verdict is 'incomplete' if commands are missing, 'reordered' if there are
inversions, 'late' if p99 of the issue error is over --late, otherwise
'faithful'. With --mode load it is 'other load' if the commands in flight
while the device was busy differ by more than 2 % in the mean, or their curve
by more than 10 %, or if there were never a quarter as many as the original's
most; each 64 commands have the same weight. With --mode depend it is
'violated' if a command was issued before one that it depends on had ended.
There is no verdict about times if no line of a file has at=. 'sg_io record'
notes how late an empty timer was; if that was more than --late, the machine
was too slow for a verdict about times, order or another load.

Example, with a recording of the replay:
  sg_io record --output again.cdb /dev/sdc &
  sleep 2
  sg_io replay --map /dev/sda=/dev/sdc load.cdb
  kill $!
  wait
  sg_io fidelity --map /dev/sda=/dev/sdc --svg load.svg load.cdb again.cdb

Exit status: 0 faithful, 1 not, or no verdict; 2 bad option or file.
""", ("columns",))


class How(NamedTuple):
    """How the replay was made, and what it is judged by."""
    mode: str = "time"
    speed: float = 1.0
    window: int = 100_000_000   # ns
    late: int = 50              # us


class Load(NamedTuple):
    """What was in flight in a recording."""
    figures: dict[str, Any]     # mean, busy_mean, max, curve
    idle: dict[str, float]


class Result(NamedTuple):
    """What is printed, and what only the picture has."""
    figures: dict[str, Any]
    late: Numbers               # us, the latest command of each piece of time
    span: int                   # ns


def read_timer(path: str) -> float | None:
    """How late an empty timer was (p99), in us: what record found out about its machine."""
    try:
        with open(path, "rb") as file:
            for line in file.readlines(64 * HEAD_LINES)[:HEAD_LINES]:
                found = re.match(rb"# an empty timer was ([\d.]+) us late \(p99\)", line)
                if found:
                    return float(found[1])
    except OSError:
        pass
    return None


def load_of(starts: Numbers, took: Numbers, by_time: bool, span: int) -> tuple[Load, Numbers]:
    """What is in flight, and its curve."""
    f = figures.flight(starts, columns.took_ns(took))
    groups = f.groups()
    curve = f.curve(span) if by_time else groups
    pieces = np.array_split(curve, min(figures.POINTS, len(curve)))
    return Load({"mean": f.mean(), "busy_mean": float(groups.mean()), "max": f.most(),
                 "curve": [round(float(piece.mean()), 3) for piece in pieces]}, f.idle()), curve


def compare_loads(p: pairs.Pairs, by_time: bool, span: int) -> dict[str, Any]:
    """What was in flight in both recordings."""
    if not p.nr or not p.took.all() or not p.retook.all():
        return {"in_flight": None, "original_in_flight": None, "idle": None,
                "original_idle": None}
    then, curve = load_of(p.due, p.took, by_time, span)
    now, recurve = load_of(p.issued, p.retook, by_time, span)
    kept = {name: min(then.idle[name], now.idle[name]) / max(then.idle[name], now.idle[name])
            if then.idle[name] != now.idle[name] else 1.0 for name in ("pauses", "seconds")}
    return {"in_flight": now.figures, "original_in_flight": then.figures,
            "in_flight_error": float(np.abs(recurve - curve).mean() / curve.mean()),
            "idle": now.idle, "original_idle": then.idle, "idle_kept": kept}


def run_times(p: pairs.Pairs) -> dict[str, float]:
    """From the first command to the end of the last."""
    then, now = (int((starts + columns.took_ns(took)).max() - starts.min())
                 for starts, took in ((p.due, p.took), (p.issued, p.retook)))
    return {"seconds": now / 1e9, "original_seconds": then / 1e9,
            "run_time_error": now / max(then, 1) - 1}


def measure(how: How, one: columns.Commands, other: columns.Commands,
            timer: float | None) -> Result:
    """All figures of a replay. Uses up both recordings."""
    timed, devs, by_time = one.timed and other.timed, other.devs, how.mode == "time"
    p = pairs.match(one, other, how.speed, by_time)
    span = int(max((starts + columns.took_ns(took)).max(initial=0) for starts, took in
                   ((p.due, p.took), (p.issued, p.retook))))
    late, curve = p.issued - p.due, np.zeros(figures.POINTS)
    lateness = figures.spread(late) if by_time else None
    if p.nr and span:
        # The commands are in the order of their times.
        cuts = np.searchsorted(p.due, np.linspace(0, span, figures.POINTS, endpoint=False))
        for i, part in enumerate(np.split(late, cuts[1:])):
            curve[i] = part.max(initial=0) / 1e3
    del late
    named = devs[:int(p.dev.max(initial=0)) + 1] if p.nr else []
    f: dict[str, Any] = {
        "mode": how.mode, "commands": p.nr, "missing": p.missing, "extra": p.extra,
        "issue_error_ns": lateness,
        "ks_distance": figures.ks_distance(np.diff(p.due), np.diff(np.sort(p.issued))),
        "inversions": figures.inversions(p.issued, np.zeros(p.nr, "u1"), 1)[0],
        "device_inversions": dict(zip(named, figures.inversions(
            p.issued, p.dev, len(named)))) if len(named) > 1 else {},
        "lat_ns": figures.spread(columns.took_ns(p.retook[p.retook > 0])),
        "original_lat_ns": figures.spread(columns.took_ns(p.took[p.took > 0]))}
    if len(named) == 1:
        f["device_inversions"] = {named[0]: f["inversions"]}
    f |= run_times(p) if p.nr else {}
    f |= compare_loads(p, by_time, span)
    f["violated"] = figures.violations(p.due, columns.took_ns(p.took), p.issued,
                                       columns.took_ns(p.retook), how.window) \
        if how.mode == "depend" else None
    f |= {"same_cpu": p.same_cpu, "other_cpu": p.other_cpu,
          "timer_p99_ns": round(timer * 1e3) if timer else None}
    f["verdict"], f["why"] = judge(how, f, timed, timer or 0)
    return Result(f, curve, span)


def judge_time(how: How, f: dict[str, Any]) -> tuple[str, str]:
    """The verdict of a replay with --mode time."""
    p99 = f["issue_error_ns"]["p99"] / 1e3
    if f["inversions"]:
        return "reordered", f"{f['inversions']} pairs of commands were issued in the other order"
    if p99 > how.late:
        return "late", f"p99 of the issue error is {p99:.1f} us, more than {how.late}"
    return "faithful", f"all commands in their order, 99 % of them at most {p99:.1f} us late"


def judge_load(f: dict[str, Any]) -> tuple[str, str]:
    """The verdict of a replay with --mode load."""
    now, then = f["in_flight"], f["original_in_flight"]
    error = now["busy_mean"] / then["busy_mean"] - 1
    means = (f"while the device was busy, {now['busy_mean']:.2f} commands were in flight in the "
             f"mean, in the original {then['busy_mean']:.2f}: {100 * error:+.1f} %")
    if abs(error) > LOAD_ERROR:
        return "other load", means
    if f["in_flight_error"] > CURVE_ERROR:
        return "other load", (f"the curves of the commands in flight differ by "
                              f"{100 * f['in_flight_error']:.1f} %, although {means}")
    if now["max"] * LEAST_OF_MOST < then["max"]:
        return "other load", (f"at most {now['max']} commands were in flight, in the original "
                              f"{then['max']}, although {means}")
    return "faithful", means


def judge(how: How, f: dict[str, Any], timed: bool, timer: float) -> tuple[str | None, str]:
    """The verdict, or None, and why."""
    slow = f"the machine was too slow: an empty timer was {timer:.1f} us late (p99), more than " \
        f"{how.late}" if timer > how.late else None
    if not f["commands"]:
        return None, "no command is in both recordings"
    if f["missing"]:
        return "incomplete", (f"{f['missing']} of {f['commands'] + f['missing']} commands are not "
                              "in the replay")
    if how.mode == "max":
        return "faithful", "all commands, without their times"
    if not timed:
        return None, "the lines of a recording have no at=, so its times are not known"
    if how.mode == "time":
        return (None, slow) if slow else judge_time(how, f)
    if how.mode == "load":
        if not f["in_flight"]:
            return None, "some lines have no took="
        # A load that is that of the original is so on any machine.
        verdict = judge_load(f)
        return (None, slow) if slow and verdict[0] != "faithful" else verdict
    if not f["original_lat_ns"] or not f["lat_ns"]:
        return None, "the lines of a recording have no took=, so its ends are not known"
    return ("violated" if f["violated"] else "faithful",
            f"{f['violated']} of {f['commands']} commands were issued before one that they depend "
            "on had ended")


def spread_text(what: str, s: dict[str, int]) -> str:
    """A line of percentiles."""
    return (f"{what}: p50 {s['p50'] / 1e3:.1f} us, p99 {s['p99'] / 1e3:.1f} us, p99.9 "
            f"{s['p999'] / 1e3:.1f} us, longest {s['max'] / 1e3:.1f} us")


def load_text(f: dict[str, Any]) -> Iterator[str]:
    """What was in flight, as lines."""
    now, then = f["in_flight"], f["original_in_flight"]
    if not now:
        yield "in flight: not known, some lines have no took="
        return
    yield (f"in flight: mean {now['mean']:.2f}, most {now['max']}; original {then['mean']:.2f}, "
           f"most {then['max']}; the curves differ by {100 * f['in_flight_error']:.1f} %")
    yield f"in flight while busy: mean {now['busy_mean']:.2f}, original {then['busy_mean']:.2f}"
    now, then, kept = f["idle"], f["original_idle"], f["idle_kept"]
    yield (f"idle: {now['pauses']} pauses, {100 * now['share']:.1f} % of the time; original "
           f"{then['pauses']}, {100 * then['share']:.1f} %; kept {100 * kept['pauses']:.1f} % of "
           f"the pauses, {100 * kept['seconds']:.1f} % of their time")


def lines(how: How, f: dict[str, Any]) -> Iterator[str]:
    """The figures as text."""
    yield f"{f['commands']} commands in both" + "".join(
        f", {f[name]} {words} in the replay" for name, words in
        (("missing", "missing"), ("extra", "more")) if f[name])
    if f["issue_error_ns"]:
        yield spread_text("issue error", f["issue_error_ns"])
    if f["commands"]:
        yield (f"run time: {f['seconds']:.3f} s, original {f['original_seconds']:.3f}: "
               f"{100 * f['run_time_error']:+.2f} %")
    yield f"times between commands: Kolmogorov-Smirnov distance {f['ks_distance']:.4f}"
    devs = f["device_inversions"]
    yield f"order: {f['inversions']} inversions" + (" over all; " + ", ".join(
        f"{dev} {count}" for dev, count in devs.items()) if len(devs) > 1 else "")
    yield from load_text(f)
    if f["lat_ns"] and f["original_lat_ns"]:
        yield spread_text("latency", f["lat_ns"])
        yield spread_text("latency of the original", f["original_lat_ns"])
    if f["same_cpu"] + f["other_cpu"]:
        yield (f"CPUs: {f['same_cpu']} of {f['same_cpu'] + f['other_cpu']} commands on the CPU of "
               "the original")
    if (f["timer_p99_ns"] or 0) > TIMER_US * 1e3:
        yield (f"machine: an empty timer was {f['timer_p99_ns'] / 1e3:.1f} us late (p99), so are "
               "commands")
    if f["violated"] is not None:
        yield f"dependencies: {f['violated']} violated, window {how.window / 1e6:g} ms"
    yield f"{f['verdict'] or 'no verdict'}: {f['why']}"


def window_ns(word: str) -> int:
    """Milliseconds as ns."""
    found = re.fullmatch(r"(\d+)(?:\.(\d+))?", word, flags=re.ASCII)
    ns = int(found[1] + (found[2] or "").ljust(6, "0")[:6]) if found else 0
    if not 0 < ns < 1 << 64:
        COMMAND.error(f"--window: '{word}' is no time in milliseconds")
    return ns


def parse_how(given: dict[str, list[str]]) -> How:
    """Of the last of each option."""
    how = How()
    for name, words in given.items():
        for word in words:
            if name == "mode":
                if word not in MODES:
                    COMMAND.error(f"--mode: '{word}' is not time, max, load or depend")
                how = how._replace(mode=word)
            elif name == "window":
                how = how._replace(window=window_ns(word))
            elif name == "speed":
                how = how._replace(speed=COMMAND.real("--speed", word, 1e6))
            elif name == "late":
                how = how._replace(late=COMMAND.number("--late", word, 1, 10**9))
    return how


def main(program: str, words: list[str]) -> int:
    given, args = COMMAND.parse(words)
    how = parse_how(given)
    if len(args) > 2:
        COMMAND.error(f"'{args[2]}': two files are compared")
    if len(args) < 2:
        COMMAND.error("ORIGINAL and REPLAYED are needed")
    svg = given["svg"][-1] if "svg" in given else None
    if "columns" in given:
        # Of sg_io replay, which has read the original.
        with os.fdopen(0, "rb", closefd=False) as stream:
            one = columns.Commands(stream)
    else:
        one = columns.load(program, "fidelity", args[0], given.get("map", []))
    other = columns.load(program, "fidelity", args[1], [])
    text.check_output("--svg", svg, args)
    result = measure(how, one, other, read_timer(args[1]))
    if svg:
        picture.draw(svg, result.figures, result.late, result.span)
    if "json" in given:
        json.dump(result.figures, sys.stdout, ensure_ascii=False, indent=2)
        print()
    else:
        print("\n".join(lines(how, result.figures)))
    return text.GOOD if result.figures["verdict"] == "faithful" else text.NOT_GOOD
