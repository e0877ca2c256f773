# SPDX-License-Identifier: GPL-2.0
"""The kernel that the tests run on, and what it cannot do."""
import os
import re

VERSION = tuple(map(int, re.match(r"(\d+)\.(\d+)", os.uname().release).groups()))
# Since 6.15 a tag of scsi_debug keeps from its last polled command that it is one, and when it was
# due. Whoever polls while the tag's next command is being carried out ends that too early: its data
# comes afterwards, or goes to the command after it.
SCSI_DEBUG_POLLS = VERSION < (6, 15)
