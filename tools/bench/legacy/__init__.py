# SPDX-License-Identifier: GPL-2.0
"""Measures the legacy path and scsi-mq of a kernel that the user supplies."""
