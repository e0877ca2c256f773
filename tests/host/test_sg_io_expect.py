# SPDX-License-Identifier: GPL-2.0
"""What the lines of a command file expect: whether a command's end meets it, and the message if it
does not."""

import pytest
from test_sg_io_measure import outcomes

R = "28000000000000000100 in 512"
W = "2a000000000000000100 out 512"
GOOD, CHECK, BUSY = 0, 2, 8
ILLEGAL, UNIT_ATTENTION = "700005000000000a000000002400", "700006000000000a000000002900"


def judge(tmp_path, line, status=GOOD, error=0, host=0, resid=0, sense="-", byte=0):
    end = f"{error} {status} {host} 0 {resid} {sense}"
    good, _, entries = outcomes(tmp_path, (line, end, byte))
    return "met" if good else entries[0][3]


@pytest.mark.parametrize("words,end", [
    ("", {}), ("expect=good", {}), ("expect=any", {}), ("expect=any", {"status": BUSY}),
    ("expect=any", {"status": CHECK, "sense": ILLEGAL}), ("expect=any", {"host": 1}),
    ("expect=check", {"status": CHECK}), ("expect=check", {"status": CHECK, "sense": ILLEGAL}),
    ("sense=5/24/00", {"status": CHECK, "sense": ILLEGAL}),
    ("resid=512", {"resid": 512}), ("resid=0", {}),
    ("expect=check resid=512", {"status": CHECK, "resid": 512}),
    ("pattern=byte:9", {"byte": 9}), ("pattern=byte:9 resid=512", {"resid": 512}),
    ("pattern=byte:9 expect=any", {"status": CHECK}),
    ("repeat=3 until=good", {}), ("wait=9", {}),
])
def test_expectation_is_met(tmp_path, words, end):
    assert judge(tmp_path, f"{R} {words}", **end) == "met"


@pytest.mark.parametrize("words,end,want", [
    ("", {"status": BUSY}, "BUSY"),
    ("wait=9", {"status": BUSY}, "BUSY"),
    ("expect=good", {"status": BUSY}, "expected GOOD, got BUSY"),
    ("expect=good", {"status": CHECK, "sense": ILLEGAL},
     "expected GOOD, got CHECK CONDITION: Illegal Request (5h): Invalid field in cdb (24h/00h)"),
    ("expect=good", {"host": 7}, "expected GOOD, got DID_ERROR"),
    ("expect=good", {"resid": 8}, "expected GOOD, got residual 8"),
    ("expect=check", {}, "expected CHECK CONDITION, got GOOD"),
    ("sense=5/24/00", {}, "expected CHECK CONDITION, sense 5/24/00, got GOOD"),
    ("sense=5/24/00", {"status": CHECK},
     "expected CHECK CONDITION, sense 5/24/00, got CHECK CONDITION"),
    ("sense=5/20/00", {"status": CHECK, "sense": ILLEGAL},
     "expected CHECK CONDITION, sense 5/20/00, got CHECK CONDITION: Illegal Request (5h): "
     "Invalid field in cdb (24h/00h)"),
    ("resid=512", {}, "expected GOOD, residual 512, got residual 0"),
    ("expect=any resid=0", {"status": CHECK, "resid": 512},
     "expected any status, residual 0, got residual 512"),
    ("expect=any", {"error": 5}, "expected any status, got EIO: Input/output error"),
    ("pattern=lba", {"byte": 7}, "expected GOOD, got data whose byte 0 is 07h, not 00h"),
    ("pattern=count", {}, "expected GOOD, got data whose byte 1 is 00h, not 01h"),
    ("pattern=count resid=511", {"resid": 511, "byte": 3},
     "expected GOOD, residual 511, got data whose byte 0 is 03h, not 00h"),
    ("repeat=3 until=good", {"status": CHECK, "sense": UNIT_ATTENTION},
     "expected GOOD within 3 tries, got CHECK CONDITION: Unit Attention (6h): Power on, reset, or "
     "bus device reset occurred (29h/00h)"),
])
def test_expectation_is_not_met(tmp_path, words, end, want):
    assert judge(tmp_path, f"{R} {words}", **end) == want


def test_data_of_a_file_is_compared_as_far_as_it_came(tmp_path):
    (tmp_path / "data").write_bytes(b"\5" * 36 + b"\6" * 60)
    line = "120000006000 in 96 data=data@0"
    assert judge(tmp_path, f"{line} resid=60", resid=60, byte=5) == "met"
    assert judge(tmp_path, line, resid=60, byte=5) == "expected GOOD, got residual 60"
    assert judge(tmp_path, f"{line} resid=59", resid=59, byte=5) == \
        "expected GOOD, residual 59, got data whose byte 36 is 05h, not 06h"


def test_data_out_has_expectations_too(tmp_path):
    assert judge(tmp_path, f"{W} pattern=ff sense=7/27/00", status=CHECK,
                 sense="700007000000000a000000002700") == "met"
