# SPDX-License-Identifier: GPL-2.0
# on: uml sanitize
"""The layer learns how many commands a device needs, and holds the others where the policy "prio"
orders them. The times are those of smq_ram's model."""
import time

import pytest
from kit.debugfs import state
from kit.host import wait_for
from kit.ramdir import ram_host
from kit.sanitizing import TIME_FACTOR
from test_prio import direct_file, limit_requests, writing

MIB = 1 << 20
RATE = 10 ** 7      # bytes per second
ASYNC = 48 * MIB
REQUEST_KIB = 512
LANES = 64


def choose(host, policy):
    """Chooses a policy; its settings are the defaults."""
    (host.sysfs / "smq/policy").write_text(policy, encoding="ascii")


def learned(host):
    """How many commands the device of the host's first LUN may have."""
    return int((host.sysfs / "smq/inner_depth").read_text(encoding="ascii").split()[1])


@pytest.fixture(name="ram", scope="module", params=(128, LANES))
def ram_fixture(request):
    """Yields the configfs directory of a host, and the host."""
    with ram_host(hw_queues=1, depth=request.param) as (host_dir, host):
        lun = host.luns()[0]
        (lun.queue / "scheduler").write_text("none", encoding="ascii")
        (lun.queue / "nomerges").write_text("0", encoding="ascii")
        if (lun.queue / "wbt_lat_usec").exists():
            (lun.queue / "wbt_lat_usec").write_text("0", encoding="ascii")
        yield host_dir, host


def save_beside_async_writes(host_dir, host):
    """Writes ASYNC bytes to the page cache and starts their write; meanwhile saves three small
    files. Returns how long these take, how long all takes, and the learned depths."""
    lun = host.luns()[0]
    limit_requests(lun, REQUEST_KIB)
    host_dir.set("model/bytes_per_sec", RATE)
    took, depths = [], []
    began = time.monotonic()
    with writing(lun, ASYNC), direct_file(lun) as write:
        for number in range(5):
            time.sleep(0.5)
            took.append(write(50 * MIB + number * 4096))
            depths.append(learned(host))
    seconds = time.monotonic() - began
    host_dir.set("model/bytes_per_sec", 0)
    return took, seconds, depths


def test_a_saved_file_does_not_wait_for_the_queue_of_the_device(ram):
    host_dir, host = ram
    choose(host, "prio")
    wait_for("an effective policy", lambda: state(host)["effective"] == "prio")
    took, seconds, depths = save_beside_async_writes(host_dir, host)
    print(f"{[round(one, 3) for one in took]} s, {seconds:.2f} s in all, depths {depths}")
    assert max(took) <= 0.5 * TIME_FACTOR
    # A busy machine makes the guest slow, so this limit is wide. Under icount, where it is not,
    # the throughput is that of direct.
    assert ASYNC / seconds >= 0.7 * RATE
    assert max(depths) <= 16
    choose(host, "direct")
    assert state(host)["held"] == 0
