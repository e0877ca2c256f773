# SPDX-License-Identifier: GPL-2.0
# on: uml sanitize 7.2
"""Behaviour that the table in cdb_cases.py does not show, because it tests single commands: the
list of commands, allocation lengths, residuals, mode parameters, unit attentions, and a stopped
unit."""
from pathlib import Path

import pytest
from kit import cdb, sgio
from kit.host import SgDev, loaded, run
from kit.outcome import (DEVICE_RESET, INVALID_OPCODE, NOT_STARTED, POWER_ON, good, invalid_field,
                         outcome)

TUR = cdb.plain(cdb.TEST_UNIT_READY)


@pytest.fixture(scope="module")
def host():
    """Yields a host with 3 LUNs of 16 MiB."""
    # The kernel logs DID_ERROR for commands whose buffer has the wrong direction.
    with loaded("smq_ram", luns=3, size_mb=16, io_errors=True) as hosts:
        yield hosts[0]


@pytest.fixture
def dev(host):
    """LUN 0, started, without a pending unit attention."""
    with SgDev(host.luns()[0].sd) as node:
        yield node
        node.cmd(cdb.start_stop(1))
        node.cmd(TUR)


@pytest.fixture
def second(host):
    """LUN 1."""
    with SgDev(host.luns()[1].sd) as node:
        yield node
        node.cmd(TUR)


def opcodes(dev) -> list[tuple[int, int | None, int]]:
    """Returns the opcode, service action and CDB length of all commands, as the device lists
    them."""
    got = dev.cmd(cdb.report_opcodes(), din=2048)
    assert got.good, got
    size = int.from_bytes(got.data[:4], "big")
    assert size % 8 == 0 and len(got.data) == 4 + size
    found = []
    for at in range(4, len(got.data), 8):
        entry = got.data[at:at + 8]
        action = int.from_bytes(entry[2:4], "big") if entry[5] & 1 else None
        found.append((entry[0], action, int.from_bytes(entry[6:8], "big")))
    return found


@pytest.mark.smoke
def test_only_listed_opcodes_are_supported(dev):
    """Of all 256 opcodes, the device supports exactly those that it lists."""
    listed = {entry[0] for entry in opcodes(dev)}
    assert {cdb.INQUIRY, cdb.READ_10, cdb.WRITE_16, cdb.UNMAP, cdb.VERIFY_12} <= listed
    for opcode in range(256):
        got = dev.cmd(cdb.plain(opcode), din=512)
        if opcode in listed:
            assert got.triple is None or got.triple[:2] != (5, 0x20), f"{opcode:#04x}: {got}"
        else:
            assert outcome(got) == INVALID_OPCODE, f"{opcode:#04x}: {got}"
        if opcode == cdb.START_STOP:
            assert dev.cmd(cdb.start_stop(1)).good


def test_listed_commands_are_described(dev):
    """If REPORT SUPPORTED OPERATION CODES asks for one listed command, the answer has the length
    that the list gives, and usage data that begins with the opcode."""
    for opcode, action, length in opcodes(dev):
        for option in ((1, 3) if action is None else (2, 3)):
            for rctd in (False, True):
                got = dev.cmd(cdb.report_opcodes(option, opcode, action or 0, rctd=rctd), din=64)
                what = f"{opcode:#04x}/{action} option {option} rctd {rctd}: {got.data.hex(' ')}"
                assert got.good, what
                assert got.data[1] == (0x83 if rctd else 0x03), what
                assert int.from_bytes(got.data[2:4], "big") == length == cdb.length(opcode), what
                usage = got.data[4:4 + length]
                assert usage[0] == opcode, what
                assert action is None or usage[1] & 0x1f == action, what
                assert usage[-1] & 0x04, f"the usage data does not have NACA: {what}"
                rest = got.data[4 + length:]
                assert rest == (bytes([0, 10, *bytes(10)]) if rctd else b""), what


