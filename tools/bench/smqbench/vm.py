# SPDX-License-Identifier: GPL-2.0
"""Boots the test VM with a counting plugin, and runs a script in it that measures."""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from . import guestlog
from .errors import BenchError
from .groups import OWN_MODULES

BENCH = Path(__file__).resolve().parents[1]
ROOT = BENCH.parents[1]
BUILT = ROOT / "build" / "tools" / "bench"
VM = ROOT / "tools" / "vm"

POLL = 0.5
PROGRESS_STEP = 20  # runs between two lines of progress if there is no terminal
GRACE = 30          # seconds for tools/vm to stop the VM after its own time limit

# Roles of guest functions, see plugin/symbols.h.
ROLES = [
    "leave=scsi_done", "leave=scsi_done_direct",
    "irq=asm_sysvec_*", "irq=asm_exc_*", "irq=asm_common_interrupt",
    "reset=__switch_to_asm",
]
# Functions of other code to which smq_sg hands a command or a completion. Commands go to the block
# layer, which may dispatch them at once, or directly to the mid-layer. Completions go to io_uring.
HANDED_OVER = [
    "leave=scsi_alloc_request", "leave=scsi_queue_rq", "leave=blk_execute_rq_nowait",
    "leave=blk_finish_plug",
    "leave=io_uring_cmd_complete_in_task", "leave=__io_uring_cmd_do_in_task",
    "leave=io_uring_cmd_done", "leave=__io_uring_cmd_done",
]
# All functions that allocate memory.
ALLOCATORS = [
    "kmem_cache_alloc*", "__kmem_cache_alloc*", "kmalloc_*", "__kmalloc*", "krealloc*",
    "kvmalloc*", "__kvmalloc*", "__vmalloc*", "vmalloc*", "vzalloc*", "__alloc_pages*",
    "alloc_pages*", "__alloc_frozen_pages*", "__folio_alloc*", "mempool_alloc*",
    "pcpu_alloc*", "__alloc_percpu*", "dma_pool_alloc*", "dma_alloc_*", "__alloc_skb",
]


@dataclass(frozen=True)
class Boot:
    """One boot of the VM and its script."""

    plugin: str                 # count, lines or locks
    kernel: str
    script: Path                # run in the guest
    arguments: Sequence[str]    # of the script; its first argument is the folder of the results
    vm_options: Sequence[str]
    plugin_arguments: Sequence[str]
    expected_runs: int
    timeout: int                # seconds
    own: frozenset[str] = OWN_MODULES  # modules that count as ours
    name: str = ""              # for messages of progress; "": the name of the plugin


def progress(name: str, expected: int, count: Callable[[], int]) -> Callable[[bool], None]:
    """Returns a function that prints how many runs have ended; at the end it is called with True.
    On a terminal each call replaces the line, else it prints only every PROGRESS_STEP runs."""
    began, shown, terminal = time.monotonic(), -PROGRESS_STEP, sys.stderr.isatty()

    def say(last: bool) -> None:
        nonlocal shown
        done = count()
        if not (terminal or last or done >= shown + PROGRESS_STEP):
            return
        shown, passed = done, time.monotonic() - began
        text = f"{name}: {done} of {expected} runs, {passed:.0f} s"
        if done and not last:
            text += f", about {passed * max(expected - done, 0) / done:.0f} s to go"
        sys.stderr.write(("\r\033[K" if terminal else "") + text +
                         ("\n" if last or not terminal else ""))
        sys.stderr.flush()
    return say


def _finished_runs(out: Path) -> int:
    return out.read_bytes().count(b"\n") if out.exists() else 0


def _watch(process: subprocess.Popen[bytes], boot: Boot, out: Path) -> int:
    say = progress(boot.name or boot.plugin, boot.expected_runs, lambda: _finished_runs(out))
    end = time.monotonic() + boot.timeout + GRACE
    while process.returncode is None:
        try:
            process.wait(POLL)
        except subprocess.TimeoutExpired:
            pass
        say(process.returncode is not None)
        if process.returncode is None and time.monotonic() > end:
            process.terminate()
            try:
                process.wait(GRACE)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            raise BenchError(f"the VM did not end within {boot.timeout} s")
    return process.returncode


def run(boot: Boot, folder: Path) -> guestlog.GuestLog:
    """Boots the VM, waits until its script has ended, and returns the logs in @folder."""
    plugin = BUILT / f"{boot.plugin}.so"
    if not plugin.exists():
        raise BenchError(f"{plugin.relative_to(ROOT)} is not built: make tools")
    folder.mkdir(parents=True, exist_ok=True)
    arguments = [f"out={folder / 'out'}", f"hist={folder / 'hist'}",
                 f"symbols={folder / 'kallsyms'}",
                 *(f"own={module}" for module in sorted(boot.own)), *ROLES,
                 *boot.plugin_arguments]
    if any("," in argument for argument in (str(plugin), *arguments)):
        raise BenchError(f"{folder}: QEMU takes no comma in the name of a file")
    command = [str(VM), "--kernel", boot.kernel, *boot.vm_options,
               "--plugin", ",".join([str(plugin), *arguments]), "--share", str(folder),
               "--timeout", str(boot.timeout), "--",
               str(boot.script), str(folder), *boot.arguments]
    with tempfile.TemporaryFile(mode="w+") as said:
        with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=said, stderr=said,
                              cwd=ROOT, env={**os.environ, "LC_ALL": "C"}) as process:
            try:
                status = _watch(process, boot, folder / "out")
            except BaseException:
                process.terminate()
                raise
        said.seek(0)
        words = said.read().strip()
    if status:
        raise BenchError(f"the VM ended with status {status}:\n{words}")
    return guestlog.read(folder)
