# SPDX-License-Identifier: GPL-2.0
"""sg_io gen: command files for the usual loads."""

import bisect
import itertools
import json
import math
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from judge import text
from judge.options import PATTERNS, U64, Command, Option, size

COUNT_MAX = 16 << 20        # the most commands of a command file
DATA_MAX = 256 << 20        # bytes of one command
MIX_MAX, SHARE_MAX, STREAMS_MAX = 16, 1000000, 4096
SLAB = 4096                 # lines that are printed at a time
GOLDEN = 0x9e3779b97f4a7c15

COMMAND = Command(
    "gen", "", """\
Write a command file for --count commands.
Without --random each LBA is where the command before ended; at the end of the
range the LBAs begin again. A command of a mix is drawn at random, too: SHAREs
of 70 and 30 make about 70 and 30 of 100 commands.""",
    (Option("block-size", "BYTES",
            "The size of the device's logical blocks (that of --device, or 512)"),
     Option("blocks", "N[:SHARE],...", "Blocks per command (1)"),
     Option("count", "N", "Number of commands (1)"),
     Option("device", "DEV",
            "Ask this device for its capacity, which becomes the range, and its block size"),
     Option("json", "", "An array of objects instead of a command file"),
     Option("op", "NAME[:SHARE],...",
            "Commands to generate, each with its share of them (1); --op help lists them"),
     Option("pattern", "NAME", f"Data-out: {PATTERNS} (lba)"),
     Option("random", "SEED", "Random LBAs, FIRST plus a multiple of --blocks; the same SEED makes "
            "the same file"),
     Option("range", "FIRST:LAST", "Only these LBAs, both included (all of --device; without it "
            "from 0 on, as many as the commands need)"),
     Option("size", "BYTES[:SHARE],...", "The same in bytes, for example 4k:3,64k:1"),
     Option("streams", "N", "Without --random: N sequences in turn, each in a part of the range of "
            "its own (1)"),
     Option("timeout", "MS", "The value of timeout= in each line"),
     Option("zipf", "S", "With --random, a hot spot: the n-th of the most popular places has n^S "
            "times fewer commands than the first; they are spread over the range")),
    """\
Example, with a few places far more popular than the others:
  sg_io gen --device /dev/sg0 --op read10:70,write10:30 --size 4k:3,64k:1 \\
          --random 1 --zipf 1.2 --count 10000 >mixed.cdb
""")


class Op(NamedTuple):
    """A command: @cdb has digits for the LBA (L) and the number of blocks (N), if it has any."""
    title: str
    cdb: str
    dir: str = "none"
    data: int | str = 0     # bytes; "each": of all its blocks, "one": of one

    def digits(self, letter: str) -> int:
        return self.cdb.count(letter)

    @property
    def lba(self) -> bool:
        """Whether it has one."""
        return "L" in self.cdb

    @property
    def max_lba(self) -> int:
        """The greatest LBA of the CDB."""
        return 0x1fffff if len(self.cdb) == 12 else (1 << 4 * self.digits("L")) - 1

    @property
    def max_blocks(self) -> int:
        """0 means 256 in a CDB of 6 bytes."""
        return 256 if len(self.cdb) == 12 else (1 << 4 * self.digits("N")) - 1


AT_6, AT_10, AT_12, AT_16 = "LLLLLLNN00", "00LLLLLLLL00NNNN00", "00" + 8 * "L" + 8 * "N" + "0000", \
    "00" + 16 * "L" + 8 * "N" + "0000"
