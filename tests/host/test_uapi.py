# SPDX-License-Identifier: GPL-2.0
"""The header for programs that use /dev/smqsgN: it compiles without other headers, its layout does
not change, and its example compiles."""

import re
import subprocess

import pytest
from sg_io_build import ROOT, TIMEOUT

HEADER = ROOT / "include/uapi/scsi/smq_sg.h"
STRICT = ["-Wall", "-Wextra", "-Werror"]
BITS = pytest.mark.parametrize("bits", ("-m64", "-m32"))

# name: (size, "member offset, ..."), in bytes, which are the same for 32-bit and 64-bit programs.
LAYOUT = {
    "smq_sg_info": (128, "features 0, slots 8, depth 12, max_transfer 16, max_segments 20,"
                         "alignment 24, slot_bytes 28, max_waiting 32, max_held 36, reserved 40"),
    "smq_sg_setup": (64, "slots 0, sense_size 4, flags 8, status_stride 12, status_size 16,"
                         "status_offset 24, held_share 32, field 36, reserved 40"),
    "smq_sg_buffer": (40, "address 0, length 8, index 16, flags 20, field 24, reserved0 28,"
                          "reserved 32"),
    "smq_sg_slot": (64, "cdb 0, cdb_len 32, direction 33, buffer 34, length 36, offset 40,"
                        "timeout_ms 48, flags 52, reserved 56"),
    "smq_sg_prepare": (40, "slots 0, first 8, count 12, flags 16, done 20, field 24, reserved0 28,"
                           "reserved 32"),
    "smq_sg_status": (16, "result 0, resid 4, runs 8, sense_key 12, asc 13, ascq 14, sense_len 15,"
                          "sense 16"),
    "smq_sg_run": (16, "slot 0, buffer 4, flags 6, lba 8"),
    "smq_sg_batch": (16, "list 0, count 8, flags 12"),
    "smq_sg_timed_entry": (40, "run 0, due 16, number 24, after 28, inflight 32, file 34,"
                               "reserved 36"),
    "smq_sg_timed_result": (32, "issued 0, ended 8, result 16, resid 20, sense_key 24, asc 25,"
                                "ascq 26, reserved0 27, reserved 28"),
    "smq_sg_timed": (88, "entries 0, results 8, files 16, start 24, max_past 32, spun 40,"
                         "nr_files 48, spin 52, done 56, index 60, field 64, flags 68,"
                         "reserved 72"),
    "smq_sg_run_batch": (32, "batch 0, failed 16, field 20, reserved 24"),
    "smq_sg_cancel": (32, "slot 0, flags 4, cancelled 8, field 12, reserved 16"),
    "smq_sg_uring_cmd": (80, "request 0, request_len 8, protocol 12, subprotocol 16,"
                             "max_response_len 20, response 24, dout_xferp 32, dout_xfer_len 40,"
                             "dout_iovec_count 44, din_xferp 48, din_xfer_len 56,"
                             "din_iovec_count 60, timeout_ms 64, reserved 68"),
}
CODES = {
    "SMQ_SG_INFO": 0x8080eb00, "SMQ_SG_SETUP": 0xc040eb01, "SMQ_SG_BUFFER": 0xc028eb02,
    "SMQ_SG_PREPARE": 0xc028eb03, "SMQ_SG_RUN": 0xc020eb04, "SMQ_SG_CANCEL": 0xc020eb05,
    "SMQ_SG_URING_RUN": 0x4010eb80, "SMQ_SG_URING_BATCH": 0x4010eb81,
}


def text():
    return HEADER.read_text(encoding="ascii")


def compile_(compiler, *flags, source, out="/dev/null"):
    """Compiles a source. Needs no 32-bit libc, because the include path has the kernel's headers of
    the machine's own architecture."""
    arch = subprocess.run(["gcc", "-print-multiarch"], capture_output=True, text=True, check=True,
                          timeout=TIMEOUT).stdout.strip()
    done = subprocess.run(
        [compiler, *flags, f"-I{HEADER.parents[1]}", f"-I/usr/include/{arch}", "-c", "-o", out,
         "-x", "c++" if compiler == "g++" else "c", "-"], input=source, capture_output=True,
        text=True, check=False, timeout=TIMEOUT)
    assert (done.returncode, done.stderr) == (0, "")


@BITS
@pytest.mark.parametrize("compiler,standard", [
    ("gcc", "gnu89"), ("gcc", "c89"), ("gcc", "c11"), ("g++", "c++98"), ("g++", "c++17")])
def test_uapi_header_compiles_alone(compiler, standard, bits):
    compile_(compiler, f"-std={standard}", *STRICT, bits,
             source="#include <scsi/smq_sg.h>\n#include <scsi/smq_sg.h>\n")


def members(row):
    return {name: int(at) for name, at in (word.split() for word in row.split(","))}


def test_layout_table_is_complete():
    """LAYOUT and CODES have all structures and ioctl codes of the header."""
    found = {}
    for name, body in re.findall(r"^struct (\w+) \{\n(.*?)^\};", text(), flags=re.S | re.M):
        body = re.sub(r"/\*.*?\*/", "", body, flags=re.S)
        found[name] = re.findall(r"\b(\w+)(?:\[\w*\])?;", body)
    assert found == {name: list(members(row)) for name, (_, row) in LAYOUT.items()}
    codes = re.findall(r"^#define (\w+)\s+_IO\w*\(", text(), flags=re.M)
    assert codes == list(CODES)


@BITS
@pytest.mark.parametrize("compiler", ("gcc", "g++"))
def test_layout_does_not_change(compiler, bits):
    """Sizes, offsets and codes do not change, because old programs use them."""
    word = "_Static_assert" if compiler == "gcc" else "static_assert"
    lines = ["#include <scsi/smq_sg.h>"]
    for name, (size, row) in LAYOUT.items():
        lines.append(f'{word}(sizeof(struct {name}) == {size}, "size of {name}");')
        lines += [f'{word}(__builtin_offsetof(struct {name}, {member}) == {at}, "{name}.{member}");'
                  for member, at in members(row).items()]
    lines += [f'{word}({name} == {code:#x}U, "{name}");' for name, code in CODES.items()]
    compile_(compiler, "-std=gnu11" if compiler == "gcc" else "-std=c++17", bits, *STRICT,
             source="\n".join(lines) + "\n")


def test_example_in_the_header_compiles(tmp_path):
    """The example in the first comment compiles unchanged inside a function."""
    comment = text().split("*/")[1]
    lines = [line[3:] for line in comment.splitlines() if line.startswith(" *\t")]
    assert lines[0].startswith("struct smq_sg_setup") and "SMQ_SG_RUN" in "".join(lines)
    source = "".join(f"#include <{name}.h>\n" for name in (
        "fcntl", "stdint", "stdio", "sys/ioctl", "sys/mman", "scsi/smq_sg"))
    source += "static unsigned char data[4096];\n\nint main(void)\n{\n"
    source += "\n".join(lines) + "\n\treturn 0;\n}\n"
    compile_("gcc", "-std=gnu11", "-O2", *STRICT, source=source, out=tmp_path / "example.o")
