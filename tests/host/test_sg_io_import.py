# SPDX-License-Identifier: GPL-2.0
"""sg_io import: the samples in imports/ become command files, and lines that are wrong are refused.
blkparse.txt, trace-cmd.txt, trace.txt, perf.txt and fio.log are what these tools printed on Debian
12 (fio 3.33 and blkdiscard on two scsi_debug disks). The others follow the descriptions of their
formats."""

import gzip
import io
import json
import pathlib
import re
import subprocess
import sys

import properties
import pytest
from sg_io_build import SRC, binary, run

SAMPLES = pathlib.Path(__file__).resolve().parent / "imports"
R, W = "in 4096", "out 4096 pattern=lba"
DISCARD = "93080000000000000800000000800000 out 512 pattern=zero"


def cdb(opcode, lba, blocks=8):
    return f"{opcode}00{lba:08x}00{blocks:04x}00"


WANT = {
    # Sectors of 512 bytes; D and C of the same sectors become one command.
    ("blkparse", "blkparse.txt"): (0, [
        f"{cdb('2a', 0)} {W} at=0 cpu=1 dev=8:0 took=12964.787",
        f"{cdb('28', 40)} {R} at=37536 cpu=1 dev=8:16 took=582.197",
        f"{cdb('2a', 48)} {W} at=44727 cpu=0 dev=8:0 took=357.098",
        f"{cdb('2a', 24)} {W} at=45965 cpu=0 dev=8:16 took=663.720",
        f"{cdb('28', 24)} {R} at=46884 cpu=0 dev=8:0 took=346.212",
        f"{cdb('2a', 48)} {W} at=47469 cpu=0 dev=8:16 took=299.791",
        f"{cdb('2a', 32)} {W} at=48029 cpu=0 dev=8:0 took=463.559",
        f"{cdb('2a', 16)} {W} at=48592 cpu=0 dev=8:16 took=16198.150",
        f"{DISCARD} at=1118907 cpu=0 dev=8:0 took=425.110"]),
    ("tracepoints", "trace-cmd.txt"): (0, [
        f"{cdb('2a', 0)} {W} at=0 cpu=0 dev=0:0:0:0 took=2732.000",
        f"{cdb('28', 40)} {R} at=10040 cpu=0 dev=0:0:1:0 took=4602.000",
        f"{cdb('2a', 48)} {W} at=21722 cpu=0 dev=0:0:0:0 took=3918.000",
        f"{cdb('2a', 24)} {W} at=30907 cpu=0 dev=0:0:1:0 took=336.000"]),
    ("tracepoints", "trace.txt"): (0, [
        f"{cdb('28', 0)} {R} at=0 cpu=1 took=335.000",
        f"{cdb('28', 8)} {R} at=825 cpu=1 took=279.000"]),
    ("fio", "fio.log"): (0, [
        f"{cdb('2a', 0)} {W} at=0 dev=/dev/sda",
        f"{cdb('28', 40)} {R} at=107989 dev=/dev/sdb",
        f"{cdb('2a', 48)} {W} at=124796 dev=/dev/sda",
        f"{cdb('2a', 24)} {W} at=129729 dev=/dev/sdb",
        f"{cdb('28', 24)} {R} at=130219 dev=/dev/sda",
        f"{cdb('2a', 48)} {W} at=131456 dev=/dev/sdb",
        f"{cdb('2a', 32)} {W} at=132030 dev=/dev/sda",
        f"{cdb('2a', 16)} {W} at=132606 dev=/dev/sdb"]),
    ("fio", "fio2.log"): (0, [
        f"{cdb('2a', 0)} {W} at=0", f"{cdb('28', 16, 1)} in 512 at=1500",
        f"{DISCARD} at=2000", "35000000000000000000 none 0 at=2000"]),
    # The file is not in the order of time.
    ("msr", "msr.csv"): (0, [
        "280000d10d3a00003000 in 24576 at=0 dev=usr_0 took=4128.600",
        "2a00007164a800000100 out 512 pattern=lba at=1025989 dev=usr_0",
        "2a000027434800001000 out 8192 pattern=lba at=1332052 dev=usr_0 took=196.300",
        "2a0000489c9000000800 out 4096 pattern=lba at=1379193 dev=web_1 took=183.500"]),
    # One line has no type: it is left out, and the exit status is 1.
    ("snia", "snia.csv"): (1, [
        "280068a9f5dd00010000 in 131072 at=0 dev=lun0 took=806.000",
        f"{cdb('2a', 8)} {W} at=1125 dev=lun4"]),
    ("hfplayer", "hfplayer.csv"): (0, [
        f"{cdb('28', 2, 2)} in 1024 at=0 dev=lun6 took=200.000",
        f"{cdb('2a', 4)} {W} at=50 dev=lun7 took=56.910"]),
}


