# SPDX-License-Identifier: GPL-2.0
"""Hypothesis for tests of properties, with settings for tests that start programs: the same
examples in each run, no time limit of a single one, and no folder with examples in the source
tree."""
import tempfile

import hypothesis
from hypothesis import configuration, strategies as st

__all__ = ["given", "st"]
given = hypothesis.given
configuration.set_hypothesis_home_dir(tempfile.gettempdir() + "/hypothesis")
hypothesis.settings.register_profile(
    "programs", deadline=None, derandomize=True, database=None, max_examples=150,
    suppress_health_check=list(hypothesis.HealthCheck))
hypothesis.settings.load_profile("programs")
