# SPDX-License-Identifier: GPL-2.0
"""Runs sg_io record beside a test. Runs sg_io replay and verify, and returns their results."""

import collections
import contextlib
import json
import signal
import subprocess

from vmdisk import SG_IO, sg_io


class Recording:
    """sg_io record of devices, running beside the test. end() stores its results."""

    def __init__(self, dev, path, *args):
        self.path = path
        self.process = subprocess.Popen(
            [SG_IO, "record", "--json", "--output", path, *map(str, args), *dev.split()],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        # sg_io prints this message once it has enabled the events.
        self.messages = self.process.stderr.readline()
        assert self.messages.startswith("recording "), self.messages + self.process.stderr.read()

    def end(self, number=signal.SIGINT):
        """Ends the recording by a signal, or waits until it ends by itself if @number is None."""
        if number:
            self.process.send_signal(number)
        out, err = self.process.communicate(timeout=60)
        self.messages += err
        self.status = self.process.returncode
        self.summary = json.loads(out) if out else None
        self.text = self.path.read_text(encoding="ascii")
        # The last word, how long the command took, is left out: a lost end leaves it out too.
        self.lines = [[word for word in line.split() if not word.startswith("took=")]
                      for line in self.text.splitlines() if line[0] != "#"]
        return self


@contextlib.contextmanager
def recording(dev, path, *args):
    got = Recording(dev, path, *args)
    try:
        yield got
    finally:
        got.end()


def replay(*args, stdin="", expect=0):
    """@expect: the exit status, or a set of those that may be."""
    done = sg_io("replay", "--json", *args, stdin=stdin)
    assert done.returncode in (expect if isinstance(expect, set) else {expect}), (
        done.returncode, done.stderr, done.stdout)
    return json.loads(done.stdout)


def by_cpu(lines):
    """The CDBs of each CPU, in their order."""
    lanes = collections.defaultdict(list)
    for line in lines:
        lanes[line[-1]].append(line[0])
    return lanes


def verify(*args, stdin="", expect=0):
    done = sg_io("verify", "--json", *args, stdin=stdin)
    assert done.returncode == expect, (done.returncode, done.stderr, done.stdout)
    return json.loads(done.stdout)