def test_all_commands_are_reported_with_timeouts(dev):
    """With reporting option 0 and RCTD the device reports 20 bytes for each command."""
    got = dev.cmd(cdb.report_opcodes(rctd=True), din=2048)
    assert got.good
    short = opcodes(dev)
    assert len(got.data) == 4 + 20 * len(short)
    for at, (opcode, _, length) in zip(range(4, len(got.data), 20), short, strict=True):
        entry = got.data[at:at + 20]
        assert entry[0] == opcode and entry[5] & 2 and entry[7] == length
        assert entry[8:10] == b"\0\x0a"


def test_each_command_refuses_naca(dev):
    """SAM-6, 5.2: each command is refused if NACA is set in its CONTROL byte."""
    for opcode, action, length in opcodes(dev):
        got = dev.cmd(cdb.plain(opcode, action or 0, control=0x04), din=512)
        assert outcome(got) == invalid_field(length - 1, 2), f"{opcode:#04x}: {got}"


# Rows of: the name of parameter data, a function that makes the CDB for an allocation length, and
# the size of the CDB's allocation length field in bytes.
PARAMETER_DATA = [
    ("inquiry", cdb.inquiry, 2),
    *[(f"vpd-{page:02x}", lambda n, page=page: cdb.inquiry(n, page, 1), 2)
      for page in (0x00, 0x80, 0x83, 0xb0, 0xb1, 0xb2)],
    *[(f"mode{6 if six else 10}-{page:02x}-{byte1:02x}",
       lambda n, six=six, page=page, byte1=byte1: cdb.mode_sense(six, page, 0, n, byte1),
       1 if six else 2)
      for six in (True, False) for page in (0x3f, 0x08, 0x41) for byte1 in (0x00, 0x08)],
    ("request-sense", cdb.request_sense, 1),
    ("request-sense-desc", lambda n: cdb.request_sense(n, True), 1),
    ("readcap16", cdb.read_capacity_16, 4),
    ("rsoc", lambda n: cdb.report_opcodes(alloc=n), 4),
    ("rsoc-one", lambda n: cdb.report_opcodes(1, cdb.READ_10, alloc=n), 4),
]


@pytest.mark.parametrize("_name,make,width", PARAMETER_DATA, ids=[row[0] for row in PARAMETER_DATA])
def test_data_is_cut_to_the_allocation_length(dev, _name, make, width):
    """SPC-5, 4.2.5.6: the device cuts data to the allocation length and writes no byte behind it. A
    length of 0 is no error."""
    size = 1024
    most = (1 << 8 * width) - 1
    whole = dev.cmd(make(min(size, most)), din=size)
    assert whole.good and 4 < len(whole.data) < size, whole
    full = len(whole.data)
    for alloc in {0, 1, 2, 3, 4, 7, 8, full - 1, full, min(full + 1, most), most}:
        got = dev.cmd(make(alloc), din=size)
        want = min(alloc, full)
        assert got.good and got.resid == size - want, f"allocation length {alloc}: {got}"
        assert got.data == whole.data[:want], f"allocation length {alloc}"
        assert got.raw[want:] == bytes([sgio.FILL]) * (size - want), f"allocation length {alloc}"
    for size in (1, 3, full - 1, full):
        got = dev.cmd(make(min(1024, most)), din=size)
        assert got.good and got.resid == 0 and got.data == whole.data[:size], f"buffer {size}"


