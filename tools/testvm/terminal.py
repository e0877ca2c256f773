# SPDX-License-Identifier: GPL-2.0
"""The user's terminal as the guest's console."""

import os
import signal
import sys
import termios
import threading
import tty
from collections.abc import Callable
from typing import Any

from .streams import Port

QUIT = b"\x1d"


class Terminal:
    """Handles raw mode, the window size, and the key that ends the VM."""

    # Set by connect().
    _port: Port
    _control: Port
    _quit: Callable[[], object]

    def __init__(self) -> None:
        self._saved: list[Any] | None = None

    @staticmethod
    def size() -> os.terminal_size:
        """Rows and columns of the window."""
        return os.get_terminal_size(sys.stdin.fileno())

    def connect(self, port: Port, control: Port, on_quit: Callable[[], object]) -> None:
        """Starts to show the guest's output."""
        self._port, self._control, self._quit = port, control, on_quit
        port.follow(lambda data: os.write(sys.stdout.fileno(), data) if data else None)

    def begin(self) -> None:
        """Starts to pass keys and window sizes to the guest."""
        descriptor = sys.stdin.fileno()
        self._saved = termios.tcgetattr(descriptor)
        tty.setraw(descriptor)
        signal.signal(signal.SIGWINCH, self._resized)
        self._resized()
        threading.Thread(target=self._keys, daemon=True).start()

    def end(self) -> None:
        """Restores the terminal's state."""
        if self._saved is not None:
            signal.signal(signal.SIGWINCH, signal.SIG_DFL)
            termios.tcsetattr(sys.stdin.fileno(), termios.TCSADRAIN, self._saved)
            self._saved = None

    def _resized(self, *_ignored: object) -> None:
        size = self.size()
        self._control.send(f"size {size.lines} {size.columns}\n".encode())

    def _keys(self) -> None:
        while True:
            data = os.read(sys.stdin.fileno(), 4096)
            if not data or QUIT in data:
                self._quit()
                return
            self._port.send(data)
