# SPDX-License-Identifier: GPL-2.0
"""The table of test_cdb.py: commands in good and bad forms.

A case without @want: smq_ram's result must equal scsi_debug's. A case with @want only: both must
have that result. A case with @want and @why: smq_ram must have that result, and scsi_debug another
one, for the reason @why. A case with @alone is not sent to scsi_debug, because scsi_debug does not
know the command, or would crash or write past its store. """
from dataclasses import dataclass

from kit import cdb
from kit.outcome import (LBA_OUT_OF_RANGE, LIST_LENGTH_ERROR, MISCOMPARE, Outcome,
                         good, host_error, invalid_field, invalid_parameter)

BLOCK = 512
BLOCKS = 16 << 11       # 16 MiB
TOP64 = (1 << 64) - 1
TOP32 = (1 << 32) - 1


@dataclass(frozen=True)
class Case:
    """A command, and its buffers. With @data the test compares the returned data as well."""
    name: str
    cdb: bytes
    din: int = 0
    dout: bytes = b""
    want: Outcome | None = None
    why: str = ""
    alone: bool = False
    data: bool = False


def _rw_ranges() -> list[tuple[str, int, int]]:
    """Names, LBAs and lengths at the edges of the disk. cdb.blocks() cuts a value that is wider
    than its field."""
    end = BLOCKS
    return [("first", 0, 1), ("last", end - 1, 1), ("last-two", end - 2, 2),
            ("over-the-end", end - 1, 2), ("past-the-end", end, 1),
            ("far-past-the-end", end + 1, 1)]


def _pattern(size: int) -> bytes:
    return bytes(i * 7 % 251 for i in range(size))


def _read_write() -> list[Case]:
    cases = []
    for op in cdb.READS + cdb.WRITES:
        write, six = op in cdb.WRITES, cdb.length(op) == 6
        name = f"{'write' if write else 'read'}{cdb.length(op)}"

        def case(label, lba, count, size=None, write=write, op=op, name=name, **more):
            size = count * BLOCK if size is None else size
            buffer = {"dout": _pattern(size)} if write else {"din": size}
            extra = {key: more.pop(key) for key in ("byte1", "control") if key in more}
            cases.append(Case(f"{name}-{label}", cdb.blocks(op, lba, count, **extra), **buffer,
                              data=not write, **more))

        for label, lba, count in _rw_ranges():
            case(label, lba, count)
        if cdb.length(op) != 16:
            case("highest-lba", TOP64, 1)
        case("buffer-longer", 8, 1, size=3 * BLOCK, **({
            "want": good(2 * BLOCK),
            "why": "the device takes one block of three; scsi_debug leaves the residual 0",
        } if write else {}))
        case("buffer-shorter", 8, 3, size=BLOCK)
        case("no-buffer", 8, 1, size=0)
        case("link-bit", 8, 1, control=0x01)
        nine = cdb.length(op) - 1
        case("naca", 8, 1, control=0x04, want=invalid_field(nine, 2),
             why="SAM-6, 5.2: NACA=1 needs NORMACA=1 in INQUIRY data, which is 0; "
                 "scsi_debug ignores CONTROL")
        if six:
            case("length-0-is-256", 8, 0, size=256 * BLOCK)
            case("length-0-over-the-end", BLOCKS - 255, 0, size=256 * BLOCK)
            continue
        case("length-0", 8, 0)
        case("length-0-at-the-end", BLOCKS, 0)
        case("length-0-past-the-end", BLOCKS + 1, 0)
        case("length-highest", 0, TOP32, size=BLOCK)
        case("dpo", 8, 1, byte1=0x10)
        case("fua", 8, 1, byte1=0x08)
        for protect in range(1, 8):
            case(f"protect-{protect}", 8, 1, byte1=protect << 5, want=invalid_field(1, 7),
                 why="SBC-4, 4.21.2: without protection information RDPROTECT and WRPROTECT "
                     "are 0; scsi_debug checks this only on a disk that is formatted with it")
        if cdb.length(op) == 16:
            # LBA plus length, or the offset in bytes, wraps to a small number.
            case("highest-lba", TOP64, 1, want=LBA_OUT_OF_RANGE, alone=True)
            case("wraps-64-bits", TOP64, 2, size=BLOCK, want=LBA_OUT_OF_RANGE, alone=True)
            case("wraps-to-0", TOP64 - 7, 8, size=BLOCK, want=LBA_OUT_OF_RANGE, alone=True)
            case("wraps-in-bytes", 1 << 55, 1, want=LBA_OUT_OF_RANGE)
    for op in cdb.READS:
        cases.append(Case(f"read{cdb.length(op)}-wrong-direction", cdb.blocks(op, 8, 1),
                          dout=bytes(BLOCK)))
    for op in cdb.WRITES:
        cases.append(Case(f"write{cdb.length(op)}-wrong-direction", cdb.blocks(op, 8, 1),
                          din=BLOCK))
    return cases


