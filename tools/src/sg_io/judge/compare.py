# SPDX-License-Identifier: GPL-2.0
"""sg_io compare: the same commands through each path, in turns. Each turn is an sg_io run in a
process of its own, so threads, rings and open files of one path are gone before the next turn."""

import collections
import json
import os
import shutil
import stat
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

from judge import text
from judge.child import Children, status
from judge.options import PATHS, Command, Option, size

# The kinds of nodes, in the order in which sg_io nodes prints them, and those of each path.
KINDS = ("sg", "bsg", "block", "smq")
NODES = {"bsg-uring": ("bsg", "smq")} | {kind: (kind,) for kind in KINDS}

COMMAND = Command(
    "compare", "DEV FILE",
    "Issue the commands of FILE ('-': standard input) to DEV through each path.",
    (Option("batch", "N", "With io_uring: submit and wait in groups of N (1)"),
     Option("count", "N", "Commands of a turn; FILE repeats if it has fewer (FILE once; no limit "
            "with --time)"),
     Option("depth", "N", "Commands that each job has in flight (1)"),
     Option("fold-cpus", "", "If this process may not run on CPU N of cpu=N, use the CPU at place "
            "N, modulo their number, of those it may run on"),
     Option("force", "", "Write to a disk that is in use or has data"),
     Option("jobs", "N", "Threads that share the work (1)"),
     Option("json", "", "A JSON list with one object for each path"),
     Option("memory", "MIB", "Limit of the memory for data (1024)"),
     Option("poll", "", "Paths smq and block, and bsg-uring on an smqsg node: poll for completions "
            "in the host's poll queues"),
     Option("rate", "N", "The most commands per second"),
     Option("rounds", "N", "How many turns each path has (5)"),
     Option("time", "SECONDS", "Stop after this time; it may end in s, m or h"),
     Option("unchecked", "", "Accept a direction and BYTES that contradict the CDB or the disk's "
            "block size, for tests of residuals"),
     Option("via", "PATH,...", "Only these paths; ratios refer to the first (all paths)")),
    """\
In every round each path that works for DEV has one turn: an 'sg_io run' of
its own. Every second round uses the reverse order. 'sg_io run --help'
describes the paths and options. A turn issues FILE once, or as often as
--count or --time says. bsg-uring has two turns, one on the bsg node and one
on the smqsg node. A path that cannot run is listed with the reason.

ns/command is the time of a turn divided by the number of its commands: the
median of all rounds, and the lowest and the highest. At a --depth above 1
this is not the latency of a command. ratio is the median divided by the
median of the first path that ran; below 1 is faster. Preparing the commands
is not part of the time.

Example:
  sg_io gen --op read10 --blocks 8 --count 1000 --random 1 >reads.cdb
  sg_io compare --depth 32 --batch 16 /dev/sg0 reads.cdb

'sg_io --help' describes the format of FILE and the exit statuses. The exit
statuses 0 and 1 are about the paths that ran. If none ran, the exit status is
that of the first path.
""")
OWN = ("json", "rounds", "via")     # the rest are options of sg_io run


