# SPDX-License-Identifier: GPL-2.0
# on: uml 6.12 7.2
# not on sanitize: it tests programs, which are the same there
"""The test kit itself: what it reports, and that its checks can fail."""
import re
import time

import pytest
from kit import klog, sgio
from kit.host import (Disk, ModuleError, SgDev, fio, is_loaded, load, loaded, settle, total_ios,
                      unload, wait_for)


@pytest.mark.smoke
def test_good_command(disk):
    """An INQUIRY through the sg node and through the disk's node."""
    for path in (disk.sd, disk.sg):
        with SgDev(path) as dev:
            got = dev.cmd(bytes([0x12, 0, 0, 0, 96, 0]), din=128)
        assert got.good and got.resid == 32, got
        assert len(got.data) == 96 and got.data[8:16] == b"SMQ     "


def test_unwritten_bytes_stay_fill(disk):
    """Through the disk's node, bytes that the device did not write stay FILL."""
    with Disk(disk.sd) as dev:
        got = dev.cmd(bytes([0x12, 0, 0, 0, 5, 0]), din=64)
    assert got.good and got.raw[5:] == bytes([sgio.FILL]) * 59


def test_check_condition_is_a_result(disk):
    """A CHECK CONDITION is returned with its sense data decoded."""
    with SgDev(disk.sg) as dev:
        got = dev.cmd(bytes([0x28, 0xe0, 0, 0, 0, 0, 0, 0, 1, 0]), din=512)
    assert got.status == sgio.CHECK_CONDITION and not got.good
    assert got.triple == (sgio.ILLEGAL_REQUEST, 0x24, 0)
    assert got.decoded.sks == bytes([0xcf, 0, 1])


def test_descriptor_sense_decodes():
    """decode_sense() finds the sense-key-specific descriptor behind another descriptor."""
    raw = bytes.fromhex("7205240000000014" "000a" + "00" * 10 + "02060000cf000100")
    assert sgio.decode_sense(raw) == sgio.Sense(True, 5, 0x24, 0, bytes([0xcf, 0, 1]))
    assert sgio.decode_sense(b"") is None


def test_bad_parameter_raises():
    """A parameter that modprobe refuses raises an error."""
    with pytest.raises(ModuleError):
        load("smq_ram", luns=0)
    assert not is_loaded("smq_ram")


def test_busy_module_stays(disk):
    """unload() fails while a module is in use."""
    with Disk(disk.sd):
        with pytest.raises(ModuleError, match="in use"):
            unload("smq_ram", seconds=0.2)
    assert is_loaded("smq_ram")


def test_wait_for_ends_at_its_limit():
    """wait_for() ends at its time limit."""
    start = time.monotonic()
    with pytest.raises(AssertionError, match="never: not within"):
        wait_for("never", lambda: False, seconds=0.3)
    assert time.monotonic() - start >= 0.3


@pytest.mark.parametrize("line", ["BUG: planted", "WARNING: CPU: 0 PID: 1 at planted",
                                  "Oops: 0000", "BUG: KASAN: planted"])
def test_faults_are_known(line):
    """A line for which tools/vm fails counts as a fault in the kit, too."""
    assert klog.FAULT.search(line)


# (lines of a report, whether it is a fault). Three kinds of reports are no faults if the kernel
# itself caused them.
REPORTS = [
    (["WARNING: suspicious RCU usage", "lib/maple_tree.c:715 suspicious rcu_dereference_check() "
      "usage!"], False),
    (["WARNING: suspicious RCU usage", "drivers/core/hold.c:715 suspicious "
      "rcu_dereference_check() usage!"], True),
    (["WARNING: mm/percpu.c:2255 at scsi_device_dev_release+0x601/0x1350, CPU#1: python3/86",
      *["more"] * 40, " [<60f1814f>] ? scsi_alloc_sdev+0xc4f/0x11b0"], False),
    (["WARNING: mm/percpu.c:2255 at scsi_device_dev_release+0x601/0x1350, CPU#1: python3/86",
      "---[ end trace 0000000000000000 ]---", " ? scsi_alloc_sdev+0xc4f/0x11b0"], True),
    (["WARNING: mm/percpu.c:2255 at smq_host_release+0x1/0x2, CPU#1: python3/86",
      " [<60f1814f>] ? scsi_alloc_sdev+0xc4f/0x11b0"], True),
    (["WARNING: CPU: 1 PID: 25 at kernel/workqueue.c:2635 check_flush_dependency.part.0+0xb4/0x1",
      "Workqueue: iscsi_ctrl_0:2 __iscsi_unbind_session [scsi_transport_iscsi]"], False),
    (["WARNING: CPU: 1 PID: 25 at kernel/workqueue.c:2635 check_flush_dependency.part.0+0xb4/0x1",
      "Workqueue: smq0 smq_cmd_work [smq]"], True),
]


@pytest.mark.parametrize("lines, is_fault", REPORTS)
def test_known_kernel_reports_are_no_faults(monkeypatch, lines, is_fault):
    """Three kinds of the kernel's own reports are no faults; all other reports are."""
    # The lines are not written to the log itself, which tools/vm reads, too.
    monkeypatch.setattr(klog.KernelLog, "lines", lambda _log: lines)
    with klog.KernelLog() as log:
        assert log.faults() == lines[:is_fault]


def test_log_is_checked(monkeypatch):
    """A line that counts as a kernel bug fails loaded()."""
    # The pattern is used only here: tools/vm reads the same log, and would fail for a real fault.
    monkeypatch.setattr(klog, "FAULT", re.compile("planted fault"))
    with pytest.raises(AssertionError, match="reports a bug"):
        with loaded("smq_ram"):
            with open("/dev/kmsg", "w", encoding="ascii") as kmsg:
                kmsg.write("<5>test: planted fault\n")
    assert not is_loaded("smq_ram")


def test_fio_reports_the_right_counts(ram, disk):
    """The wrapper returns fio's own count, and fails when fio fails."""
    before = settle(ram)
    report = fio(disk.sd, rw="randread", bs="4k", size="1m", ioengine="psync")
    after = settle(ram)
    assert total_ios(report) == 256
    assert after["done"] - before["done"] >= 256
    with pytest.raises(AssertionError):
        fio("/dev/no-such-disk", rw="read", size="1m")