def _verify() -> list[Case]:
    zero, other = bytes(BLOCK), b"\x01" + bytes(BLOCK - 1)
    last = _pattern(2 * BLOCK)[BLOCK:]      # the disk's last block after the WRITEs above
    cases = []
    for op in cdb.VERIFIES:
        name, alone = f"verify{cdb.length(op)}", op == cdb.VERIFY_12
        unknown = {"alone": True} if alone else {}

        def case(label, lba, count, byte1=0, dout=b"", name=name, op=op, unknown=unknown, **more):
            if unknown and "want" not in more:
                more["want"] = good()
            cases.append(Case(f"{name}-{label}", cdb.blocks(op, lba, count, byte1=byte1),
                              dout=dout, **(unknown | more)))

        case("medium", 4096, 8)
        case("length-0", 4096, 0)
        case("whole", 0, BLOCKS)
        for label, lba, count in [*_rw_ranges()[3:], ("highest-lba", TOP64, 1)]:
            case(label, lba, count, want=LBA_OUT_OF_RANGE,
                 why="SBC-4, 5.34: the range is checked with any BYTCHK; scsi_debug answers "
                     "GOOD to BYTCHK=0 without a check")
        case("equal", 4096, 1, 0x02, zero, want=good())
        case("equal-2", 4096, 2, 0x02, zero * 2, want=good())
        case("miscompare", 4096, 1, 0x02, other, want=MISCOMPARE)
        case("miscompare-in-2nd", 4096, 2, 0x02, zero + other, want=MISCOMPARE)
        case("equal-at-the-end", BLOCKS - 1, 1, 0x02, last, want=good())
        case("compared-over-the-end", BLOCKS - 1, 2, 0x02, zero * 2, want=LBA_OUT_OF_RANGE)
        case("one-block-equal", 4096, 4, 0x06, zero, want=good())
        case("one-block-miscompare", 4096, 4, 0x06, other, want=MISCOMPARE)
        case("one-block-over-the-end", BLOCKS - 1, 2, 0x06, zero, want=LBA_OUT_OF_RANGE,
             alone=True)
        case("bytchk-2", 4096, 1, 0x04, zero, want=invalid_field(1, 2),
             why="SBC-4, 5.34: BYTCHK is bits 2 and 1 of byte 1; scsi_debug points at byte 2")
        for protect in range(1, 8):
            case(f"protect-{protect}", 4096, 1, protect << 5, want=invalid_field(1, 7),
                 why="SBC-4, 4.21.2: without protection information VRPROTECT is 0")
        case("data-missing", 4096, 2, 0x02, zero, want=host_error(), alone=True)
        if cdb.length(op) == 16:
            case("wraps-64-bits", TOP64, 2, want=LBA_OUT_OF_RANGE, alone=True)
    return cases


