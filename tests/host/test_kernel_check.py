# SPDX-License-Identifier: GPL-2.0
"""tools/kernel-check finds what changed between two kernels in what smq_sg relies on, and nothing
else; the kernels that count as checked have a fingerprint."""

import re
import shutil
import subprocess
import tarfile
from pathlib import Path

import pytest

TOP = Path(__file__).resolve().parents[2]
LISTED = TOP / "tools/kernelcheck/list"
CHECKED = TOP / "tools/kernelcheck/checked"

LIST = """\
# a comment
A reason
in two lines.
\tscsi_queue_rq struct:request
Another reason.
\told_name|new_name SG_CNT scsi_mq_ops
"""
BLOCK = """\
/* The request. */
struct request {
\tint tag;\t/* its tag */
};
static bool
old_name(struct request *rq)
{
\treturn rq->tag;
}
"""
SCSI = """\
#ifdef CONFIG_X
#define  SG_CNT  2
#else
#define  SG_CNT  \\
\t0
#endif
int scsi_queue_rq(struct request *rq);
int scsi_queue_rq(struct request *rq,
\t\t  bool last)
{
\treturn old_name(rq);
}
static const struct blk_mq_ops scsi_mq_ops = {
\t.queue_rq = scsi_queue_rq,
};
"""


@pytest.fixture(name="tool")
def _tool(tmp_path):
    """A copy of the tool that has a list of its own, and no fingerprints."""
    (tmp_path / "kernelcheck").mkdir()
    (tmp_path / "kernelcheck/list").write_text(LIST)
    (tmp_path / "kernelcheck/checked").touch()
    return Path(shutil.copy(TOP / "tools/kernel-check", tmp_path))


def tree(where, version="6.1.9", block=BLOCK, scsi=SCSI):
    """Makes a source tree."""
    for name, text in {"block/blk-mq.h": block, "drivers/scsi/scsi_lib.c": scsi,
                       "drivers/scsi/other/scsi_lib.c": "int scsi_queue_rq(void)\n{\n}\n",
                       "Makefile": "VERSION = {}\nPATCHLEVEL = {}\nSUBLEVEL = {}\n".format(
                           *version.split("."))}.items():
        path = where / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return where


def check(tool, *words):
    """Exit status and output of the tool."""
    done = subprocess.run([tool, *words], capture_output=True, text=True, check=False, timeout=60)
    return done.returncode, done.stdout + done.stderr


def test_comments_and_line_breaks_are_no_change(tool, tmp_path):
    old = tree(tmp_path / "old")
    new = tree(tmp_path / "new", "6.1.10",
               BLOCK.replace("\t/* its tag */", "").replace("static bool\n", "static bool "),
               SCSI.replace("rq,\n\t\t  bool", "rq, bool") + "// the end\nint other(void)\n{\n}\n")
    assert check(tool, old, new) == (0, f"0 of 5 names differ between {old} and 6.1.10\n")


@pytest.mark.parametrize("block, scsi, said", [
    (("int tag;", "long tag;"), ("", ""), ["struct:request changed: A reason in two lines.",
                                           "-\tint tag;", "+\tlong tag;"]),
    (("", ""), ("return old_name(rq);", "return 0;"), ["scsi_queue_rq changed: A reason in two"]),
    (("", ""), ("\\\n\t0", "\\\n\t1"), ["SG_CNT changed: Another reason."]),
    (("", ""), (".queue_rq", ".queue_rqs"), ["scsi_mq_ops changed: Another reason."]),
    (("old_name", "other_name"), ("", ""), ["old_name is gone: Another reason."]),
    (("return rq->tag", "return !rq->tag"), ("", ""), ["-\treturn rq->tag;"]),
    # A renamed function is compared with its old text.
    (("old_name", "new_name"), ("", ""), ["old_name changed: Another reason.",
                                          "+new_name(struct request *rq)"]),
])
def test_a_change_is_shown(tool, tmp_path, block, scsi, said):
    new = tree(tmp_path / "new", "6.2.0", BLOCK.replace(*block), SCSI.replace(*scsi))
    status, text = check(tool, tree(tmp_path / "old"), new)
    assert status == 1 and text.endswith("1 of 5 names differ between "
                                         f"{tmp_path}/old and 6.2.0\n")
    for words in said:
        assert words in text


