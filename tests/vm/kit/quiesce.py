# SPDX-License-Identifier: GPL-2.0
"""States of a SCSI device in which it takes no commands, by the test module smq_quiesce."""
from collections.abc import Iterator
from contextlib import contextmanager

from .host import load, unload


@contextmanager
def quiescer() -> Iterator[None]:
    """Loads the test module smq_quiesce during the block. When the module is unloaded, it ends all
    states that set_state() has begun."""
    load("smq_quiesce")
    try:
        yield
    finally:
        unload("smq_quiesce")


def set_state(state: str, address: str) -> None:
    """Makes smq_quiesce put a device into a state; an empty address ends the state."""
    with open(f"/sys/module/smq_quiesce/parameters/{state}", "w", encoding="ascii") as knob:
        knob.write(address + "\n")
