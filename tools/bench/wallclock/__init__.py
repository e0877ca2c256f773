# SPDX-License-Identifier: GPL-2.0
"""Measures times of commands at native speed, from inside the kernel, under User Mode Linux."""