AT_32 = "0000" + 16 * "L" + 16 * "0" + 8 * "N"
OPS = {
    "tur": Op("TEST UNIT READY", "000000000000"),
    "reqsense": Op("REQUEST SENSE", "03000000fc00", "in", 252),
    "read6": Op("READ(6)", "08" + AT_6, "in", "each"),
    "write6": Op("WRITE(6)", "0a" + AT_6, "out", "each"),
    "inquiry": Op("INQUIRY", "120000006000", "in", 96),
    "modesense6": Op("MODE SENSE(6)", "1a000000fc00", "in", 252),
    "readcap10": Op("READ CAPACITY(10)", "25" + 18 * "0", "in", 8),
    "read10": Op("READ(10)", "28" + AT_10, "in", "each"),
    "write10": Op("WRITE(10)", "2a" + AT_10, "out", "each"),
    "verify10": Op("VERIFY(10)", "2f" + AT_10),
    "sync10": Op("SYNCHRONIZE CACHE(10)", "35" + AT_10),
    "writesame10": Op("WRITE SAME(10)", "41" + AT_10, "out", "one"),
    "modesense10": Op("MODE SENSE(10)", "5a00000000000000fc00", "in", 252),
    "read32": Op("READ(32)", "7f000000000000180009" + AT_32, "in", "each"),
    "write32": Op("WRITE(32)", "7f00000000000018000b" + AT_32, "out", "each"),
    "read16": Op("READ(16)", "88" + AT_16, "in", "each"),
    "write16": Op("WRITE(16)", "8a" + AT_16, "out", "each"),
    "verify16": Op("VERIFY(16)", "8f" + AT_16),
    "sync16": Op("SYNCHRONIZE CACHE(16)", "91" + AT_16),
    "writesame16": Op("WRITE SAME(16)", "93" + AT_16, "out", "one"),
    "readcap16": Op("READ CAPACITY(16)", "9e10" + 22 * "0" + "200000", "in", 32),
    "reportluns": Op("REPORT LUNS", "a00000000000000010000000", "in", 4096),
    "read12": Op("READ(12)", "a8" + AT_12, "in", "each"),
    "write12": Op("WRITE(12)", "aa" + AT_12, "out", "each"),
    "verify12": Op("VERIFY(12)", "af" + AT_12),
}


class Random:
    """Splitmix64: the same numbers from the same seed on every machine."""

    def __init__(self, seed: int) -> None:
        self.state = seed

    def below(self, n: int) -> int:
        """A number from 0 to @n - 1."""
        self.state = z = (self.state + GOLDEN) & U64
        z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9 & U64
        z = (z ^ z >> 27) * 0x94d049bb133111eb & U64
        return (z ^ z >> 31) * n >> 64


class Zipf:
    """Ranks from 1 to @nr, of which rank k has a probability proportional to k to the power -@s.

    Rejection-inversion (W. Hoermann, G. Derflinger, 1996): a rank is drawn from the area below the
    curve x^-s, whose integral has an inverse, and is kept with the probability that the curve is
    above. Neither time nor memory depends on the number of ranks.
    """

    def __init__(self, s: float, nr: int) -> None:
        self.s, self.nr = s, float(nr)
        self.low, self.high = self.integral(1.5) - 1, self.integral(self.nr + 0.5)

    def integral(self, x: float) -> float:
        """(x^(1-s) - 1) / (1-s), which is log(x) for s = 1."""
        log = math.log(x)
        t = (1 - self.s) * log
        return math.expm1(t) / t * log if abs(t) > 1e-8 else log * (1 + t / 2)

    def inverse(self, y: float) -> float:
        t = y * (1 - self.s)
        if t <= -1:
            return math.inf if y > 0 else 0
        return math.exp(math.log1p(t) / t * y if abs(t) > 1e-8 else y * (1 - t / 2))

    def draw(self, random: Random) -> int:
        while True:
            u = random.below(1 << 53) / (1 << 53)
            u = self.high + u * (self.low - self.high)
            k = math.floor(min(max(self.inverse(u) + 0.5, 1), self.nr))
            if u >= self.integral(k + 0.5) - k ** -self.s:
                return k


class Load(NamedTuple):
    """What is generated, and where."""
    ops: list[tuple[Op, int]]       # with their shares
    blocks: list[tuple[int, int]]
    first: int = 0
    last: int = 0                   # the last LBA of the range; it has room for each size
    streams: int = 1
    zipf: float = 0

    @property
    def most(self) -> int:
        """The largest size, in blocks."""
        return max(blocks for blocks, _ in self.blocks)

    @property
    def least(self) -> int:
        return min(blocks for blocks, _ in self.blocks)

    @property
    def part(self) -> int:
        """How many blocks the part of the range has in which a stream moves."""
        part = (self.last - self.first + 1) // self.streams if self.streams > 1 else \
            self.last - self.first
        return part - part % self.least


def drawer(shares: list[int], random: Random) -> Callable[[], int]:
    """Draws the index of a member of a mix."""
    if len(shares) == 1:
        return lambda: 0
    sums = list(itertools.accumulate(shares))
    return lambda: bisect.bisect(sums, random.below(sums[-1]))


def random_lbas(load: Load, random: Random) -> Callable[[int], int]:
    """Where commands are, at places that have room for each size."""
    first, grid = load.first, load.least
    places = (load.last - first - (load.most - 1)) // grid + 1
    if not load.zipf:
        return lambda _: first + random.below(places) * grid
    places = min(places, U64)
    zipf = Zipf(load.zipf, places)
    # Hot places are apart; the golden ratio spreads them most evenly.
    scatter = int(places * 0.618033988749895)
    while math.gcd(scatter, places) != 1:
        scatter += 1
    return lambda _: first + zipf.draw(random) * scatter % places * grid


