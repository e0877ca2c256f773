# SPDX-License-Identifier: GPL-2.0
"""arm64 with the oldest kernel and pages of 4 KiB."""
import arm64


def test_smoke_tests_pass_on_6_1(tmp_path):
    arm64.check("6.1-arm64", tmp_path)