def convert(fmt, path, *args, sanitized=True, stdin=b""):
    return run(binary(sanitized), "import", "--from", fmt, *args, path, stdin=stdin)


@pytest.mark.parametrize("fmt,name", WANT, ids=lambda v: v)
def test_samples(fmt, name):
    status, lines = WANT[fmt, name]
    done = convert(fmt, SAMPLES / name)
    assert done.stdout.splitlines()[1:] == lines, done.stderr
    assert done.returncode == status


@pytest.mark.parametrize("fmt,name", WANT, ids=lambda v: v)
def test_replay_reads_what_import_writes(fmt, name, tmp_path):
    """Each device's commands are a file that the parser accepts."""
    devices = sorted({line.partition(" dev=")[2].partition(" ")[0]
                      for line in WANT[fmt, name][1]} - {""}) or [None]
    for device in devices:
        out = tmp_path / "f"
        done = convert(fmt, SAMPLES / name, "--output", out,
                       *(("--only", device) if device else ()))
        assert done.returncode == WANT[fmt, name][0], done.stderr
        done = run(binary(True), "replay", "/dev/null", out)
        assert "/dev/null: not a node" in done.stderr


def bad(text, fmt):
    return convert(fmt, "-", stdin=text.encode())


BLK = "8,0 1 6 0.000838003 190 D WS 0 + 8 [fio]\n"
TRACE = ("dd-1 [001] d.h1. 104.464052: scsi_dispatch_cmd_start: host_no=0 channel=0 id=0 lun=0 "
         "data_sgl=1 prot_sgl=0 prot_op=SCSI_PROT_NORMAL driver_tag=69 scheduler_tag=16 "
         "cmnd=(READ_10 lba=0 txlen=8 protect=0 raw=28 00 00 00 00 00 00 00 08 00)\n")
MSR = "128166372003061629,usr,0,Read,512,512,7\n"
SNIA = "Timestamp,Response,IOType,LUN,Offset,Size\n1.5,0.1,R,0,512,512\n"
HF = "#ELAPSED_USECS.D,CMD.S,LUN_SSID.I,LBA.I,NBLKS.I,LATENCY_USECS.D\n5,RD_IN,1,2,3,4\n"
FIO = "fio version 3 iolog\n5 /dev/sda read 512 512\n"

# The last line of each text: what separates its fields, and the numbers of those that have a form.
FIELDS = {"blkparse": (BLK, " ", (1, 2, 4, 6, 7, 8, 9, 10)), "msr": (MSR, ",", (1, 3, 4, 5, 6, 7)),
          "snia": (SNIA, ",", (1, 2, 3, 5, 6)), "hfplayer": (HF, ",", (1, 2, 4, 5, 6)),
          "fio": (FIO, " ", (1, 3, 4, 5))}


@pytest.mark.parametrize("fmt,number,junk", [
    (fmt, number, junk) for fmt, (_, _, numbers) in FIELDS.items() for number in numbers
    for junk in ("@", "-1", "1x", None) if junk or number > 1
    # The end of a flush is such a line of blkparse.
    and (fmt, number) != ("blkparse", 8)])
