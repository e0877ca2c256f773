# SPDX-License-Identifier: GPL-2.0
"""The count plugin's results of a run, by function; they can be added and subtracted."""

from dataclasses import dataclass, field
from pathlib import Path

from .errors import BenchError
from .symbols import Function, Symbols
from .tally import Tally


@dataclass
class Profile:
    """Counters by function: of a run, or per I/O after divided()."""

    insns: Tally[Function] = field(default_factory=Tally)   # instructions
    own: Tally[Function] = field(default_factory=Tally)     # ... charged to our modules
    calls: Tally[Function] = field(default_factory=Tally)   # entries
    # (watched, caller, ours) -> calls
    callers: Tally[tuple[Function, Function, bool]] = field(default_factory=Tally)

    def combine(self, other: "Profile", sign: int) -> "Profile":
        """Returns the sum of both if @sign is 1, the difference if it is -1."""
        result = Profile()
        for name in vars(result):
            mine, theirs, new = (getattr(p, name) for p in (self, other, result))
            for key in mine.keys() | theirs.keys():
                new[key] = mine[key] + sign * theirs[key]
        return result

    def divided(self, by: int) -> "Profile":
        """The counters divided by a number of I/Os."""
        return Profile(*(Tally({key: value / by for key, value in counter.items() if value})
                         for counter in vars(self).values()))


def read(path: Path, symbols: Symbols) -> Profile:
    """Reads a file PREFIX.N of the count plugin."""
    profile = Profile()
    try:
        with path.open(encoding="ascii") as lines:
            for line in lines:
                kind, *words = line.split()
                if kind == "block":
                    _add_block(profile, symbols, words)
                elif kind == "call":
                    _add_call(profile, symbols, words)
                else:
                    raise ValueError(f"unknown record {kind}")
    except (OSError, ValueError) as error:
        raise BenchError(f"{path.name}: {error}") from error
    return profile


def _add_block(profile: Profile, symbols: Symbols, words: list[str]) -> None:
    address = int(words[0], 16)
    size, runs, own, _ = (int(word) for word in words[1:])
    function = symbols.function(address)
    profile.insns[function] += size * runs
    profile.own[function] += size * own
    if symbols.is_entry(address):
        profile.calls[function] += runs


def _add_call(profile: Profile, symbols: Symbols, words: list[str]) -> None:
    watched, caller = (symbols.function(int(word, 16)) for word in words[:2])
    ours, others = (int(word) for word in words[2:])
    profile.callers[watched, caller, True] += ours
    profile.callers[watched, caller, False] += others