def test_mode_sense_has_the_standard_layout(dev):
    """MODE SENSE (6) and (10) return the right headers, block descriptors and page lengths (SPC-5,
    7.5.4)."""
    blocks = 16 << 11
    for dbd in (0x00, 0x08):
        got = dev.cmd(cdb.mode_sense(True, 0x3f, alloc=255, byte1=dbd), din=255)
        assert got.data[0] == len(got.data) - 1 and got.data[2] == 0x10
        assert got.data[3] == (0 if dbd else 8)
        if not dbd:
            assert got.data[4:12] == blocks.to_bytes(4, "big") + (512).to_bytes(4, "big")
        six = got.data[4 + got.data[3]:]
        for llbaa in (0x00, 0x10):
            got = dev.cmd(cdb.mode_sense(False, 0x3f, alloc=255, byte1=dbd | llbaa), din=255)
            size = 0 if dbd else 16 if llbaa else 8
            assert int.from_bytes(got.data[:2], "big") == len(got.data) - 2
            assert got.data[3] == 0x10 and got.data[7] == size
            assert got.data[4] == (1 if size == 16 else 0)
            if size == 16:
                assert got.data[8:24] == (blocks.to_bytes(8, "big") + bytes(4) +
                                          (512).to_bytes(4, "big"))
            assert got.data[8 + size:] == six
        pages, at = [], 0
        while at < len(six):
            pages.append(six[at] & 0x3f)
            at += 2 + six[at + 1]
        assert at == len(six) and pages == sorted(set(pages)) and 0x08 in pages
    # Nothing in the control page can be changed: the mask is 0 behind the page's header.
    now = dev.cmd(cdb.mode_sense(True, 0x0a, alloc=255, byte1=8), din=255).data
    default = dev.cmd(cdb.mode_sense(True, 0x8a, alloc=255, byte1=8), din=255).data
    mask = dev.cmd(cdb.mode_sense(True, 0x4a, alloc=255, byte1=8), din=255).data
    assert default == now and mask[:6] == now[:6] and not any(mask[6:]) and len(mask) == len(now)


def test_mode_select_changes_the_caching_page_until_a_reset(dev):
    """MODE SELECT changes WCE and RCD, and nothing if any page of its list is wrong."""
    def page(control=0):
        got = dev.cmd(cdb.mode_sense(True, control << 6 | 0x08, alloc=255, byte1=8), din=255)
        return got.data[4:]

    def select(*pages):
        data = bytes(4) + b"".join(pages)
        return dev.cmd(cdb.mode_select(True, len(data)), dout=data)

    was, mask = page(), page(1)
    assert mask == was[:2] + b"\x05" + bytes(17)
    assert select(was[:2] + b"\x05" + was[3:]).good
    assert page() == was[:2] + b"\x05" + was[3:] and page(2) == was and page(1) == mask
    assert select(was, bytes([0x0a, 0x0a, *bytes(10)])).triple == (5, 0x26, 0)
    assert page()[2] == 5
    dev.reset(sgio.SG_SCSI_RESET_DEVICE)
    assert outcome(dev.cmd(TUR)) == DEVICE_RESET
    assert page() == was


@pytest.mark.smoke
def test_cache_type_can_be_set(host):
    """sd sets the cache type by MODE SELECT, and issues cache flushes accordingly."""
    lun = host.luns()[1]
    attr = Path("/sys/class/scsi_disk", lun.address, "cache_type")
    for kind, cache in (("write back", "write back"), ("none", "write through"),
                        ("write back, no read (daft)", "write back"),
                        ("write through", "write through")):
        attr.write_text(kind, encoding="ascii")
        assert attr.read_text(encoding="ascii").strip() == kind
        assert (lun.queue / "write_cache").read_text(encoding="ascii").strip() == cache
        run("dd", "if=/dev/zero", f"of={lun.sd}", "bs=4k", "count=1", "conv=fsync", "oflag=direct")
    with pytest.raises(OSError):
        attr.write_text("bogus", encoding="ascii")


# Commands that move no byte of their buffer.
NOTHING_MOVED = [
    ("tur", TUR), ("start", cdb.start_stop(1)), ("sync", cdb.plain(cdb.SYNC_CACHE_10)),
    ("verify-medium", cdb.blocks(cdb.VERIFY_10, 0, 1)),
    ("unknown-opcode", cdb.plain(0xc1)), ("bad-range", cdb.blocks(cdb.READ_10, 0xfffffff0, 1)),
    ("bad-field", cdb.blocks(cdb.READ_10, 0, 1, byte1=0xe0)), ("bad-page", cdb.inquiry(96, 9, 1)),
]