def test_a_wrong_or_missing_field_is_refused_by_its_number(fmt, number, junk):
    """Without @junk the line ends before the field."""
    text, between, _ = FIELDS[fmt]
    *head, last = text.splitlines()
    fields = last.split(between)
    fields[number - 1:] = [junk, *fields[number:]] if junk else []
    done = bad("\n".join([*head, between.join(fields)]) + "\n", fmt)
    assert (done.returncode, done.stdout) == (2, "")
    found = re.match(rf"sg_io: standard input:{len(head) + 1}: field (\d+) \([^)]+\): ",
                     done.stderr)
    assert found and (int(found[1]) == number or not junk and int(found[1]) > number), done.stderr


BAD = [
    ("tracepoints", TRACE, "[001]", "001", "1: CPU: no [CPU] before the time"),
    ("tracepoints", TRACE, "104.464052", "104.4s", "1: time: '104.4s' is no time"),
    ("tracepoints", TRACE, "host_no=0 ", "", "1: host_no: missing"),
    ("tracepoints", TRACE, " id=0", " id=a", "1: id: 'a' is no number"),
    ("tracepoints", TRACE, "raw=28 00", "raw=28 0g", "1: cmnd: '0g' is no byte in hex"),
    ("tracepoints", TRACE, "08 00)", "08", "1: cmnd: the line ends within the CDB"),
    ("tracepoints", TRACE, "cmd_start", "cmd_stop", "1: event: 'scsi_dispatch_cmd_stop:"),
    ("tracepoints", TRACE, TRACE, "free text\n", "1: event: 'free text' is no line of a trace"),
    ("msr", MSR, "512,512", "513,512", "1: field 5 (Offset): 513 bytes are no whole number of "
     "blocks of 512 bytes"),
    ("msr", MSR, "512,512", "512,2199023256064", "1: size: 4294967297 blocks at LBA 1 are more"),
    ("msr", MSR, ",7", ",7,8", "1: field 8 (none): '8' is one field too many"),
    ("msr", MSR, "usr", "u r", "1: device: 'u r_0' cannot be a name in dev="),
    ("msr", MSR, "1281", "9281", "1: field 1 (Timestamp): '928166372003061629' is no time"),
    ("snia", SNIA, "LUN", "Lun", "1: first line: has no column LUN"),
    ("hfplayer", HF, "LBA.I", "LBA", "1: first line: has no column LBA.I"),
    ("fio", FIO, "version 3", "version 4", "1: first line: 'fio version 4 iolog' is not"),
    ("fio", FIO, "read", "readv", "2: field 3 (action): 'readv' is not known"),
    ("fio", FIO, "read 512 512", "open", " has no command"),
]


@pytest.mark.parametrize("fmt,text,old,new,why", BAD)
def test_a_wrong_line_is_refused_with_line_and_field(fmt, text, old, new, why):
    assert bad(text, fmt).returncode in (0, 1), "the text is right before it is changed"
    done = bad(text.replace(old, new, 1), fmt)
    assert (done.returncode, done.stdout) == (2, "")
    assert f"sg_io: standard input:{why}" in done.stderr


def test_debian_12s_perf_does_not_print_the_cdb():
    done = convert("tracepoints", SAMPLES / "perf.txt")
    assert done.returncode == 2
    assert "perf.txt:1: cmnd: this perf cannot print the CDB" in done.stderr


def test_a_refused_import_leaves_the_output_file(tmp_path):
    out = tmp_path / "f"
    out.write_text("kept", encoding="ascii")
    assert convert("msr", "-", "--output", out, stdin=b"1,2\n").returncode == 2
    assert out.read_text(encoding="ascii") == "kept"


def test_lost_events_are_reported():
    done = bad("CPU:0 [LOST 12 EVENTS]\n" + TRACE, "tracepoints")
    assert done.returncode == 1 and len(done.stdout.splitlines()) == 2
    assert "lost events" in done.stderr


