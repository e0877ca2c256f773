# SPDX-License-Identifier: GPL-2.0
"""The formats of traces that can be imported. docs/replay.md says which tools write them."""

import re
import zlib

from judge.trace_lines import (CDB, DISCARD, DONE, FLUSH, FUA, NO_CPU, QUEUED, READ, REFUSED,
                               START, U64, WRITE, ZEROES, Bad, Format, Trace, decimal, field,
                               number, shown, time_ns)

SECTOR = 512
S, US, FILETIME = 9, 3, 2       # digits of nanoseconds: times in s, us, and 100 ns
LUN_MAX, DISK_MAX = (1 << 32) - 1, 1 << 20
PROGRAM = "commands of programs, whose CDBs the trace does not have"
ZONE = "zone commands, which the trace describes without their kind"
FLUSH_TAG = -1


class Blkparse(Format):
    """What blkparse prints: DEVICE CPU SEQUENCE TIME PID ACTION RWBS, and what belongs to it. For
    dm and md it has no D, so their Q is taken."""
    name = "blkparse"
    what = "text that blkparse prints"
    OTHERS = frozenset(b"A B F G I M P S T U UT X d m".split())
    KINDS = {b"D": START, b"C": DONE, b"R": REFUSED, b"Q": QUEUED}
    DEVICE = re.compile(rb"(\d+),(\d+)")
    # F for a flush before the data, what is done, then F for FUA and more.
    RWBS = re.compile(rb"(F?)(DE|WZ|Z[A-Z]?|[DWRN]?)([A-Z]*)")
    OPS = {b"D": DISCARD, b"DE": DISCARD, b"W": WRITE, b"R": READ, b"WZ": ZEROES}

    def __init__(self, trace: Trace) -> None:
        super().__init__(trace)
        self.summary = False            # from here on there are sums, until another trace begins
        self.known: dict[bytes, int] = {}
        self.rwbs: dict[bytes, tuple[bool, int | None]] = {}

    def device_of(self, word: bytes) -> int:
        """8,16 is 8:16."""
        found = self.DEVICE.fullmatch(word)
        if not found:
            raise Bad(0, "device", f"{shown(word)} is not MAJOR,MINOR")
        return self.known.setdefault(word, self.trace.device(b"%d:%d" % (int(found[1]),
                                                                         int(found[2]))))

    def operation(self, word: bytes) -> tuple[bool, int | None]:
        """Whether a flush comes first, and what is done."""
        found = self.rwbs.get(word)
        if found is None:
            parts = self.RWBS.fullmatch(word)
            op = self.OPS.get(parts[2]) if parts else None
            if parts and op in (READ, WRITE) and b"F" in parts[3]:
                op |= FUA
            found = self.rwbs[word] = (word[:1] == b"F", op)
        return found

    def line(self, line: bytes) -> None:
        words = line.split()
        if not line[:1].isspace() and line.startswith((b"CPU", b"Total (", b"Input file ")):
            self.summary = self.summary or not line.startswith(b"Input")
            return
        if self.summary:
            if not self.DEVICE.fullmatch(words[0]):
                return
            self.summary = False
        dev = self.known.get(words[0])
        if dev is None:
            dev = self.device_of(words[0])
        word = words[1] if len(words) > 1 else b""
        cpu = int(word) if word.isdigit() and len(word) < 5 else \
            number(words, 1, "CPU", NO_CPU - 1)
        ns = time_ns(words, 3, "time", S)
        action = words[5] if len(words) > 5 else b""
        if action not in self.KINDS:
            if action not in self.OTHERS:
                raise Bad(5, "action", f"{shown(action)} is none that blkparse prints")
            return
        if ns >> 63:
            # An event from before the zero of blkparse, which prints it without a sign.
            ns -= U64 + 1
        if action == b"D":
            self.trace.dispatched.add(dev)
        if action != b"Q" or dev not in self.trace.dispatched:
            self.add(self.KINDS[action], words, dev, ns, cpu)

    def add(self, kind: int, words: list[bytes], dev: int, ns: int, cpu: int) -> None:
        """An event of a command."""
        trace = self.trace
        flush, op = self.operation(words[6] if len(words) > 6 else b"")
        after = words[8] if len(words) > 8 else b""
        if after == b"+":
            if op is None:
                if words[6][:1] == b"Z":
                    self.other(kind, ZONE)
                    return
                raise Bad(6, "RWBS", f"{shown(words[6])} is no read, write, discard or flush")
            lba = trace.size(words, 7, "sector", SECTOR)
            blocks = trace.size(words, 9, "sectors", SECTOR)
            trace.event(kind, op, dev, ns, lba, blocks, cpu, lba & 0x7fffffff)
        elif flush:
            trace.event(kind, FLUSH, dev, ns, 0, 0, cpu, FLUSH_TAG)
        elif len(words) > 7 and words[7][:1] == b"(":
            self.other(kind, PROGRAM)
        elif len(words) <= 7 or words[7][:1] == b"[":
            # The end of a write whose flush has ended, or a command for zones.
            rwbs = words[6] if len(words) > 6 else b""
            if op is None and rwbs[:1] not in (b"N", b"Z"):
                raise Bad(6, "RWBS", f"{shown(rwbs)} is no read, write, discard or flush")
            self.other(kind, PROGRAM if rwbs[:1] == b"N" else ZONE)
        elif after[:1] in (b"[", b"("):
            number(words, 7, "bytes")
            self.other(kind, PROGRAM)
        else:
            raise Bad(8, "+", "SECTOR + SECTORS expected")

    def other(self, kind: int, why: str) -> None:
        """A command that is left out: counted when it starts."""
        if kind == START:
            self.trace.leave_out(why)


