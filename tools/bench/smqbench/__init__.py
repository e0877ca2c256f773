# SPDX-License-Identifier: GPL-2.0
"""Measures SCSI paths in a VM, in units that a busy machine does not change."""
