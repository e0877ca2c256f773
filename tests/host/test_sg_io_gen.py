# SPDX-License-Identifier: GPL-2.0
"""sg_io gen: its CDBs are compared with those of an independent encoder; ranges and limits."""

import collections
import json
import math
import subprocess

import pytest
from sg_io_build import COMMAND_FILE, SRC, binary, part, run


# opcode, CDB length, LBA field, length field, direction
RW = {
    "read6": (0x08, 6, (1, 3), (4, 1), "in"), "write6": (0x0a, 6, (1, 3), (4, 1), "out"),
    "read10": (0x28, 10, (2, 4), (7, 2), "in"), "write10": (0x2a, 10, (2, 4), (7, 2), "out"),
    "read12": (0xa8, 12, (2, 4), (6, 4), "in"), "write12": (0xaa, 12, (2, 4), (6, 4), "out"),
    "read16": (0x88, 16, (2, 8), (10, 4), "in"), "write16": (0x8a, 16, (2, 8), (10, 4), "out"),
    "verify10": (0x2f, 10, (2, 4), (7, 2), "none"), "verify12": (0xaf, 12, (2, 4), (6, 4), "none"),
    "verify16": (0x8f, 16, (2, 8), (10, 4), "none"), "sync10": (0x35, 10, (2, 4), (7, 2), "none"),
    "sync16": (0x91, 16, (2, 8), (10, 4), "none"),
}
FIXED = {
    "tur": "000000000000 none 0", "inquiry": "120000006000 in 96",
    "reqsense": "03000000fc00 in 252",
    "modesense6": "1a000000fc00 in 252", "modesense10": "5a0000000000" "0000fc00 in 252",
    "readcap10": "25000000000000000000 in 8", "readcap16": "9e10" + "00" * 11 + "200000 in 32",
    "reportluns": "a00000000000000010000000 in 4096",
}


def gen(*args):
    return run(binary(), "gen", *args)


def lines(*args):
    done = gen(*args)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def lbas(*args):
    out = []
    for line in lines(*args):
        cdb = bytes.fromhex(line.split()[0])
        _, _, (at, size), _, _ = next(v for v in RW.values() if v[0] == cdb[0])
        out.append(int.from_bytes(cdb[at:at + size], "big"))
    return out


def encode(name, lba, blocks):
    opcode, size, (lba_at, lba_len), (len_at, len_len), _ = RW[name]
    cdb = bytearray(size)
    cdb[0] = opcode
    cdb[lba_at:lba_at + lba_len] = lba.to_bytes(lba_len, "big")
    cdb[len_at:len_at + len_len] = (blocks % 256 if size == 6 else blocks).to_bytes(len_len, "big")
    return bytes(cdb).hex()


@pytest.mark.parametrize("name", RW)
@pytest.mark.parametrize("blocks", [1, 8, 255, 256])
def test_cdbs_are_those_of_the_encoder(name, blocks):
    first = 0x1ab00
    got = lines("--op", name, "--blocks", str(blocks), "--range", f"{first}:{first + 4000}",
                "--count", "3", "--block-size", "520")
    direction = RW[name][4]
    size = 0 if direction == "none" else blocks * 520
    tail = " pattern=lba" if direction == "out" else ""
    assert got == [f"{encode(name, first + i * blocks, blocks)} {direction} {size}{tail}"
                   for i in range(3)]


def test_cdb_of_32_bytes():
    assert lines("--op", "read32", "--range", "0x1122334455667788:0x1122334455667799") == [
        "7f" + "00" * 6 + "18" "0009" "0000" "1122334455667788" + "00" * 8 + "00000001 in 512"]


def test_write_same_sends_one_block():
    assert lines("--op", "writesame10", "--blocks", "100") == [
        "41000000000000006400 out 512 pattern=lba"]


@pytest.mark.parametrize("name", FIXED)
def test_commands_without_lba_are_repeated_unchanged(name):
    assert lines("--op", name, "--count", "2") == [FIXED[name]] * 2


def test_run_accepts_the_output_of_each_op(tmp_path):
    names = gen("--op", "help").stdout.split()
    assert set(RW) | set(FIXED) <= set(names)
    for name in names:
        path = tmp_path / name
        path.write_text(gen("--op", name, "--count", "5", "--timeout", "77").stdout)
        done = run(part("sg_io_dump", *COMMAND_FILE), path)
        assert done.returncode == 0, done.stderr
        assert [line.split()[4] for line in done.stdout.splitlines()[1:]] == ["77"] * 5


def test_sequence_starts_again_at_the_end_of_the_range():
    assert lbas("--op", "read10", "--blocks", "4", "--range", "100:109", "--count", "5") == [
        100, 104, 100, 104, 100]


def test_range_may_end_at_the_largest_lba_of_the_cdb():
    top = (1 << 21) - 1
    assert lbas("--op", "read6", "--range", f"{top - 1}:{top}", "--count", "3") == [
        top - 1, top, top - 1]
    top = (1 << 64) - 1
    assert lbas("--op", "read16", "--range", f"{top}:{top}", "--count", "2") == [top, top]