class Fio(Format):
    """fio's write_iolog. Version 3 has [us] FILE ACTION [OFFSET LENGTH], version 2 no times, but
    waits."""
    name = "fio"
    what = "log of fio's write_iolog, version 2 or 3"
    OPS = {b"read": READ, b"write": WRITE, b"trim": DISCARD, b"sync": FLUSH, b"datasync": FLUSH}

    def __init__(self, trace: Trace) -> None:
        super().__init__(trace)
        self.version, self.ns = 0, 0

    def first_line(self, line: bytes) -> bool:
        found = re.match(rb"fio version ([23]) iolo", line)
        if not found:
            raise Bad(None, "first line", f"{shown(line)} is not 'fio version 2 iolog' or 'fio "
                      "version 3 iolog'")
        self.version = int(found[1])
        return True

    def line(self, line: bytes) -> None:
        words = line.split()
        if self.version == 3:
            self.ns = time_ns(words, 0, "timestamp", US)
        at = self.version - 1
        name, action = field(words, at - 1, "filename"), field(words, at, "action")
        if action in (b"add", b"open", b"close"):
            return
        if self.version == 2 and action == b"wait":
            # The time since the previous wait.
            self.ns += 1000 * number(words, at + 1, "offset", 0xffffffff)
            return
        op = self.OPS.get(action)
        if op is None:
            raise Bad(at, "action", f"{shown(action)} is not known")
        lba = blocks = 0
        if op != FLUSH:
            lba = self.trace.size(words, at + 1, "offset", 1)
            blocks = self.trace.size(words, at + 2, "length", 1)
        self.trace.io(op, name, self.ns, 0, lba, blocks)


class Csv(Format):
    """A file of fields with commas between them. Its fields: time, how long it took, what is done,
    device, offset, and size; each a name, which the first line has unless @fixed."""
    names: tuple[str, ...] = ()
    fixed: tuple[int, ...] = ()
    digits = took_digits = S
    unit = 1                        # bytes of offset and size
    words = (b"", b"")              # of a read and of a write

    def __init__(self, trace: Trace) -> None:
        super().__init__(trace)
        self.at = self.fixed

    def first_line(self, line: bytes) -> bool:
        if self.fixed:
            return False
        found = line.removeprefix(b"#").split(b",")
        for name in self.names:
            if name.encode() not in found:
                raise Bad(None, "first line", f"has no column {name}")
        self.at = tuple(found.index(name.encode()) for name in self.names)
        return True

    def operation(self, words: list[bytes], i: int, name: str) -> int | None:
        """Read or write; None: the line is left out."""
        word = field(words, i, name)
        if word not in self.words:
            raise Bad(i, name, f"{shown(word)} is not {self.words[0].decode()} or "
                      f"{self.words[1].decode()}")
        return WRITE if word == self.words[1] else READ

    def device(self, words: list[bytes], i: int, name: str) -> bytes:
        """The name of the device."""
        return b"lun%d" % number(words, i, name, DISK_MAX)

    def took(self, words: list[bytes], i: int, name: str) -> int:
        """How long the command took."""
        return time_ns(words, i, name, self.took_digits)

    def line(self, line: bytes) -> None:
        words, trace = line.split(b","), self.trace
        (when, took, what, device, offset, size), names = self.at, self.names
        ns = time_ns(words, when, names[0], self.digits)
        field(words, what, names[2])
        op = self.operation(words, what, names[2])
        if op is None:
            return
        dev = self.device(words, device, names[3])
        lba = trace.size(words, offset, names[4], self.unit)
        blocks = trace.size(words, size, names[5], self.unit)
        length = self.took(words, took, names[1])
        if self.fixed and len(words) > len(self.fixed) + 1:
            raise Bad(len(self.fixed) + 1, "none",
                      f"{shown(words[len(self.fixed) + 1])} is one field too many")
        trace.io(op, dev, ns, length, lba, blocks)


