# SPDX-License-Identifier: GPL-2.0
"""The command line of a command, with the help and the messages of argp, which the C part has."""

import getopt
import math
import os
import re
import subprocess
import sys
import textwrap
from typing import NamedTuple, NoReturn

from judge import text

HELP = ("      --usage                Give a short usage message\n",
        "  -?, --help                 Give this help list\n")
SHORT = ("\nMandatory or optional arguments to long options are also mandatory or optional\n"
         "for any corresponding short options.\n")
COLUMN, MARGIN = 29, 79
SIZES = {"k": 10, "m": 20, "g": 30, "t": 40}
REAL_MIN = 0.000001
U64 = (1 << 64) - 1
PATHS = ("sg", "bsg", "bsg-uring", "smq", "block")
MAP_HELP = "Give the commands of OLD, a name in dev=, to NEW; LBAs and lengths are multiplied by " \
    "scale=, then offset= is added to LBAs"
PATTERNS = "zero, ff, byte:N, count, lba, random[:SEED], tag[:SEED[:PASS]]"


class Option(NamedTuple):
    """An option: its name, its argument ("": none), and what --help says."""
    name: str
    arg: str
    what: str
    short: str = ""


def size(word: str) -> int | None:
    """A number, which may end in k, M, G or T; None: it is none."""
    found = re.fullmatch(r"(0[xX][0-9a-fA-F]+|[0-9]+)([kKmMgGtT]?)", word)
    value = (int(found[1], 16 if found[1][:2] in ("0x", "0X") else 10) <<
             SIZES.get(found[2].lower(), 0)) if found else U64 + 1
    return value if value <= U64 else None


class Command(NamedTuple):
    """A command; the options in the order of their names."""
    name: str
    args: str
    does: str
    options: tuple[Option, ...]
    more: str
    hidden: tuple[str, ...] = ()    # long options for sg_io's own use

    def error(self, why: str) -> NoReturn:
        """Ends because of the command line."""
        name = f"sg_io {self.name}"
        print(f"{name}: {why}\nTry `{name} --help' or `{name} --usage' for more information.",
              file=sys.stderr)
        sys.exit(text.USAGE)

    def parse(self, words: list[str]) -> tuple[dict[str, list[str]], list[str]]:
        """The values of each option that is given, by its name, and the other arguments."""
        names = [o.name + ("=" if o.arg else "") for o in self.options]
        letters = "".join(o.short + (":" if o.arg else "") for o in self.options if o.short)
        try:
            found, args = getopt.gnu_getopt(words, f"?{letters}",
                                            [*names, *self.hidden, "help", "usage"])
        except getopt.GetoptError as error:
            dashes = "-" if len(error.opt) == 1 else "--"
            self.error(f"option '{dashes}{error.opt}' requires an argument"
                       if "requires" in error.msg else f"unrecognized option '--{error.opt}'"
                       if "not recognized" in error.msg and dashes == "--" else error.msg)
        values: dict[str, list[str]] = {}
        for given, value in found:
            name = next((o.name for o in self.options if given == f"-{o.short}"),
                        given.lstrip("-"))
            if name in ("help", "?", "usage"):
                print(self.usage() if name == "usage" else self.help(), end="")
                sys.stdout.flush()
                sys.exit(text.GOOD)
            values.setdefault(name, []).append(value)
        return values, args

    def help(self) -> str:
        """What --help prints."""
        margin = re.search(r"rmargin=(\d+)", os.environ.get("ARGP_HELP_FMT", ""))
        width = int(margin[1]) if margin else MARGIN
        lines = [f"Usage: sg_io {self.name} [OPTION...] {self.args}".rstrip() + f"\n{self.does}\n"]
        for o in self.options:
            head = (f"  -{o.short}, " if o.short else " " * 6) + f"--{o.name}"
            head += f"={o.arg}" if o.arg else ""
            what = textwrap.wrap(o.what, width - COLUMN, break_on_hyphens=False)
            if len(head) >= COLUMN:
                lines.append(head)
                head = ""
            lines.append(head.ljust(COLUMN) + what[0])
            lines += [" " * COLUMN + line for line in what[1:]]
        short = SHORT if any(o.short and o.arg for o in self.options) else ""
        return "\n".join(lines) + f"\n{HELP[1]}{HELP[0]}{short}\n{self.more}"

    def usage(self) -> str:
        """What --usage prints."""
        words = ["[-?]", *(f"[--{o.name}{'=' if o.arg else ''}{o.arg}]" for o in self.options),
                 "[--help]", "[--usage]", self.args]
        return textwrap.fill(" ".join(words), MARGIN, initial_indent=f"Usage: sg_io {self.name} ",
                             subsequent_indent=" " * 12, break_on_hyphens=False,
                             break_long_words=False) + "\n"

    def number(self, option: str, word: str, least: int, most: int) -> int:
        """A count or a size."""
        value = size(word)
        if value is None or not least <= value <= most:
            self.error(f"{option}: '{word}' is no number from {least} to {most}")
        return value

    def option(self, given: dict[str, str], name: str, usual: int, least: int, most: int) -> int:
        """The same for an option that has a usual value."""
        return self.number(f"--{name}", given[name], least, most) if name in given else usual

    def real(self, option: str, word: str, most: float) -> float:
        """A decimal fraction above 0."""
        try:
            value = float(word)
        except ValueError:
            value = math.nan
        if not REAL_MIN <= value <= most:
            self.error(f"{option}: '{word}' is no number from {REAL_MIN:.6f} to {most:.0f}")
        return value

    def paths(self, names: list[str]) -> list[str]:
        """Paths to a device. smq-held is an old name."""
        found: list[str] = []
        for name in names:
            if name == "smq-held":
                text.say("--via smq-held: is another name of smq, which gains as much now")
                name = "smq"
            if name not in PATHS:
                self.error(f"--via: '{name}' is not sg, bsg, bsg-uring, smq or block")
            if name in found:
                self.error(f"--via: '{name}' is there twice")
            found.append(name)
        return found

    def check_pattern(self, program: str, pattern: str | None) -> None:
        """Ends if there is no such pattern, of which the C part knows what it means."""
        if pattern is not None:
            done = subprocess.run([program, "assemble", "pattern", pattern],
                                  stdout=subprocess.PIPE, text=True, check=False)
            if done.stdout:
                self.error(f"--pattern: {done.stdout}")
