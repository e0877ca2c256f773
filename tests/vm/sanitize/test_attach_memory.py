# SPDX-License-Identifier: GPL-2.0
"""The memory that smq_conv needs for an attached host."""
import pytest
from kit import conv
from kit.allocinfo import size_of
from kit.attach import in_place
from kit.host import loaded

TAGS = 192
# The functions that allocate something for each command: the layer, and its policies.
PER_COMMAND = "smq_attached_init", "smq_policy_make"


def taken(**params):
    """Bytes of each of these functions while a host with two queues is attached, with prio."""
    with conv.module(), loaded("scsi_debug", submit_queues=2, dev_size_mb=16,
                               **params) as (host,), in_place(host):
        conv.write(host.sysfs / "smq/policy", "prio")
        assert len(host.hwqs()) == 2
        return [size_of(function) for function in PER_COMMAND]


@pytest.mark.limit(120)
def test_queues_with_the_same_tags_share_commands():
    """If the tags are the host's, each tag has a command, and not each queue and tag."""
    for function, shared, each in zip(PER_COMMAND, taken(host_max_queue=TAGS),
                                      taken(max_queue=TAGS), strict=True):
        assert 64 * TAGS < shared < 0.6 * each, f"{function}: {shared} bytes, {each} by queue"
