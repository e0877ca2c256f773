# SPDX-License-Identifier: GPL-2.0
"""Each allocation of a module's start, of a host's, a LUN's, a claim's and of a change of policy
fails once.

Whatever fails ends in a clean errno, leaves no report and no leak behind, and the next
attempt works. Leaks show when the module goes: the kernel counts what its code has
allocated and not freed.
"""
import ctypes
import errno
import fcntl
import os
import re
from contextlib import contextmanager
from pathlib import Path

import pytest
from kit import cdb, conv, failnth, smqsg
from kit.host import find_hosts, is_loaded, load, run, unload, wait_for
from kit.ramdir import RamDir, ram_dirs
from kit.sgio import DXFER_FROM_DEV, SG_IO, SgIoHdr

pytestmark = pytest.mark.limit(240)
LEAK = r"module smq\S* func:\S+ has \d+ allocated at module unload"
# A host's two devices: the mid-layer does not look whether they got their names, and what
# has none cannot be added, which is EINVAL. An object is refused by its slab, or as a slab
# that is empty gets no page.
HOST_ERRORS = (errno.ENOMEM, errno.EINVAL)
HOST_NAMES = 2 * 2
# The loader says of a symbol for which it had no memory that it is not known.
LOADER_ERRORS = (errno.ENOENT,)
# The mid-layer says of a LUN that it had no memory for that there is none.
LUN_ERRORS = (errno.ENOMEM, errno.ENODEV)
UPPER = ("sd_mod", "sg")


@pytest.fixture(scope="module", autouse=True)
def _no_disks():
    """Neither disks nor sg nodes: to probe them is most of the time, and not the subject."""
    for module in UPPER:
        unload(module)
    yield
    for module in UPPER:
        load(module)


@pytest.fixture(autouse=True)
def _clean(klog):
    """Failures on; no report, nor memory of our modules left, when they have gone."""
    failnth.prepare()
    yield
    for module in ("smq_conv", "smq_ram", "smq_legacy", "smq"):
        if is_loaded(module):
            unload(module)
    assert not klog.faults(), klog.tail(80)
    leaks = klog.matching(LEAK)
    assert not leaks, "\n".join(leaks)


def check_nameless(attempts):
    """Only a host's own devices may be refused for the want of a name."""
    nameless = failnth.refused(attempts, errno.EINVAL)
    assert len(nameless) <= HOST_NAMES, "\n".join(map(str, nameless))


def module_file(name):
    """The .ko that modprobe would load."""
    return Path(run("modinfo", "-n", name).stdout.strip())


def test_module_start():
    """Not that of smq: the kernel's own code for tracepoints warns when it has no memory."""
    name = "smq_ram"
    load("smq")

    def check(one):
        assert is_loaded(name) == (one.errno == 0), one
        if one.errno == 0:
            failnth.remove(name)
        assert not find_hosts(name), one

    params = "hosts=1 size_mb=16 depth=4 hw_queues=1"
    with failnth.inserter(module_file(name), params) as start:
        # Few of them: the kernel's loader makes the first, and most starts succeed.
        attempts = failnth.every(start, check, HOST_ERRORS + LOADER_ERRORS, first=20, each=40)
    assert failnth.refused(attempts, errno.ENOMEM)
    check_nameless(attempts)
    load(name)


@contextmanager
def small_host(luns, hw_queues=2):
    """A running host of few commands: all are allocated, and looked at, when it is added."""
    with ram_dirs():
        host_dir = RamDir("a")
        host_dir.set("depth", 4)
        host_dir.set("hw_queues", hw_queues)
        for number in range(luns):
            host_dir.add_lun(number, size_mb=16)
        yield host_dir, power_on(host_dir, luns)


def power_on(host_dir, luns):
    """Without nodes of its LUNs to wait for."""
    host_dir.set("power", 1)
    [host] = find_hosts("smq_ram")
    wait_for("the LUNs", lambda: len(host.luns()) == luns)
    return host


def test_host_power_on():
    with small_host(luns=1) as (host_dir, _):
        host_dir.set("power", 0)

        def check(one):
            on = one.errno == 0
            assert host_dir.get("power") == str(int(on)), one
            assert len(find_hosts("smq_ram")) == on, one
            host_dir.set("power", 0)
            assert not find_hosts("smq_ram"), one

        with failnth.writer(host_dir.path / "power", "1") as start:
            # Those of the host come first, those of its scan are test_lun_power_on()'s.
            attempts = failnth.every(start, check, HOST_ERRORS, first=60, each=25)
        assert len(failnth.refused(attempts, errno.ENOMEM)) > 10
        check_nameless(attempts)
        power_on(host_dir, 1)


