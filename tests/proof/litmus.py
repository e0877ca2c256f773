# SPDX-License-Identifier: GPL-2.0
"""Litmus tests: the lines of our code that a test stands for, and the test without one barrier.

Its comment names the forbidden outcome, and has lines of two kinds:

    code: FILE: FUNCTION: TEXT     a line of the function
    weak: [Pn: ]OLD => [NEW]       OLD in the test, without ordering: the outcome must occur

"( *x)" in these stands for "(*x)", which herd7 would take for a comment in the comment.
"""

import re
from dataclasses import dataclass, field
from pathlib import Path

HERE = Path(__file__).resolve().parent
TOP = HERE.parents[1]


class LitmusError(Exception):
    """A test cannot be parsed, or does not match the code that it stands for."""


@dataclass
class Code:
    """A line of our code."""

    path: str
    function: str
    text: str

    def __str__(self):
        return f"{self.path}: {self.function}(): {self.text}"


@dataclass
class Litmus:
    """One test."""

    name: str
    text: str
    code: list[Code] = field(default_factory=list)
    weak: list[str] = field(default_factory=list)

    def weakened(self, weak):
        """The test with one line of @weak applied."""
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
            raise LitmusError(f"{self.name}: weak: {weak}: not there, or more than once")
        at = program.index(old, begin, after)
        return head + end + program[:at] + (new or "") + program[at + len(old):]


def parse(path):
    """Reads a test."""
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
        raise LitmusError(f"{path.name}: names no code, or no barrier")
    return one


def everything():
    """All tests."""
    return [parse(path) for path in sorted(HERE.glob("*.litmus"))]


def body(path, name):
    """A function of our code, or a macro."""
    source = (TOP / path).read_text(encoding="utf-8")
    found = re.search(rf"^(?:[a-z][^;{{}}()]*[ \n*]){name}\([^;{{}}]*\n{{\n.*?^}}\n|"
                      rf"^(?:static )?SMQ_END_IO\({name},[^)]*\)\n{{\n.*?^}}\n|"
                      rf"^#define {name}\(.*?[^\\]$", source, re.MULTILINE | re.DOTALL)
    if not found:
        raise LitmusError(f"{path} has no {name}()")
    return found[0]
