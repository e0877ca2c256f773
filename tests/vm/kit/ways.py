# SPDX-License-Identifier: GPL-2.0
"""The ways in which a program sends commands through smq_sg. All have the same calls and the same
form of results, so that a test can be a table of ways and events."""
import fcntl
import os
import struct
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial

from . import sgheader, uring
from .adhoc import push_adhoc
from .memory import PAGE, Memory
from .sgheader import FILL, V3, V4, Arena
from .sgio import decode_sense
from .slots import BLOCK, IN, NONE, OUT, URING_BATCH, URING_RUN, SlotFile, command, run_of
from .uring import Ring

SET_FORCE_PACK_ID = 0x227b
WIDE = uring.SETUP_SQE128 | uring.SETUP_CQE32
DEFER = uring.SETUP_SINGLE_ISSUER | uring.SETUP_DEFER_TASKRUN


@dataclass(frozen=True)
class Cmd:
    """A command: its CDB, and @din bytes of data-in or the data-out @dout."""
    raw: bytes
    din: int = 0
    dout: bytes = b""

    @property
    def length(self) -> int:
        """Bytes of data."""
        return self.din or len(self.dout)


@dataclass(frozen=True)
class End:
    """How a command ended. @outcome: 0: GOOD; below 0: an errno; else status | host byte << 8."""
    outcome: int
    resid: int = 0
    sense: tuple[int, int, int] = (0, 0, 0)
    data: bytes = b""


