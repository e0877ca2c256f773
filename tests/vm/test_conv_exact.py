# SPDX-License-Identifier: GPL-2.0
# on: core uml sanitize 7.2
"""smq_conv: a command to the upper LUN has the same result, in each field, as a command to the bare
LUN. The tests send the same commands to a LUN before and after it is claimed."""
import pytest
from kit import conv
from kit.cdb import READ_10, blocks
from kit.hold import get_param, set_param
from kit.host import loaded, run, wait_for
from kit.paths import read_by_block, write_by_sg
from kit.ramdir import ram_host
from kit.sgio import DID_TIME_OUT, SgDev
from kit.smqsg import SCSI_DEBUG

READ = bytes.fromhex("28000000000000000800")
WRITE = bytes.fromhex("2a000000000000000800")
TUR = bytes(6)
DID_BUS_BUSY = 2

STATUS = [0x02, 0x04, 0x08, 0x18, 0x28, 0x30, 0x40]
# DID_NO_CONNECT to DID_TRANSPORT_MARGINAL, except DID_IMM_RETRY and DID_REQUEUE: after these two
# the mid-layer sends the command again.
HOST_BYTES = [*range(0x01, 0x0c), *range(0x0e, 0x10), 0x10, 0x11, 0x12, 0x13, 0x14]
SENSE = [0x052400, 0x1052400, 0x031100, 0x1031100, 0x042900, 0x062900, 0x1062a09, 0x0b4700,
         0x010b01, 0x1010b01, 0x02040c, 0x072700, 0x0d0000, 0x0e1d00, 0x1000000, 0xf0000]
# Host bytes that drivers set in commands that error handling ends: DID_BAD_TARGET, DID_ABORT,
# DID_ERROR, DID_RESET.
EH_HOST_BYTES = [0x04, 0x05, 0x07, 0x08]
# scsi_debug's option that makes LBA 4660 to 4669 unreadable.
MEDIUM_ERRORS = "2"
RESIDUALS = [1, 512, 4095, 4096]

ENDS = [*({"result": status} for status in STATUS),
        *({"result": byte << 16} for byte in HOST_BYTES),
        *({"sense": sense} for sense in SENSE),
        *({"resid": resid} for resid in RESIDUALS),
        {"result": 0x18, "resid": 512}, {"result": 0x70000, "resid": 4096},
        {"sense": 0x032000, "resid": 3584}, {"sense": 0x052400, "result": 0x50000},
        {"result": 0x30018, "resid": 1}]


def ends(dev):
    """The results of a READ and a WRITE, for each of ENDS. The device gives an answer that asks for
    another attempt to the first attempt only, and any other answer to every attempt."""
    results = []
    for end in ENDS:
        for name in ("result", "resid", "sense"):
            set_param(name, end.get(name, 0))
        for cdb, data in ((READ, {"din": 4096}), (WRITE, {"dout": bytes(4096)})):
            once = end.get("result") in (0x08, 0x28, DID_BUS_BUSY << 16)
            set_param("answer", 1 if once else 100)
            results.append((end, cdb[0], dev.cmd(cdb, timeout_ms=5000, **data)))
            set_param("answer", 0)
    return results


def same(bare, converted):
    """Asserts that both lists of results are equal; shows the first difference."""
    assert len(bare) == len(converted)
    for old, new in zip(bare, converted, strict=True):
        assert old == new, f"bare {old}, converted {new}"


@pytest.mark.smoke
@pytest.mark.limit(240)
@pytest.mark.parametrize("node", ["sg", "sd"])
def test_all_results_are_passed_on(node):
    """Each status, host byte, sense and residual is the same on both LUNs, through the sg node and
    through the disk's node."""
    with loaded("smq_hold", io_errors=True, delay_us=100) as (host,), \
            conv.module(io_errors=True):
        lower, = host.luns()
        with SgDev(getattr(lower, node)) as dev:
            bare = ends(dev)
        upper = conv.claim(lower)
        with SgDev(getattr(upper, node)) as dev:
            same(bare, ends(dev))
        assert {result.status for _, _, result in bare} >= {0, 2, 4, 0x18, 0x30, 0x40}
        assert len({result.host for _, _, result in bare}) > 12
        conv.all_done(upper)
        conv.release(lower)
        assert get_param("inflight") == 0


