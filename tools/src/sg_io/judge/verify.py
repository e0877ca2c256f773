# SPDX-License-Identifier: GPL-2.0
"""sg_io verify: whether a device has the data that the commands of a file wrote. The C part,
verify/readback.c, reads the file and the device."""

import json
import socket
import struct
import sys
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from judge import tags, text
from judge.child import Children, status
from judge.columns import Numbers
from judge.options import MAP_HELP, Command, Option

KNOWN, SAME, SECOND = 1, 2, 4               # enum extent_flag of the C part
BLOCKS, RESULT, STATUS = range(3)           # enum answer
EXTENT = np.dtype([("lba", "u8"), ("end", "u8"), ("cmd", "u4"), ("line", "u4"), ("dev", "u1"),
                   ("flags", "u1"), ("unused", "V6")])
PART = np.dtype([("lba", "u8"), ("end", "u8"), ("cmd", "u8")])
READ = np.dtype([("lba", "u8"), ("blocks", "u4"), ("part", "u4")])
SLAB = 1 << 22                              # bytes of blocks that are judged at a time
READ_BYTES, FEW_READS = 56, 1024            # of memory for one READ, and how many there is room for

COMMAND = Command(
    "verify", "DEV... FILE\n  or:  sg_io verify [OPTION...] --map OLD=NEW... [DEV...] FILE",
    "Compare DEV with what the commands of FILE ('-': standard input) wrote.",
    (Option("depth", "N", "READs that each job has in flight (8)"),
     Option("jobs", "N", "Threads that share the work (1)"),
     Option("json", "", "One JSON object on standard output"),
     Option("map", "OLD=NEW[,offset=BLOCKS][,scale=X]", MAP_HELP),
     Option("memory", "MIB", "Limit of the memory for data (1024)"),
     Option("via", "PATH",
            "sg, bsg, bsg-uring, smq or block (the path of the kind of node given)")),
    """\
Nothing is written. Each block that a WRITE, WRITE AND VERIFY, WRITE SAME or
COMPARE AND WRITE of FILE has written is read and compared with its data= or
pattern=. If several commands wrote a block, the last line counts, as after
'sg_io run' with --depth 1. Blocks that were unmapped or formatted afterwards
are not compared. Each block that differs is reported, with the line that
wrote it. Blocks that differ are read once more, and the report says whether
they healed.

A block that pattern=tag wrote says which write it is from. So the report
says of a block that should have a tag: stale, from an earlier line of FILE;
empty, only zeroes; misplaced, written for another LBA; other, from a later
write or one with another seed; torn, parts of several writes; or corrupt.

With several DEVs or --map as in 'sg_io replay' each device is compared with
what went to it; --json prints an object for each.

Example:
  sg_io gen --op write10 --count 100 --pattern random:1 >writes.cdb
  sg_io run /dev/sg0 writes.cdb
  sg_io verify /dev/sg0 writes.cdb

Exit status: 0 all blocks have that data, 1 some differ or could not be read.
'sg_io --help' describes the format of FILE and the other exit statuses.
""")


def last_writers(first: Numbers, end: Numbers) -> tuple[Numbers, Numbers]:
    """The LBAs at which another one of these writes may be the last, and which one is the last from
    there on; -1: none. Writes are in the order in which they were issued."""
    edges = np.unique(np.concatenate((first, end)))
    low, high = np.searchsorted(edges, first), np.searchsorted(edges, end)
    # What covers N edges covers two pieces of the same power of two of them.
    power = np.frexp(high - low)[1] - 1
    last = np.full(len(edges), -1, "i8")
    top = int(power.max(initial=0))
    for level in range(top, -1, -1):
        size = 1 << level
        if level < top:
            # A piece of twice this size has two of this size.
            last[size:] = np.maximum(last[size:], last[:-size])
        mine = np.flatnonzero(power == level)
        for at in low[mine], high[mine] - size:
            later = mine > last[at]
            # Of several the last one stays.
            last[at[later]] = mine[later]
    return edges, last


