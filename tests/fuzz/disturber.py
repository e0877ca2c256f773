# SPDX-License-Identifier: GPL-2.0
"""Changes the devices while the load runs: depths, elevators, shares of held slots, states of LUNs.
Also deletes LUNs."""
import os
import random
import threading
import time
from collections import Counter
from contextlib import contextmanager, suppress
from pathlib import Path

from devices import Devices
from kit.host import SCSI_DEVICES, load, unload

QUIESCE = Path("/sys/module/smq_quiesce/parameters")
STATES = ("quiesce", "block", "stop")
PAUSE = 0.3             # seconds between changes, at most
STATE_SECONDS = 0.05
AWAY_SECONDS = 0.3
SERVICE_NS = 400_000
READ_BYTES = 65536


def _write(path: Path, text: object) -> None:
    path.write_text(str(text), encoding="ascii")


def _of_disk(device: Path, name: str) -> list[Path]:
    return list(device.glob(f"block/*/queue/{name}"))


class Disturber:
    """A thread that makes one change after another. The seed determines the random choices."""

    def __init__(self, devices: Devices, seed: int):
        self.devices, self.random = devices, random.Random(seed)
        self.done: Counter[str] = Counter()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def _run(self) -> None:
        changes = (self.queue_depth, self.elevator, self.nr_requests, self.held_share,
                   self.service, self.state, self.block_read, self.delete)
        while not self._stop.wait(self.random.uniform(0, PAUSE)):
            change = self.random.choices(changes, (4, 3, 3, 4, 3, 4, 3, 1))[0]
            addresses = self.devices.addresses()
            if not addresses:
                self.devices.find_all()
                continue
            device = SCSI_DEVICES / self.random.choice(addresses)
            # The LUN may have been deleted, and the kernel refuses some values.
            with suppress(OSError):
                change(device)
                self.done[change.__name__] += 1

    def queue_depth(self, device: Path) -> None:
        """Sets a LUN's queue depth."""
        _write(device / "queue_depth", self.random.randint(1, 12))

    def elevator(self, device: Path) -> None:
        """Sets an elevator, or none. With an elevator smq_sg holds no requests."""
        name = self.random.choice(("none", "mq-deadline", "none"))
        for path in _of_disk(device, "scheduler"):
            _write(path, name)

    def nr_requests(self, device: Path) -> None:
        """Sets the number of tags, or with an elevator the number of its requests."""
        count = self.random.randint(4, 20)
        for path in _of_disk(device, "nr_requests"):
            _write(path, count)

    def held_share(self, device: Path) -> None:
        """Sets the percentage of the depth that held slots may keep."""
        percent = self.random.randint(0, 100)
        for path in device.glob("smq_sg/*/held_share"):
            _write(path, percent)

    def service(self, _device: Path) -> None:
        """Sets how long smq_ram takes for a command."""
        self.devices.ram_dir.set("model/service_ns", self.random.randint(0, SERVICE_NS))

    def state(self, device: Path) -> None:
        """Quiesces, blocks or stops a LUN for STATE_SECONDS."""
        knob = QUIESCE / self.random.choice(STATES)
        _write(knob, f"{device.name}\n")
        try:
            time.sleep(STATE_SECONDS)
        finally:
            _write(knob, "\n")

    def block_read(self, device: Path) -> None:
        """Reads by block I/O, which competes with the load for tags."""
        for path in device.glob("block/*"):
            fd = os.open(f"/dev/{path.name}", os.O_RDONLY | os.O_CLOEXEC)
            try:
                os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
                os.pread(fd, READ_BYTES, 0)
            finally:
                os.close(fd)

    def delete(self, device: Path) -> None:
        """Deletes a LUN while the load runs, then scans for it: it returns with another node."""
        _write(device / "delete", 1)
        time.sleep(AWAY_SECONDS)
        self.devices.find_all()

    def start(self) -> None:
        """Starts the thread."""
        self._thread.start()

    def stop(self, seconds: float) -> None:
        """Ends the thread, resets the service time, and waits until all LUNs exist again."""
        self._stop.set()
        self._thread.join(seconds)
        assert not self._thread.is_alive(), "the disturber hangs while it changes a device"
        self.devices.ram_dir.set("model/service_ns", 0)
        self.devices.find_all()
        self.devices.wait_for_all()


@contextmanager
def disturbing(devices: Devices, seed: int, time_factor: int):
    """Runs a disturber during the with block. Yields a counter of its changes by kind."""
    load("smq_quiesce")
    disturber = Disturber(devices, seed)
    disturber.start()
    try:
        yield disturber.done
    finally:
        disturber.stop(120 * time_factor)
        unload("smq_quiesce")
