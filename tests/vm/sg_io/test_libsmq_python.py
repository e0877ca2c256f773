# SPDX-License-Identifier: GPL-2.0
# on: uml 7.2
# not on sanitize: it tests programs, which are the same there
"""The Python module of libsmq, and its example."""

import os
import re
import subprocess

import pytest
import vmdisk

EXAMPLE = vmdisk.ROOT / "tools/libsmq/examples/latency.py"
LIBRARIES = vmdisk.ROOT / "build/tools/libsmq"


def python(*args):
    """Runs Debian's own Python with the module smq."""
    return subprocess.run(["/usr/bin/python3", "-B", *map(str, args)],
                          env={**os.environ, "LD_LIBRARY_PATH": str(LIBRARIES),
                               "PYTHONPATH": str(vmdisk.ROOT / "tools/libsmq/python")},
                          capture_output=True, text=True, check=False, timeout=vmdisk.TIMEOUT)


def example(*args):
    return python(EXAMPLE, *args)


@pytest.mark.smoke
def test_python_example_works(smq_disk):
    before = smq_disk.done()
    done = example(smq_disk.smq, 100)
    assert (done.returncode, done.stderr) == (0, "")
    one, batch = done.stdout.splitlines()
    assert re.fullmatch(r"one by one: 100 x GOOD; median [\d.]+ us, longest [\d.]+ us", one)
    found = re.fullmatch(r"as a batch: 100 x GOOD; ([\d.]+) us, ([\d.]+) us each", batch)
    assert float(found[2]) == pytest.approx(float(found[1]) / 100, abs=0.06)
    assert smq_disk.done() - before == 200


def test_example_counts_outcomes_that_are_not_good(smq_disk):
    """The example prints each outcome that is not good, with a count."""
    vmdisk.set_param("every_nth", 4)
    vmdisk.set_param("opts", vmdisk.RECOVERED)
    try:
        done = example(smq_disk.smq, 8)
    finally:
        vmdisk.set_param("opts", 0)
        vmdisk.set_param("every_nth", 0)
    assert done.returncode == 1 and not done.stderr
    for line in done.stdout.splitlines():
        assert re.search(r"6 x GOOD", line) and "2 x CHECK CONDITION: Recovered Error" in line


def test_example_says_when_the_library_is_missing():
    done = subprocess.run(["/usr/bin/python3", "-B", EXAMPLE, "/dev/null"], capture_output=True,
                          text=True, check=False, timeout=vmdisk.TIMEOUT,
                          env={k: v for k, v in os.environ.items() if k != "LD_LIBRARY_PATH"})
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1)
    assert "without python3-smq and libsmq1" in done.stderr


def test_example_reports_a_wrong_device(smq_disk):
    for args, why in ((["/dev/null"], "/dev/null: not a /dev/smqsgN\n"),
                      (["/dev/absent"], "/dev/absent: No such file or directory\n")):
        done = example(*args)
        assert (done.returncode, done.stdout, done.stderr) == (1, "", why)
    assert example(smq_disk.smq, 0).returncode == 2


# Uses what the example does not. Each line must hold.
PROGRAM = """
import mmap, smq, sys
memory = mmap.mmap(-1, 8 * 512)
with smq.Device(sys.argv[1]) as dev, smq.Ring(8, commands=True) as ring:
    dev.setup(4)
    dev.lend(memory)
    assert dev.info().slots == 4 and dev.info().depth > 0
    data = bytes(range(256)) * 2
    memory[512:1024] = data
    dev.prepare([smq.blocks(smq.WRITE_10, 40, 1, 512, offset=512),
                 smq.blocks(smq.READ_10, 41, 1, 512, offset=1024),
                 smq.Command(bytes(6))])
    assert dev.execute(smq.listed([0, 2])) == 0 and dev.outcome(0).good
    ring.add(dev)
    ring.queue_run(dev, 1, tag=9, lba=40)
    ring.queue_batch(dev, smq.listed([2]), tag=8)
    inquiry = bytearray(36)
    ring.queue_command(dev, bytes([0x12, 0, 0, 0, 36, 0]), data_in=inquiry, tag=7)
    ring.queue_command(dev, bytes([0x28, 0, 255, 255, 255, 255, 0, 0, 1, 0]),
                       data_in=bytearray(512), tag=6)
    events = {event.tag: event for event in ring.reap(4, 4, 20)}
    assert {tag: event.result for tag, event in events.items() if tag > 6} == {9: 0, 8: 0, 7: 0}
    assert memory[1024:1536] == data and b"scsi_debug" in inquiry and events[7].outcome.good
    failed = events[6].outcome
    assert (failed.status, failed.key, failed.asc) == (2, 5, 0x21) and failed.sense
    assert str(failed).startswith("CHECK CONDITION: Illegal Request"), str(failed)
    assert dev.cancel_all() == 0
    try:
        dev.prepare([smq.Command(bytes(6)), smq.blocks(smq.READ_10, 0, 1, 512, offset=8 * 512)])
    except smq.Error as error:
        assert (error.index, error.field) == (1, "length"), str(error)
    else:
        sys.exit("no error")
    try:
        dev.take_back()
    except OSError as error:
        assert error.errno == 16
print(smq.library_version(), smq.__version__)
"""


def test_module_runs_commands(smq_disk):
    done = python("-c", PROGRAM, smq_disk.smq)
    assert (done.returncode, done.stderr) == (0, "")
    library, module = done.stdout.split()
    assert library == module
