# SPDX-License-Identifier: GPL-2.0
"""The exit statuses that tools/vm itself sets, and its exception."""

KERNEL_REPORT = 99
TIMEOUT = 124
VM_FAILED = 125


class VMError(Exception):
    """The VM cannot be set up. The message says what is wrong and how to fix it."""
