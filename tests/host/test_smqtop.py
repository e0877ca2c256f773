# SPDX-License-Identifier: GPL-2.0
"""smqtop's manual page and its completion have exactly the options and names that its help lists,
its histogram's percentiles are right within a bucket, and no circle of its files calls each
other."""
import graphlib
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from make import make

TOP = Path(__file__).resolve().parents[2]
SRC = TOP / "tools/src/smqtop"
TIMEOUT = 120


@pytest.fixture(name="smqtop", scope="module")
def _smqtop():
    said = make(SRC, timeout=TIMEOUT)
    if not (TOP / "tools/smqtop").exists():
        pytest.skip("smqtop is not built: tools/deps install top")
    assert "smqtop is not built" not in str(said)
    return TOP / "tools/smqtop"


def run(*argv):
    return subprocess.run(argv, capture_output=True, text=True, check=False, timeout=TIMEOUT)


def options(smqtop):
    text = run(smqtop, "--help").stdout
    found = set(re.findall(r"^  (?:-., |    )(--[a-z-]+)", text, flags=re.M))
    assert "--view" in found
    return found


def names(smqtop, option):
    wrong = run(smqtop, f"--{option}=?")
    assert wrong.returncode == 2
    return re.search(r"'\?' is not (.*)", wrong.stderr)[1].replace(" or ", ", ").split(", ")


def manual():
    return (SRC / "smqtop.8").read_text(encoding="ascii").replace("\\-", "-")


def complete(*words):
    """What the completion offers for the last of these words."""
    script = f'compopt() {{ :; }}; source {SRC}/smqtop.bash; COMP_WORDS=("$@"); ' \
        'COMP_CWORD=$(($# - 1)); _smqtop; printf "%s\\n" "${COMPREPLY[@]}"'
    done = run("bash", "--norc", "-c", script, "-", "smqtop", *words)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.split()


def test_manual_and_completion_have_all_options(smqtop):
    heads = re.findall(r"^\.TP\n(.*)", manual(), flags=re.M)
    assert {name for head in heads for name in re.findall(r"--[a-z-]+", head)} == options(smqtop)
    assert {word.rstrip("=") for word in complete("--")} == options(smqtop)


@pytest.mark.parametrize("option", ["view", "sort"])
def test_manual_and_completion_have_all_names(smqtop, option):
    wanted = names(smqtop, option)
    assert len(wanted) >= 5
    section = re.search(rf'^\.BI "--{option}=.*?^\.TP', manual(), flags=re.M | re.S)[0]
    assert set(wanted) <= set(re.findall(r"[a-z0-9]+", section))
    assert complete(f"--{option}", "=", "") == wanted
    assert complete(f"--{option}", "") == wanted
    assert complete(f"--{option}", "=", wanted[0]) == [wanted[0]]


@pytest.mark.parametrize("arguments,message", [
    (["--interval=0"], "'0' is no interval: 0.1 to 3600 seconds"),
    (["--interval=1x"], "'1x' is no interval: 0.1 to 3600 seconds"),
    (["--count=0"], "'0' is no count of intervals"),
    (["--count=-1"], "'-1' is no count of intervals"),
    (["sda"], "'sda': there are only options"),
])
def test_bad_options_are_refused(smqtop, arguments, message):
    done = run(smqtop, *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.splitlines()[0] == f"smqtop: {message}"


@pytest.mark.parametrize("tool", [["mandoc", "-T", "lint", "-W", "warning"],
                                  ["groff", "-man", "-ww", "-z", "-Tutf8"]],
                         ids=lambda argv: argv[0])
def test_manual_renders_without_warnings(tool):
    assert shutil.which(tool[0]), "tools/deps install lint"
    done = run(*tool, SRC / "smqtop.8")
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


def test_build_without_its_packages_is_skipped(tmp_path):
    """Without bpftool the build says so in one line, and succeeds."""
    said = subprocess.run(["make", "-s", "-C", SRC, "bpftool="], capture_output=True, text=True,
                          check=False, timeout=TIMEOUT, cwd=tmp_path)
    assert (said.returncode, said.stderr, said.stdout.count("\n")) == (0, "", 1)
    assert said.stdout.startswith("smqtop is not built, because ")
    assert "apt-get install" in said.stdout and "bpftool" in said.stdout


def test_buckets_are_an_eighth_wide(tmp_path):
    done = run("gcc", "-o", tmp_path / "h", f"-I{SRC}", TOP / "tests/host/smqtop_hist.c",
               SRC / "hist.c")
    assert done.returncode == 0, done.stderr
    found = [[int(word) for word in line.split()]
             for line in run(tmp_path / "h").stdout.splitlines()]
    # Each time is in the bucket that ends above it: both sides of each edge.
    assert [line[1] for line in found] == [*range(len(found))]
    assert [line[2] for line in found[:-1]] == [*range(1, len(found))]
    edges = [line[0] for line in found]
    assert edges[0] == 64 and edges[-1] == 2**38
    for low, high in zip(edges, edges[1:]):
        assert low < high <= max(low + 64, low * 9 / 8)


def test_files_call_each_other_in_no_circle(smqtop):
    assert smqtop
    defined, used = {}, {}
    for file in (path.stem for path in SRC.glob("*.c") if ".bpf" not in path.name):
        symbols = run("nm", TOP / f"build/tools/smqtop/{file}.o").stdout
        for kind, name in re.findall(r"([TU]) (\w+)$", symbols, flags=re.M):
            if kind == "T":
                defined[name] = file
            else:
                used.setdefault(file, []).append(name)
    graph = {file: {defined[name] for name in names if name in defined}
             for file, names in used.items()}
    assert graph["screen"] >= {"draw", "keys"}
    graphlib.TopologicalSorter(graph).prepare()     # CycleError names the files