def test_fingerprints_stand_for_trees(tool, tmp_path):
    """The fingerprint of a tree, which may be packed, tells what differs in a later one."""
    tree(tmp_path / "linux-source")
    with tarfile.open(tmp_path / "source.tar.xz", "w:xz") as archive:
        archive.add(tmp_path / "linux-source", "linux-source")
    record = tool.parent / "kernelcheck/checked"
    assert check(tool, "--record", tmp_path / "source.tar.xz") == (0, f"{record}\n")
    assert check(tool, tmp_path / "linux-source") == (
        0, "0 of 5 names differ between 6.1 and 6.1.9\n")
    new = tree(tmp_path / "new", "6.12.1", BLOCK.replace("int tag", "long tag"))
    assert check(tool, new) == check(tool, "6.1", new) == (
        1, "struct:request changed: A reason in two lines.\n"
           "1 of 5 names differ between 6.1 and 6.12.1\n")
    assert check(tool, "--record", new)[0] == 0
    assert check(tool, new)[0] == 0 and check(tool, "6.1", new)[0] == 1
    # One between the two, and a newer one of a series in place of the older.
    assert check(tool, "--record", tree(tmp_path / "new", "6.6.1"))[0] == 0
    assert check(tool, "--record", tree(tmp_path / "new", "6.1.10"))[0] == 0
    assert record.read_text().splitlines()[2].split() == ["kernel", "6.1.10", "6.6.1", "6.12.1"]
    assert check(tool, "6.6", tmp_path / "linux-source")[0] == 0


HEADER = """\
static inline int new_name(int tag)
{
\treturn tag;
}
struct request {
\tint tag;
};
"""


def headers(where, version, header=HEADER):
    """Makes the headers of a kernel as Debian has them: a Makefile that includes that of another
    folder, by a path that may not be here."""
    common = where / "linux-headers-common"
    (common / "include/linux").mkdir(parents=True)
    (common / "include/linux/blk-mq.h").write_text(header)
    (common / "Makefile").write_text(
        "VERSION = {}\nPATCHLEVEL = {}\nSUBLEVEL = {}\n"
        "include $(srctree)/scripts/Makefile\n".format(*version.split(".")))
    (where / "build").mkdir()
    (where / "build/Makefile").write_text("include /not/here/linux-headers-common/Makefile\n")
    return where / "build"


@pytest.mark.parametrize("version, header, status, said", [
    ("6.1.20", HEADER, 0, "6.1.20: headers show 2 of 5 names, 2 as in a checked kernel; of the "
                          "other 3, 3 are the same in 6.1\n"),
    # A distribution's own struct, in a kernel that was checked.
    ("6.1.20", HEADER.replace("int tag;", "int tag, kabi;"), 1,
     "struct:request is as in no checked kernel: A reason in two lines.\n"
     "6.1.20: headers show 2 of 5 names, 1 as in a checked kernel"),
    # Between two that were checked: of a name that differs between them the source is needed.
    ("6.6.1", HEADER, 1, "not in headers, and changed between 6.1 and 6.12: scsi_queue_rq\n"
                         "6.6.1: headers show 2 of 5 names, 2 as in a checked kernel; of the "
                         "other 3, 2 are the same in 6.1 and 6.12\n"),
    # After the last one.
    ("6.13.1", HEADER, 0, "of the other 3, 3 are the same in 6.12\n"),
])
def test_headers_show_the_structs(tool, tmp_path, version, header, status, said):
    scsi = SCSI.replace("return old_name(rq);", "return 0;")
    for name, text in ("6.1.9", SCSI), ("6.12.1", scsi):
        assert check(tool, "--record", tree(tmp_path / name, name, HEADER, text))[0] == 0
    done = check(tool, "--headers", headers(tmp_path, version, header))
    assert done[0] == status and said in done[1], done[1]


@pytest.mark.parametrize("words, said", [
    (["--record", "lacks"], "has none of: scsi_queue_rq SG_CNT scsi_mq_ops"),
    (["5.0", "new"], "'5.0' is no tree, no file, and none of the checked kernels"),
    (["list"], "list: "),
    (["empty"], "is no source tree of a kernel"),
    (["--record", "new", "new"], "--record and --headers take one tree"),
    (["--headers", "no/such"], "no/such: No such file or directory"),
])
def test_wrong_arguments_are_named(tool, tmp_path, words, said):
    tree(tmp_path / "lacks", scsi="")
    tree(tmp_path / "new")
    (tmp_path / "list").write_text("no archive")
    (tmp_path / "empty").mkdir()
    status, text = check(tool, *(tmp_path / word if (tmp_path / word).exists() else word
                                 for word in words))
    assert status == 2 and said in text and "Traceback" not in text


def test_the_checked_kernels_have_fingerprints():
    """Those that probe.mk takes for checked, with all names of the list."""
    probes = (TOP / "include/smq/probe.mk").read_text(encoding="ascii")
    kernels = re.search(r"^smq-checked := (.*)$", probes, re.M)[1].split()
    head, *rows = [line.split() for line in CHECKED.read_text(encoding="ascii").splitlines()
                   if line[0] != "#"]
    assert [".".join(version.split(".")[:2]) for version in head[1:]] == kernels
    names = [word.partition("|")[0] for line in LISTED.read_text(encoding="ascii").splitlines()
             if line.startswith("\t") for word in line.split()]
    assert len(names) > 100 and [row[0] for row in rows] == names
    assert all(re.fullmatch("[0-9a-f]{8}", stamp) for row in rows for stamp in row[1:])
    assert {len(row) for row in rows} == {len(head)}
