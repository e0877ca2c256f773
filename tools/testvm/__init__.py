# SPDX-License-Identifier: GPL-2.0
"""The guests of tools/vm and tools/uml: a kernel on top of the host's root file system."""