def timeouts(dev):
    """The results of five lost commands: the abort succeeds; the abort fails; the LUN reset fails,
    too; the target reset fails, too; the command completes while it is aborted."""
    results = []
    for names in ((), ("fail_abort",), ("fail_abort", "fail_lun_reset"),
                  ("fail_abort", "fail_lun_reset", "fail_target_reset"), ("race_abort",)):
        for name in names:
            set_param(name, 1)
        set_param("lose", 1)
        results.append((names, dev.cmd(READ, din=4096, timeout_ms=500)))
        for name in names:
            set_param(name, 0)
        assert get_param("inflight") == 0 and get_param("lose") == 0
    return results


@pytest.mark.smoke
@pytest.mark.limit(120)
def test_lower_host_recovers_lost_commands():
    """The lower host recovers lost commands; the upper host starts no recovery of its own."""
    with loaded("smq_hold", io_errors=True, delay_us=100) as (host,), \
            conv.module(io_errors=True):
        lower, = host.luns()
        with SgDev(lower.sg) as dev:
            bare = timeouts(dev)
        before = host.stats()
        upper = conv.claim(lower)
        with SgDev(upper.sg) as dev:
            same(bare, timeouts(dev))
        assert {result.host for _, result in bare} == {DID_TIME_OUT}
        above, below = conv.all_done(upper), host.stats()
        assert below["aborts"] - before["aborts"] == 5
        # smq_conv makes the upper command time out if the lower one ended with DID_TIME_OUT. So the
        # upper host counts a timeout and an abort for each, but no reset.
        assert above["aborts"] == above["timeouts"] == len(bare)
        assert above["lun_resets"] == above["target_resets"] == above["host_resets"] == 0
        conv.release(lower)


def ended_in_reset(lun):
    """For each of EH_HOST_BYTES, the results of a lost passthrough command and of lost block I/O.
    The driver sets the host byte while it resets the LUN. The mid-layer repeats the block I/O,
    which then succeeds."""
    results = []
    knob = lun.queue / "io_timeout"
    before = knob.read_text(encoding="ascii")
    knob.write_text("500", encoding="ascii")
    set_param("fail_abort", 1)
    for byte in EH_HOST_BYTES:
        for block in (False, True):
            set_param("result", byte << 16)
            set_param("answer", 1)
            set_param("lose", 1)
            try:
                if block:
                    results.append((byte, "block", len(read_by_block(lun, 0, 8))))
                else:
                    with SgDev(lun.sg) as dev:
                        results.append((byte, dev.cmd(READ, din=4096, timeout_ms=500)))
            except OSError as error:
                results.append((byte, "block", error.errno))
            assert get_param("lose") == get_param("answer") == get_param("inflight") == 0
    set_param("fail_abort", 0)
    set_param("result", 0)
    knob.write_text(before, encoding="ascii")
    return results


@pytest.mark.limit(120)
def test_host_bytes_set_in_a_reset_are_passed_on():
    """During a reset the driver completes commands with a host byte that it chooses, as sym53c8xx
    does with DID_ABORT in a bus reset. The upper LUN returns the same host byte."""
    with loaded("smq_hold", io_errors=True, delay_us=100) as (host,), \
            conv.module(io_errors=True):
        lower, = host.luns()
        bare = ended_in_reset(lower)
        upper = conv.claim(lower)
        same(bare, ended_in_reset(upper))
        assert [end[2] for end in bare if end[1] == "block"] == [4096] * len(EH_HOST_BYTES)
        conv.all_done(upper)
        conv.release(lower)


def ram_ends(dev, host_dir):
    """The results of commands that get smq_ram's faults, and of commands of many kinds."""
    results = []
    for kind, settings in (("status", {"status": 0x18}), ("status", {"status": 0x40}),
                           ("sense", {"sense": 0x031100}), ("sense", {"sense": 0x0b4b01}),
                           ("short", {})):
        host_dir.arm(kind, **settings)
        results.append((kind, dev.cmd(READ, din=4096), dev.cmd(WRITE, dout=bytes(4096))))
        host_dir.arm("none")
    for cdb, size in (("12 01 ee 00 24 00", 36), ("28 00 ff ff ff ff 00 00 08 00", 4096),
                      ("12 00 00 00 24 00", 200), ("a3 0c 00 00 00 00 00 00 02 00 00 00", 512),
                      ("5e 00 00 00 00 00 00 00 40 00", 64), ("00 00 00 00 00 00", 0),
                      ("03 00 00 00 12 00", 18), ("9e 10" + " 00" * 11 + " 20 00 00", 32)):
        results.append((cdb, dev.cmd(bytes.fromhex(cdb), din=size)))
    for cdb in ("35" + " 00" * 9, "91" + " 00" * 15, "42" + " 00" * 6 + " 00 18 00",
                "41 08" + " 00" * 5 + " 00 01 00"):
        size = {"42": 24, "41": 512}.get(cdb[:2], 0)
        results.append((cdb, dev.cmd(bytes.fromhex(cdb), dout=bytes(size))))
    return results