def stream_lbas(load: Load) -> Callable[[int], int]:
    """Each stream goes on where it ended, and begins again at the end of its part of the range."""
    firsts = [load.first + i * load.part for i in range(load.streams)]
    lasts = [first - 1 for first in firsts[1:]] + [load.last]
    ends = firsts.copy()
    turns = itertools.cycle(range(load.streams))

    def lba(blocks: int) -> int:
        turn = next(turns)
        at = ends[turn]
        if at + blocks - 1 > lasts[turn]:
            at = firsts[turn]
        ends[turn] = at + blocks
        return at
    return lba


class Line(NamedTuple):
    """How lines are written."""
    block_size: int
    pattern: str
    timeout: int
    json: bool

    def template(self, op: Op, blocks: int) -> str:
        """A line with a place for the LBA, as the operator % has it."""
        nr = blocks if op.data == "each" else 1
        n, digits = op.digits("N"), op.digits("L")
        cdb = op.cdb.replace("N" * n, f"{blocks & (1 << 4 * n) - 1:0{n}x}") if n else op.cdb
        cdb = cdb.replace("L" * digits, f"%0{digits}x") if digits else cdb
        words: dict[str, str | int] = {
            "cdb": cdb, "direction": op.dir,
            "bytes": op.data if isinstance(op.data, int) else nr * self.block_size}
        if op.dir == "out":
            words["pattern"] = self.pattern
        if self.timeout:
            words["timeout"] = self.timeout
        if self.json:
            return json.dumps(words, separators=(",", ":"))
        return " ".join(f"{name}={word}" if name in ("pattern", "timeout") else str(word)
                        for name, word in words.items()) + "\n"


def lines(load: Load, seed: int | None, how: Line) -> Iterator[str]:
    """The lines, without an end."""
    random = Random(seed or 0)
    next_op = drawer([share for _, share in load.ops], random)
    next_size = drawer([share for _, share in load.blocks], random)
    next_lba = stream_lbas(load) if seed is None else random_lbas(load, random)
    made = [[how.template(op, blocks) for blocks, _ in load.blocks] for op, _ in load.ops]
    while True:
        op = next_op()
        if load.ops[op][0].lba:
            size_ = next_size()
            yield made[op][size_] % next_lba(load.blocks[size_][0])
        else:
            yield made[op][0]


def ask(program: str, device: str) -> tuple[int, int]:
    """The blocks of a device, and their size."""
    done = subprocess.run([program, "info", "--json", "--", device], stdout=subprocess.PIPE,
                          check=False)
    if done.returncode:
        sys.exit(done.returncode)
    info = json.loads(done.stdout)
    if not info["blocks"] or not info["block_size"]:
        state = f"; its state is {info['state']}" if "offline" in (info["state"] or "") else ""
        raise text.Ended(text.DEVICE, f"{device}: has no capacity in blocks{state}")
    return info["blocks"], info["block_size"]


def parse_mix(given: dict[str, str], name: str, take: Callable[[str], Any]
              ) -> list[tuple[Any, int]]:
    """MEMBER[:SHARE],..."""
    words = given[name].split(",") if name in given else []
    if len(words) > MIX_MAX:
        COMMAND.error(f"--{name}: more than {MIX_MAX}")
    return [(take(member), COMMAND.number(f"--{name}", share, 1, SHARE_MAX) if colon else 1)
            for member, colon, share in (word.partition(":") for word in words)]


def parse_op(name: str) -> Op:
    if name not in OPS:
        COMMAND.error(f"--op: '{name}' is not known; --op help lists them")
    return OPS[name]


def parse_range(word: str) -> tuple[int, int]:
    first, last = (size(part) for part in word.partition(":")[::2])
    if first is None or last is None:
        COMMAND.error(f"--range: '{word}' is not FIRST:LAST")
    if first > last:
        COMMAND.error(f"--range: FIRST {first} is after LAST {last}")
    return first, last


def check_together(given: dict[str, str], ops: list[tuple[Op, int]], streams: int) -> None:
    """Ends if options contradict each other, or if the commands have not what an option needs."""
    if not ops:
        COMMAND.error("--op NAME is needed; --op help lists them")
    if {"blocks", "size"} <= set(given):
        COMMAND.error("--blocks and --size exclude each other")
    if "random" in given and streams > 1:
        COMMAND.error("--random and --streams exclude each other")
    if "zipf" in given and "random" not in given:
        COMMAND.error("--zipf needs --random SEED")
    some = [op for op, _ in ops]
    for names, there, what in (
            (("range", "random", "streams"), any(op.lba for op in some), "has no LBA"),
            (("size", "blocks"), any(op.lba for op in some), "moves no blocks"),
            (("pattern",), any(op.dir == "out" for op in some), "has no data-out")):
        for name in names:
            if name in given and not there:
                COMMAND.error(f"--{name}: {some[0].title} {what}")


