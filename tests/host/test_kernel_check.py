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
FINGERPRINTS = TOP / "tools/kernelcheck"

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
    record = tool.parent / "kernelcheck/6.1"
    assert check(tool, "--record", tmp_path / "source.tar.xz") == (0, f"{record}\n")
    assert check(tool, tmp_path / "linux-source") == (
        0, "0 of 5 names differ between 6.1 and 6.1.9\n")
    new = tree(tmp_path / "new", "6.12.1", BLOCK.replace("int tag", "long tag"))
    assert check(tool, new) == check(tool, "6.1", new) == (
        1, "struct:request changed: A reason in two lines.\n"
           "1 of 5 names differ between 6.1 and 6.12.1\n")
    assert check(tool, "--record", new)[0] == 0
    assert check(tool, new)[0] == 0 and check(tool, "6.1", new)[0] == 1


@pytest.mark.parametrize("words, said", [
    (["--record", "lacks"], "has none of: scsi_queue_rq SG_CNT scsi_mq_ops"),
    (["5.0", "new"], "'5.0' is no tree, no file, and none of the checked kernels"),
    (["list"], "list: "),
    (["empty"], "is no source tree of a kernel"),
    (["--record", "new", "new"], "--record takes one tree"),
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
    kernels = re.search(r"filter ([\d. ]+),\$\(if \$\(strip \$\(smq-backports", probes)[1].split()
    assert sorted(path.name for path in FINGERPRINTS.glob("[0-9]*")) == sorted(kernels)
    names = [word.partition("|")[0] for line in (FINGERPRINTS / "list").read_text(
        encoding="ascii").splitlines() if line.startswith("\t") for word in line.split()]
    assert len(names) > 100
    for kernel in kernels:
        lines = (FINGERPRINTS / kernel).read_text(encoding="ascii").splitlines()
        assert [line.split()[0] for line in lines if line[0] != "#"] == names, kernel
