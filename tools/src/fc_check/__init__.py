# SPDX-License-Identifier: GPL-2.0
"""tools/fc-check: finds wrong settings of a machine for prebuilt commands on FC, iSCSI and SAS."""
