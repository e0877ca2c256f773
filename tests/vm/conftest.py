# SPDX-License-Identifier: GPL-2.0
"""Tests that run inside the VM: tools/vm -- python3 -m pytest tests/vm/test_io.py

Markers: smoke for the subset that runs on every kernel, limit(SECONDS) for a
test that may take longer than LIMIT. Every test gets at least twice its limit,
because other programs may use the machine, too. not_uml(REASON) and
not_sanitized(REASON): the test is deselected on User Mode Linux, or on its
kernel with the sanitizers.
"""
import faulthandler
import os
import signal
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest
from kit import hold as hold_lld
from kit import smqsg
from kit.host import KernelLog, is_loaded, loaded, run, settle, wait_for
from kit.memory import PAGE, Memory
from kit.monitor import Monitor
from kit.numbered import numbered_disk
from kit.slots import SlotFile
from kit.slowdisk import slow_disk
from kit.sanitizing import ABSENT, TIME_FACTOR

LIMIT = 60
TIMES = max(TIME_FACTOR, 2)
# If a test does not react to the alarm, the run ends after this many more seconds, with a stack
# trace.
GRACE = 20


def pytest_configure(config) -> None:
    """Registers the markers, and refuses to load modules anywhere but in the VM."""
    config.addinivalue_line("markers", "smoke: also runs on the other kernels")
    config.addinivalue_line("markers", f"limit(seconds): another time limit than {LIMIT} s")
    config.addinivalue_line("markers", "not_uml(reason): cannot run on User Mode Linux")
    config.addinivalue_line("markers", "not_sanitized(reason): cannot run under the sanitizers")
    # The pages name programs as an installation has them; here they are those of the tree.
    os.environ["PATH"] = f"{Path(__file__).resolve().parents[2] / 'tools'}:{os.environ['PATH']}"
    if not Path("/run/vm/session").exists() and not config.option.collectonly:
        pytest.exit("these tests load kernel modules: run them as "
                    "tools/vm -- python3 -m pytest tests/vm", returncode=2)


class TookTooLong(BaseException):
    """Not derived from Exception, so that no test catches it by "except Exception"."""


def _on_alarm(_signal, _frame) -> None:
    raise TookTooLong("the test has reached its time limit")


def _limit(item) -> int:
    mark = item.get_closest_marker("limit")
    return (mark.args[0] if mark else LIMIT) * TIMES


def pytest_collection_modifyitems(config, items) -> None:
    """Deselects tests that cannot run on this kernel."""
    absent = [item for item in items if any(map(item.get_closest_marker, ABSENT))]
    config.hook.pytest_deselected(items=absent)
    items[:] = [item for item in items if item not in absent]


@contextmanager
def _bounded(item, stderr):
    seconds = _limit(item)
    before = signal.signal(signal.SIGALRM, _on_alarm)
    signal.alarm(seconds)
    faulthandler.dump_traceback_later(seconds + GRACE, exit=True, file=stderr)
    try:
        yield
    finally:
        faulthandler.cancel_dump_traceback_later()
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


# The real stderr, which pytest does not capture.
_STDERR = os.fdopen(os.dup(sys.stderr.fileno()), "w")


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_setup(item):
    """Limits the time of the fixtures."""
    with _bounded(item, _STDERR):
        yield


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_call(item):
    """Limits the time of the test."""
    with _bounded(item, _STDERR):
        yield


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_teardown(item):
    """Limits the time of the teardown."""
    with _bounded(item, _STDERR):
        yield


@pytest.fixture(scope="session", autouse=True)
def upper_drivers():
    """Loads the drivers of disks and sg nodes: in the VM nothing else loads them."""
    for module in ("sd_mod", "sg"):
        if not is_loaded(module):
            run("modprobe", module)


@pytest.fixture
def klog():
    """The kernel log from the start of the test on."""
    with KernelLog() as log:
        yield log


@pytest.fixture
def ram():
    """One smq_ram host with one LUN of 256 MiB: what the module creates without parameters."""
    with loaded("smq_ram") as hosts:
        yield hosts[0]


@pytest.fixture
def disk(ram):
    """The LUN of ram."""
    return ram.luns()[0]


@pytest.fixture
def hold(request):
    """One smq_hold host. The fixture's parameters (kit.hold.with_params) go to the module."""
    params = dict(getattr(request, "param", {}))
    with loaded("smq_hold", io_errors=params.pop("io_errors", False), **params) as hosts:
        for lun in hosts[0].luns():
            (lun.sysfs / "timeout").write_text(str(hold_lld.TIMEOUT), encoding="ascii")
            # Without merges each I/O is one command, so the tests can count them.
            (lun.queue / "nomerges").write_text("2", encoding="ascii")
        yield hosts[0]
        settle(hosts[0])
        # sd and udev may be sending commands to a LUN that has just been found.
        wait_for("no command in flight", lambda: hold_lld.get_param("inflight") == 0)


# Fixtures for smq_sg: open files on a disk with known data, and disks that a test can make slow.

@pytest.fixture(scope="module")
def path():
    """The node of a disk of smq_ram. The disk's first blocks contain their own LBA."""
    with numbered_disk() as node:
        yield node


@pytest.fixture
def file(path):
    """An open file with 64 slots."""
    with SlotFile(path, 64) as opened:
        yield opened
    smqsg.idle(path)


@pytest.fixture
def memory(file):
    """64 KiB of memory, lent to the file as buffer 0."""
    area = Memory(16 * PAGE)
    assert file.lend(0, area) == 0
    return area


@pytest.fixture(scope="module")
def sg_module():
    """Loads smq_sg for the tests of a file."""
    with smqsg.module():
        yield


@pytest.fixture
def device(sg_module):
    """A slow disk (kit.slowdisk) for one test."""
    with slow_disk() as found:
        yield found


@pytest.fixture
def polled(sg_module):
    """A slow disk with poll queues, for one test."""
    with slow_disk(poll_queues=2) as found:
        yield found


@pytest.fixture
def monitor():
    """QEMU's monitor."""
    with Monitor() as found:
        yield found


# Fixture for Fibre Channel. Each test file that uses it defines the fixture link.

@pytest.fixture
def fc(link, klog):
    """The link, which is up and has its default timeouts. At the end the kernel log must have no
    fault."""
    link.up()
    link.set_loss_timeouts()
    yield link
    link.up()
    assert not klog.faults(), klog.tail(60)
