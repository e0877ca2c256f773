# SPDX-License-Identifier: GPL-2.0
"""Builds CDBs from their fields. Values are not checked, but cut to the field's width."""

TEST_UNIT_READY, REQUEST_SENSE, READ_6, WRITE_6, INQUIRY = 0x00, 0x03, 0x08, 0x0a, 0x12
MODE_SELECT_6, MODE_SENSE_6, START_STOP, READ_CAPACITY_10 = 0x15, 0x1a, 0x1b, 0x25
READ_10, WRITE_10, VERIFY_10, SYNC_CACHE_10 = 0x28, 0x2a, 0x2f, 0x35
WRITE_SAME_10, UNMAP, MODE_SELECT_10, MODE_SENSE_10 = 0x41, 0x42, 0x55, 0x5a
READ_16, WRITE_16, VERIFY_16, SYNC_CACHE_16, WRITE_SAME_16 = 0x88, 0x8a, 0x8f, 0x91, 0x93
SERVICE_ACTION_IN_16, REPORT_LUNS, MAINTENANCE_IN = 0x9e, 0xa0, 0xa3
READ_12, WRITE_12, VERIFY_12 = 0xa8, 0xaa, 0xaf

READS = (READ_6, READ_10, READ_12, READ_16)
WRITES = (WRITE_6, WRITE_10, WRITE_12, WRITE_16)
VERIFIES = (VERIFY_10, VERIFY_12, VERIFY_16)

# Length by group code, the first three bits (SPC-5, 4.2.5.1); 0: the group does not give a length.
_LENGTHS = (6, 10, 10, 0, 16, 12, 0, 0)
# Offset and size of the LBA and of the number of blocks in a READ, WRITE, WRITE SAME and the like,
# by length of the CDB.
_LBA = {6: (1, 3), 10: (2, 4), 12: (2, 4), 16: (2, 8)}
_COUNT = {6: (4, 1), 10: (7, 2), 12: (6, 4), 16: (10, 4)}


def length(opcode: int) -> int:
    """Bytes in a CDB; 16 if the opcode's group does not give a length."""
    return _LENGTHS[opcode >> 5] or 16


def _put(cdb: bytearray, at: int, size: int, value: int) -> None:
    cdb[at:at + size] = (value & (1 << 8 * size) - 1).to_bytes(size, "big")


def plain(opcode: int, byte1: int = 0, control: int = 0) -> bytes:
    """A CDB with these bytes set and all others 0."""
    cdb = bytearray(length(opcode))
    cdb[0], cdb[1] = opcode, byte1
    cdb[-1] |= control
    return bytes(cdb)


def blocks(opcode: int, lba: int, count: int, byte1: int = 0, control: int = 0) -> bytes:
    """A CDB with LBA and length in blocks: READ, WRITE, VERIFY, WRITE SAME, ..."""
    cdb = bytearray(length(opcode))
    _put(cdb, *_LBA[len(cdb)], lba if len(cdb) != 6 else lba & 0x1fffff)
    _put(cdb, *_COUNT[len(cdb)], count)
    cdb[0] = opcode
    cdb[1] |= byte1
    cdb[-1] |= control
    return bytes(cdb)


def inquiry(alloc: int, page: int = 0, byte1: int = 0, control: int = 0) -> bytes:
    """INQUIRY; @byte1=1 sets EVPD."""
    return bytes([INQUIRY, byte1, page, alloc >> 8 & 0xff, alloc & 0xff, control])


def mode_sense(six: bool, page: int, sub: int = 0, alloc: int = 252, byte1: int = 0) -> bytes:
    """MODE SENSE(6) or MODE SENSE(10); @page is the whole byte 2: PC and PAGE CODE."""
    if six:
        return bytes([MODE_SENSE_6, byte1, page, sub, alloc & 0xff, 0])
    return bytes([MODE_SENSE_10, byte1, page, sub, 0, 0, 0, alloc >> 8 & 0xff, alloc & 0xff, 0])


def mode_select(six: bool, size: int, byte1: int = 0x10) -> bytes:
    """MODE SELECT(6) or MODE SELECT(10) with a parameter list of @size bytes; @byte1: PF, SP."""
    if six:
        return bytes([MODE_SELECT_6, byte1, 0, 0, size & 0xff, 0])
    return bytes([MODE_SELECT_10, byte1, 0, 0, 0, 0, 0, size >> 8 & 0xff, size & 0xff, 0])


def request_sense(alloc: int = 252, desc: bool = False) -> bytes:
    """REQUEST SENSE."""
    return bytes([REQUEST_SENSE, int(desc), 0, 0, alloc & 0xff, 0])


def start_stop(byte4: int, byte1: int = 0) -> bytes:
    """START STOP UNIT: @byte4 0 stops, 1 starts."""
    return bytes([START_STOP, byte1, 0, 0, byte4, 0])


def read_capacity_10(lba: int = 0, pmi: int = 0) -> bytes:
    """READ CAPACITY(10)."""
    return bytes([READ_CAPACITY_10, 0, *lba.to_bytes(4, "big"), 0, 0, pmi, 0])


def read_capacity_16(alloc: int = 32, action: int = 0x10) -> bytes:
    """READ CAPACITY(16), or another service action of its opcode."""
    return bytes([SERVICE_ACTION_IN_16, action, *bytes(8), *alloc.to_bytes(4, "big"), 0, 0])


def report_luns(select: int = 0, alloc: int = 512) -> bytes:
    """REPORT LUNS."""
    return bytes([REPORT_LUNS, 0, select, 0, 0, 0, *alloc.to_bytes(4, "big"), 0, 0])


def report_opcodes(option: int = 0, opcode: int = 0, action: int = 0, alloc: int = 2048,
                   rctd: bool = False) -> bytes:
    """REPORT SUPPORTED OPERATION CODES."""
    return bytes([MAINTENANCE_IN, 0x0c, rctd << 7 | option, opcode, action >> 8, action & 0xff,
                  *alloc.to_bytes(4, "big"), 0, 0])


def unmap(list_length: int, byte1: int = 0) -> bytes:
    """UNMAP."""
    return bytes([UNMAP, byte1, 0, 0, 0, 0, 0, *list_length.to_bytes(2, "big"), 0])


def unmap_list(*ranges: tuple[int, int]) -> bytes:
    """UNMAP's parameter list for (LBA, count) pairs."""
    size = 16 * len(ranges)
    head = (size + 6).to_bytes(2, "big") + size.to_bytes(2, "big") + bytes(4)
    return head + b"".join((lba & (1 << 64) - 1).to_bytes(8, "big") + count.to_bytes(4, "big") +
                           bytes(4) for lba, count in ranges)
