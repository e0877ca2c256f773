# SPDX-License-Identifier: GPL-2.0
"""Measures a kernel that the user supplies: the legacy path and scsi-mq."""
