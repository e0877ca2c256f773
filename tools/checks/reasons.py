# SPDX-License-Identifier: GPL-2.0
"""Explains in a few lines why tests failed, for a reader who sees only the end of the output."""

import re
from itertools import groupby
from pathlib import Path

from .result import Case, Result

CASE_LINES = 6
RUN_LINES = 20
ALL_LINES = 60
WIDTH = 200
LOG_BYTES = 1 << 20

_PLACE = re.compile(r"^\S+\.py:\d+: ")
_TELLING = re.compile(r"\bBUG\b|\bWARNING\b|\bOops\b|\bassert\b|\w*(?:Error|error|warning)\b|"
                      r"\bpanic\b|\bfatal\b|\bFAILED\b|TookTooLong|reported a fault")
# Beginnings of messages that say why a run ended early, the most useful first. They come from
# tools/vm, tools/check, or Python's faulthandler, which watches for tests that hang. pytest may
# have printed the name of a test before them on the same line.
_ENDS = [re.compile(rf"^(?:\S+::.* )?({mark}.*)") for mark in (
    "vm: the kernel reported a fault", r"Timeout \(\d+:", "Fatal Python error", "vm: ",
    r"stopped after \d+ s: ")]
# Lines of a kernel's report that a reader cannot use without the binaries of that kernel.
_NOISE = re.compile(r"\] *(?:(?:R(?!IP)\w\w|CR2|CS|FS|DR\d|Code|Modules linked in|"
                    r"Hardware name): |\? )")


def _clip(line: str) -> str:
    clean = "".join(c for c in line.expandtabs() if c.isprintable()).rstrip()
    return clean if len(clean) <= WIDTH else clean[:WIDTH - 3] + "..."


def telling(message: str, most: int = CASE_LINES) -> list[str]:
    """The most useful lines of a failed test's message, in their original order."""
    lines = [line for line in map(_clip, message.splitlines()) if line.strip()]
    if len(lines) <= most:
        return lines
    # Indexes of lines. Prefer the first line, which names the test, the first line of pytest's
    # explanation, and the last place in a source file.
    own = [at for at, line in enumerate(lines) if line.startswith("E ")]
    places = [at for at, line in enumerate(lines) if _PLACE.match(line)]
    words = [at for at in own or range(len(lines)) if _TELLING.search(lines[at])]
    wanted = [0, *own[:1], *places[-1:], *words, *own, *range(len(lines) - 1, 0, -1)]
    return [lines[at] for at in sorted(list(dict.fromkeys(wanted))[:most])]


def _line(message: str) -> str:
    """The most useful line of a failed test's message."""
    lines = [line.strip() for line in map(_clip, message.splitlines()) if line.strip()]
    own = [line[1:].strip() for line in lines if line.startswith("E ")]
    words = [line for line in lines if _TELLING.search(line)]
    return [*own[:1], *words, *lines[-1:], "no reason"][0]


def unstable(results: list[Result]) -> list[str]:
    """A line for each test that passed only at the second try."""
    return [f"unstable: {result.step}: {case.name} (first: {_line(case.first or '')})"
            for result in results for case in result.unstable]


def of_run(log: Path, most: int = RUN_LINES) -> list[str]:
    """The lines of a log that say why the run ended early, for example a kernel's report. Empty if
    there are none."""
    try:
        with log.open("rb") as file:
            file.seek(max(log.stat().st_size - LOG_BYTES, 0))
            lines = file.read().decode(errors="replace").splitlines()
    except FileNotFoundError:
        return []
    for mark in _ENDS:
        at, found = next(((at, mark.match(line)) for at, line in enumerate(lines)
                          if mark.match(line)), (0, None))
        if found:
            told = [_clip(line) for line in [found[1], *lines[at + 1:at + 4 * most]]
                    if not _NOISE.search(line)]
            return [line for line in told if line.strip()][:most]
    return []


def _why(case: Case, most: int) -> list[str]:
    """Why a test failed. If there were two tries, each gets half of the lines."""
    if case.first is None:
        return telling(case.message, most)
    lines = []
    for name, message in (("first", case.first), ("again", case.message)):
        told = telling(message, most // 2)
        lines += [f"{name}: {line}" for line in told[:1]] + told[1:]
    return lines


def _of_cases(result: Result, most: int) -> list[str]:
    """A line for each test that failed, and at most @most lines of reasons altogether.

    If successive tests have the same reason, for example because they were lost together, the
    reason is given once.
    """
    lines, left = [], most
    for _, group in groupby(result.failed, lambda case: case.reasons.strip()):
        cases = list(group)
        lines += [_failed(result, case) for case in cases]
        why = _why(cases[0], min(CASE_LINES, left))
        left -= len(why)
        lines += [f"    {line}" for line in why]
    return lines


def _failed(result: Result, case: Case) -> str:
    return f"FAILED {result.step}" + (f": {case.name}" if case.name != result.step else "")


def summary(results: list[Result]) -> list[str]:
    """A line for each test that failed, and the reasons. The reasons of all steps have at most
    ALL_LINES lines."""
    failed = [result for result in results if result.failed]
    text, left = [], ALL_LINES
    for number, result in enumerate(failed):
        share = left // (len(failed) - number)
        cases = _of_cases(result, share - min(len(result.ends), share // 2))
        share -= sum(line.startswith(" ") for line in cases)
        ends = [f"    | {line}" for line in result.ends[:share]]
        text += cases + ends
        left -= sum(line.startswith(" ") for line in cases + ends)
    return text
