# SPDX-License-Identifier: GPL-2.0
"""The part of tools/bench/policies that runs in the guest: compares policies with direct, on
devices with modelled service times."""
