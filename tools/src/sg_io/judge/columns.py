# SPDX-License-Identifier: GPL-2.0
"""The commands of a command file as columns of numbers. The C part reads the file: columns.h has
the format."""

import os
import subprocess
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from judge import text

Numbers = npt.NDArray[Any]
TOOK_MS = np.uint32(1 << 31)    # the rest is in ms, see cmdfile_took()


class Commands:
    """The commands of a file, in its order."""

    def __init__(self, stream: BinaryIO) -> None:
        words = stream.readline().split()
        if not words:
            raise EOFError
        self.nr = int(words[0])
        self.timed = words[1] != b"0"   # some line has at=
        names = []
        for _ in range(int(words[2])):
            name = b""
            while not name.endswith(b"\0"):
                name += stream.read(1)
            names.append(os.fsdecode(name[:-1]))
        self.devs = names               # empty: no line has dev=
        self.key = self._column(stream, "u8")   # equal for equal CDBs
        self.at = self._column(stream, "i8")    # us
        self.took = self._column(stream, "u4")  # 0: not known; see took_ns()
        self.cpu = self._column(stream, "i2")   # -1: any
        self.dev = self._column(stream, "u1")

    def _column(self, stream: BinaryIO, kind: str) -> Numbers:
        column = np.empty(self.nr, kind)
        if stream.readinto(column.view("u1")) < column.nbytes:  # type: ignore[attr-defined]
            raise EOFError
        return column

    def take(self, order: Numbers) -> None:
        """Keeps these commands, in this order."""
        self.nr = len(order)
        for name in ("key", "at", "took", "cpu", "dev"):
            setattr(self, name, getattr(self, name)[order])


def took_ns(took: Numbers) -> Numbers:
    """How long commands took, in ns."""
    ns: Numbers = took.astype("i8")
    ms = np.flatnonzero(took & TOOK_MS)
    ns[ms] = (took[ms] & ~TOOK_MS).astype("i8") * 1_000_000
    return ns


def load(program: str, who: str, path: str, maps: list[str]) -> Commands:
    """Reads a command file with these --map; ends after a message if it cannot be read."""
    words = [program, "columns", who, *(f"--map={one}" for one in maps), "--", path]
    with subprocess.Popen(words, stdout=subprocess.PIPE, bufsize=1 << 20) as process:
        assert process.stdout
        try:
            return Commands(process.stdout)  # type: ignore[arg-type]
        except EOFError:
            process.stdout.close()
            raise SystemExit(process.wait() or text.DEVICE) from None
