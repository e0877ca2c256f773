# SPDX-License-Identifier: GPL-2.0
"""smq_sg's table of opcodes that need CAP_SYS_RAWIO, for all types of devices, and the LBA of a
CDB."""

import errno
import re
import shutil
import subprocess
from pathlib import Path

import kernel_headers
import pytest

HERE = Path(__file__).resolve().parent
TOP = HERE.parents[1]
# What cdb.c and rw_cdb.h use of the kernel.
SHIM = {
    "linux/types.h": """
#include_next <linux/types.h>
#include <stdbool.h>
#include <stdint.h>
typedef uint8_t u8;
typedef uint32_t u32;
typedef uint64_t u64;
""",
    "scsi/scsi_device.h": """
#include <errno.h>
#include <linux/types.h>
struct scsi_device {
    u8 type;
};
""",
    "smq/compat.h": """
#define unlikely(condition) (condition)
#define get_unaligned_be16(at) ((at)[0] << 8 | (at)[1])
#define get_unaligned_be24(at) ((at)[0] << 16 | get_unaligned_be16((at) + 1))
#define get_unaligned_be32(at) ((u32)(at)[0] << 24 | get_unaligned_be24((at) + 1))
#define get_unaligned_be64(at) ((u64)get_unaligned_be32(at) << 32 | get_unaligned_be32((at) + 4))
static inline void put_be(uint64_t value, unsigned char *at, int size)
{
    while (size--) {
        at[size] = value;
        value >>= 8;
    }
}
#define put_unaligned_be16(value, at) put_be(value, at, 2)
#define put_unaligned_be24(value, at) put_be(value, at, 3)
#define put_unaligned_be32(value, at) put_be(value, at, 4)
#define put_unaligned_be64(value, at) put_be(value, at, 8)
""",
}
CD_DRIVE = 5
# Disk, WORM, CD drive, optical memory, simplified disk, zoned disk.
WITH_BLOCKS = (0, 4, 5, 7, 0x0e, 0x14)
# What a user may send to all other devices from a file open for reading, and what else from one
# that is also open for writing.
READS = set(bytes.fromhex("00 03 08 12 1a 1c 25 28 2f 37 3c 3e 4d 5a 88 8f 95 9e a0 a3 a8"))
WRITES = set(bytes.fromhex("0a 2a 2e 35 3f 41 8a 93 9c aa ae"))
# The kernel's filter does not know it, and smq_cmd_allowed() does.
WRITE_ATOMIC_16 = 0x9c
# Bits of the LBA, for opcodes whose LBA can be set.
BITS = {opcode: bits for bits, opcodes in (
    (21, "08 0a"),
    (32, "28 2a 2e 2f a8 aa ae af"),
    (64, "88 8a 8e 8f 9c")) for opcode in bytes.fromhex(opcodes)}
LENGTHS = (6, 10, 10, 32, 16, 12, 16, 16)


@pytest.fixture(name="run", scope="module")
def _run(tmp_path_factory):
    """A function that runs the program."""
    folder = tmp_path_factory.mktemp("sg_cdb")
    compat = (TOP / "include/smq/compat.h").read_text(encoding="utf-8")
    opcode = re.search(r"^#define SMQ_WRITE_ATOMIC_16\s+\w+$", compat, re.M)[0]
    for name, text in SHIM.items():
        path = folder / "shim" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"#pragma once\n{opcode}\n{text}" if "compat" in name
                        else f"#pragma once\n{text}", encoding="ascii")
    shutil.copy(kernel_headers.include("6.1") / "scsi/scsi_proto.h", folder / "shim/scsi")
    program = folder / "sg_cdb"
    subprocess.run(["gcc", "-std=gnu11", "-Wall", "-Wextra", "-Werror", "-fsanitize=undefined",
                    "-Wno-sign-compare", "-I", folder / "shim", "-I", TOP / "include", "-o",
                    program, HERE / "sg_cdb.c"], check=True, timeout=60)

    def run(lines):
        done = subprocess.run([program], input="\n".join(lines), check=True, capture_output=True,
                              text=True, timeout=20)
        return [line.split() for line in done.stdout.splitlines()]
    return run


def test_opcodes_that_need_rights(run):
    """The table of opcodes x types x rights. For a CD drive the kernel's filter decides."""
    cases = [(device, opcode) for device in range(32) for opcode in range(256)]
    for (device, opcode), answer in zip(
            cases, run(f"rights {device} {opcode}" for device, opcode in cases), strict=True):
        if device == CD_DRIVE:
            expected = opcode == WRITE_ATOMIC_16, opcode == WRITE_ATOMIC_16
        else:
            expected = opcode not in READS, opcode not in READS | WRITES
        assert tuple(map(int, answer)) == expected, (device, hex(opcode))


def _check_lbas(run, cases):
    """Sets LBAs in CDBs whose other bits are all set. @cases: (type, opcode, LBA, errno or 0, the
    expected bytes from byte 1 on)."""
    answers = run(f"lba {device} {opcode:02x}{'ff' * (LENGTHS[opcode >> 5] - 1)} {lba}"
                  for device, opcode, lba, _, _ in cases)
    for (device, opcode, lba, error, begin), (result, cdb) in zip(cases, answers, strict=True):
        assert int(result) == error, (device, hex(opcode), lba)
        expected = (bytes([opcode]) + begin).ljust(LENGTHS[opcode >> 5], b"\xff")
        assert bytes.fromhex(cdb) == expected, (device, hex(opcode), lba)


def test_lba_that_a_run_sets(run):
    """SMQ_SG_RUN_LBA changes the LBA, and nothing else, of opcodes that move or verify blocks."""
    cases = [(0, opcode, 0, errno.EOPNOTSUPP, b"") for opcode in range(256) if opcode not in BITS]
    for opcode, bits in BITS.items():
        for lba in (0, 1, 0x23456, (1 << bits) - 1):
            begin = (lba | 0xe00000).to_bytes(3, "big") if bits == 21 else \
                b"\xff" + lba.to_bytes(bits // 8, "big")
            cases.append((0, opcode, lba, 0, begin))
        if bits < 64:
            cases += [(0, opcode, lba, errno.ERANGE, b"") for lba in (1 << bits, (1 << 64) - 1)]
    _check_lbas(run, cases)


def test_lba_only_of_devices_with_blocks(run):
    """READ(6) of a tape has a length where a disk's has the LBA."""
    _check_lbas(run, [(device, 0x08, 1, 0, bytes.fromhex("e00001")) if device in WITH_BLOCKS else
                      (device, 0x08, 1, errno.EOPNOTSUPP, b"") for device in range(32)])
