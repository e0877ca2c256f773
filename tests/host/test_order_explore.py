# SPDX-License-Identifier: GPL-2.0
"""What timed batches wait for in smq_sg, in every interleaving: no number is lost, and no command
is accessed after its caller has put it back. This exploration must also find each planted
mistake."""

import pytest
from world import World

ORDER, TIMED = "drivers/sg/order.c", "drivers/sg/timed.c"
WORLD = World("order", types={
    "drivers/sg/order.h": ["struct smqsg_fd_order", "struct smqsg_timed_io"],
}, functions={
    "drivers/sg/order.h": ["smqsg_order_wake"],
    ORDER: ["smqsg_order_holds_back", "smqsg_order_set", "smqsg_order_mark"],
    TIMED: ["smqsg_timed_waited", "smqsg_timed_send_granted", "smqsg_timed_grant"],
})


# A window has two numbers here: 1 and 3 share an element.
@pytest.mark.parametrize("words", ["end=1 end=3 after=3", "end=1 end=2 after=1", "grant",
                                   "grant again"])
def test_every_interleaving(words):
    assert WORLD.holds(words) > 3


PLANTED = {
    "a lower number replaces the one of the next window": (ORDER, """
    while (old < number && !try_cmpxchg(ended, &old, number))
        ;
""", """
    if (old < number)
        WRITE_ONCE(*ended, number);
""", "end=1 end=3 after=3", "waits for ever"),
    "a grant reads its command when its batch may have ended": (TIMED, """
    if (!ret)
        smqsg_timed_waited(io, 0);
    return ret;
""", """
    if (!ret)
        smqsg_timed_waited(io, 0);
    return io->timed.error;
""", "grant", "!world.put"),
}


@pytest.mark.parametrize("name", PLANTED)
def test_checks_find_planted_mistakes(name):
    WORLD.finds(name, *PLANTED[name])
