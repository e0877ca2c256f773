# SPDX-License-Identifier: GPL-2.0
"""smq_sg's table of opcodes, service actions and ioctls that need CAP_SYS_RAWIO, for all types of
devices, and the LBA of a CDB."""

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
    "scsi/scsi_ioctl.h": """
#define SCSI_IOCTL_START_UNIT 5
#define SCSI_IOCTL_STOP_UNIT 6
#define SCSI_IOCTL_DOORLOCK 0x5380
#define SCSI_IOCTL_DOORUNLOCK 0x5381
#define SCSI_IOCTL_GET_PCI 0x5387
""",
    "smq/compat.h": """
#define unlikely(condition) (condition)
#define BIT(nr) (1UL << (nr))
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
READS = set(bytes.fromhex("00 03 08 12 1a 1c 25 28 2f 37 3e 5a 88 8f a0 a8"))
WRITES = set(bytes.fromhex("0a 2a 2e 35 3f 41 8a 93 9c aa ae"))
# Opcodes of which a user may send only these service actions (modes of 3Ch, no bit of 4Dh), from a
# file open for reading. 9Eh/14h, 15h, 18h to 1Ah and 95h/08h have an effect.
ACTIONS = {0x3c: "00 02 03 0a 0b", 0x4d: "00", 0x95: "00 06 07 09", 0x9e: "10 11 12 13 16 17",
           0xa3: "05 0a 0b 0c 0d 0e 0f 10"}
# The opcode of the command that the mid-layer sends for an ioctl; that of INQUIRY also for an ioctl
# that sends none.
IOCTLS = {0x5: 0x1b, 0x6: 0x1b, 0x5309: 0x1b, 0x5319: 0x1b, 0x5380: 0x1e, 0x5381: 0x1e,
          0x5387: 0x12}
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
                    program, HERE / "cdb_table.c"], check=True, timeout=60)

    def run(lines):
        done = subprocess.run([program], input="\n".join(lines), check=True, capture_output=True,
                              text=True, timeout=20)
        return [line.split() for line in done.stdout.splitlines()]
    return run


def test_opcodes_that_need_rights(run):
    """The table of opcodes x service actions x types x rights. For a CD drive the kernel's filter
    decides."""
    cases = [(device, opcode, action) for device in (0, 1, CD_DRIVE, 8, 20, 31)
             for opcode in range(256) for action in range(32)]
    for (device, opcode, action), answer in zip(
            cases, run("rights {} {} {}".format(*case) for case in cases), strict=True):
        if device == CD_DRIVE:
            expected = opcode == WRITE_ATOMIC_16, opcode == WRITE_ATOMIC_16
        elif opcode in ACTIONS:
            expected = (action not in bytes.fromhex(ACTIONS[opcode]),) * 2
        else:
            expected = opcode not in READS, opcode not in READS | WRITES
        assert tuple(map(int, answer)) == expected, (device, hex(opcode), hex(action))


def test_ioctls_that_send_a_command(run):
    """An ioctl needs the right to send its command; -1: CAP_SYS_RAWIO."""
    numbers = [*range(0x1000), *range(0x2200, 0x2300), *range(0x5300, 0x5400)]
    for number, (opcode,) in zip(numbers, run(f"ioctl {number:x}" for number in numbers),
                                 strict=True):
        assert int(opcode) == IOCTLS.get(number, -1), hex(number)


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
