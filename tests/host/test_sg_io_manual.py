# SPDX-License-Identifier: GPL-2.0
"""sg_io's manual page and its completion have exactly the commands and options that its help
lists."""

import os
import re
import subprocess

import pytest
from make import make
from manual import options, section, text_of
from sg_io_build import SRC, TIMEOUT, binary, run

MANUAL = SRC / "sg_io.8"
COMPLETION = SRC / "sg_io.bash"


def commands():
    """The commands that `sg_io --help` lists."""
    text = run(binary(), "--help").stdout
    listed = text.split("\n\n")[1]
    found = re.findall(r"^  ([a-z-]+) ", listed, flags=re.M)
    assert {"run", "gen"} <= set(found)
    return found


def options_of(command):
    """The long options that a command's help lists."""
    text = run(binary(), command, "--help").stdout.split("\n\n")[1]
    # argp moves an option that is too long to the right, where nothing finds it.
    assert not re.search("^ {7,}--[a-z-]+=", text, flags=re.M), text
    return set(re.findall(r"^  (?:-., |    )(--[a-z-]+)", text, flags=re.M))


def test_manual_says_what_the_help_says():
    """The sections of the commands are up to date."""
    made = subprocess.run([SRC / "manual.py", binary(), MANUAL], capture_output=True, text=True,
                          check=True, timeout=TIMEOUT).stdout
    assert made == MANUAL.read_text(encoding="ascii"), "make -C tools/src/sg_io manual"


def test_manual_has_all_commands():
    text = text_of(MANUAL)
    assert sorted(re.findall(r"^\.SH sg_io (\S+)$", text, flags=re.M)) == sorted(commands())
    synopsis = re.findall(r'^\.BI "sg_io (\S+) "', section(MANUAL, "SYNOPSIS"), flags=re.M)
    assert sorted(synopsis) == sorted(commands())


def test_manual_has_all_options_and_no_others():
    for command in commands():
        found = options(section(MANUAL, f"sg_io {command}"))
        assert found == options_of(command), command


def test_each_command_has_an_example():
    """tests/vm/sg_io/test_sg_io_examples.py runs them."""
    for command in commands():
        text = section(MANUAL, f"sg_io {command}")
        example = re.search(r"^Example.*:\n\.PP\n\.nf\n\.RS\n(.*?)^\.RE$", text, flags=re.M | re.S)
        assert example and f"sg_io {command} " in example[1], command


def test_manual_has_all_words_of_a_command_file():
    """--help lists them with less said about each."""
    listed = run(binary(), "--help").stdout.partition("Command file:")[2]
    words = re.findall(r"^  ([a-z]+=)", listed, flags=re.M)
    assert "pattern=" in words
    text = section(MANUAL, "COMMAND FILE")
    assert re.findall(r"^\.TP\n\.B ([a-z]+=)", text, flags=re.M) == words


def paths(command):
    """The paths that --via accepts."""
    wrong = run(binary(), command, "--via", "x", "d", "f").stderr
    return re.search(r"'x' is not (.*)", wrong)[1].replace(" or ", ", ").split(", ")


def test_manual_has_all_paths():
    text = section(MANUAL, "sg_io run").partition("Paths:")[2]
    assert re.findall(r"^\.TP\n\.B (\S+)", text, flags=re.M) == paths("run")


@pytest.mark.parametrize("command", ["run", "compare", "replay", "verify"])
def test_completion_offers_the_paths_of_the_command(command):
    assert complete(f"sg_io {command} --via=") == paths(command)


# Does what bash does when the user presses the completion key, except that it does not set
# COMP_WORDS: the completion uses only COMP_LINE.
PRESS = """
source "$1"
COMP_LINE=$3 COMP_POINT=${#3} COMP_WORDBREAKS=$4
complete -p sg_io >/dev/null || exit
_sg_io "$2"
((${#COMPREPLY[@]})) && printf '%s\\n' "${COMPREPLY[@]}"
exit 0
"""


def complete(line, breaks=" \t\n\"'><=;|&(:", cwd=None):
    """The words that the completion offers for a line."""
    done = subprocess.run(["bash", "--norc", "-c", PRESS, "-", COMPLETION, binary(), line, breaks],
                          capture_output=True, text=True, check=False, timeout=TIMEOUT, cwd=cwd)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.splitlines()


def test_completion_offers_all_commands():
    assert complete("sg_io ") == [*commands(), "--help"]
    assert complete("sg_io r") == [name for name in commands() if name.startswith("r")]
    assert complete("sg_io frob --") == []


def test_completion_offers_all_options():
    for command in commands():
        found = complete(f"sg_io {command} --")
        assert {word.rstrip("=") for word in found} == options_of(command), command
    found = complete("sg_io run --")
    assert "--depth=" in found and "--json" in found


@pytest.mark.parametrize("line,want", [
    ("sg_io run --via b", ["bsg", "bsg-uring", "block"]),
    ("sg_io run --via=bsg-", ["bsg-uring"]),
    ("sg_io compare --via=smq,bl", ["smq,block"]),
    ("sg_io compare --via smq,s", ["smq,sg", "smq,smq"]),
    ("sg_io verify --via smq", ["smq"]),
    ("sg_io replay --mode ", ["time", "max", "load", "depend"]),
    ("sg_io gen --pattern=l", ["lba"]),
    ("sg_io record --pattern r", ["random", "random:"]),
    ("sg_io import --pattern b", ["byte:"]),
    ("sg_io gen --op writes", ["writesame10", "writesame16"]),
    ("sg_io gen --count ", []),
    ("sg_io import --from f", ["fio"]),
    ("sg_io gen ", []),
])
def test_completion_offers_values_of_options(line, want):
    assert complete(line) == want


def test_completion_works_with_other_word_breaks():
    """Without '=' in COMP_WORDBREAKS the completion offers whole words."""
    assert complete("sg_io run --via=bsg-", " \t\n") == ["--via=bsg-uring"]


def test_completion_offers_files(tmp_path):
    (tmp_path / "reads.cdb").touch()
    (tmp_path / "writes.cdb").touch()
    assert complete("sg_io run --depth 4 /dev/sg0 r", cwd=tmp_path) == ["reads.cdb"]
    assert complete("sg_io run --json /dev/sg0 x", cwd=tmp_path) == []
    # Any file may be a link to a device node.
    assert complete("sg_io info w", cwd=tmp_path) == ["writes.cdb"]


def test_manual_and_completion_are_installed(tmp_path):
    make(SRC, "install", "PREFIX=/opt/smq", f"DESTDIR={tmp_path}", timeout=TIMEOUT)
    there = tmp_path / "opt/smq"
    assert (there / "share/man/man8/sg_io.8").read_bytes() == MANUAL.read_bytes()
    installed = there / "share/bash-completion/completions/sg_io"
    assert installed.read_bytes() == COMPLETION.read_bytes()
    assert os.access(there / "sbin/sg_io", os.X_OK)