class Hfplayer(Csv):
    """hfplayer's CSV. RD_IN is the arrival of a read, RD_OUT its end, which has the same
    latency."""
    name = "hfplayer"
    what = "CSV of hfplayer"
    names = ("ELAPSED_USECS.D", "LATENCY_USECS.D", "CMD.S", "LUN_SSID.I", "LBA.I", "NBLKS.I")
    digits = took_digits = US
    unit = SECTOR
    words = (b"RD", b"WR")

    def operation(self, words: list[bytes], i: int, name: str) -> int | None:
        if words[i] in (b"RD_OUT", b"WR_OUT"):
            self.trace.leave_out("ends of commands, whose starts have their latency")
            return None
        return super().operation([word.removesuffix(b"_IN") for word in words], i, name) \
            if words[i].removesuffix(b"_IN") in self.words else super().operation(words, i, name)

    def device(self, words: list[bytes], i: int, name: str) -> bytes:
        return b"lun%d" % number(words, i, name, LUN_MAX)


class Msr(Csv):
    """Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime; there is no first line."""
    name = "msr"
    what = "CSV of the traces of Microsoft Research in Cambridge"
    names = ("Timestamp", "ResponseTime", "Type", "DiskNumber", "Offset", "Size")
    fixed = (0, 6, 3, 2, 4, 5)
    digits = took_digits = FILETIME
    words = (b"Read", b"Write")

    def device(self, words: list[bytes], i: int, name: str) -> bytes:
        return b"%s_%d" % (words[1], number(words, i, name, DISK_MAX))


class Snia(Csv):
    """Timestamp,Response,IOType,LUN,Offset,Size; the first line has these names."""
    name = "snia"
    what = "CSV of the SYSTOR '17 traces of the SNIA's repository"
    names = ("Timestamp", "Response", "IOType", "LUN", "Offset", "Size")
    words = (b"R", b"W")

    def operation(self, words: list[bytes], i: int, name: str) -> int | None:
        if words[i]:
            return super().operation(words, i, name)
        # What is neither a read nor a write.
        self.trace.leave_out("lines without a kind")
        return None

    def took(self, words: list[bytes], i: int, name: str) -> int:
        # A blank response is not known.
        return 0 if field(words, i, name) == b"" else super().took(words, i, name)


