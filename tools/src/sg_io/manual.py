#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Prints sg_io's manual page with the sections of its commands as `sg_io COMMAND --help` describes
them. Everything else of the page is as in sg_io.8.

Usage: manual.py PROGRAM sg_io.8
"""

import os
import re
import subprocess
import sys
from collections.abc import Iterator

BEGIN = '.\\" The sections of the commands are made from --help: make -C tools/src/sg_io manual\n'
END = '.\\" The end of what is made from --help.\n'
# What argp adds for itself, and what the page says elsewhere.
LEFT_OUT = re.compile(r"Mandatory or optional arguments to long options.*\n"
                      r"|'sg_io\s--help' describes the format[^.]*\.\s*")
OPTION = re.compile(r"  (?:-(?P<short>.), |    )--(?P<name>[a-z-]+)(?:=(?P<arg>\S+))?(?: +|$)"
                    r"(?P<text>.*)")
ITEM = re.compile(r"  (?P<term>\S+) {2,}(?P<text>\S.*)")


def help_of(program: str, *args: str) -> str:
    """The help with each option on a line of its own."""
    env = {**os.environ, "ARGP_HELP_FMT": "rmargin=2000", "LC_ALL": "C"}
    done = subprocess.run([program, *args, "--help"], capture_output=True, text=True, check=True,
                          env=env, timeout=60)
    return done.stdout


def commands(program: str) -> list[str]:
    return re.findall(r"^  ([a-z-]+) ", help_of(program).split("\n\n")[1], flags=re.M)


def literal(text: str) -> str:
    """Text as troff prints it unchanged."""
    for char, name in (("\\", "\\e"), ("-", "\\-"), ("'", "\\(aq"), ("^", "\\(ha"),
                       ("~", "\\(ti")):
        text = text.replace(char, name)
    return text


def prose(text: str) -> str:
    """A line of text. The names of options are bold."""
    text = text.replace("\\", "\\e").replace("^", "\\(ha").replace("~", "\\(ti")
    text = re.sub(r"(?<![\w-])--[a-z][a-z-]*", lambda m: f"\\fB{m[0]}\\fP".replace("-", "\\-"),
                  text)
    return "\\&" + text if text[0] in ".'" else text


def wrapped(text: str) -> Iterator[str]:
    """Prose in lines of at most 99 characters of the help's text."""
    line = ""
    for word in text.split():
        if len(line) + len(word) > 98:
            yield prose(line)
            line = ""
        line += (" " if line else "") + word
    yield prose(line)


def paragraphs(text: str) -> Iterator[str]:
    """The help's text before or after the options: paragraphs, lists, and examples."""
    for paragraph in LEFT_OUT.sub("", text).strip().split("\n\n"):
        lines = paragraph.split("\n")
        if lines[0].startswith("Example"):
            yield from (".PP", lines[0], ".PP", ".nf", ".RS")
            yield from (literal(line[2:]) for line in lines[1:])
            yield from (".RE", ".fi")
            continue
        plain: list[str] = []
        item: list[str] = []
        yield ".PP"
        for line in [*lines, ""]:
            found = ITEM.fullmatch(line)
            if item and not found and line.startswith("     "):
                item.append(line)
                continue
            if item:
                yield from wrapped(" ".join(item))
                item = []
                if line and not found:
                    yield ".PP"
            if found:
                yield from wrapped(" ".join(plain)) if plain else ()
                plain = []
                yield from (".TP", f".B {literal(found['term'])}")
                item = [found["text"]]
            elif line:
                plain.append(line)
        if plain:
            yield from wrapped(" ".join(plain))


def option(line: str) -> Iterator[str]:
    found = OPTION.match(line)
    assert found, line
    names = [f"\\-{found['short']}"] if found["short"] else []
    names.append(f"\\-\\-{found['name']}" + ("=" if found["arg"] else ""))
    head = ' ", " '.join(names)
    yield ".TP"
    if found["arg"]:
        yield f".BI {head} {literal(found['arg'])}"
    else:
        yield f".BR {head}" if len(names) > 1 else f".B {head}"
    yield from wrapped(found["text"])


def section(program: str, command: str) -> Iterator[str]:
    text = re.sub(r"\A.*\n( +or: .*\n)*", "", help_of(program, command))
    before, _, rest = text.partition("\n\n")
    options, _, after = rest.partition("\n\n")
    yield f".SH sg_io {command}"
    yield from list(paragraphs(before))[1:]
    for line in re.sub(r"\n {20,}", " ", options).splitlines():
        found = OPTION.match(line)
        if found and found["name"] not in ("help", "usage"):
            yield from option(line)
    yield from (".TP", '.BR \\-\\-help ", " \\-\\-usage',
                "The options, with descriptions or as a short list.")
    if after.strip():
        yield from paragraphs(after)


def page(program: str, path: str) -> str:
    with open(path, encoding="ascii") as file:
        before, begin, rest = file.read().partition(BEGIN)
    _, end, after = rest.partition(END)
    assert begin and end, f"{path}: {BEGIN}"
    made = "".join(f"{line}\n" for command in commands(program)
                   for line in section(program, command))
    return before + BEGIN + made + END + after


if __name__ == "__main__":
    sys.stdout.write(page(*sys.argv[1:]))
