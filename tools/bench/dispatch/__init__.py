# SPDX-License-Identifier: GPL-2.0
"""What tools/bench/policies runs in its guest: policies beside direct, by modelled service time."""
