# SPDX-License-Identifier: GPL-2.0
"""libsmq from Python: its shared library, its structures, and classes for devices and rings."""

import contextlib
import ctypes
import mmap
import struct
from ctypes import c_int32, c_uint8, c_uint16, c_uint32, c_uint64

import vmdisk

LIBRARY = vmdisk.ROOT / "build/tools/libsmq/libsmq.so"
IN, OUT = 1, 2
RANGE, RUNS = 1, 2
AT_LBA, WITH_BUFFER = 1, 2
COMMANDS = 1
HELD = 1
FEATURE_HELD, FEATURE_POLLED, FEATURE_CANCEL = 1, 2, 4


class Slot(ctypes.Structure):
    _fields_ = [("cdb", c_uint8 * 32), ("cdb_len", c_uint8), ("direction", c_uint8),
                ("buffer", c_uint16), ("length", c_uint32), ("offset", c_uint64),
                ("timeout_ms", c_uint32), ("flags", c_uint32), ("reserved", c_uint64)]

    def __init__(self, cdb="", direction=0, length=0, **fields):
        raw = bytes.fromhex(cdb)
        super().__init__(cdb=(c_uint8 * 32)(*raw), cdb_len=len(raw), direction=direction,
                         length=length, **fields)


class Run(ctypes.Structure):
    _fields_ = [("slot", c_uint32), ("buffer", c_uint16), ("flags", c_uint16), ("lba", c_uint64)]


class Batch(ctypes.Structure):
    _fields_ = [("list", c_uint64), ("count", c_uint32), ("flags", c_uint32)]


class Event(ctypes.Structure):
    _fields_ = [("tag", c_uint64), ("result", c_int32), ("reserved", c_uint32),
                ("more", c_uint64)]


class Outcome(ctypes.Structure):
    _fields_ = [("error", c_int32), ("status", c_uint8), ("host", c_uint8), ("key", c_uint8),
                ("asc", c_uint8), ("ascq", c_uint8), ("sense_len", c_uint8), ("resid", c_uint32),
                ("sense", ctypes.POINTER(c_uint8))]


class Info(ctypes.Structure):
    _fields_ = [("features", c_uint64)] + [(name, c_uint32) for name in (
        "slots", "depth", "max_transfer", "max_segments", "alignment", "slot_bytes",
        "max_waiting", "max_held")] + [("reserved", c_uint32 * 22)]


def library():
    lib = ctypes.CDLL(str(LIBRARY), use_errno=True)
    for name in ("smq_strerror", "smq_library_version", "smq_outcome_text", "smq_field_name"):
        getattr(lib, name).restype = ctypes.c_char_p
    lib.smq_status.restype = ctypes.c_void_p
    lib.smq_good.restype = ctypes.c_bool
    return lib


class Memory:
    """Pages of this process."""

    def __init__(self, size=1 << 20):
        self.map = mmap.mmap(-1, size)
        self.address = ctypes.addressof(ctypes.c_char.from_buffer(self.map))

    def __getitem__(self, key):
        return self.map[key]

    def __setitem__(self, key, value):
        self.map[key] = value


