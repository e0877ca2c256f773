# SPDX-License-Identifier: GPL-2.0
"""What stops a bench."""


class BenchError(Exception):
    """The figures could not be taken, or cannot be trusted."""
