# SPDX-License-Identifier: GPL-2.0
# on: uml
# not on sanitize: it tests programs, which are the same there
"""sg_io record, replay and verify on special disks: large, busy, bad, removed."""

import contextlib

import pytest
import vmdisk
from kit.fiojob import fio
from kit.host import loaded, run
from kit.smqsg import node
from recorder import Recording, by_cpu, recording, replay, verify
from vmdisk import run_json, sg_io

READ = "28000000000000000800 in 4096\n"


@contextlib.contextmanager
def scsi_debug():
    with vmdisk.disks(dev_size_mb=64) as found:
        yield found[0].sd, found[0].smq


@contextlib.contextmanager
def smq_ram():
    with loaded("smq_ram", size_mb=64) as hosts:
        lun = hosts[0].luns()[0]
        yield lun.sd, node(lun)


def record_fio_on_ext4(disks, tmp_path):
    """Records the I/O of two fio jobs on files of each disk, and that of the directories and the
    journals."""
    there = [tmp_path / f"mnt{n}" for n in range(len(disks))]
    run("modprobe", "ext4")
    with contextlib.ExitStack() as mounted:
        for sd, folder in zip(disks, there):
            folder.mkdir()
            run("mkfs.ext4", "-q", "-F", "-E", "lazy_itable_init=0,lazy_journal_init=0", sd)
            run("mount", "-t", "ext4", sd, folder)
            mounted.callback(run, "umount", folder)
        with recording(" ".join(disks), tmp_path / "load") as load:
            fio(None, directory=":".join(map(str, there)), rw="randrw", bs="4k", size="2m",
                fsync=32, numjobs=2 * len(disks), ioengine="libaio", iodepth=4,
                allow_file_create=1)
            run("sync")
    assert load.status == 0
    counts = load.summary["opcodes"]
    assert counts["WRITE(10)"] > 100 and counts["READ(10)"] > 100
    return load


@pytest.mark.smoke
@pytest.mark.limit(150)
@pytest.mark.not_uml("it has no ext4")
@pytest.mark.parametrize("where", [scsi_debug, smq_ram], ids=lambda f: f.__name__)
def test_recorded_fio_on_ext4_is_replayed(fast_path, tmp_path, where):
    """replay sends the recorded commands again: the device gets the same commands from each CPU, in
    the same order."""
    with where() as (sd, smq):
        load = record_fio_on_ext4([sd], tmp_path)
        done = sg_io("replay", smq, load.path)
        assert (done.returncode, done.stdout, done.stderr.count("\n")) == (3, "", 1)
        assert f"{sd} has the signature of ext4 (filesystem)" in done.stderr
        run("e2fsck", "-f", "-n", sd)
        for number, args in enumerate((["--depth", 8, sd], ["--mode", "max", "--depth", 8, sd],
                                       ["--speed", 4, "--depth", 8, smq])):
            with recording(sd, tmp_path / f"again{number}") as again:
                got = replay("--force", *args, load.path)
            assert got["status"] == {"GOOD": load.summary["commands"]}
            assert got["opcodes"] == load.summary["opcodes"]
            assert got["overtaken"] == 0
            assert again.summary["opcodes"] == load.summary["opcodes"]
            assert by_cpu(again.lines) == by_cpu(load.lines)
            done = sg_io("verify", sd, load.path)
            assert done.returncode == 0, done.stdout


def test_blocks_that_two_cpus_use_get_the_recorded_data(fast_path, tmp_path):
    """CPU 0 writes much and zeroes it; then CPU 1 writes some of these blocks. However fast the
    replay is, CPU 1's WRITEs do not come before CPU 0's WRITE SAME."""
    dd = ["dd", "if=/dev/zero", "oflag=direct", "conv=notrunc", "bs=4k"]
    with smq_ram() as (sd, smq):
        with recording(sd, tmp_path / "load") as load:
            run("taskset", "--cpu-list", 0, *dd, f"of={sd}", "count=500")
            run("taskset", "--cpu-list", 0, "blkdiscard", "--zeroout", "--length", 500 * 4096, sd)
            run("taskset", "--cpu-list", 1, *dd, f"of={sd}", "count=50")
        assert load.summary["opcodes"]["WRITE(10)"] == 550
        assert load.summary["opcodes"]["WRITE SAME(16)"] >= 1
        for args in (["--mode", "max", sd], ["--speed", 4, sd], ["--mode", "max", smq]):
            replay(*args, load.path)
            done = sg_io("verify", sd, load.path)
            assert done.returncode == 0, done.stdout


