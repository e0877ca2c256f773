# SPDX-License-Identifier: GPL-2.0
"""Measures the kernel that a user brings along: the legacy path and scsi-mq side by side."""