def test_random_lbas_are_reproducible_and_uniform():
    args = ("--op", "read16", "--blocks", "8", "--range", "1000:9007", "--count", "5000",
            "--random")
    got = lbas(*args, "1")
    assert got == lbas(*args, "1")
    assert got != lbas(*args, "2")
    assert all((lba - 1000) % 8 == 0 and 1000 <= lba <= 9000 for lba in got)
    counts = [got.count(lba) for lba in range(1000, 9001, 8)]
    # Each of 1001 places is chosen five times on average. Few places are never chosen, and none is
    # chosen very often.
    assert sum(n == 0 for n in counts) < 25
    assert max(counts) < 20


def test_random_over_all_64_bits():
    got = lbas("--op", "read16", "--range", "0:18446744073709551615", "--random", "3",
               "--count", "1000")
    assert max(got) > 1 << 63 > min(got)
    assert len(set(got)) == 1000


def test_random_lbas_stay_in_the_range_of_a_sequence():
    """Without --range, random LBAs lie in the range that a sequence of --count commands covers."""
    assert max(lbas("--op", "read10", "--blocks", "8", "--count", "100", "--random", "1")) <= 792


def opcodes(*args):
    return [line[:2] for line in lines(*args)]


def test_a_mix_has_its_shares():
    args = ("--op", "read10:70,write10:25,tur:5", "--count", "4000", "--pattern", "zero")
    got = opcodes(*args)
    # Three standard deviations are below 90.
    for opcode, share in (("28", 2800), ("2a", 1000), ("00", 200)):
        assert abs(got.count(opcode) - share) < 90
    # Neighbours are drawn independently: after a READ 70 % are READs.
    pairs = sum(a == b == "28" for a, b in zip(got, got[1:]))
    assert abs(pairs - 0.7 * 2800) < 120
    assert {line.split(" ", 1)[1] for line in lines(*args)} == {
        "in 512", "out 512 pattern=zero", "none 0"}
    # Without shares all are equal.
    assert abs(opcodes("--op", "read10,write10", "--count", "4000").count("28") - 2000) < 100


def sizes(*args):
    return [int(line.split()[2]) for line in lines("--op", "read10", *args)]


def test_a_mix_of_sizes():
    got = sizes("--size", "4k:3,64k", "--count", "4000")
    assert abs(got.count(4096) - 3000) < 90 and set(got) == {4096, 65536}
    assert sizes("--blocks", "1,2", "--count", "50") == sizes("--size", "512,1k", "--count", "50")
    assert sizes("--size", "4k", "--block-size", "4096") == [4096]


def test_a_sequence_of_a_mix_has_no_gaps():
    args = ("--op", "read10", "--blocks", "1,8,128", "--range", "100:5000", "--count", "1000")
    at = 100
    for lba, size in zip(lbas(*args), sizes(*args[2:])):
        if at + size // 512 > 5001:
            at = 100
        assert lba == at
        at = lba + size // 512


def test_random_places_of_a_mix_have_room_for_each_size():
    args = ("--op", "read10", "--blocks", "8,64", "--range", "1000:2000", "--count", "3000",
            "--random", "1")
    assert set(lbas(*args)) == set(range(1000, 1000 + 1001 - 63, 8))


@pytest.mark.parametrize("s", [0.8, 1, 1.2, 2])
@pytest.mark.parametrize("nr", [3, 1000, 1 << 40])
def test_hot_spot(s, nr):
    """The most popular places have as many commands as Zipf's law says; hot places are apart."""
    count = 20000
    got = lbas("--op", "read16", "--zipf", str(s), "--random", "7", "--count", str(count),
               "--range", f"5:{5 + nr - 1}")
    assert min(got) >= 5 and max(got) < 5 + nr
    found = collections.Counter(got).most_common(2)
    # The sum for ranks over 1000 is nearly an integral.
    tail = math.log(nr / 1000) if s == 1 else (nr ** (1 - s) - 1000 ** (1 - s)) / (1 - s)
    whole = sum(k ** -s for k in range(1, min(nr, 1000) + 1)) + (tail if nr > 1000 else 0)
    for rank in (1, 2):
        want = count * rank ** -s / whole
        if want > 300:
            assert abs(found[rank - 1][1] - want) < 4.5 * want ** 0.5
            continue
        assert found[rank - 1][1] < 400
    if nr > 3 and count / whole > 300:
        assert abs(found[0][0] - found[1][0]) > nr / 4


def test_streams_go_on_in_turn():
    """Three sequences: each in its third of the range, from its beginning again at its end."""
    got = lbas("--op", "read10", "--blocks", "4", "--streams", "3", "--range", "100:129",
               "--count", "12")
    assert got == [100, 108, 116, 104, 112, 120, 100, 108, 124, 104, 112, 116]
    # Without a range, there is room for all commands.
    assert max(lbas("--op", "read10", "--streams", "2", "--count", "8")) == 7


