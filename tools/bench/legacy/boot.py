# SPDX-License-Identifier: GPL-2.0
"""One boot of the given kernel. The guest's first serial port is the console. The second one has
the results, and the third one the kernel's symbols."""

import re
import shutil
import subprocess
import time
from pathlib import Path

from smqbench import guestlog
from smqbench.acquisitions import LOCKING
from smqbench.errors import BenchError
from smqbench.vm import BUILT, ROLES, ROOT, progress

from .plan import EXACT, TIME

QEMU = "qemu-system-x86_64"
MEMORY = "512M"
# The counts must not include mitigations, so these are off. Old kernels have other names for them.
ARGUMENTS = ["console=ttyS0", "quiet", "loglevel=4", "panic=-1", "oops=panic", "nokaslr",
             "norandmaps", "no_timer_check", "mitigations=off", "nopti", "nospectre_v2",
             "spec_store_bypass_disable=off",
             # The third port shares the interrupt of the first, which is the console.
             "8250.share_irqs=1"]
# The emulated TSC is the host's TSC. The kernel's clocksource watchdog may reject it; the kernel
# would then use a clock that costs an exit for each read. The comment on "QEMU before 8.1" in
# tools/testvm/machine.py explains the last option.
NOT_EXACT = ["tsc=reliable", "clocksource=tsc", "trace_options=norecord-cmd"]
# Kernels up to 4.20 have other names for the slow paths of semaphores.
LOCK_ARGUMENTS = [*LOCKING, "slow=rwsem_down_*_failed*"]
SYMBOLS = "kallsyms.1"
SYMBOLS_END = "# end"
POLL = 0.2
TAIL = 15


class NoLegacyPath(Exception):
    """The kernel has booted, but has no parameter that selects the path."""


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return ""


def _tail(console: Path) -> str:
    lines = [line for line in _text(console).replace("\r", "").splitlines() if line.strip()]
    return "".join(f"\n  {line}" for line in lines[-TAIL:]) or "\n  (nothing)"


class Boot:
    """A run of QEMU. The guest and the plugin write into @folder."""

    def __init__(self, image: Path, initrd: Path, arguments: list[str], folder: Path, *,
                 kind: str, cpus: int):
        self.log = folder / "log"
        self.console = folder / "console"
        self._kind = kind
        self._folder = folder
        plugin = BUILT / "locks.so"
        if not plugin.exists():
            raise BenchError(f"{plugin.relative_to(ROOT)} is not built: make tools")
        if not shutil.which(QEMU):
            raise BenchError(f"{QEMU} is not installed: tools/deps install bench")
        if "," in str(folder):
            raise BenchError(f"{folder}: QEMU takes no comma in the name of a file")
        words = [*ARGUMENTS, *([] if kind == EXACT else NOT_EXACT), *arguments]
        self._command = [
            "setpriv", "--pdeathsig", "KILL", "--", QEMU, "-nodefaults", "-no-user-config",
            "-display", "none", "-no-reboot", "-machine", "pc", "-m", MEMORY, "-smp", str(cpus),
            "-cpu", "qemu64", "-accel", f"tcg,thread={'single' if kind == EXACT else 'multi'}",
            *(["-icount", "shift=0,sleep=off"] if kind == EXACT else []),
            "-kernel", str(image), "-initrd", str(initrd), "-append", " ".join(words),
            "-serial", f"file:{self.console}", "-serial", f"file:{self.log}",
            "-serial", f"file:{folder / SYMBOLS}"]
        if kind != TIME:
            self._command += ["-plugin", ",".join([
                str(plugin), f"out={folder / 'out'}", f"hist={folder / 'hist'}",
                f"symbols={folder / 'kallsyms'}", *ROLES, *LOCK_ARGUMENTS])]

    def run(self, what: str, expected: int, timeout: float) -> guestlog.GuestLog:
        """Boots, and waits until the guest has written its last line. Returns the guest's log."""
        with open(self._folder / "qemu", "w+", encoding="utf-8") as said:
            with subprocess.Popen(self._command, stdin=subprocess.DEVNULL, stdout=said,
                                  stderr=said) as process:
                try:
                    self._watch(process, what, expected, timeout)
                finally:
                    process.kill()
        log = guestlog.read(self._folder, plugin=self._kind != TIME)
        if self._kind != TIME and not _text(self._folder / SYMBOLS).rstrip().endswith(SYMBOLS_END):
            raise BenchError("the guest's symbols did not come through the third serial port: "
                             "the kernel needs CONFIG_SERIAL_8250_RUNTIME_UARTS=4 and "
                             "CONFIG_SERIAL_8250_SHARE_IRQ=y")
        return log

    def _watch(self, process: subprocess.Popen[bytes], what: str, expected: int,
               timeout: float) -> None:
        began = time.monotonic()
        say = progress(what, expected, lambda: len(re.findall(r"^run ", _text(self.log),
                                                              re.MULTILINE)))
        while True:
            ended = process.poll() is not None
            last = self._last_word()
            say(bool(last or ended))
            if last == "end":
                return
            if last == "refused":
                raise NoLegacyPath
            if last:
                raise BenchError(f"the guest: {last.removeprefix('error ')}; its last messages:"
                                 f"{_tail(self.console)}")
            if ended:
                raise BenchError("the guest ended before its measurements did; QEMU: "
                                 f"{_text(self._folder / 'qemu').strip() or '(nothing)'}; the "
                                 f"kernel's last messages:{_tail(self.console)}")
            if time.monotonic() > began + timeout:
                raise BenchError(f"the guest did not finish within {timeout:.0f} s; "
                                 f"the kernel's last messages:{_tail(self.console)}")
            time.sleep(POLL)

    def _last_word(self) -> str:
        """Returns the line that ends a boot, or "" until the guest has written the whole line."""
        found = re.search(r"^(end|refused|error .*)\r?\n", _text(self.log), re.MULTILINE)
        return found.group(1).strip() if found else ""