@pytest.mark.parametrize("_name,command", NOTHING_MOVED, ids=[row[0] for row in NOTHING_MOVED])
def test_residual_is_the_whole_buffer_if_nothing_is_moved(dev, _name, command):
    """The residual is the number of bytes that were not transferred, even if the command is
    refused."""
    got = dev.cmd(command, din=512)
    assert got.raw == bytes([sgio.FILL]) * 512
    assert got.resid == 512, str(got)


def test_unmap_reports_bytes_behind_its_list_as_residual(dev):
    """UNMAP does not transfer the part of the buffer behind its parameter list."""
    listed = cdb.unmap_list((0, 8))
    got = dev.cmd(cdb.unmap(len(listed)), dout=listed + bytes(40))
    assert got.good and got.resid == 40, str(got)


def test_unit_attention_is_reported_once_after_a_lun_reset(dev, second):
    """The LUN reports a unit attention once, to its next command that is not exempt."""
    dev.reset(sgio.SG_SCSI_RESET_DEVICE)
    assert dev.cmd(cdb.inquiry(96), din=96).good
    assert dev.cmd(cdb.report_luns(), din=512).good
    assert outcome(dev.cmd(TUR)) == DEVICE_RESET
    assert dev.cmd(TUR).good
    assert second.cmd(TUR).good


@pytest.mark.parametrize("command", [
    cdb.blocks(cdb.READ_10, 0, 1), cdb.blocks(cdb.WRITE_16, 0xffffffffff, 1), cdb.plain(0xc1),
    cdb.mode_sense(True, 0x3e), cdb.read_capacity_10(), cdb.report_opcodes(7)],
    ids=["read", "bad-range", "unknown-opcode", "bad-page", "readcap", "bad-option"])
def test_unit_attention_precedes_errors_in_the_command(dev, command):
    """SPC-5, 5.14: if a command has an error, the device still reports the unit attention first."""
    dev.reset(sgio.SG_SCSI_RESET_DEVICE)
    assert outcome(dev.cmd(command, din=512)) == DEVICE_RESET
    assert outcome(dev.cmd(command, din=512)) != DEVICE_RESET


@pytest.mark.parametrize("level,want", [(sgio.SG_SCSI_RESET_TARGET, DEVICE_RESET),
                                        (sgio.SG_SCSI_RESET_HOST, POWER_ON)],
                         ids=["target", "host"])
def test_wider_resets_reach_all_luns(host, dev, second, level, want):
    """Each LUN reports a target or host reset, and the host counts it."""
    before = host.stats()
    dev.reset(level)
    for lun in (dev, second):
        assert outcome(lun.cmd(TUR)) == want
        assert lun.cmd(TUR).good
    name = "host_resets" if want is POWER_ON else "target_resets"
    assert host.stats()[name] == before[name] + 1


def test_request_sense_clears_a_unit_attention(dev):
    """SPC-5, 6.39: REQUEST SENSE returns a unit attention as data, and clears it. This is so in
    fixed and in descriptor format."""
    dev.reset(sgio.SG_SCSI_RESET_DEVICE)
    got = dev.cmd(cdb.request_sense(18), din=18)
    assert got.good and got.data == DEVICE_RESET.sense
    assert dev.cmd(TUR).good
    assert dev.cmd(cdb.request_sense(18), din=18).data == bytes([0x70, *bytes(6), 10, *bytes(10)])
    dev.reset(sgio.SG_SCSI_RESET_DEVICE)
    got = dev.cmd(cdb.request_sense(252, True), din=252)
    assert got.good and got.data == bytes([0x72, 6, 0x29, 3, 0, 0, 0, 0])
    assert dev.cmd(TUR).good


