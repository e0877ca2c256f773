# SPDX-License-Identifier: GPL-2.0
"""Exit statuses of tools/vm that are not the command's own."""

KERNEL_REPORT = 99
TIMEOUT = 124
VM_FAILED = 125


class VMError(Exception):
    """The VM cannot be set up; the text says what is wrong and how to fix it."""
