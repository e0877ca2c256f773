# SPDX-License-Identifier: GPL-2.0
"""Ad hoc commands: an SQE with a whole command, struct smq_sg_uring_cmd."""
import ctypes
import struct

from .memory import Memory
from .uring import Ring


def push_adhoc(ring: Ring, fd: int, raw: bytes, user_data: int = 0, memory: Memory | None = None,
               at: int = 0, length: int = 0, sense: Memory | None = None, out: bool = False,
               cmd_op: int = 0, iovecs: int = 0, timeout_ms: int = 0) -> ctypes.Array:
    """Puts a command into a ring with SQE128 and CQE32. @out: its data goes to the device, not
    from it. @iovecs: @memory holds this many iovecs, not the data itself. Returns objects that must
    live until the command ends."""
    keep = ctypes.create_string_buffer(raw, len(raw))
    data, none = (memory.address + at if memory else 0, length, iovecs), (0, 0, 0)
    ring.push(fd, cmd_op, struct.pack(
        "<QIIIIQQIIQIIII", ctypes.addressof(keep), len(raw), 0, 0, sense.size if sense else 0,
        sense.address if sense else 0, *(data if out else none), *(none if out else data),
        timeout_ms, 0), user_data)
    return keep
