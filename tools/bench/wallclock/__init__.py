# SPDX-License-Identifier: GPL-2.0
"""Measures how long commands take at native speed under User Mode Linux; the load comes from inside
the kernel or from programs in user space."""