def test_results_of_smq_ram_are_passed_on():
    """Valid and invalid commands, and faults of the device, have the same results on both LUNs."""
    with ram_host() as (host_dir, host), conv.module(io_errors=True):
        lower, = host.luns()
        with SgDev(lower.sg) as dev:
            dev.cmd(TUR)
            bare = ram_ends(dev, host_dir)
        upper = conv.claim(lower)
        with SgDev(upper.sg) as dev:
            same(bare, ram_ends(dev, host_dir))
        conv.release(lower)


@pytest.mark.smoke
def test_errors_of_scsi_debug_are_passed_on():
    """Errors that scsi_debug injects have the same results on both LUNs. Linux 6.1's scsi_debug
    cannot inject them."""
    with loaded("scsi_debug", io_errors=True, delay=0) as (host,), conv.module(io_errors=True):
        lower, = host.luns()
        where = conv.Path("/sys/kernel/debug/scsi_debug", lower.address, "error")
        if not where.exists():
            pytest.skip("this kernel's scsi_debug has no errors to inject")

        def answers(dev):
            found = []
            for end in ("0x0 0x0 0x18 0 0 0", "0x1 0x0 0x0 0 0 0", "0x0 0x0 0x2 0x3 0x11 0x1",
                        "0x5 0x0 0x0 0 0 0", "0xf 0x0 0x0 0 0 0", "0x0 0x0 0x2 0xb 0x47 0x0"):
                where.write_text(f"2 1 0x28 {end}\n", encoding="ascii")
                found.append((end, dev.cmd(READ, din=4096, timeout_ms=3000)))
                where.write_text("- 2 0x28\n", encoding="ascii")
            return found
        with SgDev(lower.sg) as dev:
            bare = answers(dev)
        upper = conv.claim(lower)
        with SgDev(upper.sg) as dev:
            same(bare, answers(dev))
        assert len({str(result) for _, result in bare}) > 4
        wait_for("nothing in flight", lambda: conv.all_done(upper))
        conv.release(lower)


def test_bad_blocks_of_scsi_debug_are_the_same(tmp_path):
    """A copy that goes on after errors skips the same blocks of both disks: only the piece with the
    bad blocks."""
    first, bad, piece, count = 4608, range(4656, 4672), 16, 8
    with loaded("scsi_debug", io_errors=True, delay=0, dev_size_mb=16) as (host,), \
            conv.module(io_errors=True):
        lower, = host.luns()
        known = bytes(number % 251 + 1 for number in range(piece * count) for _ in range(512))
        with SgDev(lower.sg) as dev:
            write_by_sg(dev, first, known)
        right = b"".join(bytes(512) if number in bad else known[at:at + 512] for number, at in
                         ((first + at // 512, at) for at in range(0, len(known), 512)))

        def copied(lun):
            run("dd", f"if={lun.sd}", f"of={tmp_path}/copy", f"bs={piece * 512}",
                f"skip={first // piece}", f"count={count}", "iflag=direct", "conv=noerror,sync",
                ok=False)
            with SgDev(lun.sg) as dev:
                ends = [dev.cmd(blocks(READ_10, lba, piece), din=piece * 512)
                        for lba in (bad.start - piece, bad.start, bad.stop)]
            return (tmp_path / "copy").read_bytes(), ends

        (SCSI_DEBUG / "opts").write_text(MEDIUM_ERRORS, encoding="ascii")
        before, ends = copied(lower)
        assert before == right
        assert [end.triple for end in ends if not end.good] == [(3, 0x11, 0)]
        upper = conv.claim(lower)
        after, claimed = copied(upper)
        assert after == right
        same(ends, claimed)
        conv.release(lower)
