# SPDX-License-Identifier: GPL-2.0
"""tests/fuzz/dev_smq_sg.txt, which describes /dev/smqsgN to syzkaller, has the ioctls, structures
and flags of the header for programs, and no others."""

import re

import pytest
from sg_io_build import ROOT
from test_uapi import CODES, LAYOUT, members, text

DESCRIPTION = ROOT / "tests/fuzz/dev_smq_sg.txt"
# Programs only read it, in memory that the kernel writes.
READ_ONLY = "smq_sg_status"
# Lists of flags, and how the names of their flags begin in the header.
FLAGS = {"smq_sg_features": "FEATURE_", "smq_sg_buffer_flags": "BUFFER_",
         "smq_sg_slot_flags": "SLOT_", "smq_sg_run_flags": "RUN_",
         "smq_sg_batch_flags": "BATCH_", "smq_sg_cancel_flags": "CANCEL_",
         "smq_sg_fields": "FIELD_", "smq_sg_directions": "(?:NONE|IN|OUT)$"}
DIRECTIONS = {"_IOR": "out", "_IOW": "in", "_IOWR": "inout"}


def described():
    return re.sub(r"^#.*\n", "", DESCRIPTION.read_text(encoding="ascii"), flags=re.M)


def constants():
    """The names that the header defines, in order, without macros that have arguments."""
    found = re.findall(r"^#define (SMQ_SG_\w+)\s|^\t(SMQ_SG_\w+) = ", text(), re.M)
    return [one or other for one, other in found]


def fields(name):
    """Names and types of a structure's or a union's fields."""
    body = re.search(rf"^(?:type )?{name}(?:\[\w+, \w+\])? [{{[]\n((?:\t.*\n)+)[]}}]", described(),
                     re.M)
    assert body, f"{name} is not described"
    lines = [re.split(r"\t+", line.strip()) for line in body[1].splitlines()]
    return [(line[0], line[1]) for line in lines]


def split(kind):
    """The name of a type, and its arguments."""
    head, _, rest = kind.partition("[")
    depth, arguments = 0, [""]
    for letter in rest[:-1]:
        depth += (letter == "[") - (letter == "]")
        if letter == "," and not depth:
            arguments.append("")
        else:
            arguments[-1] += letter
    return head, [one.strip() for one in arguments]


def size(kind):
    """The bytes of a type."""
    head, arguments = split(kind)
    number = re.fullmatch(r"int(\d+)(?:be)?", head)
    if number:
        return int(number[1]) // 8
    if head in ("const", "flags", "len", "bytesize"):
        return size(arguments[-1])
    if head in ("ptr64", "vma64", "smq_sg_offset"):
        return 8
    if head == "fd_smq_sg":
        return 4
    if head == "array":
        count = arguments[1]
        value = re.search(rf"^#define {count}\s+(\d+)$", text(), re.M)
        return size(arguments[0]) * int(value[1] if value else count)
    sizes = [size(one) for _, one in fields(head)]
    union = re.search(rf"^(?:type )?{head}(?:\[\w+, \w+\])? \[\n", described(), re.M)
    return max(sizes) if union else sum(sizes)


@pytest.mark.parametrize("name", [name for name in LAYOUT if name != READ_ONLY])
def test_structures_have_the_layout_of_the_header(name):
    whole, row = LAYOUT[name]
    at, offsets = 0, {}
    for field, kind in fields(name):
        offsets[field] = at
        at += size(kind)
    assert (at, offsets) == (whole, members(row))


def test_cdbs_and_sqes_are_whole():
    for name in ("smq_sg_cdb_6", "smq_sg_cdb_10", "smq_sg_cdb_16"):
        assert size(name) == 32, name
    assert [size(kind) for _, kind in fields("smq_sg_sqe")[:-1]] == [
        1, 1, 2, 4, 4, 4, 8, 4, 4, 8, 2, 2, 4], "cmd must be at byte 48"


def test_ioctls_are_those_of_the_header():
    found = re.findall(r"^ioctl\$(\w+)\(fd fd_smq_sg, cmd const\[(\w+)\], "
                       r"arg ptr\[(\w+), (\w+)\]\)$", described(), re.M)
    codes = re.findall(r"^#define (\w+)\s+(_IO\w*)\(SMQ_SG_IOC, \w+, struct (\w+)\)", text(), re.M)
    assert [name for name, _, _ in codes] == list(CODES)
    assert found == [(name, name, DIRECTIONS[kind], struct) for name, kind, struct in codes
                     if "_URING_" not in name]
    submitted = re.findall(r"^syz_io_uring_submit\$(\w+)\(.*smq_sg_sqe\[(\w+), (\w+)\]\]\)$",
                           described(), re.M)
    assert submitted == [(name, name, struct) for name, _, struct in codes if "_URING_" in name]


@pytest.mark.parametrize("name, begin", FLAGS.items())
def test_flags_are_those_of_the_header(name, begin):
    found = re.search(rf"^{name} = (.*)$", described(), re.M)
    wanted = [one for one in constants()
              if re.match(f"SMQ_SG_{begin}", one) and one not in CODES]
    assert found and found[1].split(", ") == wanted


def test_no_constant_is_left_out_or_unknown():
    used = set(re.findall(r"\bSMQ_SG_\w+", described()))
    # The codes contain SMQ_SG_IOC. SMQ_SG_RESULT_* are in what programs read.
    assert used == {name for name in constants()
                    if name != "SMQ_SG_IOC" and not name.startswith("SMQ_SG_RESULT_")}


def test_each_list_and_structure_is_used():
    """syzkaller refuses what is not used."""
    for name in re.findall(r"^(?:type )?(smq_sg_\w+)(?:\[\w+, \w+\])? [{[=]", described(), re.M):
        assert len(re.findall(rf"\b{name}\b", described())) > 1, name
