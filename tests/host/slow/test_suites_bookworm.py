# SPDX-License-Identifier: GPL-2.0
"""The modules with all headers of Debian 12 and its backports."""
import suites


def test_every_headers_package_is_compiled_against(capsys):
    suites.check(capsys, "bookworm")