class Device:
    """A struct smq_device. Its methods call libsmq's functions and return their results."""

    def __init__(self, lib, node):
        self.lib, self.handle, self.field = lib, ctypes.c_void_p(), None
        self.error = lib.smq_open(node.encode(), ctypes.byref(self.handle))

    def close(self):
        self.lib.smq_close(self.handle)
        self.handle = ctypes.c_void_p()

    def info(self):
        got = Info()
        assert self.lib.smq_info(self.handle, ctypes.byref(got)) == 0
        return got

    def setup(self, slots, sense=96):
        return self.lib.smq_setup(self.handle, slots, sense)

    def setup_held(self, slots, share):
        return self.lib.smq_setup_held(self.handle, slots, 96, share)

    def lend(self, index, memory, size=1 << 20, at=0, flags=0):
        return self.lib.smq_lend(self.handle, index, ctypes.c_void_p(memory.address + at),
                                 ctypes.c_size_t(size), flags)

    def take_back(self, index):
        return self.lib.smq_take_back(self.handle, index)

    def prepare(self, first, *slots):
        """Calls smq_prepare(). Returns its error and how many slots were filled; stores the name of
        the field at fault."""
        array, done, field = (Slot * len(slots))(*slots), c_uint32(99), c_uint32(99)
        error = self.lib.smq_prepare(self.handle, first, array, len(slots), ctypes.byref(done),
                                     ctypes.byref(field))
        self.field = self.lib.smq_field_name(field)
        return error, done.value

    def cancel(self, slot):
        return self.lib.smq_cancel(self.handle, slot)

    def cancel_all(self):
        return self.lib.smq_cancel_all(self.handle)

    def execute(self, batch):
        """Calls smq_execute(). Returns its error and how many commands did not end with GOOD."""
        failed = c_uint32(99)
        return self.lib.smq_execute(self.handle, batch, ctypes.byref(failed)), failed.value

    def outcome(self, slot):
        got = Outcome()
        self.lib.smq_slot_outcome(self.handle, slot, ctypes.byref(got))
        return got

    def runs(self, slot):
        """How often the slot's command has ended."""
        at = self.lib.smq_status(self.handle, slot)
        return struct.unpack_from("iII", ctypes.string_at(at, 12))[2]

    def text(self, slot):
        buf = ctypes.create_string_buffer(512)
        got = self.outcome(slot)
        return self.lib.smq_outcome_text(ctypes.byref(got), buf, ctypes.c_size_t(512)).decode()


class Ring:
    """A struct smq_ring."""

    def __init__(self, lib, entries=64, flags=0):
        self.lib, self.handle = lib, ctypes.c_void_p()
        self.error = lib.smq_ring_new(entries, flags, ctypes.byref(self.handle))

    def close(self):
        self.lib.smq_ring_free(self.handle)
        self.handle = ctypes.c_void_p()

    def add(self, device):
        return self.lib.smq_ring_add(self.handle, device.handle)

    def remove(self, device):
        return self.lib.smq_ring_remove(self.handle, device.handle)

    def run(self, device, slot, tag=0):
        return self.lib.smq_queue_run(self.handle, device.handle, slot, c_uint64(tag))

    def run_with(self, device, run, tag=0):
        return self.lib.smq_queue_run_with(self.handle, device.handle, ctypes.byref(run),
                                           c_uint64(tag))

    def batch(self, device, batch, tag=0):
        return self.lib.smq_queue_batch(self.handle, device.handle, batch, c_uint64(tag))

    def submit(self):
        return self.lib.smq_submit(self.handle)

    def reap(self, least=1, most=64, seconds=20.0):
        """Reaps events. Returns (tag, result) of each, or the errno."""
        events = (Event * most)()
        n = self.lib.smq_reap(self.handle, events, most, least,
                              ctypes.c_int64(int(seconds * 1e9)))
        return n if n < 0 else [(e.tag, e.result) for e in events[:n]]


def slot_list(*slots):
    array = (c_uint32 * len(slots))(*slots)
    batch = Batch(ctypes.addressof(array), len(slots), 0)
    batch.keep = array
    return batch


def run_list(*runs):
    array = (Run * len(runs))(*runs)
    batch = Batch(ctypes.addressof(array), len(runs), RUNS)
    batch.keep = array
    return batch


def slot_range(first, count):
    return Batch(first, count, RANGE)


@contextlib.contextmanager
def opened(kind, *args, **kwargs):
    """Yields an open Device or Ring, which is closed at the end; fails if it does not open."""
    thing = kind(*args, **kwargs)
    assert thing.error == 0
    try:
        yield thing
    finally:
        thing.close()
