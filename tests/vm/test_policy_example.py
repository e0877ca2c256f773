# SPDX-License-Identifier: GPL-2.0
# on: uml sanitize 7.2
"""A policy in a module of its own, smq_example: it moves commands to other hardware queues."""

import pytest
from kit import cdb
from kit.fiojob import fio, load_on
from kit.hold import set_param, with_params
from kit.host import ModuleError, is_loaded, settle, unload, wait_for
from kit.sgio import SgDev
from kit.trace import traced

VERIFY = {"ioengine": "io_uring", "rw": "randwrite", "bs": 4096, "iodepth": 32, "size": "8m",
          "verify": "crc32c", "verify_fatal": 1, "cpus_allowed": "0"}
READS = {"ioengine": "libaio", "rw": "randread", "bs": 4096, "iodepth": 16, "time_based": True,
         "runtime": 600}


@pytest.fixture(autouse=True)
def unload_example():
    """Unloads smq_example after each test. unload() tries again until the policy's last command has
    ended."""
    yield
    if is_loaded("smq_example"):
        unload("smq_example")


def choose(host, policy):
    """Sets a host's policy."""
    (host.sysfs / "smq/policy").write_text(policy, encoding="ascii")


@pytest.mark.smoke
def test_the_name_of_a_policy_loads_its_module(ram, klog):
    """The job is pinned to one CPU. Without the policy one hardware queue gets all its commands;
    with the policy each hardware queue gets some."""
    assert not is_loaded("smq_example")
    before = [row["done"] for row in ram.hwqs()]
    fio(ram.luns()[0].sd, **VERIFY)
    plain = [row["done"] - old for row, old in zip(ram.hwqs(), before, strict=True)]
    # Which hardware queue gets the commands differs between kernels.
    assert max(plain) > 1000 > 100 > min(plain)
    choose(ram, "example")
    assert is_loaded("smq_example") and ram.policy() == "example"
    (ram.sysfs / "smq_example/most").write_text("1024", encoding="ascii")
    with pytest.raises(OSError):
        (ram.sysfs / "smq_example/most").write_text("0", encoding="ascii")
    klog.wait("smq_example/most=0 is no number in 1..1024")
    with traced() as trace:
        before = [row["done"] for row in ram.hwqs()]
        fio(ram.luns()[0].sd, **VERIFY)
        settle(ram)
        moved = [row["done"] - old for row, old in zip(ram.hwqs(), before, strict=True)]
    trace.check_once()
    assert min(moved) > 1000
    # The module cannot be unloaded while a host has its policy.
    with pytest.raises(ModuleError):
        unload("smq_example", 0)
    choose(ram, "direct")


@with_params(in_commit=1, hw_queues=2, delay_us=1000)
def test_the_doorbell_rings_for_moved_commands(hold):
    """smq_hold starts no command before the doorbell of the hardware queue that the command is
    on."""
    choose(hold, "example")
    before = settle(hold)["errors"]
    (hold.sysfs / "smq_example/most").write_text("4", encoding="ascii")
    fio(hold.luns()[0].sd, **READS | {"runtime": 2, "cpus_allowed": "0"})
    assert all(row["done"] > 20 for row in hold.hwqs())
    stats = settle(hold)
    assert stats["timeouts"] == 0 and stats["errors"] == before
    choose(hold, "direct")


@pytest.mark.smoke
def test_lost_command_delays_freeing_of_its_policy(hold):
    lun = hold.luns()[0]
    choose(hold, "example")
    set_param("lose", 1)
    with load_on(lun.sd, **READS | {"iodepth": 1}):
        wait_for("a lost command", lambda: hold.stats()["inflight"] == 1)
        choose(hold, "direct")
        assert not hold.stats()["aborts"] and hold.policy() == "direct"
        # The policy has seen the lost command, so the module still cannot be unloaded.
        with pytest.raises(ModuleError):
            unload("smq_example", 0)
        wait_for("the abort", lambda: hold.stats()["aborts"])
    settle(hold)
    with SgDev(lun.sg) as sg:
        assert sg.cmd(cdb.plain(cdb.TEST_UNIT_READY)).good
