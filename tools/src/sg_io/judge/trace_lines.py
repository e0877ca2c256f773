# SPDX-License-Identifier: GPL-2.0
"""Lines of other tools' traces: how they are read, and the commands that they become."""

import gzip
import os
import re
import shutil
import subprocess
import sys
import threading
from array import array
from collections.abc import Iterator
from typing import BinaryIO, NoReturn

from judge import text

READ, WRITE, FLUSH, DISCARD, ZEROES, CDB = range(6)     # enum import_op of the C part
FUA = 8                                                 # with READ or WRITE
START, REFUSED, DONE, QUEUED = range(4)     # enum trace_kind of the C part; QUEUED: a
# start, if the device has no other
NO_CPU = 0xffff
MOST_DEVICES, LONGEST_NAME = 64, 63
U64 = (1 << 64) - 1
MOST_BLOCKS = 0xffffffff        # of a CDB of 16 bytes
DISCARD_BLOCKS = MOST_BLOCKS & ~7
HEX = re.compile(rb"0[xX][0-9a-fA-F]+")


class Bad(Exception):
    """A line that cannot be imported. @field: its index; None: it is about no field."""

    def __init__(self, field: int | None, name: str, why: str) -> None:
        super().__init__(why)
        self.field, self.name = field, name


def shown(word: bytes, most: int = 40) -> str:
    """A word of a line in a message."""
    return "'" + os.fsdecode(word[:most]) + "'"


def field(words: list[bytes], i: int, name: str) -> bytes:
    """A field that must be there."""
    if i >= len(words):
        raise Bad(i, name, "missing")
    return words[i]


def number(words: list[bytes], i: int, name: str, most: int = U64) -> int:
    """A decimal or 0x number."""
    word = field(words, i, name)
    if word.isdigit():
        value = int(word)
    elif HEX.fullmatch(word):
        value = int(word, 16)
    else:
        raise Bad(i, name, f"{shown(word)} is no number")
    if value > most:
        raise Bad(i, name, f"{shown(word)} is over {most}")
    return value


def decimal(word: bytes, digits: int) -> int | None:
    """A decimal fraction times 10 to the power of @digits; None if it is none."""
    whole, point, rest = word.partition(b".")
    if len(rest) == digits and whole.isdigit() and rest.isdigit() and len(whole) < 10:
        return int(whole + rest)
    if not whole.isdigit() or (point and not rest.isdigit()):
        return None
    value = int(whole + rest[:digits].ljust(digits, b"0"))
    return value if value <= U64 else None


def time_ns(words: list[bytes], i: int, name: str, digits: int) -> int:
    """A time in units of 10 to the power of @digits ns."""
    value = decimal(field(words, i, name), digits)
    if value is None:
        raise Bad(i, name, f"{shown(words[i])} is no time")
    return value


