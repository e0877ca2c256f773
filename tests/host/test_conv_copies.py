# SPDX-License-Identifier: GPL-2.0
"""smq_conv copies quirks and queue flags of the lower device to the upper one. Each quirk and flag
in the headers of the kernels must be copied or be in one of the lists below. So a new one of a new
kernel fails the test."""

import re
from pathlib import Path

import pytest
from kernel_headers import include

TOP = Path(__file__).resolve().parents[2]
CODE = "".join((TOP / name).read_text(encoding="utf-8")
               for name in ("drivers/conv/lun.c", "drivers/conv/kernel.h"))
# Bits of struct scsi_device that are not copied, by the reason.
BITS = {
    "the mid-layer sets it by the INQUIRY data": "removable soft_reset sdtr wdtr ppr",
    "state, which each device has for itself": "changed busy locked was_reset expecting_cc_ua "
                                               "is_visible",
    "how the lower LLD sends commands": "borken disconnect tagged_supported simple_tags "
                                        "select_no_atn",
    "the mid-layer applies it to each command of the lower device": "lun_in_cdb",
    "such a device has no disk, and cannot be claimed": "no_uld_attach",
    "smq_conv does not offer protection information": "no_dif",
    "a claimed device does not runtime-suspend": "rpm_autosuspend",
    "the mid-layer asks the upper device itself, by commands": "cdl_supported cdl_enable",
}
# Members that are not bits, but that a lower LLD may set, and that are copied.
MEMBERS = "scsi_level inquiry_len eh_timeout".split()
# Flags of the queue that are not copied, by the reason. FEAT_ is BLK_FEAT_, the others are
# QUEUE_FLAG_.
FLAGS = {
    "state, which each queue has for itself":
        "STOPPED DYING INIT_DONE REGISTERED QUIESCED HCTX_ACTIVE STATS HAS_SRCU QOS_ENABLED "
        "BIO_ISSUE_TIME NO_ELV_SWITCH",
    "a user's setting": "SAME_COMP SAME_FORCE NOXMERGES FAIL_IO RQ_ALLOC_TIME IO_STAT "
                        "FEAT_IO_STAT ADD_RANDOM FEAT_ADD_RANDOM",
    "sd sets it by the device's pages": "NONROT FEAT_ROTATIONAL HW_WC WC FUA FEAT_WRITE_CACHE "
                                        "FEAT_FUA FEAT_ATOMIC_WRITES",
    "the block layer sets it by the host or the I/O scheduler": "NOWAIT FEAT_NOWAIT POLL FEAT_POLL "
                                                                "SQ_SCHED DISABLE_WBT_DEF",
    "no SCSI driver sets it": "VIRT DAX FEAT_DAX FEAT_SYNCHRONOUS FEAT_SKIP_TAGSET_QUIESCE "
                              "PCI_P2PDMA FEAT_PCI_P2PDMA FEAT_BOUNCE_HIGH",
    "zoned disks cannot be claimed": "FEAT_ZONED ZONE_RESETALL ZONED_QD1_WRITES",
}


def words(lists):
    """All names of one of the lists above."""
    return {name for names in lists.values() for name in names.split()}


@pytest.fixture(name="header", params=["6.1", "6.12", "7.2"])
def _header(request):
    """The scsi_device.h of a kernel, if its headers are here. Downloads nothing."""
    return include(request.param) / "scsi/scsi_device.h"


def test_each_bit_of_a_device(header):
    """A bit of struct scsi_device is either copied or in the list, and not both."""
    text = header.read_text(encoding="utf-8")
    body = text[text.index("\nstruct scsi_device {"):]
    body = body[:body.index("\n}")]
    bits = set(re.findall(r"^\s*unsigned (\w+):1;", body, re.M))
    copied = set(re.findall(r"->(\w+) = (?:lower|from)->\1;", CODE))
    assert len(bits) > 50
    assert bits - copied == bits & words(BITS)
    assert copied >= set(MEMBERS)


def test_each_flag_of_a_queue(header):
    """A flag of the request queue is either copied or in the list, and not both."""
    text = (header.parents[1] / "linux/blkdev.h").read_text(encoding="utf-8")
    flags = set(re.findall(r"^(?:#define)?\s+QUEUE_FLAG_(\w+)(?:,|\s+\d)", text, re.M)) - {"MAX"}
    flags |= set(re.findall(r"^#define\s+BLK_(FEAT_\w+)\s+\(\(__force", text, re.M))
    copied = {name.removeprefix("BLK_").removeprefix("QUEUE_FLAG_")
              for name in re.findall(r"\b(?:QUEUE_FLAG|BLK_FEAT)_\w+", CODE)}
    assert len(flags) > 20
    assert flags - copied == flags & words(FLAGS)
