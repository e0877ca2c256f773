# SPDX-License-Identifier: GPL-2.0
"""Finds data frames that arrive after a LUN reset has ended their READ.

Such a frame may be written to the memory of a later command. The program uses the kernel's software
FC, and no module of this project. Each block of the disk holds its own LBA. The program READs
blocks by io_uring, and resets the LUN again and again. A child process records the frames. The
program prints the READs that got another block's data, and the frames that carried that data.
--late delays data frames, and no others, by MS milliseconds, as on a large fabric:

    tools/vm -- python3 -B tests/vm/late_frames.py [--seconds N] [--late MS]
"""
import ctypes
import os
import pickle
import random
import socket
import struct
import threading
import time
import traceback
from argparse import ArgumentParser
from contextlib import contextmanager
from dataclasses import dataclass

from kit import smqsg
from kit.host import run
from kit.memory import Memory
from kit.paths import write_by_sg
from kit.sgio import SG_SCSI_RESET_DEVICE, SgDev
from kit.softfc import INITIATOR, TARGET_PORT, soft_fc
from kit.uring import Ring

ALL, FCOE = 3, 0x8906
DATA, COMMAND, STATUS = 1, 6, 7
LUN_RESET = 0x10
SIZE, BLOCKS, FIRST, DEPTH = 4096, 512, 1024, 24
KINDS = {DATA: "DATA", COMMAND: "CMND", STATUS: "RSP"}
# Offsets in an Ethernet frame: the FC header, its payload, and the task management flags and CDB of
# an FCP_CMND.
HEADER, PAYLOAD, FLAGS, CDB = 28, 52, 62, 64
# Bytes of each frame that are recorded.
SNAPLEN = 96
SO_RCVBUFFORCE, SO_TIMESTAMPNS = 33, 35
# Printed times are seconds since START, on the clock of the frames' time stamps.
START = int(time.time())


@dataclass(frozen=True)
class Frame:
    """A frame on the wire. lba: the LBA that a command reads, or that the data holds."""
    when: float
    kind: int
    ox_id: int
    rx_id: int
    offset: int
    lba: int
    reset: bool

    def __str__(self):
        what = "LUN RESET" if self.reset else f"READ LBA {self.lba}"
        more = {COMMAND: what, DATA: f"offset {self.offset}, of LBA {self.lba}"}
        return (f"{self.when:9.4f} {KINDS[self.kind]:4} OX_ID {self.ox_id:04x} RX_ID "
                f"{self.rx_id:04x} {more.get(self.kind, '')}")


def parse(when, raw):
    """A frame, or None if it is not a READ, a LUN reset, data or a status."""
    if len(raw) < PAYLOAD or raw[12:14] != FCOE.to_bytes(2, "big"):
        return None
    kind, ox_id, rx_id = raw[HEADER], *struct.unpack_from(">HH", raw, HEADER + 16)
    if kind not in KINDS or kind != STATUS and len(raw) < CDB + 16:
        return None
    reset = kind == COMMAND and raw[FLAGS] == LUN_RESET
    lba = 0
    if kind == DATA:
        lba, = struct.unpack_from("<Q", raw, PAYLOAD)
    elif kind == COMMAND and not reset:
        if raw[CDB] != 0x28:
            return None
        lba, = struct.unpack_from(">I", raw, CDB + 2)
    offset, = struct.unpack_from(">I", raw, HEADER + 20)
    return Frame(when, kind, ox_id, rx_id, offset, lba, reset)


def record(pipe, stop):
    """Runs in a child process: records what the initiator sends and receives until the file @stop
    exists."""
    # A socket for one protocol does not receive outgoing frames. Before bind() this one receives
    # none.
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0) as wire:
        wire.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 256 << 20)
        wire.bind((INITIATOR, ALL))
        wire.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
        wire.settimeout(0.2)
        os.write(pipe, b"x")
        found = []
        while True:
            try:
                raw, extra, *_ = wire.recvmsg(SNAPLEN, 64)
            except TimeoutError:
                if os.path.exists(stop):
                    break
                continue
            seconds, ns = struct.unpack("qq", extra[0][2])
            found.append((seconds - START + ns / 1e9, raw))
    with open(stop + ".frames", "wb") as file:
        pickle.dump(found, file)


@contextmanager
def recorded():
    """Yields a list that is filled with the frames when the block ends."""
    stop, (out, into) = f"/run/late{os.getpid()}", os.pipe()
    frames = []
    pid = os.fork()
    if not pid:
        try:
            record(into, stop)
            os._exit(0)
        except BaseException:
            traceback.print_exc()
        finally:
            # The parent cleans up, not this process.
            os._exit(1)
    os.close(into)
    assert os.read(out, 1), "the recorder has failed"
    try:
        yield frames
    finally:
        with open(stop, "wb"):
            pass
        assert not os.waitpid(pid, 0)[1], "the recorder has failed"
        with open(stop + ".frames", "rb") as file:
            frames += [frame for frame in (parse(*one) for one in pickle.load(file)) if frame]


