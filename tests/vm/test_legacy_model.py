# SPDX-License-Identifier: GPL-2.0
# on: uml
# not on sanitize: it tests programs, which are the same there
"""The policy legacy-model: commands take the locks that the kernel took before multiqueue, and
their data stays right."""
import time

import pytest
from kit.fiojob import load_on, total_ios
from kit.host import load, settle, under_way, unload
from kit.ramdir import ram_host
from kit.sgio import SG_SCSI_RESET_DEVICE, SgDev
from kit.trace import traced

VERIFY = {"ioengine": "io_uring", "rw": "randwrite", "bs": 4096, "iodepth": 32, "size": "8m",
          "verify": "crc32c", "verify_fatal": 1}
READS = {"ioengine": "libaio", "rw": "randread", "bs": 4096, "iodepth": 32, "time_based": True,
         "runtime": 600}


@pytest.fixture(scope="module", autouse=True)
def smq_legacy():
    """Loads smq_legacy, so that its settings exist before a host chooses the policy."""
    load("smq_legacy")
    yield
    unload("smq_legacy")


def choose(host, policy, era=None):
    """Sets the era, then the policy."""
    if era:
        (host.sysfs / "smq_legacy/era").write_text(era, encoding="ascii")
    (host.sysfs / "smq/policy").write_text(policy, encoding="ascii")


@pytest.mark.smoke
def test_more_than_one_hardware_queue_is_refused(ram, klog):
    assert int(ram.attr("smq/hw_queues")) > 1
    with pytest.raises(OSError):
        choose(ram, "legacy-model")
    klog.wait("legacy-model needs a host with 1 hardware queue, this one has 2")
    assert ram.policy() == "direct"


def test_eras_and_wrapper(ram, klog):
    assert ram.attr("smq_legacy/era") == "4.19" and ram.attr("smq_legacy/wrapper") == "1"
    choose(ram, "direct", "2013")
    assert ram.attr("smq_legacy/era") == "2013"
    for name, value in (("era", "2012"), ("wrapper", "x")):
        with pytest.raises(OSError):
            (ram.sysfs / "smq_legacy" / name).write_text(value, encoding="ascii")
        klog.wait(f"smq_legacy/{name} is neither")


@pytest.mark.smoke
@pytest.mark.parametrize("service_ns", [0, 100000])
@pytest.mark.parametrize("era", ["2013", "4.19"])
def test_verified_io(era, service_ns):
    with ram_host(hw_queues=1, luns=2) as (host_dir, host):
        choose(host, "legacy-model", era)
        host_dir.set("model/service_ns", service_ns)
        with traced(buffer_kb=65536) as trace:
            with load_on(host.luns()[0].sd, to_end=True, **VERIFY) as one, \
                    load_on(host.luns()[1].sd, to_end=True, **VERIFY) as two:
                pass
            settle(host)
        assert trace.check_once() >= total_ios(one.result()) + total_ios(two.result())


@pytest.mark.smoke
def test_changes_under_load_with_faults_and_resets():
    """Under load, eras and policies change, commands are lost, refused and reset, and LUNs are
    added and removed."""
    with ram_host(hw_queues=1, timeout=1) as (host_dir, host), \
            SgDev(host.luns()[0].sg) as sg:
        host_dir.set("model/service_ns", 100000)
        host_dir.set("model/hwq_depth", 8)
        with traced(buffer_kb=65536) as trace:
            with load_on(host.luns()[0].sd, **READS) as load:
                under_way(host.luns()[0])
                for name, value in (("count", 6), ("every", 97), ("kind", "lost")):
                    host_dir.set(f"fault/{name}", value)
                for step in range(12):
                    choose(host, ("legacy-model", "batch", "legacy-model", "direct")[step % 4],
                           ("2013", "4.19")[step // 4 % 2])
                    if step % 4 == 2:
                        sg.reset(SG_SCSI_RESET_DEVICE)
                        host_dir.add_lun(7, size_mb=16)
                    if step % 4 == 3:
                        host_dir.remove_lun(7)
                    time.sleep(0.1)
                choose(host, "legacy-model")
                under_way(host.luns()[0])
            settle(host)
        assert trace.check_once() >= total_ios(load.result())


def test_host_removed_under_load():
    with ram_host(hw_queues=1) as (host_dir, host):
        host_dir.set("model/service_ns", 100000)
        choose(host, "legacy-model", "2013")
        # A read of a removed disk may fail or find the end of the disk. In the second case fio does
        # not stop by itself.
        with load_on(host.luns()[0].sd, ok=False, **READS) as load:
            under_way(host.luns()[0])
            host_dir.set("power", 0)
            assert not host.sysfs.exists()
            load.kill()