def test_numbers_may_have_a_suffix():
    assert lbas("--op", "read16", "--range", "1M:2G", "--blocks", "1k", "--count", "2") == [
        1 << 20, (1 << 20) + 1024]
    assert len(lines("--op", "tur", "--count", "2K")) == 2048


def test_json_has_the_same_commands_as_the_text():
    args = ("--op", "write10", "--blocks", "2", "--count", "3", "--pattern", "random:4",
            "--timeout", "9")
    objects = json.loads(gen(*args, "--json").stdout)
    assert [f"{o['cdb']} {o['direction']} {o['bytes']} pattern={o['pattern']} "
            f"timeout={o['timeout']}" for o in objects] == lines(*args)
    assert json.loads(gen("--op", "tur", "--json").stdout) == [
        {"cdb": "000000000000", "direction": "none", "bytes": 0}]


BAD = [
    (["--count", "1"], "--op NAME is needed"),
    (["--op", "read11"], "--op: 'read11' is not known"),
    (["--op", "read16", "--blocks", "1000000"], "are over the limit of 268435456 bytes"),
    (["--op", "tur", "--blocks", "1"], "--blocks: TEST UNIT READY moves no blocks"),
    (["--op", "tur", "--range", "0:1"], "--range: TEST UNIT READY has no LBA"),
    (["--op", "inquiry", "--random", "1"], "--random: INQUIRY has no LBA"),
    *((["--op", "read16", "--range", text], f"--range: '{text}' is not FIRST:LAST") for text in (
        "5", ":5", "5:", "a:b", "-1:5", "0:18446744073709551616", "0:16777216T")),
    (["--op", "read10", "--range", "9:5"], "--range: FIRST 9 is after LAST 5"),
    (["--op", "read10", "--range", "0:4294967296"],
     "--range: LBA 4294967296 is over the limit of READ(10), 4294967295"),
    (["--op", "read10", "--blocks", "8", "--range", "0:6"],
     "--range: 0 to 6 has no room for 8 blocks"),
    (["--op", "read10,"], "--op: '' is not known"),
    (["--op", ",".join(["tur"] * 17)], "--op: more than 16"),
    (["--op", "read10,read6", "--blocks", "8,300"],
     "--blocks: 300 is over the limit of READ(6), 256"),
    (["--op", "read10,read6", "--range", "0:2097152"],
     "--range: LBA 2097152 is over the limit of READ(6), 2097151"),
    (["--op", "read10", "--size", "4k", "--blocks", "8"], "--blocks and --size exclude"),
    (["--op", "read10", "--size", "1000"], "--size: 1000 is no multiple of the block size, 512"),
    (["--op", "tur", "--size", "4k"], "--size: TEST UNIT READY moves no blocks"),
    (["--op", "read10", "--zipf", "1"], "--zipf needs --random SEED"),
    (["--op", "read10", "--streams", "2", "--random", "1"], "exclude each other"),
    (["--op", "tur", "--streams", "2"], "--streams: TEST UNIT READY has no LBA"),
    (["--op", "read10", "--streams", "4", "--blocks", "8", "--range", "0:30"],
     "--streams: 0 to 30 has no room for 4 of 8 blocks"),
    (["--op", "read10", "--pattern", "zero"], "--pattern: READ(10) has no data-out"),
    (["--op", "write10", "--pattern", "x"], "--pattern: pattern 'x' is not one of"),
    (["--op", "read10", "extra"], "'extra': no arguments are taken"),
    (["--op"], "requires an argument"),
    (["--nonsense"], "unrecognized option"),
]


@pytest.mark.parametrize("args,why", BAD, ids=lambda v: " ".join(v) if isinstance(v, list) else "")
@pytest.mark.parametrize("sanitized", [False, True], ids=["plain", "sanitized"])
def test_bad_options_are_refused(args, why, sanitized):
    done = run(binary(sanitized), "gen", *args)
    assert done.returncode == 2
    assert done.stdout == ""
    assert why in done.stderr


def test_full_disk_is_an_error():
    with open("/dev/full", "wb") as full:
        done = subprocess.run([binary(), "gen", "--op", "tur"], stdout=full, timeout=60,
                              stderr=subprocess.PIPE, check=False)
    assert done.returncode == 3
    assert b"No space left" in done.stderr


def test_gen_starts_without_numpy():
    """It would take longer than the rest of gen, and what pipes commands to run need not have
    it."""
    program = ("import runpy, sys; sys.modules['numpy'] = None; sys.argv[0] = ''; "
               f"runpy.run_path({str(SRC / 'judge')!r}, run_name='__main__')")
    done = run("/usr/bin/python3", "-IB", "-c", program, binary(), "gen", "--op", "tur")
    assert (done.returncode, done.stdout) == (0, "000000000000 none 0\n"), done.stderr
