# SPDX-License-Identifier: GPL-2.0
"""arm64 with the newest kernel, and with the largest pages of a kernel that Debian serves."""
import arm64


def test_smoke_tests_pass_on_7_2_with_16k_pages(tmp_path):
    arm64.check("7.2-arm64-16k", tmp_path)