def _write_same() -> list[Case]:
    block = bytes(range(256)) * 2
    cases = []
    for op in (cdb.WRITE_SAME_10, cdb.WRITE_SAME_16):
        wide = op == cdb.WRITE_SAME_16
        name, count_at = f"write-same{cdb.length(op)}", 10 if wide else 7

        def case(label, lba, count, byte1=0, dout=block, name=name, op=op, **more):
            cases.append(Case(f"{name}-{label}", cdb.blocks(op, lba, count, byte1=byte1),
                              dout=dout, **more))

        case("one", 100, 1)
        case("some", 100, 33)
        case("last", BLOCKS - 1, 1)
        case("over-the-end", BLOCKS - 1, 2)
        case("past-the-end", BLOCKS, 1)
        if not wide:
            case("highest-lba", TOP64, 1)
        case("unmap", 100, 64, 0x08, bytes(BLOCK))
        case("unmap-over-the-end", BLOCKS - 1, 2, 0x08, bytes(BLOCK))
        case("buffer-longer", 100, 1, dout=block * 2, want=good(BLOCK),
             why="the device takes one block of two; scsi_debug leaves the residual 0")
        case("count-0", 100, 0, want=invalid_field(count_at), alone=True)
        case("no-data", 100, 1, dout=b"", want=host_error(), alone=True)
        case("half-a-block", 100, 1, dout=block[:256], want=host_error(), alone=True)
        for label, byte1 in (("anchor", 0x10), ("anchor-unmap", 0x18)):
            case(label, 100, 1, byte1, want=invalid_field(1, 4),
                 why="SBC-4, 5.52: ANCHOR is refused with ANC_SUP=0; scsi_debug ignores it")
        for protect in range(1, 8):
            case(f"protect-{protect}", 100, 1, protect << 5, want=invalid_field(1, 7),
                 why="SBC-4, 4.21.2: without protection information WRPROTECT is 0")
        if wide:
            case("ndob", 100, 33, 0x01, b"")
            case("ndob-unmap", 100, 33, 0x09, b"")
            case("ndob-over-the-end", BLOCKS - 1, 2, 0x01, b"")
            case("highest-lba", TOP64, 1, want=LBA_OUT_OF_RANGE, alone=True)
            case("wraps-64-bits", TOP64, 2, want=LBA_OUT_OF_RANGE, alone=True)
    return cases


def _unmap() -> list[Case]:
    def case(label, *ranges, **more):
        dout = more.pop("dout", cdb.unmap_list(*ranges))
        cases.append(Case(f"unmap-{label}", cdb.unmap(more.pop("size", len(dout)),
                                                      more.pop("byte1", 0)), dout=dout, **more))

    cases: list[Case] = []
    one = cdb.unmap_list((0, 8))
    case("one", (64, 8))
    case("three", (64, 8), (128, 1), (4096, 4096))
    case("overlapping", (64, 8), (64, 8), (60, 8))
    case("nothing", (64, 0))
    case("last", (BLOCKS - 1, 1))
    case("over-the-end", (BLOCKS - 1, 2))
    case("past-the-end", (BLOCKS, 1))
    case("count-highest", (0, TOP32))
    case("lba-highest", (TOP64, 1), want=LBA_OUT_OF_RANGE, alone=True)
    case("wraps-64-bits", (TOP64 - 7, 16), want=LBA_OUT_OF_RANGE, alone=True)
    case("2nd-bad", (64, 8), (BLOCKS, 1))
    case("most-descriptors", *[(8 * i, 8) for i in range(256)])
    # scsi_debug has BUG_ON() for a parameter list whose lengths disagree.
    case("one-too-many", *[(8 * i, 8) for i in range(257)], want=invalid_parameter(2), alone=True)
    case("no-list", dout=b"", want=good(), alone=True)
    case("no-descriptor", want=good(), alone=True)
    for size in (1, 7):
        case(f"list-of-{size}", dout=one, size=size, want=LIST_LENGTH_ERROR, alone=True)
    case("longer-than-sent", dout=one, size=25, want=LIST_LENGTH_ERROR, alone=True)
    case("part-of-a-descriptor", dout=one, size=23, want=good(1), alone=True)
    case("block-length-short", dout=one[:2] + b"\0\x08" + one[4:], want=good(), alone=True)
    case("block-length-long", dout=one[:2] + b"\xff\xf0" + one[4:], want=good(), alone=True)
    case("anchor", (64, 8), byte1=0x01, want=invalid_field(1, 0),
         why="SBC-4, 5.30: ANCHOR is refused with ANC_SUP=0; scsi_debug ignores it")
    return cases