class Contestant:
    """A path and its node. @node is empty if the device has none of this kind."""

    def __init__(self, via: str, node: str, why: str) -> None:
        self.via, self.node = via, node
        self.why = why                          # why it does not run, or no longer runs
        self.status = text.DEVICE if why else text.GOOD
        self.rounds: list[dict[str, Any]] = []  # what sg_io run --json printed

    def ns(self) -> list[float]:
        """Per command, of each turn."""
        return [r["seconds"] * 1e9 / r["commands"] for r in self.rounds]

    @property
    def median(self) -> int:
        """The turn with the median; of an even number the lower one of the two in the middle."""
        ns = self.ns()
        return sorted(range(len(ns)), key=lambda i: ns[i])[(len(ns) - 1) // 2]

    @property
    def ns_median(self) -> float:
        return self.ns()[self.median]

    def total(self, key: str) -> Any:
        return sum(r[key] for r in self.rounds)

    @property
    def bad(self) -> int:
        """How many commands failed, in all turns."""
        return sum(r["commands"] - r["status"]["GOOD"] for r in self.rounds)

    def take_turn(self, children: Children, words: list[str], copy: int | None) -> None:
        """Runs sg_io run once."""
        if copy is not None:
            os.lseek(copy, 0, os.SEEK_SET)
        child = children.start(words, stdin=subprocess.DEVNULL if copy is None else copy,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        out, messages = child.communicate()
        self.status = status(child)
        if self.status <= text.NOT_GOOD:
            result = json.loads(out)
            if result["commands"]:
                self.rounds.append(result)
                return
        # The last message is the error: warnings come before it.
        last = messages.decode(errors="replace").rstrip("\n").rpartition("\n")[2]
        self.why = last.removeprefix("sg_io: ") or f"ended with status {self.status}"

    def errors(self) -> list[dict[str, Any]]:
        """Those of all rounds; equal ones are counted together."""
        found: dict[str, dict[str, Any]] = {}
        for error in (error for r in self.rounds for error in r["errors"]):
            one = found.setdefault(error["text"], error | {"count": 0})
            one["count"] += error["count"]
        return list(found.values())

    def json(self, device: str, base: float) -> dict[str, Any]:
        """What sg_io run prints, for all rounds; latencies are those of the median round."""
        ns = self.ns()
        statuses = collections.Counter({"GOOD": 0})
        for r in self.rounds:
            statuses.update(r["status"])
        commands, seconds = self.total("commands"), self.total("seconds")
        return {
            "path": self.via, "device": device, "node": self.node or None, "rounds": len(ns),
            "commands": commands, "seconds": round(seconds, 6),
            "iops": round(commands / seconds, 6) if seconds else 0,
            "lat_ns": self.rounds[self.median]["lat_ns"] if ns else None, "status": statuses,
            "errors": self.errors(), "ns_per_command": round(self.ns_median, 1) if ns else None,
            "ns_lowest": round(min(ns), 1) if ns else None,
            "ns_highest": round(max(ns), 1) if ns else None,
            "ratio": round(self.ns_median / base, 4) if ns else None, "why": self.why or None}

    def lines(self, base: float) -> Iterator[str]:
        """Its rows of the table."""
        head = f"{self.via:10} {self.node or '-':18}"
        if self.rounds:
            ns = self.ns()
            yield (f"{head} {self.total('commands'):9} {self.ns_median:10.0f} "
                   f"{f'{min(ns):.0f}..{max(ns):.0f}':>21} {self.ns_median / base:6.2f} "
                   f"{self.bad:8}")
        if self.why:
            # The table shows the node, with which the reason may begin.
            yield (f"{head} {'ended early' if self.rounds else 'does not run'}: "
                   f"{self.why.removeprefix(self.node + ': ')}")


def copy_input(path: str) -> int | None:
    """A copy of a file that can be read only once (a pipe, for example): every turn reads it."""
    standard = path in ("-", "/dev/stdin")
    try:
        with open(0 if standard else path, "rb", closefd=not standard) as file:
            mode = os.fstat(file.fileno()).st_mode
            if not (standard or stat.S_ISFIFO(mode) or stat.S_ISCHR(mode) or stat.S_ISSOCK(mode)):
                return None
            copy = os.memfd_create("commands")
            with open(copy, "wb", closefd=False) as out:
                shutil.copyfileobj(file, out)
            os.lseek(copy, 0, os.SEEK_SET)
            return copy
    except OSError as error:
        raise text.input_error("standard input" if standard else path, error) from None


def contestants(program: str, vias: list[str], words: list[str], dev: str, copy: int | None
                ) -> list[Contestant]:
    """The paths. Ends if options, file or device are wrong, so that this is reported only once."""
    done = subprocess.run([program, "nodes", *words], stdin=copy, stdout=subprocess.PIPE,
                          check=False)
    if done.returncode:
        sys.exit(done.returncode)
    nodes = dict(zip(KINDS, os.fsdecode(done.stdout).split("\n")))
    hint = {"smq": " (modprobe smq_sg)"}
    return [Contestant(via, nodes[kind], "" if nodes[kind] else
                       f"{dev} has no {kind} node{hint.get(kind, '')}")
            for via in vias for kind in NODES[via]]


def compete(children: Children, all_: list[Contestant], rounds: int,
            words: tuple[list[str], list[str], str], copy: int | None) -> int:
    """Runs all turns. Return: the signal that ended the comparison early, or 0."""
    before, options, file = words
    for nth in range(rounds):
        # The order alternates, so that drift affects all paths alike.
        for c in reversed(all_) if nth % 2 else all_:
            if c.why:
                continue
            if os.isatty(2):
                os.write(2, f"\rround {nth + 1} of {rounds}: {c.via} {c.node}\033[K".encode())
            c.take_turn(children, [*before, f"--via={c.via}", *options, "--", c.node, file], copy)
            if children.caught:
                break
        if children.caught:
            break
    if os.isatty(2):
        os.write(2, b"\r\033[K")
    return children.caught


def conclude(all_: list[Contestant]) -> int:
    """The exit status."""
    ran = [c for c in all_ if c.rounds]
    if not ran:
        return all_[0].status or text.DEVICE
    # The path ran in some rounds, but could not run in a later one.
    if any(c.why for c in ran):
        return text.DEVICE
    return text.NOT_GOOD if any(c.bad for c in ran) else text.GOOD


def main(program: str, words: list[str]) -> int:
    given, args = COMMAND.parse(words)
    last = {name: values[-1] for name, values in given.items()}
    vias = COMMAND.paths(last["via"].split(",")) if "via" in last else list(PATHS)
    rounds = COMMAND.option(last, "rounds", 5, 1, 1000)
    if len(args) > 2:
        COMMAND.error(f"'{args[2]}': one device at a time")
    options = [f"--{name}" + (f"={value}" if value else "") for name, value in last.items()
               if name not in OWN]
    copy, file = None, args[-1] if args else ""
    if len(args) == 2 and not os.path.isfile(args[0]):
        copy = copy_input(args[1])
        file = "-" if copy is not None else file
    all_ = contestants(program, vias, [*options, "--", *args[:-1], file] if args else [], args[0] if
                       args else "", copy)
    with Children() as children:
        caught = compete(children, all_, rounds, ([program, "run", "--json"], options, file), copy)
    base = next((c.ns_median for c in all_ if c.rounds), 1.0)
    if "json" in given:
        json.dump([c.json(args[0], base) for c in all_], sys.stdout, ensure_ascii=False, indent=2)
        print()
    else:
        print(f"{args[0]}: {rounds} rounds, " + ", ".join(
            f"{name} {size(last.get(name, '1'))}" for name in ("depth", "batch", "jobs")))
        print("path       node                commands ns/command       lowest..highest  ratio "
              "not good")
        print("\n".join(line for c in all_ for line in c.lines(base)))
    return 128 + caught if caught else conclude(all_)
