# SPDX-License-Identifier: GPL-2.0
"""sg_io record: how trace events become the lines of a command file."""

import random

import pytest
from sg_io_build import binary, part, run

PARTS = ("replay/recording/recording.c", "util.c", "issue/cmdfile/opcodes.c",
         "issue/cmdfile/cdb.c", "issue/workers/hist.c")
TUR = "000000000000"


def read10(lba, blocks=1):
    return f"2800{lba:08x}00{blocks:04x}00"


def event(kind, ns, tag=0, cpu=0, data=1, protected=0, result=0, cdb=TUR):
    return f"{kind} {ns} {tag} {cpu} {data} {protected} {result} {cdb}"


def record(events, *args):
    """Records the events; returns the lines of the file, and the summary as a dictionary."""
    text = "\n".join(events) + "\n"
    done = run(part("sg_io_recording_main", *PARTS), *map(str, args), stdin=text.encode())
    assert done.returncode == 0, done.stderr
    *lines, summary = done.stdout.splitlines()
    words = summary.replace("left out", "left_out").replace("not good", "not_good").split()
    return lines, dict(zip(words[::2], map(int, words[1::2])))


def test_each_command_becomes_one_line():
    lines, summary = record([
        event("start", 5_000_000, cdb=read10(16, 8)), event("done", 5_010_000, cdb=read10(16, 8)),
        event("start", 5_020_999, 1, 3, cdb="2a000000001000000800"),
        event("start", 5_030_000, 2, 1, 0),
        event("done", 5_040_000, 1, 0, cdb="2a000000001000000800", result=2),
        event("start", 5_050_000, 3, 1, cdb="42000000000000001800")])
    assert lines == [f"{read10(16, 8)} in 4096 at=0 cpu=0 took=10.000",
                     "2a000000001000000800 out 4096 pattern=lba at=20 cpu=3 took=19.001",
                     f"{TUR} none 0 at=30 cpu=1",
                     "42000000000000001800 out 24 pattern=zero at=50 cpu=1"]
    assert summary == {"written": 4, "left_out": 0, "most": 2, "cpus": 3, "ends": 2,
                       "not_good": 1, "full": 0}


def test_write_same_writes_zeroes():
    """The line has pattern=zero, because the block layer writes zeroes too. WRITE SAME with UNMAP
    requires zeroes."""
    same = "93080000000000000626000004000000"
    assert record([event("start", 1, cdb=same)])[0] == [f"{same} out 512 pattern=zero at=0 cpu=0"]


def test_lines_are_in_the_order_of_time():
    """record reads events CPU by CPU and sorts them by time. Events of the same time keep their
    order."""
    shuffled = list(range(100, 200))
    random.Random(1).shuffle(shuffled)
    lines, _ = record([event("start", 1000 * n, n, cdb=read10(n)) for n in shuffled] +
                      [event("start", 200_000, 200 + n, cdb=read10(200 + n)) for n in range(9)])
    assert [int(line[4:12], 16) for line in lines] == list(range(100, 209))


def test_events_can_be_sorted_in_several_steps():
    """A sort records the events before a given time. It keeps later events for the next sort,
    because record may still read an event that is earlier than they are."""
    lines, summary = record([
        event("start", 3000, 1, cdb=read10(3)), event("done", 4000, 1, cdb=read10(3)),
        event("start", 1000, 2, cdb=read10(1)), "sort 2000",
        event("start", 2000, 3, cdb=read10(2)), "sort 9000"])
    assert [int(line[4:12], 16) for line in lines] == [1, 2, 3]
    assert summary["ends"] == 1 and summary["most"] == 3


def test_a_refused_command_counts_once():
    """A command that the driver refused twice becomes one line. CPU 1's command, which has the same
    tag, becomes another line."""
    lines, summary = record([
        event("start", 1000, 7, cdb=read10(1)), event("start", 2000, 7, 1, cdb=read10(2)),
        event("refused", 2500, 7, cdb=read10(1)), event("start", 3000, 7, cdb=read10(1)),
        event("refused", 3500, 7, cdb=read10(1)), event("start", 9000, 7, cdb=read10(1)),
        event("done", 9500, 7, cdb=read10(1)), event("done", 9600, 7, cdb=read10(2))])
    assert lines == [f"{read10(2)} in 512 at=0 cpu=1 took=7.600",
                     f"{read10(1)} in 512 at=7 cpu=0 took=0.500"]
    assert (summary["ends"], summary["most"]) == (2, 2)