class Trace:
    """The commands of a trace as columns: their starts and ends."""

    def __init__(self, block_size: int, only: bytes | None) -> None:
        self.block_size, self.only = block_size, only
        self.devs: dict[bytes, int] = {}
        self.lost = False               # the tool that made it lost events
        self.left_out: dict[str, int] = {}
        self.first: int | None = None   # the time of the first event
        self.ns, self.lba, self.blocks = array("q"), array("Q"), array("I")
        self.tag, self.cpu = array("i"), array("H")
        self.kind, self.op, self.dev = array("B"), array("B"), array("B")
        self.cdbs: list[bytes] = []     # of events with CDB: lba is their place here
        self.dispatched: set[int] = set()   # devices whose QUEUED events are no starts

    def leave_out(self, why: str) -> None:
        """Counts a line that is no command of the device, or none that can be described."""
        self.left_out[why] = self.left_out.get(why, 0) + 1

    def device(self, name: bytes) -> int:
        """The index of a device, a new one if needed."""
        dev = self.devs.get(name)
        if dev is not None:
            return dev
        if not 0 < len(name) <= LONGEST_NAME or set(name) & set(b" \t#"):
            raise Bad(None, "device", f"{shown(name, 80)} cannot be a name in dev=: 1 to "
                      f"{LONGEST_NAME} characters, without blanks and #")
        if len(self.devs) == MOST_DEVICES:
            raise Bad(None, "device", f"{os.fsdecode(name)} is one more than {MOST_DEVICES}; "
                      "--only NAME imports the commands of one")
        return self.devs.setdefault(name, len(self.devs))

    def size(self, words: list[bytes], i: int, name: str, unit: int) -> int:
        """A number of @unit bytes each, as blocks."""
        word = words[i] if i < len(words) else b""
        if word.isdigit() and len(word) < 15:
            size = int(word) * unit
        else:
            size = number(words, i, name, U64 // unit) * unit
        if size % self.block_size:
            raise Bad(i, name, f"{size} bytes are no whole number of blocks of {self.block_size} "
                      "bytes")
        return size // self.block_size

    def event(self, kind: int, op: int, dev: int, ns: int, lba: int, blocks: int, cpu: int,
              tag: int) -> None:
        """The start or the end of a command."""
        if blocks > MOST_BLOCKS or lba + blocks > U64:
            if op == DISCARD and lba + blocks <= U64:
                while blocks:
                    part = min(blocks, DISCARD_BLOCKS)
                    self.event(kind, op, dev, ns, lba, part, cpu, tag)
                    lba, blocks = lba + part, blocks - part
                return
            raise Bad(None, "size", f"{blocks} blocks at LBA {lba} are more than a CDB can have")
        if self.first is None:
            self.first = ns
        try:
            self.ns.append(ns - self.first)
        except OverflowError:
            raise Bad(None, "time", "is more than 292 years from that of the first line") from None
        self.kind.append(kind)
        self.op.append(op)
        self.dev.append(dev)
        self.lba.append(lba)
        self.blocks.append(blocks)
        self.cpu.append(cpu)
        self.tag.append(tag)

    def io(self, op: int, name: bytes, ns: int, took: int, lba: int, blocks: int) -> None:
        """A command whose start and, unless @took is 0, end are known."""
        if ns + took > U64:
            raise Bad(None, "time", "the end is beyond what 64 bits of nanoseconds can have")
        dev = self.device(name)
        # No other command has this tag, so that the end finds its start at once.
        tag = len(self.ns) & 0x7fffffff
        self.event(START, op, dev, ns, lba, blocks, NO_CPU, tag)
        if took:
            self.event(DONE, op, dev, ns + took, lba, blocks, NO_CPU, tag)


class Format:
    """A format of traces. Times are in ns."""
    name = ""
    what = ""

    def __init__(self, trace: Trace) -> None:
        self.trace = trace

    def first_line(self, line: bytes) -> bool:
        """Reads the first line. Return: whether it was another than the rest."""
        return False

    def line(self, line: bytes) -> None:
        """Reads a line that is not empty."""
        raise NotImplementedError


def uncompressed(stream: BinaryIO, name: str) -> BinaryIO:
    """The stream, or what it holds if gzip or zstd made it."""
    magic = stream.peek(4)[:4]      # type: ignore[attr-defined]
    if magic[:2] == b"\x1f\x8b":
        return gzip.open(stream)    # type: ignore[return-value]
    if magic != b"\x28\xb5\x2f\xfd":
        return stream
    try:
        # pylint: disable-next=consider-using-with
        process = subprocess.Popen(["zstd", "-dcq"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    except OSError:
        raise text.Ended(text.USAGE, f"{name}: was made by zstd, which is not installed") from None
    assert process.stdin and process.stdout

    def feed(to: BinaryIO) -> None:
        with to:
            shutil.copyfileobj(stream, to)
    threading.Thread(target=feed, args=(process.stdin,), daemon=True).start()
    return process.stdout           # type: ignore[return-value]


def lines_of(stream: BinaryIO) -> Iterator[tuple[int, bytes]]:
    """The lines that are not empty, with their numbers."""
    for n, line in enumerate(stream, 1):
        line = line.rstrip(b"\r\n")
        if n == 1 and line.startswith(b"\xef\xbb\xbf"):
            line = line[3:]
        if line and not line.isspace():
            yield n, line


def read(form: Format, stream: BinaryIO, name: str) -> None:
    """Reads a trace; ends with a message if a line cannot be imported."""
    n, first = 0, True

    def fail(error: Bad) -> NoReturn:
        where = error.name if error.field is None else f"field {error.field + 1} ({error.name})"
        raise text.Ended(text.USAGE, f"{name}:{n}: {where}: {error}") from None
    try:
        line_of = form.line
        for n, line in lines_of(uncompressed(stream, name)):
            if b"\0" in line:
                raise Bad(None, "line", "holds a NUL byte")
            if first:
                first = False
                if form.first_line(line):
                    continue
            line_of(line)
    except Bad as error:
        fail(error)
    except (EOFError, gzip.BadGzipFile, gzip.zlib.error) as error:  # type: ignore[attr-defined]
        raise text.Ended(text.USAGE, f"{name}: {error}") from None
    except OSError as error:
        raise text.input_error(name, error) from None


def open_input(path: str) -> BinaryIO:
    """A file, or standard input."""
    try:
        return sys.stdin.buffer if path == "-" else open(path, "rb")
    except OSError as error:
        raise text.input_error(path, error) from None