def check_size(given: dict[str, str], op: Op, most: int, block_size: int) -> None:
    if most > op.max_blocks:
        COMMAND.error(f"--{'size' if 'size' in given else 'blocks'}: {most} is over the limit of "
                      f"{op.title}, {op.max_blocks}")
    if op.data == "each" and most * block_size > DATA_MAX:
        COMMAND.error(f"--blocks: {most} blocks of {block_size} bytes are over the limit of "
                      f"{DATA_MAX} bytes")


def place(load: Load, given: dict[str, str], needed: int | None, capacity: int) -> Load:
    """The load with its range, or with one that is chosen. @needed: blocks of all commands; None:
    they are one sequence."""
    lowest = min((op for op, _ in load.ops if op.lba), key=lambda op: op.max_lba)
    top, (first, last) = lowest.max_lba, (load.first, load.last)
    if "range" not in given:
        # If the capacity is not known, the first blocks are likely to exist.
        last = min(top, (capacity or needed or top + 1) - 1)
        if capacity - 1 > top:
            text.say(f"{lowest.title} cannot address the blocks of {given['device']} above LBA "
                     f"{top}")
    if last > top:
        COMMAND.error(f"--range: LBA {last} is over the limit of {lowest.title}, {top}")
    if last - first < load.most - 1:
        COMMAND.error(f"--range: {first} to {last} has no room for {load.most} blocks")
    load = load._replace(last=last)
    if load.streams > 1 and load.part < load.most:
        COMMAND.error(f"--streams: {first} to {last} has no room for {load.streams} of {load.most} "
                      "blocks")
    return load


def main(program: str, words: list[str]) -> int:
    found, args = COMMAND.parse(words)
    given = {name: values[-1] for name, values in found.items()}
    if "help" in found.get("op", []):
        print(" ".join(OPS))
        return text.GOOD
    ops = parse_mix(given, "op", parse_op)
    sizes = parse_mix(given, "size", lambda word: COMMAND.number("--size", word, 1, DATA_MAX))
    blocks = parse_mix(given, "blocks", lambda word: COMMAND.number("--blocks", word, 1,
                                                                    0xffffffff))
    count = COMMAND.option(given, "count", 1, 1, COUNT_MAX)
    first, last = parse_range(given["range"]) if "range" in given else (0, 0)
    seed = COMMAND.option(given, "random", 0, 0, U64) if "random" in given else None
    zipf = COMMAND.real("--zipf", given["zipf"], 100) if "zipf" in given else 0
    streams = COMMAND.option(given, "streams", 1, 1, STREAMS_MAX)
    block_size = COMMAND.option(given, "block-size", 512, 1, 1 << 20)
    timeout = COMMAND.option(given, "timeout", 0, 1, 86400000)
    if args:
        COMMAND.error(f"'{args[0]}': no arguments are taken, only options")
    check_together(given, ops, streams)
    COMMAND.check_pattern(program, given.get("pattern"))
    capacity = 0
    if "device" in given:
        device = given["device"]
        capacity, asked = ask(program, device)
        if block_size != asked and "block-size" in given:
            COMMAND.error(f"--block-size: {block_size}, but {device} has blocks of {asked} bytes")
        block_size = asked
        if last >= capacity:
            COMMAND.error(f"--range: LBA {last} is over the last one of {device}, {capacity - 1}")
    for each, share in sizes:
        if each % block_size:
            COMMAND.error(f"--size: {each} is no multiple of the block size, {block_size}")
        blocks.append((each // block_size, share))
    load = Load(ops, blocks or [(1, 1)], first, last, streams, zipf)
    for op, _ in ops:
        if op.lba:
            check_size(given, op, load.most, block_size)
    if any(op.lba for op, _ in ops):
        load = place(load, given, None if seed is None and streams == 1 else load.most * count,
                     capacity)
    how = Line(block_size, given.get("pattern", "lba"), timeout, "json" in given)
    line, between = lines(load, seed, how), ",\n" if how.json else ""
    sys.stdout.write("[\n" if how.json else "")
    for left in range(count, 0, -SLAB):
        sys.stdout.write(between.join(itertools.islice(line, min(left, SLAB))) +
                         (between if left > SLAB else ""))
    sys.stdout.write("\n]\n" if how.json else "")
    return text.GOOD
