# SPDX-License-Identifier: GPL-2.0
# on: uml sanitize
"""Every step of error handling on smq_ram, with verified data.

Several hosts recover at once, each under a load of its own. A step mostly waits for the timeout of
a command, so all hosts together need no longer than one host would.
"""
import errno
import signal
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager

import pytest
from kit import cdb
from kit.fiojob import load_on
from kit.host import find_hosts, settle, under_way, wait_for
from kit.ramdir import ram_host, ram_hosts
from kit.sgio import (SG_SCSI_RESET_DEVICE, SG_SCSI_RESET_HOST, SG_SCSI_RESET_TARGET, SgDev)
from kit.trace import traced

HOSTS, ROUNDS = 5, 4
# Each block is read back and compared soon after it was written.
VERIFIED = {"ioengine": "io_uring", "rw": "randwrite", "bs": 4096, "iodepth": 8, "size": "4m",
            "verify": "crc32c", "verify_fatal": 1, "verify_backlog": 16, "time_based": True,
            "runtime": 600}
STEPS = ("aborts", "lun_resets", "target_resets", "host_resets")
# For each step, the earlier steps that must fail so that this step ends the command.
FAILS = {"aborts": (), "lun_resets": ("fail_abort",),
         "target_resets": ("fail_abort", "fail_lun_reset"),
         "host_resets": ("fail_abort", "fail_lun_reset", "fail_target_reset")}


@contextmanager
def verified_load(hosts, **more):
    """Runs verified writes on the first LUN of each host."""
    with ExitStack() as stack:
        loads = [stack.enter_context(load_on(host.luns()[0].sd, **VERIFIED | more))
                 for _, host in hosts]
        # Five programs take a while to start on an emulated CPU.
        for _, host in hosts:
            under_way(host.luns()[0], 20, 60)
        yield loads


def escalate(host_dir, host, last):
    """ROUNDS times, loses a command and makes all steps before @last fail."""
    for done in range(1, ROUNDS + 1):
        for knob in FAILS[last]:
            host_dir.set(f"fault/{knob}", -1)
        host_dir.arm("lost", every=7, count=1)
        wait_for(f"{last} of host{host.number}", lambda: host.stats()[last] >= done, 30)
        for knob in FAILS[last]:
            host_dir.set(f"fault/{knob}", 0)


@pytest.mark.limit(120)
@pytest.mark.parametrize("last", STEPS[1:])
def test_each_step_ends_a_lost_command(last):
    with ram_hosts(HOSTS, timeout=1) as hosts:
        for host_dir, _ in hosts:
            host_dir.set("model/service_ns", 40000000)
        with traced(buffer_kb=65536) as trace:
            with verified_load(hosts) as loads, ThreadPoolExecutor(HOSTS) as pool:
                list(pool.map(lambda pair: escalate(*pair, last), hosts))
            stats = [settle(host) for _, host in hosts]
        commands = trace.check_once()
        for host_stats in stats:
            assert ROUNDS <= host_stats[last]
            assert not any(host_stats[name] for name in STEPS[STEPS.index(last) + 1:]), host_stats
        jobs = [load.result()["jobs"][0] for load in loads]
        assert all(job["read"]["total_ios"] > 100 for job in jobs), "nothing was verified"
        assert commands > sum(job["write"]["total_ios"] + job["read"]["total_ios"]
                              for job in jobs)
        for host_dir, host in hosts:
            assert all(row["queued"] for row in host.hwqs())
            assert (host.luns()[0].sysfs / "state").read_text().strip() == "running"


def power_off_at(host_dir, host, step):
    """Powers a host off when the recovery of two lost commands has reached @step."""
    for knob in FAILS["host_resets"]:
        host_dir.set(f"fault/{knob}", -1)
    host_dir.arm("lost", every=7, count=2)
    wait_for(f"{step} of host{host.number}", lambda: host.stats()[step], 30)
    host_dir.set("power", 0)


@pytest.mark.limit(120)
def test_hosts_powered_off_during_recovery():
    """Each host is powered off at another step of its recovery. The removal waits for the recovery,
    and the recovery ends."""
    with ram_hosts(HOSTS, timeout=1) as hosts:
        with traced(buffer_kb=65536) as trace, ThreadPoolExecutor(HOSTS) as pool:
            for host_dir, _ in hosts:
                host_dir.set("model/service_ns", 40000000)
            with verified_load(hosts, ok=False, to_end=True):
                gone = [pool.submit(power_off_at, *pair, step)
                        for pair, step in zip(hosts, ("timeouts", *STEPS), strict=True)]
                for done in gone:
                    done.result()
            assert not find_hosts("smq_ram")
        assert trace.check_once()


LEVELS = {"lun_reset": SG_SCSI_RESET_DEVICE, "target_reset": SG_SCSI_RESET_TARGET,
          "host_reset": SG_SCSI_RESET_HOST}


def test_fault_setting_is_the_number_of_resets_that_fail():
    with ram_host() as (host_dir, host), SgDev(host.luns()[0].sg) as dev:
        for name in ("lun_reset", "target_reset"):
            knob = f"fault/fail_{name}"
            host_dir.set(knob, 2)
            for left in (1, 0):
                with pytest.raises(OSError) as caught:
                    dev.reset(LEVELS[name])
                assert caught.value.errno == errno.EIO and host_dir.get(knob) == str(left)
            dev.reset(LEVELS[name])
            host_dir.set(knob, -1)
            with pytest.raises(OSError):
                dev.reset(LEVELS[name])
            assert host_dir.get(knob) == "-1"
            dev.reset(LEVELS["host_reset"])
        # The LUN reports one unit attention for each kind of reset that succeeded.
        ready = cdb.plain(cdb.TEST_UNIT_READY)
        assert [dev.cmd(ready).triple for _ in range(3)] == [(6, 0x29, 0), (6, 0x29, 3), None]
        assert dev.cmd(cdb.blocks(cdb.READ_10, 0, 8), din=4096).good


def test_polled_command_recovers_while_its_program_is_stopped():
    """The error handler's own commands must complete although no task polls the poll queue."""
    with ram_host(timeout=1, poll_queues=1) as (host_dir, host):
        with load_on(host.luns()[0].sd, **VERIFIED | {"hipri": True}) as load:
            wait_for("polled commands", lambda: host.stats()["polled"] > 200, 40)
            host_dir.set("fault/fail_abort", -1)
            host_dir.arm("lost", count=1)
            wait_for("the fault", lambda: host_dir.get("fault/count") == "0")
            load.signal(signal.SIGSTOP)
            wait_for("a LUN reset", lambda: host.stats()["lun_resets"])
            wait_for("the end of the recovery", lambda: host.attr("state") == "running")
            host_dir.set("fault/fail_abort", 0)
            load.signal(signal.SIGCONT)
        assert settle(host)["target_resets"] == 0
