# SPDX-License-Identifier: GPL-2.0
"""The modules compiled by clang: by that of Debian 12 for 6.1 and 6.12, by that of Debian 13 for
6.12 and 7.2."""
import suites


def test_clang_builds_the_modules_without_a_warning(capsys):
    suites.check(capsys, "--clang", "bookworm", "trixie")