def find_parts(extents: Numbers) -> tuple[Numbers, Numbers]:
    """What is last written by one command with known data, in the order of the LBAs; and for each
    its extent."""
    edges, last = last_writers(extents["lba"], extents["end"])
    begin = np.flatnonzero(np.diff(last, prepend=-2))
    lba, end, last = edges[begin], np.append(edges[begin[1:]], edges[-1:]), last[begin]
    known = (last >= 0) & (extents["flags"][last] & KNOWN > 0)
    parts = np.zeros(known.sum(), PART)
    parts["lba"], parts["end"], rows = lba[known], end[known], last[known]
    parts["cmd"] = extents["cmd"][rows]
    return parts, rows


def make_reads(parts: Numbers, most: int) -> Numbers:
    """READs of at least one part, as large as possible: one may have several parts."""
    apart = np.append(True, parts["lba"][1:] != parts["end"][:-1])
    lba, end = parts["lba"][apart], parts["end"][np.append(apart[1:], True)]
    nr = ((end - lba + np.uint64(most - 1)) // np.uint64(most)).astype("i8")
    reads = np.zeros(nr.sum(), READ)
    nth = np.arange(nr.sum()) - np.repeat(np.cumsum(nr) - nr, nr)
    reads["lba"] = np.repeat(lba, nr) + nth.astype("u8") * np.uint64(most)
    reads["blocks"] = np.minimum(np.repeat(end, nr) - reads["lba"], np.uint64(most))
    reads["part"] = np.searchsorted(parts["end"], reads["lba"], "right")
    return reads


class Difference(NamedTuple):
    """Adjacent wrong blocks that were written by one command."""
    lba: int
    blocks: int
    row: int            # the extent
    offset: int         # of the first wrong byte in the first block
    found: int
    expected: int
    verdict: int
    tag: tuple[int, int, int, int]      # LBA, seed, pass, line; of the first block
    next: tuple[int, int, int, int]     # TORN: of what comes after @at bytes
    at: int
    want: tuple[int, int, int, int]

    def goes_on(self, other: "Difference") -> bool:
        """Whether the next one can be reported together with this one."""
        if other[:3:2] != (self.lba + self.blocks, self.row) or other.verdict != self.verdict:
            return False
        if self.verdict in (tags.PLAIN, tags.EMPTY, tags.CORRUPT):
            return True
        # The blocks of a WRITE SAME have the same LBA in their tags.
        return self.verdict != tags.TORN and self.tag[1:] == other.tag[1:] and \
            other.tag[0] - self.tag[0] in (0, self.blocks)

    def tag_text(self, tag: tuple[int, int, int, int]) -> str:
        lba, seed, nr, line = tag
        if not line:
            return "zeroes"
        of = f" of pass {nr}, seed {seed}" if (seed, nr) != self.want[1:3] else ""
        return f"line {line}{of}" + (f" for LBA {lba}" if lba != self.lba else "")

    def what(self) -> str:
        """What the blocks have."""
        byte = (f"byte {self.offset}{' of the first' if self.blocks > 1 else ''} is "
                f"{self.found:02X}h, not {self.expected:02X}h")
        name = tags.NAMES[self.verdict]
        if name is None or self.verdict == tags.CORRUPT:
            return f"{name}, {byte}" if name else byte
        more = f", from byte {self.at} on {self.tag_text(self.next)}" \
            if self.verdict == tags.TORN else ""
        return f"{name}, has {self.tag_text(self.tag)}{more}"

    def json(self) -> dict[str, Any]:
        """The members that only blocks with tags have; null for other blocks."""
        torn = self.verdict == tags.TORN
        has = [] if self.verdict in (tags.PLAIN, tags.EMPTY, tags.CORRUPT) else \
            [self.tag] + [self.next] * torn
        return {"verdict": tags.NAMES[self.verdict], "tags": [
            dict(zip(("lba", "seed", "pass", "line"), tag)) if tag[3] else None for tag in has],
            "torn_at": self.at if torn else None}


def join(found: Iterator[Difference]) -> Iterator[Difference]:
    """Joins those that can be reported together."""
    last = next(found, None)
    for one in found:
        assert last
        if last.goes_on(one):
            last = last._replace(blocks=last.blocks + one.blocks)
        else:
            yield last
            last = one
    if last:
        yield last


class Readback:
    """The C part, which has read the file."""

    def __init__(self, children: Children, program: str, words: list[str]) -> None:
        ours, theirs = socket.socketpair()
        with theirs:
            self.child = children.start([program, "readback", str(theirs.fileno()), *words],
                                        pass_fds=(theirs.fileno(),))
        self.ask, self.out = ours.makefile("wb"), ours.makefile("rb")
        ours.close()
        nr, targets = map(int, self.line())
        self.disks = [tuple(map(int, self.line())) for _ in range(targets)]
        self.extents = np.empty(nr, EXTENT)
        self.read(self.extents.view("u1"))
        self.result: dict[str, Any] = {}
        self.status = text.DEVICE

    def line(self) -> list[bytes]:
        return self.out.readline().split() or self.ended()

    def ended(self) -> Any:
        """It ended after a message."""
        raise SystemExit(status(self.child) or text.DEVICE)

    def read(self, into: Any) -> Any:
        if self.out.readinto(into) < len(into):
            self.ended()
        return into

    def blocks(self, dev: int, parts: Numbers, reads: Numbers, right: bool = False
               ) -> Iterator[Numbers]:
        """Reads parts; the blocks with wrong data, or @right ones. Then there are result and
        status."""
        size = self.disks[dev][0]
        block = np.dtype([("lba", "u8"), ("part", "u8"), ("found", "u1", (size,)),
                          ("expected", "u1", (size,))])
        self.result = {}
        try:
            self.ask.write(struct.pack("IIQQ", dev, right, len(parts), len(reads)))
            for some in parts, reads:
                self.ask.write(some.data)
            self.ask.flush()
        except BrokenPipeError:
            self.ended()
        kind, wrong = BLOCKS, bytearray()
        while kind != STATUS:
            kind, nr = struct.unpack("II", self.read(bytearray(8)))
            if kind == BLOCKS:
                wrong += self.read(bytearray(nr * block.itemsize))
            elif kind == RESULT:
                self.result = json.loads(self.read(bytearray(nr)))
            # Those of many READs together: judging a few takes as long.
            if wrong and (kind != BLOCKS or len(wrong) >= SLAB):
                yield np.frombuffer(wrong, block)
                wrong = bytearray()
        self.status = nr


class Verification:
    """Of one device. @path: the file in messages."""

    def __init__(self, back: Readback, dev: int, memory: int, path: str) -> None:
        self.back, self.dev, self.path = back, dev, path
        _, self.most, unclear = back.disks[dev]
        self.extents = back.extents[back.extents["dev"] == dev]
        if unclear:
            text.say(f"{path}: what {unclear} commands wrote, if anything, is not known")
        self.parts, self.rows = find_parts(self.extents)
        if not len(self.parts):
            raise text.Ended(text.USAGE, f"{path}: writes no block that could be compared")
        self.total = int((self.parts["end"] - self.parts["lba"]).sum())
        reads = make_reads(self.parts, self.most)
        room = FEW_READS
        while 2 * room * READ_BYTES <= memory << 20:
            room *= 2
        if len(reads) > room:
            raise text.Ended(text.USAGE, f"{path}: more than {room} READs of the blocks that it "
                             f"wrote need more than {memory} MiB (--memory)")
        self.differ = 0
        found = (one for some in back.blocks(dev, self.parts, reads) for one in self.judge(some))
        self.differences = list(join(iter(sorted(join(found)))))
        self.result, self.status = back.result, back.status
        self.unread = self.total - self.result.get("read", 0)
        # By the place in the list, how many blocks had the right data when they were read again.
        self.healed: Numbers | None = None

    def judge(self, some: Numbers) -> Iterator[Difference]:
        """What wrong blocks have."""
        self.differ += len(some)
        rows = self.rows[some["part"]]
        f, want = tags.find(some["found"], some["expected"])
        offset = (some["found"] != some["expected"]).argmax(1)
        nth = np.arange(len(some))
        # A WRITE SAME writes the LBA of its first block to all its blocks.
        lines = self.extents["line"]
        at = np.minimum(np.searchsorted(lines, f.tag["line"]), len(lines) - 1)
        writer, lba = self.extents[at], some["lba"]
        has = np.where(writer["flags"] & SAME > 0, writer["lba"], lba + np.where(
            writer["flags"] & SECOND > 0, writer["end"] - writer["lba"], np.uint64(0)))
        stale = (f.verdict == tags.MISPLACED) & (writer["line"] == f.tag["line"]) & (
            f.tag["line"] < want["line"]) & (f.tag["seed"] == want["seed"]) & (
            f.tag["pass"] == want["pass"]) & (writer["lba"] <= lba) & (lba < writer["end"]) & (
            f.tag["lba"] == has)
        verdict = np.where(stale, tags.STALE, f.verdict)
        columns = (lba, rows, offset, some["found"][nth, offset], some["expected"][nth, offset],
                   verdict, f.tag, f.next, f.at, want)
        for at_lba, *rest in zip(*(column.tolist() for column in columns)):
            yield Difference(at_lba, 1, *rest)

    def read_again(self) -> None:
        """Reads the blocks that differ once more."""
        parts = np.array([(d.lba, d.lba + d.blocks, self.extents["cmd"][d.row])
                          for d in self.differences], PART)
        healed = np.zeros(len(parts), "i8")
        for some in self.back.blocks(self.dev, parts, make_reads(parts, self.most), right=True):
            healed += np.bincount(some["part"].astype("i8"), minlength=len(parts))
        if self.back.result:
            self.healed = healed

    def lines(self) -> Iterator[str]:
        """The report as text."""
        r, good = self.result, self.result["read"] - self.differ
        yield (f"{r['device']} via {r['path']}: {good} of the {self.total} blocks that {self.path} "
               f"writes have the data it wrote last, {self.differ} differ, {self.unread} could not "
               "be read")
        for i, d in enumerate(self.differences):
            to = f" to {d.lba + d.blocks - 1}" if d.blocks > 1 else ""
            again = ""
            if self.healed is not None:
                n = self.healed[i]
                again = "; read again: " + (
                    "healed" if n == d.blocks else f"{n} of {d.blocks} healed" if n else
                    "not healed")
            yield f"  LBA {d.lba}{to}, line {self.extents['line'][d.row]}: {d.what()}{again}"
        for error in r["errors"]:
            yield f"  READ: {error['count']} x {error['text']}; first for line {error['line']}"

    def json(self) -> dict[str, Any]:
        differences = [{
            "lba": d.lba, "blocks": d.blocks, "line": int(self.extents["line"][d.row]),
            "offset": d.offset, "found": d.found, "expected": d.expected, **d.json(),
            "healed": None if self.healed is None else int(self.healed[i])}
            for i, d in enumerate(self.differences)]
        result = {name: value for name, value in self.result.items() if name != "read"}
        return result | {"blocks": self.total, "differ": self.differ, "unread": self.unread,
                         "differences": differences}


def verify(back: Readback, dev: int, memory: int, path: str) -> Verification:
    """Compares a device, and reads what differs again."""
    v = Verification(back, dev, memory, path)
    if v.differences and v.result and v.status <= text.NOT_GOOD:
        v.read_again()
    return v


def main(program: str, words: list[str]) -> int:
    given, args = COMMAND.parse(words)
    last = {name: values[-1] for name, values in given.items()}
    via = COMMAND.paths([last["via"]])[0] if "via" in last else ""
    depth, jobs, memory = (COMMAND.option(last, name, usual, 1, most) for name, usual, most in (
        ("depth", 8, 4096), ("jobs", 1, 1024), ("memory", 1024, 1 << 20)))
    maps = [f"--map={one}" for one in given.get("map", [])]
    worst = text.GOOD
    with Children() as children:
        back = Readback(children, program, [via, str(depth), str(jobs), str(memory), *maps, "--",
                                            *args])
    path = "standard input" if args[-1] == "-" else args[-1]
    for dev, (size, *_) in enumerate(back.disks):
        if not size or worst > text.NOT_GOOD:
            continue        # no command goes to it
        with children:
            v = verify(back, dev, memory, path)
        if v.result:
            if "json" in given:
                json.dump(v.json(), sys.stdout, ensure_ascii=False, indent=2)
                print()
            else:
                print("\n".join(v.lines()))
            sys.stdout.flush()
        worst = max(worst, v.status, int(v.differ > 0))
    back.ask.close()
    back.out.close()
    back.child.wait()
    return worst
