# SPDX-License-Identifier: GPL-2.0
"""What tools/check does: builds, lints, tests on the host and in VMs, and counts."""