def _no_data() -> list[Case]:
    cases = [Case("tur", cdb.plain(cdb.TEST_UNIT_READY))]
    for op in (cdb.SYNC_CACHE_10, cdb.SYNC_CACHE_16):
        for label, lba, count in [*_rw_ranges(), ("all", 0, 0), ("to-the-end", 8, 0),
                                  ("highest-lba", TOP64 - 8, 1)]:
            for immed in (0, 2):
                cases.append(Case(f"sync{cdb.length(op)}-{label}-{immed}",
                                  cdb.blocks(op, lba, count, byte1=immed)))
    cases.append(Case("sync16-wraps-64-bits", cdb.blocks(cdb.SYNC_CACHE_16, TOP64, 2),
                      want=LBA_OUT_OF_RANGE, alone=True))
    cases += [Case("start", cdb.start_stop(1)), Case("start-immed", cdb.start_stop(1, 1)),
              Case("start-no-flush", cdb.start_stop(5)),
              Case("load", cdb.start_stop(3), want=invalid_field(4, 1),
                   why="SBC-4, 5.25: LOEJ asks to load the medium, but this medium is fixed; "
                       "scsi_debug ignores it")]
    cases += [Case(f"power-condition-{n}", cdb.start_stop(n << 4 | 1)) for n in range(1, 16)]
    return cases


def _inquiry() -> list[Case]:
    cases = [Case("inquiry", cdb.inquiry(96), din=96),
             Case("inquiry-short-buffer", cdb.inquiry(96), din=36),
             Case("inquiry-long", cdb.inquiry(0xffff), din=512),
             Case("inquiry-cmddt", cdb.inquiry(96, byte1=2), din=96),
             Case("inquiry-cmddt-evpd", cdb.inquiry(96, byte1=3), din=96),
             Case("inquiry-wrong-direction", cdb.inquiry(96), dout=bytes(96))]
    cases += [Case(f"inquiry-alloc-{n}", cdb.inquiry(n), din=96) for n in (0, 1, 4, 5, 36, 95)]
    cases += [Case(f"vpd-unknown-{page:02x}", cdb.inquiry(252, page, 1), din=252)
              for page in (0x01, 0x7f, 0x82, 0xb4, 0xc0, 0xff)]
    cases += [Case(f"vpd-only-of-scsi-debug-{page:02x}", cdb.inquiry(252, page, 1), din=252,
                   want=invalid_field(2), why="only scsi_debug has this page")
              for page in (0x84, 0x85, 0x86, 0x87, 0x88, 0x89)]
    cases += [Case(f"page-{page:02x}-without-evpd", cdb.inquiry(96, page), din=96,
                   want=invalid_field(2),
                   why="SPC-5, 6.6.1: PAGE CODE is 0 without EVPD; scsi_debug ignores it")
              for page in (0x01, 0x80, 0xff)]
    return cases