def test_refused_and_failed_commands():
    """One command that the driver refused once, and one that failed."""
    fail = " result=(driver=DRIVER_OK host=DID_OK message=COMMAND_COMPLETE status=SAM_STAT_BUSY)"
    lines = [TRACE, TRACE.replace("cmd_start", "cmd_error").replace("464052", "464060"),
             TRACE.replace("464052", "464100"),
             TRACE.replace("464052", "464200").replace("cmd_start", "cmd_done").rstrip() + fail]
    done = bad("".join(line.rstrip() + "\n" for line in lines), "tracepoints")
    assert done.stdout.splitlines()[1:] == [f"{cdb('28', 0)} {R} at=0 cpu=1 took=100.000"]


def test_long_and_high_commands_use_16_byte_cdbs():
    text = "1,h,0,Read,0,33554432,0\n2,h,0,Write,2199023255552,512,0\n"
    assert [line.split()[0] for line in bad(text, "msr").stdout.splitlines()[1:]] == [
        "88000000000000000000000100000000", "8a000000000100000000000000010000"]


def test_other_block_sizes():
    done = convert("msr", "-", "--block-size", "4096", stdin=b"1,h,0,Read,8192,4096,0\n")
    assert done.stdout.splitlines()[1:] == [f"{cdb('28', 2, 1)} {R} at=0"]
    assert "8704 bytes are no whole number of blocks of 4096" in convert(
        "msr", "-", "--block-size", "4096", stdin=b"1,h,0,Read,8704,4096,0\n").stderr


def test_summary(tmp_path):
    out = tmp_path / "f"
    done = convert("blkparse", SAMPLES / "blkparse.txt", "--json", "--output", out)
    got = json.loads(done.stdout)
    assert (got["commands"], got["most_in_flight"], got["left_out"], got["lost"]) == (
        9, 1, 0, False)
    assert got["devices"] == {"8:0": 5, "8:16": 4}
    assert got["opcodes"] == {"WRITE(10)": 6, "READ(10)": 2, "WRITE SAME(16)": 1}
    assert json.loads(convert("fio", SAMPLES / "fio.log", "--json", "--output", out).stdout)[
        "most_in_flight"] is None


def test_more_than_64_devices_are_refused():
    text = "".join(f"{n},h,{n},Read,0,512,0\n" for n in range(65))
    assert "65: device: h_64 is one more than 64; --only NAME" in bad(text, "msr").stderr


def blk(*events, device="8,0"):
    """A trace of blktrace: (action and what follows it) one millisecond after the other."""
    return "".join(f"  {device}    1 {n:8}     0.{n:03}000000   190  {one}\n"
                   for n, one in enumerate(events))


def lines(text, fmt="blkparse", status=0):
    done = convert(fmt, "-", stdin=text if isinstance(text, bytes) else text.encode(),
                   sanitized=False)
    assert done.returncode == status, done.stderr
    return [line.split(" # ")[0] for line in done.stdout.splitlines()[1:]], done.stderr


RW = f"{R} at=0 cpu=1 took=1000.000"


@pytest.mark.parametrize("events", [
    # Since Linux 4.11 a command of a program has its bytes, but no CDB.
    ("D   R 36 [sg_inq]", "C   R [0]"), ("D   N 0 [sg_turs]", "C   N [0]"),
    ("D   R 36 (12 00 00 00 24 00) [sg_inq]", "C   R (12 00 00 00 24 00) [0]")])
def test_commands_of_programs_are_left_out_and_named(events):
    got, said = lines(blk("D   R 0 + 8 [dd]", "C   R 0 + 8 [0]", *events), status=1)
    assert got == [f"{cdb('28', 0)} {RW}"]
    assert "left out: 1 commands of programs, whose CDBs the trace does not have\n" in said