class Way:
    """Commands that are sent together. @timeout_ms: of each; 0: the default. If a command is
    refused before it can be sent, no command is sent, and all end with that errno."""
    polled = False      # needs a host with poll queues
    fixed = False       # the file is registered with the ring, and its descriptor is closed
    alone = True        # each command waits by itself; else all that wait are one entry
    ring: Ring | None = None

    def __init__(self, path: str, cmds: list[Cmd], timeout_ms: int = 0, flags: int = os.O_RDWR):
        self.path, self.cmds, self.timeout_ms, self.refused = path, cmds, timeout_ms, 0
        self.file = SlotFile(path, flags=flags)
        self.threads = ThreadPoolExecutor(len(cmds))
        step = -(-max(cmd.length for cmd in cmds) // BLOCK) * BLOCK
        self.memory = Memory(max(step * len(cmds), PAGE))
        self.at = [number * step for number in range(len(cmds))]
        for at, cmd in zip(self.at, cmds):
            self.memory[at:at + cmd.length] = cmd.dout or bytes([FILL]) * cmd.din

    def send(self) -> None:
        """Sends all commands, without waiting for their ends."""
        raise NotImplementedError

    def wait(self, seconds: float) -> list[End]:
        """Waits for the ends of all commands that were sent."""
        raise NotImplementedError

    def ends(self, seconds: float = 30) -> list[End]:
        """Waits until all commands have ended, and returns how."""
        if self.refused:
            return [End(-self.refused)] * len(self.cmds)
        return self.wait(seconds)

    def _data(self, number: int) -> bytes:
        return self.memory[self.at[number]:self.at[number] + self.cmds[number].length]

    def touched(self, number: int) -> bool:
        """Whether a command's memory has changed."""
        cmd = self.cmds[number]
        return self._data(number) != (cmd.dout or bytes([FILL]) * cmd.din)

    def _end(self, number: int, outcome: int, resid: int, sense: tuple) -> End:
        moved = 0 if outcome else max(self.cmds[number].din - resid, 0)
        return End(outcome, resid, sense, self._data(number)[:moved])

    def close(self) -> None:
        """Closes ring and file, even if commands are in flight."""
        if self.ring:
            self.ring.close()
        self.file.close()
        self.threads.shutdown(wait=False)

    def __enter__(self):
        return self

    def __exit__(self, *exc) -> None:
        self.close()


class Prepared(Way):
    """Slots, one for each command."""
    ring_flags = 0

    def __init__(self, *args, **more):
        super().__init__(*args, **more)
        if self.ring_flags is not None:
            self.ring = Ring(64, self.ring_flags)
        assert self.file.setup(slots=len(self.cmds), sense_size=96) == 0
        assert self.file.lend(0, self.memory) == 0
        self.refused, _ = self.file.try_prepare([
            command(cmd.raw, IN if cmd.din else OUT if cmd.dout else NONE, cmd.length,
                    offset=at if cmd.length else 0, timeout_ms=self.timeout_ms)
            for at, cmd in zip(self.at, self.cmds)])

    def _status(self, number: int) -> End:
        status = self.file.status(number)
        result = status.result if status.result < 0 else status.result & 0xffff
        return self._end(number, result, status.resid, status.triple)


class Runs(Prepared):
    """An SQE for each slot."""
    sqe_flags = 0

    def push(self, fd: int, flags: int) -> None:
        """Pushes all commands."""
        for number in range(len(self.cmds)):
            self.ring.push(fd, URING_RUN, run_of(number), number, flags)

    def send(self) -> None:
        if self.fixed and self.file.fd >= 0:
            self.ring.register_file(self.file.fd)
            os.close(self.file.fd)
            self.file.fd = -1
        self.push(0 if self.fixed else self.file.fd,
                  self.sqe_flags | (uring.SQE_FIXED_FILE if self.fixed else 0))
        self.ring.submit()

    def wait(self, seconds: float) -> list[End]:
        got = dict(self.ring.wait(len(self.cmds), seconds))
        found = [self._status(number) for number in range(len(self.cmds))]
        assert [got[number] & 0xffff for number in range(len(found))] == [
            end.outcome & 0xffff for end in found], (got, found)
        return found


class Batch(Runs):
    """One SQE for all slots."""
    alone = False

    def push(self, fd: int, flags: int) -> None:
        self.ring.push(fd, URING_BATCH, self.file.batch(list(range(len(self.cmds)))), 7, flags)

    def _all(self, failed: int) -> list[End]:
        found = [self._status(number) for number in range(len(self.cmds))]
        assert failed == sum(end.outcome != 0 for end in found), (failed, found)
        return found

    def wait(self, seconds: float) -> list[End]:
        (tag, failed), = self.ring.wait(1, seconds)
        assert tag == 7
        return self._all(failed)


class Ioctl(Batch):
    """One SMQ_SG_RUN for all slots."""
    ring_flags = None

    def send(self) -> None:
        self._run = self.threads.submit(self.file.run, range(len(self.cmds)))

    def wait(self, seconds: float) -> list[End]:
        error, failed = self._run.result(seconds)
        assert not error
        return self._all(failed)


class Adhoc(Way):
    """An SQE with the whole command, in bsg's format."""
    ring_flags = WIDE

    def __init__(self, *args, **more):
        super().__init__(*args, **more)
        self.ring = Ring(64, self.ring_flags)

    def send(self) -> None:
        self._sense = [Memory(PAGE) for _ in self.cmds]
        self._keep = [push_adhoc(self.ring, self.file.fd, cmd.raw, number, self.memory, at,
                                 cmd.length, self._sense[number], bool(cmd.dout),
                                 timeout_ms=self.timeout_ms)
                      for number, (at, cmd) in enumerate(zip(self.at, self.cmds))]
        self.ring.submit()

    def wait(self, seconds: float) -> list[End]:
        found = []
        for number, error in sorted(self.ring.wait(len(self.cmds), seconds)):
            word = 0 if error else self.ring.more[number]
            sense = decode_sense(self._sense[number][:word >> 24 & 0xff])
            found.append(self._end(number, error or word & 0xff | (word >> 16 & 0xff) << 8,
                                   word >> 32, sense.triple if sense else (0, 0, 0)))
        return found


class SgIo(Way):
    """SG_IO with a header of interface 3, each in a thread of its own."""
    header: type = V3
    status, host, resid = "status", "host_status", ("resid",)

    def send(self) -> None:
        self._jobs = []
        for number, cmd in enumerate(self.cmds):
            more = {"timeout": self.timeout_ms} if self.timeout_ms else {}
            want, arena = self.header(cmd.raw, cmd.din, cmd.dout, **more), Arena(64 << 10)
            self._jobs.append((want, arena, self.threads.submit(self._send, number, want, arena)))

    def _send(self, _number: int, want, arena: Arena):
        return sgheader.sg_io(self.file.fd, want, arena)

    def _data(self, number: int) -> bytes:
        arena = self._jobs[number][1]
        return arena.get(arena.address + PAGE, self.cmds[number].length)

    def _answer(self, number: int, seconds: float):
        return self._jobs[number][2].result(seconds)

    def wait(self, seconds: float) -> list[End]:
        found = []
        for number in range(len(self.cmds)):
            answer = self._answer(number, seconds)
            if answer.error:
                found.append(End(-answer.error))
                continue
            fields, sense = answer.fields, decode_sense(answer.sense)
            outcome = fields[self.status] | fields[self.host] << 8
            found.append(End(outcome, sum(fields[name] for name in self.resid),
                             sense.triple if sense else (0, 0, 0),
                             b"" if outcome or not self.cmds[number].din else answer.data))
        return found


class SgIoV4(SgIo):
    """SG_IO with a header of interface 4."""
    header = V4
    status, host, resid = "device_status", "transport_status", ("din_resid", "dout_resid")


class WriteRead(SgIo):
    """write() and read(). A write() that waits for a place sleeps, so each has a thread."""

    def _send(self, number: int, want, arena: Arena):
        want.pack_id = number
        return sgheader.write(self.file.fd, want, arena)

    def _answer(self, number: int, seconds: float):
        want, arena, job = self._jobs[number]
        error = job.result(seconds)
        if error:
            return sgheader.Answer(error)
        fcntl.ioctl(self.file.fd, SET_FORCE_PACK_ID, struct.pack("i", 1))
        return sgheader.read(self.file.fd, want, arena, number)


def _of(base: type, **fields) -> type:
    return type(base.__name__, (base,), fields)


_polled = partial(_of, polled=True)
IOPOLL = uring.SETUP_IOPOLL
WAYS = {
    "run": Runs, "run-async": _of(Runs, sqe_flags=uring.SQE_ASYNC),
    "run-registered": _of(Runs, fixed=True),
    "run-sqpoll": _of(Runs, ring_flags=uring.SETUP_SQPOLL, fixed=True),
    "run-defer": _of(Runs, ring_flags=DEFER), "run-wide": _of(Runs, ring_flags=WIDE),
    "run-polled": _polled(Runs, ring_flags=IOPOLL),
    "batch": Batch, "batch-registered": _of(Batch, fixed=True),
    "batch-polled": _polled(Batch, ring_flags=IOPOLL), "ioctl": Ioctl,
    "adhoc": Adhoc, "adhoc-polled": _polled(Adhoc, ring_flags=WIDE | IOPOLL),
    "adhoc-sqpoll": _polled(Adhoc, ring_flags=WIDE | IOPOLL | uring.SETUP_SQPOLL),
    "adhoc-defer": _polled(Adhoc, ring_flags=WIDE | IOPOLL | DEFER),
    "v3": SgIo, "v4": SgIoV4, "write": WriteRead,
}