def test_lun_power_on():
    with small_host(luns=1) as (host_dir, host):
        (host_dir.path / "luns/1").mkdir()
        host_dir.set("luns/1/size_mb", 16)

        def check(one):
            on = one.errno == 0
            assert host_dir.get("luns/1/power") == str(int(on)), one
            assert len(host.luns()) == 1 + on, one
            host_dir.set("luns/1/power", 0)
            wait_for("the LUN to go", lambda: len(host.luns()) == 1)

        with failnth.writer(host_dir.path / "luns/1/power", "1") as start:
            attempts = failnth.every(start, check, LUN_ERRORS, first=60, each=15)
        assert len(failnth.refused(attempts)) > 10
        host_dir.set("luns/1/power", 1)
        assert len(host.luns()) == 2


def test_claim():
    """By smq_conv: the upper host, the claim and its LUN, or nothing of it."""
    with small_host(luns=1, hw_queues=1) as (_, host):
        load("smq_conv")
        address = host.luns()[0].address

        def check(one):
            claimed = one.errno == 0
            assert (conv.DRIVER / address).exists() == claimed, one
            assert len(conv.uppers()) == claimed, one
            if claimed:
                conv.ask("release", address)
            assert not find_hosts("smq_conv"), one

        with failnth.writer(conv.DRIVER / "claim", address) as start:
            attempts = failnth.every(start, check, HOST_ERRORS + LUN_ERRORS, first=60, each=25)
        assert len(failnth.refused(attempts, errno.ENOMEM)) > 10
        conv.ask("claim", address)
        assert len(conv.uppers()) == 1


def policies(host, klog):
    """All that the host knows, in the words in which it refuses another one."""
    with pytest.raises(OSError):
        (host.sysfs / "smq/policy").write_text("none-such", encoding="ascii")
    line = klog.wait("policy 'none-such' is not known")
    return re.search("known: (.*)", line).group(1).replace(",", " ").split()


def test_policy_change(klog):
    load("smq_legacy")
    # One hardware queue: legacy-model wants no more.
    with small_host(luns=2, hw_queues=1) as (_, host):
        path = host.sysfs / "smq/policy"
        before = host.policy()
        refused = 0
        for name in policies(host, klog):
            def check(one, name=name):
                assert host.policy() == (before if one.errno else name), one
                path.write_text(before, encoding="ascii")

            with failnth.writer(path, name) as change:
                attempts = failnth.every(change, check)
            # One for the text that is written, whatever it says.
            refused += len(failnth.refused(attempts)) - 1
            path.write_text(name, encoding="ascii")
            assert host.policy() == name
            path.write_text(before, encoding="ascii")
        assert refused > 0


def read_nowhere(node, size):
    """The errno of an SG_IO whose data is dropped: it needs pages of the kernel's."""
    raw = ctypes.create_string_buffer(cdb.plain(cdb.INQUIRY), 6)
    header = SgIoHdr(interface_id=ord("S"), dxfer_direction=DXFER_FROM_DEV, cmd_len=6,
                     dxfer_len=size, cmdp=ctypes.addressof(raw), timeout=20_000)
    fd = os.open(node, os.O_RDWR)
    try:
        fcntl.ioctl(fd, SG_IO, header)
    except OSError as error:
        return error.errno
    finally:
        os.close(fd)
    return 0


def test_no_memory_for_large_pieces():
    """Data that fits in large pieces, and is in too many single pages for the device: that is a
    want of memory, and no wrong request."""
    with smqsg.module():
        load("smq_hold")
        try:
            [host] = find_hosts("smq_hold")
            wait_for("its LUN", host.luns)
            node = smqsg.node(host.luns()[0])
            size = (smqsg.attr(node, "max_segments") + 8) * 4096
            assert read_nowhere(node, size) == 0
            with failnth.single_pages():
                assert read_nowhere(node, size) == errno.ENOMEM
                assert read_nowhere(node, 64 * 4096) == 0
        finally:
            unload("smq_hold")
