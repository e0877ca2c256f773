# SPDX-License-Identifier: GPL-2.0
"""The kernel's fault injection: the Nth allocation of one system call fails."""
import ctypes
import errno
import os
import random
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from .host import wait_for

FAIL_NTH = Path("/proc/thread-self/fail-nth")
DEBUGFS = Path("/sys/kernel/debug")
# More allocations than any system call makes.
MOST = 5000

_libc = ctypes.CDLL(None, use_errno=True)
# Numbers of system calls on x86-64.
SYS_FINIT_MODULE = 313
SYS_DELETE_MODULE = 176


def prepare() -> None:
    """Sets up fault injection: slab and page allocations may fail, including those that may sleep,
    and the kernel prints no message about it."""
    assert FAIL_NTH.exists(), "no fault injection: run as tools/uml --flavour sanitize"
    for kind in ("failslab", "fail_page_alloc"):
        (DEBUGFS / kind / "ignore-gfp-wait").write_text("N", encoding="ascii")
        (DEBUGFS / kind / "verbose").write_text("0", encoding="ascii")
    (DEBUGFS / "fail_page_alloc/min-order").write_text("0", encoding="ascii")


@contextmanager
def single_pages() -> Iterator[None]:
    """During the block this thread gets memory in single pages only."""
    folder, mark = DEBUGFS / "fail_page_alloc", Path("/proc/thread-self/make-it-fail")
    usual = {"task-filter": "N", "min-order": "0", "times": "1", "probability": "0"}
    wanted = {"task-filter": "Y", "min-order": "1", "times": "-1", "probability": "100"}
    for name, value in wanted.items():
        (folder / name).write_text(value, encoding="ascii")
    mark.write_text("1", encoding="ascii")
    try:
        yield
    finally:
        mark.write_text("0", encoding="ascii")
        for name, value in usual.items():
            (folder / name).write_text(value, encoding="ascii")


@dataclass
class Attempt:
    """The result of one system call: its errno, or 0; and whether an allocation failed in it."""
    number: int
    errno: int
    injected: bool

    def __str__(self) -> str:
        said = os.strerror(self.errno) if self.errno else "success"
        return f"allocation {self.number}: {said}"


def attempt(call: Callable[[], None], number: int) -> Attempt:
    """Runs call(), which must make one system call, and makes the allocation @number in it fail."""
    found = 0
    control = os.open(FAIL_NTH, os.O_RDWR | os.O_CLOEXEC)
    try:
        os.write(control, b"%d" % number)
        try:
            call()
        except OSError as error:
            found = error.errno
        # How many allocations are left to count; 0 if @number was reached and failed.
        left = int(os.pread(control, 16, 0))
        os.pwrite(control, b"0", 0)
    finally:
        os.close(control)
    return Attempt(number, found, left == 0)


def every(call: Callable[[], None], after: Callable[[Attempt], None],
          clean: tuple[int, ...] = (errno.ENOMEM,), first: int = MOST,
          each: int = 1) -> list[Attempt]:
    """Calls call() again and again, each time with the next of its allocations failing, until no
    allocation is left.

    Each of the first @first allocations fails once. Of the later ones a random selection fails,
    on average one in @each. after(attempt) checks the result, and undoes or repeats the call. Each
    attempt must succeed or fail with an errno in @clean. In the last attempt no allocation fails,
    so it must succeed.
    """
    seed = secrets.randbits(32)
    print(f"after the first {first} allocations a random selection fails, by seed {seed}")
    chance = random.Random(seed)
    done = []
    number = 0
    while number < MOST:
        number += 1 if number < first else chance.randint(1, 2 * each - 1)
        one = attempt(call, number)
        done.append(one)
        assert one.injected or not one.errno, f"{one}, though no allocation failed"
        assert one.errno in (0, *clean), f"{one} is not an expected error"
        after(one)
        if not one.injected:
            print(f"{len(done) - 1} of the first {number - 1} allocations failed; in "
                  f"{len(refused(done))} of these attempts the call returned an error")
            return done
    raise AssertionError(f"still failing after {MOST} allocations")


def refused(attempts: list[Attempt], number: int | None = None) -> list[Attempt]:
    """The attempts that ended in an error; with @number only those that ended in this errno."""
    return [one for one in attempts if one.errno and number in (None, one.errno)]


@contextmanager
def inserter(path: Path, params: str) -> Iterator[Callable[[], None]]:
    """Yields a function that loads the module in file @path by finit_module(). It does not use
    modprobe, which would make other system calls first."""
    words = params.encode()

    def insert() -> None:
        if _libc.syscall(SYS_FINIT_MODULE, descriptor, words, 0) < 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))

    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        yield insert
    finally:
        os.close(descriptor)


def remove(name: str) -> None:
    """Unloads a module by delete_module(). It does not use modprobe, which would also unload
    modules that only this one uses."""
    def gone() -> bool:
        if _libc.syscall(SYS_DELETE_MODULE, name.encode(), os.O_NONBLOCK) == 0:
            return True
        number = ctypes.get_errno()
        # The module is still in use for a moment.
        assert number == errno.EAGAIN, f"{name}: {os.strerror(number)}"
        return False

    wait_for(f"the removal of {name}", gone)


@contextmanager
def writer(path: Path, text: str) -> Iterator[Callable[[], None]]:
    """Yields a function that makes one write() to an open file.

    The file is closed at the end, because an open attribute of configfs keeps its module in use.
    """
    descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        yield lambda: os.pwrite(descriptor, text.encode(), 0) and None
    finally:
        os.close(descriptor)
