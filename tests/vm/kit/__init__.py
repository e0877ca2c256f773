# SPDX-License-Identifier: GPL-2.0
"""Code that the tests in the VM share: SG_IO, hosts and LUNs, fio, the kernel log, and more."""