def _mode_sense() -> list[Case]:
    cases = []
    for six in (True, False):
        name = f"mode-sense{6 if six else 10}"
        for page in (0x01, 0x08, 0x0a, 0x1c):
            cases.append(Case(f"{name}-page-{page:02x}-header", cdb.mode_sense(six, page, alloc=0),
                              din=64))
        for page in (0x00, 0x04, 0x05, 0x1a, 0x20, 0x3e):
            cases.append(Case(f"{name}-unknown-{page:02x}", cdb.mode_sense(six, page), din=64))
        for page in (0xc1, 0xc8, 0xff, 0xfe):
            cases.append(Case(f"{name}-saved-{page:02x}", cdb.mode_sense(six, page), din=64))
        for sub in (0x01, 0x7f, 0xfe):
            cases.append(Case(f"{name}-subpage-{sub:02x}", cdb.mode_sense(six, 0x0a, sub), din=64))
            cases.append(Case(f"{name}-all-subpage-{sub:02x}", cdb.mode_sense(six, 0x3f, sub),
                              din=64))
        cases.append(Case(f"{name}-wrong-direction", cdb.mode_sense(six, 0x0a), dout=bytes(64)))
    return cases


def _mode_select() -> list[Case]:
    # scsi_debug reports a unit attention after a good MODE SELECT, so those are sent to smq_ram
    # alone.
    page = bytes([0x08, 0x12, *bytes(18)])
    cases = []
    for six in (True, False):
        name, head = f"mode-select{6 if six else 10}", bytes(4 if six else 8)

        def case(label, dout, byte1=0x10, size=None, six=six, name=name, **more):
            size = len(dout) if size is None else size
            cases.append(Case(f"{name}-{label}", cdb.mode_select(six, size, byte1), dout=dout,
                              **({"alone": "why" not in more} | more if "want" in more else more)))

        def described(size, descriptor, head=head):
            return head[:-1] + bytes([size]) + descriptor + page

        def changed(at, value, head=head):
            return head + page[:at] + bytes([value]) + page[at + 1:]

        same = BLOCKS.to_bytes(4, "big") + BLOCK.to_bytes(4, "big")
        for caching in (4, 5, 1, 0):        # WCE, RCD
            case(f"caching-{caching}", changed(2, caching), want=good())
        case("no-list", b"", want=good())
        case("no-page", head, want=good())
        case("page-twice", head + page + page, want=good())
        case("descriptor", described(8, same), want=good())
        case("buffer-longer", head + page + bytes(8), size=len(head + page), want=good(8))
        for label, byte1, bit in (("pf-0", 0x00, 4), ("sp", 0x11, 0)):
            case(label, head + page, byte1=byte1, want=invalid_field(1, bit),
                 why="SPC-5, 6.12: PF and SP are in byte 1; scsi_debug points at the list's length")
        case("rtd", head + page, byte1=0x12, want=invalid_field(1, 1))
        case("header-short", head[:-1], want=LIST_LENGTH_ERROR)
        case("page-short", head + page[:-1])
        case("page-of-1-byte", head + page[:1], want=LIST_LENGTH_ERROR)
        case("longer-than-sent", head + page, size=len(head + page) + 1, want=LIST_LENGTH_ERROR)
        case("list-too-long", bytes(129), want=invalid_field(4 if six else 7))
        case("unknown-page", head + bytes([0x03, 0x0a, *bytes(10)]))
        case("subpage", changed(0, 0x48), want=invalid_parameter(len(head), 6))
        case("page-length", changed(1, 0x11), want=invalid_parameter(len(head) + 1))
        case("initiator-control", changed(2, 0x80), want=invalid_parameter(len(head) + 2))
        case("last-byte", changed(19, 1), want=invalid_parameter(len(head) + 19))
        case("descriptor-short", described(8, b"")[:len(head) + 7], want=LIST_LENGTH_ERROR)
        case("descriptor-length", described(4, same[:4]), want=invalid_parameter(3 if six else 6))
        case("descriptor-changes", described(8, bytes(4) + same[4:]),
             want=invalid_parameter(len(head)))
        cases.append(Case(f"{name}-wrong-direction", cdb.mode_select(six, 64), din=64))
    return cases