class Tracepoints(Format):
    """Text of the kernel's scsi tracepoints: printed by trace-cmd report or perf script, or read
    from the file trace of tracefs. Kernels before 5.18 have no driver_tag."""
    name = "tracepoints"
    what = "text of the scsi tracepoints: trace-cmd report, perf script, tracefs"
    EVENT = b"scsi_dispatch_cmd_"
    KINDS = {b"start:": START, b"error:": REFUSED, b"done:": DONE, b"timeout:": DONE}
    ADDRESS = ("host_no", "channel", "id", "lun")
    PERF = ("this perf cannot print the CDB; trace-cmd and the file trace of tracefs have it")

    def value(self, event: bytes, key: str) -> bytes:
        """The value of " KEY=", up to the next blank."""
        found = re.search(rb" %s=([^ \t)]*)" % key.encode(), event)
        if not found:
            raise Bad(None, key, "missing")
        return found[1]

    def number(self, event: bytes, key: str) -> int:
        """The same for a number."""
        word = self.value(event, key)
        try:
            return number([word], 0, key)
        except Bad:
            raise Bad(None, key, f"{shown(word)} is no number") from None

    def head(self, head: bytes) -> tuple[int, int]:
        """The time and the CPU, in front of the event: "fio-202   [001] .....   104.464052: "."""
        head = head.rstrip()
        head = head.removesuffix(b"scsi:").rstrip()
        if not head.endswith(b":"):
            raise Bad(None, "time", f"no 'SECONDS:' before {self.EVENT.decode()}")
        word = head[:-1].split()[-1] if head[:-1].split() else b""
        ns = decimal(word, S)
        if ns is None:
            raise Bad(None, "time", f"{shown(word)} is no time")
        place = head.rfind(b"[")
        found = re.match(rb"\[(\d+)\]", head[place:]) if place >= 0 else None
        if place < 0 or not head[place + 1:place + 2].isdigit():
            raise Bad(None, "CPU", "no [CPU] before the time")
        if not found or int(found[1]) >= NO_CPU:
            raise Bad(None, "CPU", f"{shown(head[place:], 10)} is no CPU")
        return ns, int(found[1])

    def cdb(self, event: bytes) -> bytes:
        """The bytes of the command."""
        _, there, rest = event.partition(b" raw=")
        if not there:
            raise Bad(None, "cmnd", self.PERF if b"[FAILED TO PARSE]" in event
                      else "no 'raw=' with the bytes of the CDB")
        rest, end, _ = rest.partition(b")")
        for word in rest.split():
            if not re.fullmatch(rb"([0-9a-fA-F]{2})+", word):
                bad = next(word[i:i + 2] for i in range(0, len(word), 2)
                           if not re.fullmatch(rb"[0-9a-fA-F]{2}", word[i:i + 2]))
                raise Bad(None, "cmnd", f"{shown(bad)} is no byte in hex")
        if not end:
            raise Bad(None, "cmnd", "the line ends within the CDB")
        cdb = bytes.fromhex(rest.decode("ascii"))
        if len(cdb) > 32:
            raise Bad(None, "cmnd", "more than 32 bytes")
        return cdb

    def other(self, line: bytes) -> None:
        """A line without an event of a command."""
        if b"EVENTS DROPPED" in line or (b"[LOST " in line and b"EVENTS]" in line):
            self.trace.lost = True
        elif not (line.startswith((b"#", b"cpus=")) or
                  line.startswith(b"CPU ") and b" is empty" in line or
                  b"[" in line and b": " in line):
            # Not a comment, trace-cmd's head, or another event.
            raise Bad(None, "event", f"{shown(line)} is no line of a trace")

    def line(self, line: bytes) -> None:
        head, there, event = line.partition(self.EVENT)
        if not there or b"EVENTS DROPPED" in line or b"[LOST " in line:
            self.other(line)
            return
        kind = self.KINDS.get(event.split(b" ", 1)[0])
        if kind is None:
            raise Bad(None, "event", f"{shown(self.EVENT + event)} is not start, error, done or "
                      "timeout")
        ns, cpu = self.head(head)
        address = [self.number(event, key) for key in self.ADDRESS]
        dev = self.trace.device(b"%d:%d:%d:%d" % tuple(address))
        cdb = self.cdb(event if b"FAILED" not in line else line)
        # Without a tag an end belongs to the latest equal command.
        tag = self.number(event, "driver_tag") if b" driver_tag=" in event else zlib.crc32(cdb)
        flags = bool(self.number(event, "data_sgl")) | bool(self.number(event, "prot_sgl")) << 1
        if kind == DONE:
            # The first in a parenthesis has no blank before it.
            status, host = self.value(event, "status"), self.value(event, "host")
            if status not in (b"0x0", b"SAM_STAT_GOOD") or host not in (b"0x0", b"DID_OK"):
                flags |= 4
        self.trace.cdbs.append(bytes([flags, len(cdb)]) + cdb.ljust(32, b"\0"))
        self.trace.event(kind, CDB, dev, ns, len(self.trace.cdbs) - 1, 0, cpu, tag & 0x7fffffff)


FORMATS: dict[str, type[Format]] = {form.name: form for form in
                                    (Blkparse, Fio, Hfplayer, Msr, Snia, Tracepoints)}
