# SPDX-License-Identifier: GPL-2.0
"""The part of sg_io that judges files."""
