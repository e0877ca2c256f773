# SPDX-License-Identifier: GPL-2.0
"""The ports between guest and host. A thread reads each of them."""

import os
import socket
import threading
from collections.abc import Callable

BLOCK = 256 * 1024
FINISH_SECONDS = 5


class Port:
    """A socket pair. The guest's process inherits one end, .guest; this process keeps the other."""

    def __init__(self, name: str):
        self.name = name
        self.socket, self.guest = socket.socketpair()

    def chardev(self) -> list[str]:
        """QEMU's options for the character device of the port."""
        return ["-chardev", f"socket,id={self.name},fd={self.guest.fileno()}"]

    def read(self) -> bytes:
        """Reads the next data, b"" at the end."""
        try:
            return self.socket.recv(BLOCK)
        except ConnectionError:
            return b""

    def send(self, data: bytes) -> None:
        """Sends data to the guest. Ignores errors: the guest may have ended."""
        try:
            self.socket.sendall(data)
        except (ConnectionError, OSError):
            pass

    def follow(self, take: Callable[[bytes], object]) -> threading.Thread:
        """Starts a thread that calls take(data) for all data, and finally take(b"")."""
        def run() -> None:
            while True:
                data = self.read()
                take(data)
                if not data:
                    return

        thread = threading.Thread(target=run, name=self.name, daemon=True)
        thread.start()
        return thread


class Output:
    """Writes a stream of the guest to a descriptor, up to the end mark."""

    def __init__(self, descriptor: int, end_mark: bytes, on_broken: Callable[[], object]):
        self._descriptor = descriptor
        self._mark = end_mark
        self._on_broken = on_broken
        self._held = b""
        self._thread: threading.Thread | None = None
        self.ended = threading.Event()

    def follow(self, port: Port) -> None:
        """Starts to read from a port, in the port's thread."""
        self._thread = port.follow(self.take)

    def take(self, data: bytes) -> None:
        """Writes data. Holds back bytes at its end that may be the beginning of the mark."""
        if self.ended.is_set() or not data:
            return
        data = self._held + data
        if data.endswith(self._mark):
            self._write(data[:-len(self._mark)])
            self.ended.set()
            return
        keep = self._overlap(data)
        self._held = data[len(data) - keep:]
        self._write(data[:len(data) - keep])

    def finish(self) -> None:
        """Writes the bytes that were held back, because no mark will come.

        If the reader of this process's output has exited, they are lost. """
        assert self._thread, "follow() comes first"
        self._thread.join(FINISH_SECONDS)
        if not self._thread.is_alive() and not self.ended.is_set():
            self._write(self._held)
            self._held = b""

    def _overlap(self, data: bytes) -> int:
        """The number of bytes at the end of data that may be the beginning of the mark."""
        for size in range(min(len(self._mark) - 1, len(data)), 0, -1):
            if data.endswith(self._mark[:size]):
                return size
        return 0

    def _write(self, data: bytes) -> None:
        view = memoryview(data)
        try:
            while view:
                view = view[os.write(self._descriptor, view):]
        except BrokenPipeError:
            self.ended.set()
            self._on_broken()
