# SPDX-License-Identifier: GPL-2.0
"""tools/fc-check: what on a machine is set wrong for prebuilt commands on FC, iSCSI and SAS."""
