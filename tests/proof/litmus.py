# SPDX-License-Identifier: GPL-2.0
"""Reads litmus tests: the lines of our code that a test models, and the test without one barrier.

The comment of a litmus test describes the forbidden outcome, and has lines of two kinds:

    code: FILE: FUNCTION: TEXT     a line of this function that the test models
    weak: [Pn: ]OLD => [NEW]       NEW replaces OLD in the test, or in its process n: without this
                                   ordering the forbidden outcome must be possible

In these lines write "( *x)" for "(*x)", because herd7 would read the latter as the start of a
comment. parse() converts it back.
"""

import re
from dataclasses import dataclass, field
from pathlib import Path

HERE = Path(__file__).resolve().parent
TOP = HERE.parents[1]


class LitmusError(Exception):
    """A litmus test cannot be parsed, or does not match the code that it models."""


@dataclass
class Code:
    """A line of our code that a litmus test models."""

    path: str
    function: str
    text: str

    def __str__(self):
        return f"{self.path}: {self.function}(): {self.text}"


@dataclass
class Litmus:
    """One litmus test."""

    name: str
    text: str
    code: list[Code] = field(default_factory=list)
    weak: list[str] = field(default_factory=list)

    def weakened(self, weak):
        """The text of the test after one replacement from self.weak."""
        found = re.fullmatch(r"(?:(P\d): )?(.+?) =>(?: (.+))?", weak)
        if not found:
            raise LitmusError(f"{self.name}: weak: {weak}: not understood")
        thread, old, new = found.groups()
        head, end, program = self.text.partition("*)\n")
        begin, after = 0, len(program)
        if thread:
            begin = program.index(f"\n{thread}(")
            after = program.index("\n}\n", begin)
        if program.count(old, begin, after) != 1:
            raise LitmusError(f"{self.name}: weak: {weak}: does not occur exactly once")
        at = program.index(old, begin, after)
        return head + end + program[:at] + (new or "") + program[at + len(old):]


def parse(path):
    """Reads one litmus test."""
    text = path.read_text(encoding="ascii")
    one = Litmus(path.stem, text)
    comment = text.partition("*)\n")[0]
    for line in comment.split("\n"):
        line = line.removeprefix(" * ").rstrip().replace("( *", "(*")
        kind, _, rest = line.partition(": ")
        if kind == "code":
            words = rest.split(": ", 2)
            if len(words) != 3:
                raise LitmusError(f"{path.name}: code: {rest}: not understood")
            one.code.append(Code(*words))
        elif kind == "weak":
            one.weak.append(rest)
    if not text.startswith(f"C {path.stem}\n"):
        raise LitmusError(f"{path.name}: its first line has another name")
    if not one.code or not one.weak:
        raise LitmusError(f"{path.name}: has no line of code:, or none of weak:")
    return one


def everything():
    """All litmus tests."""
    return [parse(path) for path in sorted(HERE.glob("*.litmus"))]


def body(path, name):
    """The text of a function or macro in our code."""
    source = (TOP / path).read_text(encoding="utf-8")
    found = re.search(rf"^(?:[a-z][^;{{}}()]*[ \n*]){name}\([^;{{}}]*\n{{\n.*?^}}\n|"
                      rf"^(?:static )?SMQ_END_IO\({name},[^)]*\)\n{{\n.*?^}}\n|"
                      rf"^#define {name}\(.*?[^\\]$", source, re.MULTILINE | re.DOTALL)
    if not found:
        raise LitmusError(f"{path} has no {name}()")
    return found[0]