@pytest.fixture(name="four", scope="module")
def four_(fast_path, tmp_path_factory):
    """A recording of fio on ext4 on four disks, these disks, and the nodes of four others."""
    with loaded("smq_ram", hosts=2, luns=4, size_mb=32) as (first, second):
        load = record_fio_on_ext4([lun.sd for lun in first.luns()],
                                  tmp_path_factory.mktemp("four"))
        yield load, [lun.sd for lun in first.luns()], second.luns()


@pytest.mark.limit(150)
@pytest.mark.not_uml("it has no ext4")
@pytest.mark.parametrize("mode", ["time", "max", "load", "depend"])
def test_four_disks_are_replayed_in_each_mode(four, tmp_path, mode):
    """What fio, ext4 and its journal did on four disks at once leaves the recorded data on four
    others, and the report of the replay knows all commands."""
    load, disks, luns = four
    for lun in luns:
        run("blkdiscard", lun.sd)
    maps = [arg for old, lun in zip(disks, luns) for arg in ("--map", f"{old}={node(lun)}")]
    got = replay("--mode", mode, *maps, "--record", tmp_path / "again", load.path, expect={0, 1})
    assert got["status"] == {"GOOD": load.summary["commands"]}
    assert got["opcodes"] == load.summary["opcodes"]
    found = got["fidelity"]
    assert (found["mode"], found["commands"], found["missing"]) == (mode, got["commands"], 0)
    if mode in ("max", "depend"):
        assert found["verdict"] == "faithful", found["why"]
    if mode == "load":
        most = found["original_in_flight"]["max"]
        assert found["in_flight"]["max"] <= most + most // 4 + 1
    done = sg_io("verify", *maps, load.path)
    assert (done.returncode, done.stdout.count(", 0 differ, 0 could not be read")) == (0, 4), \
        done.stdout


def test_a_refused_command_is_recorded_once(tmp_path):
    """scsi_debug reports a busy host for every tenth command. The recording has each command only
    once."""
    with vmdisk.disks(opts=0x8000, every_nth=10) as found:
        with recording(found[0].sg, tmp_path / "r") as got:
            before = found[0].done()
            run_json("--count", 500, found[0].sg, "-", stdin=READ)
            assert found[0].done() - before == 500
        assert got.summary["opcodes"] == {"READ(10)": 500}


def test_recording_ends_when_its_device_is_removed(tmp_path):
    with vmdisk.disks() as found:
        got = Recording(found[0].sd, tmp_path / "r")
        run_json("--count", 5, found[0].sg, "-", stdin=READ)
        (found[0].sysfs / "delete").write_text("1")
        got.end(None)
        assert got.status == 3
        assert "the device is gone, the recording ended early" in got.messages
        assert len(got.lines) >= 5


def test_verify_counts_unreadable_blocks(tmp_path):
    with vmdisk.disks(opts=2, medium_error_start=0x1234, medium_error_count=1) as found:
        got = verify(found[0].sg, "-", expect=1,
                     stdin="2a000000123000000800 out 4096\n2a000000000000000800 out 4096\n")
        assert (got["differ"], got["unread"], got["blocks"]) == (0, 8, 16)
        assert got["errors"][0]["sense"] == {"key": 3, "asc": 0x11, "ascq": 0}
        assert got["errors"][0]["line"] == 1


def test_verify_checks_large_sectors():
    with vmdisk.disks(sector_size=4096) as found:
        line = "2a000000001000001000 out 65536 pattern=lba\n"
        run_json(found[0].sg, "-", stdin=line)
        assert verify(found[0].sg, "-", stdin=line)["blocks"] == 16
        run_json(found[0].sg, "-", stdin="2a000000001f00000100 out 4096 pattern=zero\n")
        got = verify(found[0].sd, "-", stdin=line, expect=1)
        assert [d["lba"] for d in got["differences"]] == [31]
