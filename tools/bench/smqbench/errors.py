# SPDX-License-Identifier: GPL-2.0
"""The exception with which an instrument gives up a measurement."""


class BenchError(Exception):
    """The figures could not be taken, or cannot be trusted."""