def test_zone_commands_are_left_out_and_named():
    got, said = lines(blk("D   R 0 + 8 [dd]", "C   R 0 + 8 [0]", "D  WS [kworker/0:1H]",
                          "C  WS 32768 [0]", "D ZRS 0 + 64 [dd]", "C ZRS 0 + 64 [0]"), status=1)
    assert got == [f"{cdb('28', 0)} {RW}"] and "left out: 2 zone commands" in said


@pytest.mark.parametrize("took", ["", " (  175689)"])
def test_flushes(took):
    """After a flush the kernel reports the end of the write that wanted it once more."""
    got, _ = lines(blk("Q FWS [mkfs.ext4]", "D  FN [kworker/1:1H]", f"C  FN 0{took} [0]",
                       "C  WS 0 [0]"))
    assert got == ["35000000000000000000 none 0 at=0 cpu=1 took=1000.000"]


@pytest.mark.parametrize("rwbs,want", [
    ("WFS", "2a08"), ("FWFS", "2a08"), ("WFSM", "2a08"), ("FWS", "2a00"), ("WS", "2a00"),
    ("RF", "2808"), ("RA", "2800"), ("WZ", "9300"), ("DS", "9308"), ("DE", "9308")])
def test_kinds_of_blktrace(rwbs, want):
    got, _ = lines(blk(f"D {rwbs} 0 + 8 [dd]", f"C {rwbs} 0 + 8 [0]"))
    assert [line[:4] for line in got] == [want] and "took=1000.000" in got[0]


def test_several_traces_of_blktrace_in_one_file():
    sums = "CPU0 (sda):\n Reads Queued:           1,        4KiB\n\nTotal (sda):\n Reads: 1\n" \
        "Throughput (R/W): 0KiB/s / 0KiB/s\nEvents (sda): 2 entries\nSkips: 0 forward (0 - 0.0%)\n"
    one = ("D   R 0 + 8 [fio]", "C   R 0 + 8 [0]")
    got, said = lines(blk(*one) + sums + "Input file sdb.blktrace.0 added\n" +
                      blk(*one, device="8,16") + sums)
    assert len(got) == 2 and "8:0: 1\n  8:16: 1\n" in said


def test_a_device_without_d_has_its_q():
    dm = blk("Q   W 0 + 8 [dd]", "C   W 0 + 8 [0]", device="254,0")
    assert "at=0" in lines(dm)[0][0] and "took=1000.000" in lines(dm)[0][0]
    both = blk("Q   W 0 + 8 [dd]", "D   W 0 + 8 [dd]", "C   W 0 + 8 [0]")
    assert lines(both)[0] == [f"{cdb('2a', 0)} {W} at=0 cpu=1 took=1000.000"]
    assert len(lines(dm + both)[0]) == 2


def test_an_event_before_the_zero_of_blkparse(tmp_path):
    text = ("  8,0    1        1 18446744073.709450616   190  D   W 0 + 8 [fio]\n"
            "  8,0    1        3     0.000200000   190  D   R 8 + 8 [fio]\n")
    assert [line.split(" at=")[1] for line in lines(text)[0]] == ["0 cpu=1", "301 cpu=1"]
    out = tmp_path / "f"
    convert("blkparse", "-", "--output", out, stdin=text.encode())
    assert run(binary(True), "fidelity", "--mode", "max", out, out).returncode == 0


def test_tracepoints_without_a_tag():
    """Linux before 5.18 has none."""
    done = TRACE.replace("cmd_start", "cmd_done").replace("464052", "464152").rstrip() + \
        " result=(driver=DRIVER_OK host=DID_OK message=COMMAND_COMPLETE status=SAM_STAT_GOOD)\n"
    assert lines((TRACE + done).replace("driver_tag=69 scheduler_tag=16 ", ""),
                 "tracepoints")[0] == [f"{cdb('28', 0)} {R} at=0 cpu=1 took=100.000"]


