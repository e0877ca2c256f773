# SPDX-License-Identifier: GPL-2.0
"""The modules for the other arm64 kernels: one of them, another each day."""
import time

import arm64

KERNELS = ("6.12-arm64", "7.2-arm64", "6.12-arm64-16k")


def test_modules_are_built_without_a_warning():
    arm64.build(KERNELS[int(time.time() // 86400) % len(KERNELS)])
