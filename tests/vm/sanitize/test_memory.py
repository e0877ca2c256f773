# SPDX-License-Identifier: GPL-2.0
"""Makes each allocation fail once: at the start of a module, a host and a LUN, in a claim, and in a
change of policy.

Each failure must give a correct errno, without a kernel report or a leak, and the next attempt must
succeed. The kernel reports leaks when a module is unloaded: it counts what the module's code has
allocated and not freed. """
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
# The mid-layer does not check whether a host's two devices got their names; a device without a name
# cannot be added, which gives EINVAL. Each of the two names can fail in two ways: in the slab, or
# because an empty slab gets no page.
HOST_ERRORS = (errno.ENOMEM, errno.EINVAL)
MOST_NAMELESS = 2 * 2
# If the loader has no memory for a symbol, it reports the symbol as unknown.
LOADER_ERRORS = (errno.ENOENT,)
# If the mid-layer has no memory for a LUN, it may report that there is no LUN.
LUN_ERRORS = (errno.ENOMEM, errno.ENODEV)
UPPER = ("sd_mod", "sg")


@pytest.fixture(scope="module", autouse=True)
def _no_disks():
    """Unloads the drivers of disks and sg nodes, because probing would take most of the time and is
    not tested here."""
    for module in UPPER:
        unload(module)
    yield
    for module in UPPER:
        load(module)


@pytest.fixture(autouse=True)
def _clean(klog):
    """Sets up fault injection. At the end the kernel log must have no fault, and our unloaded
    modules must have freed all memory."""
    failnth.prepare()
    yield
    for module in ("smq_conv", "smq_ram", "smq_legacy", "smq"):
        if is_loaded(module):
            unload(module)
    assert not klog.faults(), klog.tail(80)
    leaks = klog.matching(LEAK)
    assert not leaks, "\n".join(leaks)


def check_nameless(attempts):
    """Checks that at most MOST_NAMELESS attempts failed with EINVAL, the errno when a device of the
    host gets no name."""
    nameless = failnth.refused(attempts, errno.EINVAL)
    assert len(nameless) <= MOST_NAMELESS, "\n".join(map(str, nameless))


def module_file(name):
    """The path of the .ko file that modprobe would load."""
    return Path(run("modinfo", "-n", name).stdout.strip())


def test_module_start_survives_failed_allocations():
    """Starts smq_ram with a host. smq is loaded before, without failures: the kernel's tracepoint
    code warns if it has no memory."""
    name = "smq_ram"
    load("smq")

    def check(one):
        assert is_loaded(name) == (one.errno == 0), one
        if one.errno == 0:
            failnth.remove(name)
        assert not find_hosts(name), one

    params = "hosts=1 size_mb=16 depth=4 hw_queues=1"
    with failnth.inserter(module_file(name), params) as start:
        # Each of the first 20 allocations fails once, and on average one in 40 of the later ones:
        # the kernel's loader makes the first ones.
        attempts = failnth.every(start, check, HOST_ERRORS + LOADER_ERRORS, first=20, each=40)
    assert failnth.refused(attempts, errno.ENOMEM)
    check_nameless(attempts)
    load(name)


@contextmanager
def small_host(luns, hw_queues=2):
    """A running host with few commands, because all commands are allocated when it is added."""
    with ram_dirs():
        host_dir = RamDir("a")
        host_dir.set("depth", 4)
        host_dir.set("hw_queues", hw_queues)
        for number in range(luns):
            host_dir.add_lun(number, size_mb=16)
        yield host_dir, power_on(host_dir, luns)


def power_on(host_dir, luns):
    """Starts a host; waits for its LUNs, but not for their nodes."""
    host_dir.set("power", 1)
    [host] = find_hosts("smq_ram")
    wait_for("the LUNs", lambda: len(host.luns()) == luns)
    return host


def test_host_power_on_survives_failed_allocations():
    with small_host(luns=1) as (host_dir, _):
        host_dir.set("power", 0)

        def check(one):
            on = one.errno == 0
            assert host_dir.get("power") == str(int(on)), one
            assert len(find_hosts("smq_ram")) == on, one
            host_dir.set("power", 0)
            assert not find_hosts("smq_ram"), one

        with failnth.writer(host_dir.path / "power", "1") as start:
            # The first allocations are the host's; those of its scan are tested by
            # test_lun_power_on_survives_failed_allocations().
            attempts = failnth.every(start, check, HOST_ERRORS, first=60, each=25)
        assert len(failnth.refused(attempts, errno.ENOMEM)) > 10
        check_nameless(attempts)
        power_on(host_dir, 1)


def test_lun_power_on_survives_failed_allocations():
    with small_host(luns=1) as (host_dir, host):
        (host_dir.path / "luns/1").mkdir()
        host_dir.set("luns/1/size_mb", 16)

        def check(one):
            on = one.errno == 0
            assert host_dir.get("luns/1/power") == str(int(on)), one
            assert len(host.luns()) == 1 + on, one
            host_dir.set("luns/1/power", 0)
            wait_for("the removal of the LUN", lambda: len(host.luns()) == 1)

        with failnth.writer(host_dir.path / "luns/1/power", "1") as start:
            attempts = failnth.every(start, check, LUN_ERRORS, first=60, each=15)
        assert len(failnth.refused(attempts)) > 10
        host_dir.set("luns/1/power", 1)
        assert len(host.luns()) == 2


def test_claim_survives_failed_allocations():
    """After an attempt to claim, either the claim, the upper host and its LUN exist, or none."""
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
    """The names of all policies, from the message that refuses an unknown one."""
    with pytest.raises(OSError):
        (host.sysfs / "smq/policy").write_text("none-such", encoding="ascii")
    line = klog.wait("policy 'none-such' is not known")
    return re.search("known: (.*)", line).group(1).replace(",", " ").split()


def test_policy_change_survives_failed_allocations(klog):
    load("smq_legacy")
    # One hardware queue, because legacy-model accepts only one.
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
            # One attempt is refused because the kernel has no memory for the written text. It does
            # not count.
            refused += len(failnth.refused(attempts)) - 1
            path.write_text(name, encoding="ascii")
            assert host.policy() == name
            path.write_text(before, encoding="ascii")
        assert refused > 0


def errno_of_read_without_buffer(node, size):
    """The errno of an SG_IO without a buffer for its data: the kernel allocates pages for it."""
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


def test_missing_large_pieces_give_enomem():
    """The data fits into the device's segments in large pieces of memory, but not in single pages.
    If there are no large pieces, the errno is ENOMEM, not that of a wrong request."""
    with smqsg.module():
        load("smq_hold")
        try:
            [host] = find_hosts("smq_hold")
            wait_for("its LUN", host.luns)
            node = smqsg.node(host.luns()[0])
            size = (smqsg.attr(node, "max_segments") + 8) * 4096
            assert errno_of_read_without_buffer(node, size) == 0
            with failnth.single_pages():
                assert errno_of_read_without_buffer(node, size) == errno.ENOMEM
                assert errno_of_read_without_buffer(node, 64 * 4096) == 0
        finally:
            unload("smq_hold")
