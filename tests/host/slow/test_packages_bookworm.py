# SPDX-License-Identifier: GPL-2.0
"""The packages on Debian 12."""
import packages


def test_packages_are_built_installed_upgraded_and_purged(tmp_path):
    packages.check("bookworm", tmp_path)