@pytest.mark.parametrize("change", [
    lambda text: b"\xef\xbb\xbf" + text, lambda text: text + b"\n\n", gzip.compress,
    lambda text: text.replace(b"\n", b"\r\n"),
    lambda text: subprocess.run(["zstd", "-c"], input=text, capture_output=True,
                                check=True).stdout])
@pytest.mark.parametrize("fmt,text", [("msr", MSR), ("snia", SNIA), ("fio", FIO),
                                      ("blkparse", BLK)])
def test_files_as_they_are_published(fmt, text, change):
    assert lines(change(text.encode()), fmt)[0] == lines(text, fmt)[0]


@pytest.mark.parametrize("size", [-4, 3, 10])
def test_a_cut_file_is_refused(size):
    cut = gzip.compress((MSR * 100).encode())
    done = convert("msr", "-", stdin=cut[:size])
    assert (done.returncode, done.stdout) == (2, "") and done.stderr.count("\n") == 1


def test_a_discard_of_more_than_a_cdb_can_have():
    text = FIO + "10 /dev/sda trim 4096 3801035759616\n"
    got = [line.split() for line in lines(text, "fio")[0]][1:]
    assert sum(int(words[0][20:28], 16) for words in got) == 3801035759616 // 512
    assert [int(words[0][4:20], 16) for words in got] == [8, 8 + 0xfffffff8]


def row(op, lba, blocks, us, took, dev):
    """A line of hfplayer's CSV, and the line of a command file that it becomes."""
    want = f"{cdb('28' if op == 'RD' else '2a', lba, blocks)} " \
        f"{'in' if op == 'RD' else 'out'} {512 * blocks}"
    end = f" took={took}.000" if took else ""
    return f"{us},{op},{dev},{lba},{blocks},{took}\n", (us, want, f"dev=lun{dev}", end)


@properties.hypothesis.settings(max_examples=20)
@properties.given(properties.st.lists(properties.st.builds(
    row, properties.st.sampled_from(("RD", "WR")), properties.st.integers(0, 1 << 20),
    properties.st.integers(1, 128), properties.st.integers(0, 1 << 40),
    properties.st.integers(0, 1 << 30), properties.st.integers(0, 3)), min_size=1, max_size=9))
def test_what_is_imported_is_what_was_there(rows):
    got, _ = lines(HF.split("\n", maxsplit=1)[0] + "\n" + "".join(text for text, _ in rows),
                   "hfplayer")
    first = min(us for _, (us, *_) in rows)
    want = [f"{one}{' pattern=lba' if ' out ' in one else ''} at={us - first}"
            f"{f' {dev}' if len({dev for _, (_, _, dev, _) in rows}) > 1 else ''}{end}"
            for _, (us, one, dev, end) in sorted(rows, key=lambda r: r[1][0])]
    assert got == want


@pytest.mark.parametrize("fmt,name", WANT, ids=lambda v: v)
def test_any_line_is_imported_or_named(fmt, name, monkeypatch):
    """A sample with some bytes changed: what ends the import names the line."""
    monkeypatch.setattr(sys, "path", [str(SRC), *sys.path])
    from judge import formats, text, trace_lines    # pylint: disable=import-outside-toplevel
    sample = (SAMPLES / name).read_bytes()
    places = properties.st.integers(0, len(sample) - 1)

    @properties.given(properties.st.lists(properties.st.tuples(
        places, properties.st.integers(0, 3), properties.st.binary(max_size=3)), min_size=1,
        max_size=3))
    def changed(changes):
        some = sample
        for at, length, new in changes:
            some = some[:at] + new + some[at + length:]
        trace = trace_lines.Trace(512, None)
        try:
            trace_lines.read(formats.FORMATS[fmt](trace), io.BufferedReader(io.BytesIO(some)), "f")
        except text.Ended as error:
            assert error.status == 2 and re.match(r"f:\d+: |f: ", str(error))
        assert len(trace.ns) == len(trace.kind) == len(trace.tag)

    changed()
