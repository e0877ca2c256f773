# SPDX-License-Identifier: GPL-2.0
# on: uml
# not on sanitize: it tests programs, which are the same there
"""The test kit itself: what it reports, and that its checks can fail."""
import re

import pytest
from kit import klog, sgio
from kit.host import fio, is_loaded, loaded, settle, total_ios


def test_descriptor_sense_decodes():
    """decode_sense() finds the sense-key-specific descriptor behind another descriptor."""
    raw = bytes.fromhex("7205240000000014" "000a" + "00" * 10 + "02060000cf000100")
    assert sgio.decode_sense(raw) == sgio.Sense(True, 5, 0x24, 0, bytes([0xcf, 0, 1]))
    assert sgio.decode_sense(b"") is None


def test_log_is_checked(monkeypatch):
    """A line that counts as a kernel bug fails loaded()."""
    # The pattern is used only here: tools/vm reads the same log, and would fail for a real fault.
    monkeypatch.setattr(klog.report, "_FAULTS", re.compile("planted fault"))
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
