# SPDX-License-Identifier: GPL-2.0
"""The steps of error handling that a host takes, from the mid-layer's log."""
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from .host import KernelLog, Lun

LOGGING = Path("/proc/sys/dev/scsi/logging_level")
# The level of error handling at which the mid-layer logs each step, and what it logs for the step.
LEVEL = "4"
STEPS = {"abort": "aborting command", "LUN reset": "Sending BDR",
         "target reset": "Sending target reset", "bus reset": "Sending BRST",
         "host reset": "Sending HRST"}


@contextmanager
def recorded(lun: Lun) -> Iterator[Callable[[], list[str]]]:
    """During the block the mid-layer logs all steps. Yields a function that returns those for a LUN
    or its host since the block began, in their order."""
    host = lun.address.partition(":")[0]
    where = rf"(?:\w+ {lun.address}:|scsi host{host}:).* (?:{'|'.join(STEPS.values())})"
    before = LOGGING.read_text(encoding="ascii")
    LOGGING.write_text(LEVEL, encoding="ascii")
    try:
        with KernelLog() as log:
            yield lambda: [name for line in log.matching(where)
                           for name, text in STEPS.items() if text in line]
    finally:
        LOGGING.write_text(before, encoding="ascii")
