# SPDX-License-Identifier: GPL-2.0
# on: uml
# not on sanitize: it tests programs, which are the same there
"""sg_io record, replay and verify with several devices in one recording."""

import json
import subprocess

import pytest
import vmdisk
from recorder import recording, replay
from vmdisk import BLOCKS, sg_io


@pytest.fixture(name="three", scope="module")
def three_(fast_path):
    """Three disks with data of their own."""
    with vmdisk.disks(hosts=3, per_host_store=1) as found:
        yield found


def words(line):
    return dict(word.split("=") for word in line if "=" in word)


def load(names, count=60):
    """Writes and reads of each device on each CPU, in one time line."""
    lines = []
    for n in range(count):
        lba, dev = 8 * (n // 2), names[n % len(names)]
        lines.append(f"2a00{lba:08x}00000800 out 4096 pattern=lba at={500 * n} cpu={n // 3 % 2} "
                     f"dev={dev}\n" if n % 4 else
                     f"2800{lba:08x}00000800 in 4096 at={500 * n} cpu={n // 3 % 2} dev={dev}\n")
    return "".join(lines)


def test_recording_of_several_devices(three, tmp_path):
    """One file has the commands of both devices in the order of time, and no others."""
    names = [disk.sg for disk in three]
    with recording(" ".join(names[:2]), tmp_path / "r") as got:
        # Without --force sg_io reads the disks first, to look for file systems.
        replay("--force", *names, "-", stdin=load(names))
    assert got.status == 0
    assert got.summary["devices"] == {names[0]: 20, names[1]: 20}
    assert {words(line)["dev"] for line in got.lines} == set(names[:2])
    at = [int(words(line)["at"]) for line in got.lines]
    assert at == sorted(at) and len(at) == 40
    want = [line.split() for line in load(names).splitlines()]
    for name in names[:2]:
        for cpu in ("0", "1"):
            ours = [line[0] for line in got.lines
                    if (words(line)["dev"], words(line)["cpu"]) == (name, cpu)]
            assert ours == [w[0] for w in want
                            if (words(w)["dev"], words(w)["cpu"]) == (name, cpu)]
    # All ended, so that each line says how long its command took.
    assert got.text.count(" took=") == 40


@pytest.mark.parametrize("via", ["sg", "bsg-uring", "smq", "block"])
@pytest.mark.parametrize("mode", ["time", "max"])
def test_each_path_sends_each_command_to_its_device(three, tmp_path, via, mode):
    """Two devices go to one, at different blocks, the third goes to another: verify finds all data
    where it was mapped to, and nothing else was written."""
    for disk in three:
        with open(disk.sd, "r+b") as f:
            f.write(b"\xee" * (1 << 20))
    target = [three[1].smq, three[2].smq]
    maps = ["--map", f"a={target[0]}", "--map", f"b={target[0]},offset=1k",
            "--map", f"c={target[1]},offset=100,scale=2"]
    path = tmp_path / "load"
    path.write_text(load("abc"), encoding="ascii")
    got = replay("--via", via, "--mode", mode, "--force", *maps, path)
    assert (got["path"], got["status"]) == (via, {"GOOD": 60})
    assert [(d["device"], d["commands"]) for d in got["devices"]] == [
        (target[0], 40), (target[1], 20)]
    done = sg_io("verify", *maps, path)
    assert (done.returncode, done.stdout.count(", 0 differ")) == (0, 2), done.stdout + done.stderr
    untouched = three[0].read(0, 2048) == b"\xee" * (1 << 20)
    assert untouched
    # LBAs 16 to 23 of c went to 132 to 147.
    assert three[2].read(147, 1)[:8] == (147).to_bytes(8, "big")
    assert three[2].read(99, 1) == b"\xee" * 512
    subprocess.run([vmdisk.SG_IO, "run", "--force", three[2].sg, "-"], check=True, timeout=60,
                   input=b"2a000000008400000100 out 512 pattern=ff\n",
                   stdout=subprocess.DEVNULL)
    done = sg_io("verify", *maps, path)
    assert (done.returncode, done.stdout.count(" 0 differ"), done.stdout.count(" 1 differ")) == (
        1, 1, 1)


def test_a_recording_goes_to_the_devices_swapped(three, tmp_path):
    names = [disk.sg for disk in three[:2]]
    both = [arg for a, b in zip(names, names[::-1]) for arg in ("--map", f"{a}={b}")]
    with recording(" ".join(names), tmp_path / "r") as got:
        replay("--force", *both, "-", stdin=load(names))
    want = [line.split() for line in load(names).splitlines()]
    for a, b in zip(names, names[::-1]):
        assert sorted(line[0] for line in got.lines if words(line)["dev"] == b) == \
            sorted(w[0] for w in want if words(w)["dev"] == a)
    # sg_io fidelity finds all commands again. Whether they were in time depends on the machine.
    path = tmp_path / "load"
    path.write_text(load(names), encoding="ascii")
    done = sg_io("fidelity", "--json", "--late", 10 ** 9, *both, path, tmp_path / "r")
    found = json.loads(done.stdout)
    assert (found["commands"], found["missing"], found["extra"]) == (60, 0, 0)
    assert found["timer_p99_ns"] > 0
    assert found["verdict"] == ("reordered" if found["inversions"] else "faithful")


def test_refusals_hold_for_each_target(three):
    """The second target has a file system: nothing is sent to the first."""
    maps = ["--map", f"a={three[0].sg}", "--map", f"b={three[1].sg}"]
    subprocess.run(["mkswap", three[1].sd], check=True, timeout=60, stdout=subprocess.DEVNULL)
    with open(three[0].sd, "r+b") as f:
        f.write(b"\xee" * (1 << 20))
    try:
        done = sg_io("replay", *maps, "-", stdin=load("ab"))
        assert done.returncode == 3 and "has the signature of swap" in done.stderr
        assert three[1].sd in done.stderr
        assert three[0].read(8, 1) == b"\xee" * 512
        # A target that only gets reads is not refused.
        reads = "".join(line + "\n" for line in load("ab").splitlines()
                        if "in 4096" in line or "dev=a" in line)
        assert replay(*maps, "-", stdin=reads)["status"].keys() == {"GOOD"}
    finally:
        three[1].wipe()


def test_what_does_not_fit_is_refused_by_line(three):
    before = three[0].done()
    done = sg_io("replay", "--map", f"a={three[0].sg},offset={BLOCKS - 100}", "-",
                 stdin=load("a"))
    assert done.returncode == 2
    # LBA 96 is that of line 25.
    assert f"standard input:25: LBA {BLOCKS - 4}, 8 blocks: {three[0].sg} has {BLOCKS} blocks" \
        in done.stderr
    assert three[0].done() == before


def test_window_of_time(three):
    got = replay("--from", "0.005", "--to", "0.015", "--map", f"a={three[0].sg}", "-",
                 stdin=load("a"))
    assert got["commands"] == 20 and got["seconds"] < 30


def test_several_devices_need_a_depth(three):
    done = sg_io("replay", "--depth", "1", "--via", "sg", "--map", f"a={three[0].sd}",
                 "--map", f"b={three[1].sd}", "-", stdin=load("ab"))
    assert (done.returncode, done.stderr) == (
        2, "sg_io: --depth 1: several devices need 2 or more\n")


def test_verify_prints_an_object_for_each_device(three, tmp_path):
    path = tmp_path / "load"
    path.write_text(load("ab"), encoding="ascii")
    maps = ["--map", f"a={three[0].sg}", "--map", f"b={three[1].sg}"]
    replay(*maps, path)
    done = sg_io("verify", "--json", *maps, path)
    assert done.returncode == 0, done.stderr
    decoder, text, found = json.JSONDecoder(), done.stdout.strip(), []
    while text:
        one, end = decoder.raw_decode(text)
        found.append(one["device"])
        text = text[end:].lstrip()
    assert found == [three[0].sg, three[1].sg]


@pytest.mark.parametrize("mode", ["time", "max", "load", "depend"])
def test_a_load_of_many_batches(three, tmp_path, mode):
    """15,000 commands of two CPUs on two devices, which use few blocks: what a command waits for is
    often in another batch, or is sent from the other CPU."""
    path = tmp_path / "load"
    with open(path, "w", encoding="ascii") as out:
        for n in range(15_000):
            lba = 8 * (n * n % 251)
            op, data = ("28", "in 4096") if n % 3 else ("2a", f"out 4096 pattern=tag:1:{n}")
            out.write(f"{op}00{lba:08x}00000800 {data} at={10 * n} cpu={n // 5 % 2}"
                      f" dev={'ab'[n // 7 % 2]} took=50\n")
    maps = ["--map", f"a={three[0].smq}", "--map", f"b={three[1].smq}"]
    got = replay("--mode", mode, "--force", *maps, path)
    assert (got["status"], got["overtaken"]) == ({"GOOD": 15_000}, 0)
    assert sg_io("verify", *maps, path).stdout.count(", 0 differ") == 2


def test_a_removed_device_ends_a_replay(three):
    """The kernel has thousands of commands for both devices. The last test: the disk is gone."""
    lines = "".join(f"28000000000000000800 in 4096 at={1000 * n} dev={'ab'[n % 2]}\n"
                    for n in range(20_000))
    before = three[1].done()
    with subprocess.Popen([vmdisk.SG_IO, "replay", "--map", f"a={three[0].smq}", "--map",
                           f"b={three[1].smq}", "-"], stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as user:
        user.stdin.write(lines)
        user.stdin.close()
        user.stdin = None
        vmdisk.wait_for(lambda: three[1].done() > before + 20)
        (three[1].sysfs / "delete").write_text("1")
        out, err = user.communicate(timeout=60)
        assert user.returncode == 3 and " commands in " in out, (user.returncode, out, err)
        assert "the device is gone, the run ended early" in err