def _parameter_data() -> list[Case]:
    cases = [Case("readcap10", cdb.read_capacity_10(), din=8, data=True),
             Case("readcap10-short-buffer", cdb.read_capacity_10(), din=4, data=True),
             Case("readcap10-long-buffer", cdb.read_capacity_10(), din=16, data=True),
             Case("readcap10-pmi", cdb.read_capacity_10(5, 1), din=8, data=True),
             Case("readcap10-lba", cdb.read_capacity_10(5), din=8, data=True)]
    cases += [Case(f"readcap16-alloc-{n}", cdb.read_capacity_16(n), din=64, data=n > 0)
              for n in (0, 1, 8, 12, 31, 32, 33, 512, TOP32)]
    cases += [Case(f"sai16-{sa:02x}", cdb.read_capacity_16(32, sa), din=32)
              for sa in range(0x20) if sa not in (0x10, 0x12)]
    cases.append(Case("sai16-12", cdb.read_capacity_16(32, 0x12), din=32,
                      want=invalid_field(1, 4), alone=True))     # scsi_debug oopses
    cases += [Case(f"maintenance-in-{sa:02x}", bytes([0xa3, sa, *bytes(8), 0, 0]), din=32)
              for sa in range(0x20) if sa not in (0x0a, 0x0c, 0x0d)]
    cases += [Case(f"maintenance-in-{sa:02x}", bytes([0xa3, sa, *bytes(8), 0, 0]), din=32,
                   want=invalid_field(1, 4), why="only scsi_debug has this action")
              for sa in (0x0a, 0x0d)]
    cases += [Case("request-sense", cdb.request_sense(18), din=18, data=True),
              Case("request-sense-desc", cdb.request_sense(8, True), din=8, data=True)]
    cases += [Case(f"request-sense-alloc-{n}", cdb.request_sense(n), din=64, data=n > 0)
              for n in (0, 1, 8, 17, 18, 252)]
    cases += [Case("report-luns", cdb.report_luns(0), din=512, data=True),
              Case("report-luns-16", cdb.report_luns(0, 16), din=16, data=True),
              Case("report-luns-alloc-highest", cdb.report_luns(0, TOP32), din=64, data=True)]
    cases += [Case(f"report-luns-alloc-{alloc}", cdb.report_luns(0, alloc), din=64,
                   want=good(64 - alloc),
                   why="SPC-5, 4.2.5.6: a short allocation length is no error, and limits the "
                       "data; scsi_debug refuses lengths below 4 and otherwise moves 16 bytes")
              for alloc in (0, 3, 4, 15)]
    for select in (0x03, 0x0f, 0x10, 0x11, 0x12, 0xff):
        cases.append(Case(f"report-luns-select-{select:02x}", cdb.report_luns(select), din=64))
    return cases


def _report_opcodes() -> list[Case]:
    cases = [Case(f"rsoc-option-{n}", cdb.report_opcodes(n), din=64) for n in range(4, 8)]
    cases += [Case(f"rsoc-option-{n}-rctd", cdb.report_opcodes(n, rctd=True), din=64)
              for n in range(4, 8)]
    for op in (0x9e, 0xa3):
        cases.append(Case(f"rsoc-1-{op:02x}-has-actions", cdb.report_opcodes(1, op), din=64))
    for op in (0x00, 0x12, 0x28, 0x93):
        cases.append(Case(f"rsoc-2-{op:02x}-has-none", cdb.report_opcodes(2, op), din=64))
    for option in (1, 2, 3):
        cases.append(Case(f"rsoc-{option}-unknown", cdb.report_opcodes(option, 0xc1), din=64,
                          data=True))
    cases += [Case("rsoc-3-unknown-action", cdb.report_opcodes(3, 0x9e, 0x1f), din=64, data=True),
              Case("rsoc-2-unknown-action", cdb.report_opcodes(2, 0x9e, 0x1f), din=64, data=True),
              Case("rsoc-wrong-direction", cdb.report_opcodes(0), dout=bytes(64))]
    return cases


CASES = (_read_write() + _verify() + _write_same() + _unmap() + _no_data() + _inquiry() +
         _mode_sense() + _mode_select() + _parameter_data() + _report_opcodes())
assert len({case.name for case in CASES}) == len(CASES)
