# SPDX-License-Identifier: GPL-2.0
"""No output of sg_io replaces what it reads. test_sg_io_safety.py has the options that need a
device."""

import os

import pytest
from sg_io_build import binary, run

LOG = "fio version 2 iolog\n/dev/a add\n/dev/a open\n/dev/a read 0 4096\n"
CMDS = "28000000000000000800 in 4096 at=0 took=1.0\n"


@pytest.mark.parametrize("link", [None, os.symlink, os.link])
@pytest.mark.parametrize("args,text", [(["import", "--from", "fio", "-o"], LOG),
                                       (["fidelity", "--svg"], CMDS)])
def test_an_input_stays(tmp_path, args, text, link):
    (tmp_path / "in").write_text(text)
    (tmp_path / "other").write_text(text)
    out = tmp_path / ("out" if link else "in")
    if link:
        link(tmp_path / "in", out)
    others = [tmp_path / "other"] if args[0] == "fidelity" else []
    for files in [tmp_path / "in", *others], [*others, tmp_path / "in"]:
        done = run(binary(sanitized=True), *args, out, *files)
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr.endswith(f"writing {out} would replace an input or another output "
                                    "of this command\n") and done.stderr.count("\n") == 1
        assert (tmp_path / "in").read_text() == text


def test_other_files_and_pipes_are_written(tmp_path):
    (tmp_path / "in").write_text(LOG)
    (tmp_path / "out").write_text("older")
    for out in (tmp_path / "out", "/dev/null", tmp_path / "new"):
        assert run(binary(sanitized=True), "import", "--from", "fio", "-o", out,
                   tmp_path / "in").returncode == 0
    assert "28000000000000000800" in (tmp_path / "out").read_text()
