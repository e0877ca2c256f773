# SPDX-License-Identifier: GPL-2.0
"""The test VM behind tools/vm: a stock kernel over the host's own root file system."""
