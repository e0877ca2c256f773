# SPDX-License-Identifier: GPL-2.0
"""The version of the kernel on which the tests run, and defects of its scsi_debug."""
import os
import re

VERSION = tuple(map(int, re.match(r"(\d+)\.(\d+)", os.uname().release).groups()))
# Since 6.15 a tag of scsi_debug keeps the polled mark and the due time of its last polled command.
# A poll during the execution of the tag's next command completes that command too early: the data
# arrives after the completion, or goes to a later command with the same tag.
SCSI_DEBUG_POLLS = VERSION < (6, 15)
# Since 6.13 scsi_debug cleans up after a target in asynchronous work, which removes an entry from a
# debugfs directory. On a slow machine the module's exit frees that directory first: an oops.
SCSI_DEBUG_LEAVES_WORK = VERSION >= (6, 13)
# If sd takes a disk again soon after it was unbound, blkcg_init_disk() of 6.6.17 and 6.8.1
# initializes a list of which the cleanup of the first disk still removes entries: list_del
# corruption. Debian's 6.1.192 and 6.12.117, and 6.18.35, wait for that cleanup.
SD_REBIND_CORRUPTS = VERSION in ((6, 6), (6, 8))