def test_ends_of_commands_sent_before_the_recording_are_ignored():
    lines, summary = record([event("done", 1000, 5, cdb=read10(1)),
                             event("refused", 1000, 5, cdb=read10(1)),
                             event("start", 2000, 5, cdb=read10(1))])
    assert len(lines) == 1 and summary["ends"] == 0


def test_missing_ends_do_not_slow_down_later_events():
    """20000 commands with the same tag start, and their ends come later. The time to handle an
    event does not grow with the number of commands in flight."""
    lines, _ = record([event("start", n, 3, cdb=read10(n)) for n in range(20000)] +
                      [event("done", 20000 + n, 3, cdb=read10(n)) for n in range(20000)], 20000)
    assert len(lines) == 20000


LEFT_OUT = [
    ("c00000000000", 1, 0, "the opcode is not known, so neither are direction and size of "
     "its data"),
    ("55000000000000001000", 1, 0, "the parameters it sent are not known"),
    ("3b050000000000100000", 1, 0, "the parameters it sent are not known"),
    ("28200000000000000100", 1, 1, "with protection information"),
    ("28000000000000000100", 0, 0, "its data is not what its CDB says"),
    ("28000000000000000000", 1, 0, "its data is not what its CDB says"),
    ("a80000000000ffffffff0000", 1, 0, "more data than a command of a file may have"),
    ("12000000600000000000", 1, 0, "its CDB does not have the length of its opcode"),
    ("00000000000000000000000000000000", 0, 0, "its CDB does not have the length of its opcode"),
    ("610000000000", 0, 0, "its CDB does not have the length of its opcode"),
]


@pytest.mark.parametrize("cdb,data,protected,why", LEFT_OUT, ids=lambda v: str(v)[:20])
def test_commands_that_cannot_be_written_become_comments(cdb, data, protected, why):
    lines, summary = record([event("start", 1000, 1, 0, data, protected, cdb=cdb),
                             event("start", 3000, 2, 0, 0)])
    assert lines == [f"# {cdb} ? at=0 cpu=0 # left out: {why}", f"{TUR} none 0 at=2 cpu=0"]
    assert (summary["written"], summary["left_out"]) == (1, 1)


def test_command_with_blocks_is_left_out_without_a_disk():
    inquiry = "120000002400"
    lines, _ = record([event("start", 1000, cdb=read10(0)), event("start", 2000, cdb=inquiry)],
                      1000, 0)
    assert lines == [f"# {read10(0)} ? at=0 cpu=0 # left out: the device has no disk, so the size "
                     "of its blocks is not known", f"{inquiry} in 36 at=1 cpu=0"]


def test_unknown_opcode_without_data_is_written():
    assert record([event("start", 1, data=0, cdb="c00000000000")])[0] == [
        "c00000000000 none 0 at=0 cpu=0"]


def test_recording_stops_at_its_limit():
    lines, summary = record([event("start", n, n, cdb=read10(n)) for n in range(10)], 4)
    assert len(lines) == 4 and summary["full"] == 1


def test_recording_is_full_when_its_last_command_has_ended():
    """A recording at its limit is full only when all its commands have ended. Until then the driver
    may refuse a command, which makes room for another one."""
    events = [event(kind, 10 * n + (kind == "done"), n, cdb=read10(n))
              for n in range(4) for kind in ("start", "done")]
    assert record(events, 4)[1]["full"] == 1
    assert record(events[:-1], 4)[1]["full"] == 0
    assert record(events, 5)[1]["full"] == 0
    refused = event("refused", 31, 3, cdb=read10(3))
    assert record([*events[:-1], refused], 4)[1]["full"] == 0


def test_replay_accepts_the_recorded_lines(tmp_path):
    """replay accepts every kind of line that record writes."""
    cdbs = [read10(1), "080000010100", "a80000000001000000020000", "2e000000000100000100",
            "93000000000000000626000004000000", "93010000000000000626000004000000",
            "41000000000100000400", "89000000000000000001000000010000", "120000006000",
            "25000000000000000000", "9e100000000000000000000000200000", "35000000000000000000",
            "7f" + "00" * 6 + "18" + "000b" + "00" * 18 + "00000001"]
    none = ("35", "9301")
    lines, summary = record([event("start", n, n, data=int(not cdb.startswith(none)), cdb=cdb)
                             for n, cdb in enumerate(cdbs)])
    assert (summary["written"], summary["left_out"]) == (len(cdbs), 0)
    path = tmp_path / "f"
    path.write_text("\n".join(lines) + "\n", encoding="ascii")
    done = run(binary(True), "replay", "/dev/null", path)
    assert (done.returncode, done.stderr) == (
        3, "sg_io: /dev/null: not a node of a SCSI device (sg, bsg, sd or smqsg)\n")
