# SPDX-License-Identifier: GPL-2.0
"""sg_io import: a command file from what another tool recorded. The C part writes it, as it writes
a recording: import/assemble.c."""

import os
import subprocess
import sys
from collections.abc import Iterator

import numpy as np

from judge import text, trace_lines
from judge.columns import Numbers
from judge.formats import FORMATS
from judge.options import PATTERNS, Command, Option

SLAB = 1 << 16      # events that are handed over at a time
EVENT = np.dtype([("ns", "u8"), ("lba", "u8"), ("blocks", "u4"), ("tag", "i4"), ("cpu", "u2"),
                  ("kind", "u1"), ("op", "u1"), ("dev", "u1"), ("cdb", "V34"), ("unused", "V1")])

COMMAND = Command(
    "import", "FILE",
    "Write a command file from what another tool recorded in FILE ('-': standard\ninput).",
    (Option("block-size", "BYTES", "The size of the blocks of the commands (512); offsets and "
            "sizes that are no multiple of it are errors"),
     Option("from", "FORMAT", "What FILE is: blkparse, fio, hfplayer, msr, snia or tracepoints; "
            "--from help says more"),
     Option("json", "", "The summary as a JSON object; needs --output"),
     Option("only", "NAME", "Only the commands of this device of FILE"),
     Option("output", "FILE", "The file to write (standard output)", "o"),
     Option("pattern", "NAME", f"Data-out of WRITEs in the file: {PATTERNS} (lba)")),
    """\
Each read, write, flush or discard becomes a line with at=, the time since the
first one. If FILE has them, the line has the CPU (cpu=), and how long the
command took (took=). A file of several devices has dev= in each line. A
discard becomes a WRITE SAME(16) with the UNMAP bit, or several if it is too
large for one, a flush a SYNCHRONIZE CACHE. The lines are in the order of time.
FILE may be compressed by gzip or zstd.

A line of FILE that cannot be read ends the import with a message that names
the line and the field, and nothing is written. What is no command of the
device, or none that a command file can have, is left out and counted: then the
exit status is 1. These are commands of programs and for zones in a trace of
blktrace, and those whose kind is blank in a SNIA trace.

Example, with what 'blkparse -q -i sda' has printed:
  sg_io import --from blkparse --output load.cdb sda.txt
""")


def find_format(name: str) -> str:
    """A format, or a list of all."""
    if name == "help":
        for form in FORMATS.values():
            print(f"{form.name:12} {form.what}")
        sys.stdout.flush()
        sys.exit(text.GOOD)
    if name not in FORMATS:
        COMMAND.error(f"--from: '{name}' is not known; --from help lists the formats")
    return name


def events(trace: trace_lines.Trace) -> Iterator[Numbers]:
    """The events in the order of their times, and those of equal times in that of the file."""
    ns = np.frombuffer(trace.ns, "i8")
    order = np.argsort(ns, kind="stable").astype("u4")
    dev = np.frombuffer(trace.dev, "u1")
    if trace.only is not None:
        order = order[dev[order] == trace.devs.get(trace.only, -1)]
    queued = np.frombuffer(trace.kind, "u1") == trace_lines.QUEUED
    if queued.any():
        order = order[~(queued & np.isin(dev, list(trace.dispatched)))[order]]
    start = ns[order[0]] if len(order) else 0
    columns = {name: np.frombuffer(getattr(trace, name), EVENT[name]) for name in EVENT.names or ()
               if name not in ("ns", "cdb", "unused")}
    for begin in range(0, len(order), SLAB):
        part = order[begin:begin + SLAB]
        rows = np.zeros(len(part), EVENT)
        rows["ns"] = (ns[part] - start).view("u8")
        for name, column in columns.items():
            rows[name] = column[part]
        rows["kind"][queued[part]] = trace_lines.START
        if trace.cdbs:
            rows["cdb"] = [np.void(trace.cdbs[i]) for i in columns["lba"][part]]
        yield rows


def assemble(words: list[str], trace: trace_lines.Trace) -> int:
    """Gives the events to the C part, which writes the file and the summary."""
    sys.stdout.flush()
    with subprocess.Popen(words, stdin=subprocess.PIPE) as process:
        assert process.stdin
        try:
            process.stdin.write(b"%d\n" % len(trace.devs))
            for name in trace.devs:
                process.stdin.write(name + b"\0")
            for rows in events(trace):
                process.stdin.write(rows.tobytes())
            process.stdin.close()
        except BrokenPipeError:
            pass    # it has said why
    return process.returncode if process.returncode >= 0 else 128 - process.returncode


def main(program: str, words: list[str]) -> int:
    given, args = COMMAND.parse(words)
    last = {name: values[-1] for name, values in given.items()}
    for name in given.get("from", []):
        find_format(name)
    block_size = COMMAND.option(last, "block-size", 512, 1, 1 << 20)
    pattern, output = last.get("pattern", ""), last.get("output", "")
    if len(args) > 1:
        COMMAND.error(f"'{args[1]}': one file at a time")
    COMMAND.check_pattern(program, last.get("pattern"))
    if "from" not in last:
        COMMAND.error("--from FORMAT is needed; --from help lists the formats")
    if not args:
        COMMAND.error("FILE is missing")
    if "json" in last and not output:
        COMMAND.error("--json prints the summary to standard output; give --output FILE for the "
                      "commands")
    path = args[0]
    shown = "standard input" if path == "-" else path
    only = os.fsencode(last["only"]) if "only" in last else None
    trace = trace_lines.Trace(block_size, only)
    with trace_lines.open_input(path) as stream:
        text.check_output("--output", output or None, [path])
        trace_lines.read(FORMATS[last["from"]](trace), stream, shown)
    left_out = [word for why, count in trace.left_out.items() for word in (str(count), why)]
    return assemble([program, "assemble", "commands", last["from"], shown, output, pattern,
                     last.get("only", ""), str(block_size), str(int("json" in last)),
                     str(int(trace.lost)), *left_out], trace)