MEDIUM = [cdb.TEST_UNIT_READY, cdb.READ_6, cdb.READ_10, cdb.READ_12, cdb.READ_16, cdb.WRITE_6,
          cdb.WRITE_10, cdb.WRITE_12, cdb.WRITE_16, *cdb.VERIFIES, cdb.SYNC_CACHE_10,
          cdb.SYNC_CACHE_16, cdb.WRITE_SAME_10, cdb.WRITE_SAME_16, cdb.UNMAP]


@pytest.mark.smoke
def test_stopped_unit_is_not_ready(dev, second):
    """SBC-4, 5.25: commands that need the medium get NOT READY. All other commands work as
    before."""
    assert dev.cmd(cdb.start_stop(0)).good
    for opcode in MEDIUM:
        assert outcome(dev.cmd(cdb.plain(opcode))) == NOT_STARTED, f"{opcode:#04x}"
    # NOT READY comes before the check of the LBA range.
    assert outcome(dev.cmd(cdb.blocks(cdb.READ_16, 1 << 60, 1), din=512)) == NOT_STARTED
    assert dev.cmd(cdb.inquiry(96), din=96).good
    assert dev.cmd(cdb.report_luns(), din=512).good
    assert dev.cmd(cdb.mode_sense(True, 0x3f), din=252).good
    assert dev.cmd(cdb.report_opcodes(), din=2048).good
    assert dev.cmd(cdb.request_sense(18), din=18).data == NOT_STARTED.sense
    assert dev.cmd(cdb.request_sense(8, True), din=8).data == bytes([0x72, 2, 4, 2, 0, 0, 0, 0])
    assert outcome(dev.cmd(TUR)) == NOT_STARTED, "REQUEST SENSE cleared NOT READY"
    assert second.cmd(TUR).good
    assert dev.cmd(cdb.start_stop(1)).good
    assert dev.cmd(TUR).good and dev.cmd(cdb.blocks(cdb.READ_10, 0, 1), din=512).good


def test_reset_starts_a_stopped_unit(dev):
    """A reset starts a stopped unit, because it restores the state after power on."""
    assert dev.cmd(cdb.start_stop(0)).good
    assert outcome(dev.cmd(TUR)) == NOT_STARTED
    dev.reset(sgio.SG_SCSI_RESET_DEVICE)
    assert outcome(dev.cmd(TUR)) == DEVICE_RESET
    assert dev.cmd(TUR).good


def test_unmap_is_all_or_nothing(dev):
    """UNMAP with a bad descriptor behind a good one changes no block."""
    data = bytes(range(256)) * 2
    assert dev.cmd(cdb.blocks(cdb.WRITE_10, 8, 1), dout=data).good
    listed = cdb.unmap_list((8, 1), (1 << 40, 1))
    assert dev.cmd(cdb.unmap(len(listed)), dout=listed).triple == (5, 0x21, 0)
    assert dev.cmd(cdb.blocks(cdb.READ_10, 8, 1), din=512).data == data


def test_refused_write_changes_no_block(dev):
    """A WRITE beyond the last block writes nothing, not even the blocks that exist."""
    last, data = (16 << 11) - 1, b"\x5a" * 512
    assert dev.cmd(cdb.blocks(cdb.WRITE_16, last, 1), dout=data).good
    for opcode in (cdb.WRITE_10, cdb.WRITE_12, cdb.WRITE_16):
        assert not dev.cmd(cdb.blocks(opcode, last, 2), dout=bytes(1024)).good
    for opcode in (cdb.WRITE_SAME_10, cdb.WRITE_SAME_16):
        assert not dev.cmd(cdb.blocks(opcode, last, 2), dout=bytes(512)).good
    assert dev.cmd(cdb.blocks(cdb.READ_16, last, 1), din=512).data == data


def test_good_has_no_sense(dev):
    """A GOOD command has no sense data."""
    assert outcome(dev.cmd(TUR)) == good()