@contextmanager
def late(milliseconds):
    """Delays data frames of the target during the block."""
    if not milliseconds:
        yield
        return
    # The u32 filter counts offsets from the network header, which fcoe sets to the Ethernet header.
    device = "dev " + TARGET_PORT
    lines = (f"qdisc add {device} root handle 1: prio bands 3 priomap {' '.join('0' * 16)}",
             f"qdisc add {device} parent 1:3 handle 30: netem delay {milliseconds}ms "
             "limit 100000",
             f"filter add {device} parent 1: protocol 0x{FCOE:x} prio 1 u32 match u8 "
             f"0x{DATA:02x} 0xff at {HEADER} flowid 1:3")
    run("tc", *lines[0].split())
    try:
        for line in lines[1:]:
            run("tc", *line.split())
        yield
    finally:
        time.sleep(2 * milliseconds / 1000)
        run("tc", "qdisc", "delete", "dev", TARGET_PORT, "root")


class Reads:
    """Reads random blocks by io_uring, and keeps a list of the READs that got wrong data."""

    def __init__(self, disk):
        self._fd = os.open(disk, os.O_RDONLY | os.O_DIRECT)
        self._memory = Memory(DEPTH * SIZE)
        self._iovecs = (ctypes.c_uint64 * (2 * DEPTH))(*(
            word for at in range(DEPTH) for word in (self._memory.address + at * SIZE, SIZE)))
        self._want = [0] * DEPTH
        self.done, self.errors, self.wrong = 0, 0, []

    def _push(self, ring, at):
        self._want[at] = FIRST + 8 * random.randrange(BLOCKS)
        self._memory[at * SIZE:(at + 1) * SIZE] = bytes(SIZE)
        ring.push_readv(self._fd, ctypes.addressof(self._iovecs) + 16 * at, 1,
                        self._want[at] * 512, at)

    def run(self, seconds):
        """Reads for @seconds, or until three READs got wrong data."""
        end, in_flight = time.monotonic() + seconds, DEPTH
        with Ring(64) as ring:
            for at in range(DEPTH):
                self._push(ring, at)
            while in_flight:
                ring.submit()
                for at, result in ring.reap():
                    self.done, in_flight = self.done + 1, in_flight - 1
                    self.errors += result != SIZE
                    got = {struct.unpack_from("<Q", self._memory[at * SIZE + piece:
                                                                 at * SIZE + piece + 8])[0]
                           for piece in range(0, SIZE, 512)}
                    if result == SIZE and got != {self._want[at]}:
                        self.wrong.append((time.time() - START, self._want[at], sorted(got)))
                    if time.monotonic() < end and len(self.wrong) < 3:
                        self._push(ring, at)
                        in_flight += 1
                time.sleep(0.0005)
        os.close(self._fd)


def resets(node, stop, counts):
    """Resets the LUN until @stop is set; @counts gets the numbers of successes and failures."""
    with SgDev(node) as sg:
        while not stop.wait(0.05):
            try:
                sg.reset(SG_SCSI_RESET_DEVICE)
                counts[0] += 1
            except OSError:
                counts[1] += 1


def strays(frames):
    """Finds data frames whose LBA is not the one that the latest command with their OX_ID wanted.
    Returns pairs of that command and the frame."""
    wants, found = {}, []
    for frame in frames:
        if frame.kind == COMMAND:
            wants[frame.ox_id] = frame
        elif frame.kind == DATA and frame.ox_id in wants:
            command = wants[frame.ox_id]
            if not command.reset and command.lba != frame.lba:
                found.append((command, frame))
    return found


def history(frames, command, stray):
    """All frames with the stray's OX_ID, and all resets. The list begins with the command for which
    the stray was sent, and ends with the status of the command that got the stray."""
    at = frames.index(stray)
    first = max((number for number, one in enumerate(frames[:at]) if one.kind == COMMAND and
                 one.ox_id == stray.ox_id and one.lba == stray.lba),
                default=frames.index(command))
    found = []
    for one in frames[first:]:
        if one.ox_id == stray.ox_id or one.reset:
            found.append(one)
            if one.kind == STATUS and one.when >= stray.when:
                break
    return found


def main():
    """Reads blocks while a thread resets the LUN, then prints a report."""
    parser = ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--late", type=int, default=0, metavar="MS")
    options = parser.parse_args()
    run("modprobe", "-a", "sd_mod", "sg")
    with soft_fc(32) as link:
        link.set_loss_timeouts()
        lun = link.lun()
        smqsg.clear_attentions(lun.sg)
        # Without merges each READ is one command.
        (lun.queue / "nomerges").write_text("2", encoding="ascii")
        with SgDev(lun.sg) as sg:
            write_by_sg(sg, FIRST, b"".join(struct.pack("<Q", FIRST + 8 * at) * (SIZE // 8)
                                            for at in range(BLOCKS)))
        reads, stop, counts = Reads(lun.sd), threading.Event(), [0, 0]
        with recorded() as frames, late(options.late):
            thread = threading.Thread(target=resets, args=(lun.sg, stop, counts))
            thread.start()
            try:
                reads.run(options.seconds)
            finally:
                stop.set()
                thread.join()
    print(f"{reads.done} READs, {reads.errors} with an error; {counts[0]} LUN resets, "
          f"{counts[1]} failed; {len(reads.wrong)} GOOD READs with another block's data")
    found = strays(frames)
    print(f"{len(frames)} frames, of which {len(found)} carry data to a command that did not ask "
          "for it")
    for when, want, got in reads.wrong[:3]:
        print(f"{when:9.4f} READ of LBA {want} was GOOD with the data of LBA {got}")
    for command, stray in found[:1]:
        print(f"the first frame with another block's data, for the READ of LBA {command.lba}:")
        for frame in history(frames, command, stray):
            print(" ", frame)


if __name__ == "__main__":
    main()
