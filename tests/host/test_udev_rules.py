# SPDX-License-Identifier: GPL-2.0
"""udev's rules of this project: udevd only logs a rule that it does not understand, and goes on
without it. Their syntax, the attributes that they write, and the host that a program attaches."""
import re
import subprocess
from pathlib import Path

import pytest

TOP = Path(__file__).resolve().parents[2]
RULES = sorted([*TOP.glob("docs/boot/udev/rules.d/*.rules"), *TOP.glob("drivers/*/*.rules")])
TOKEN = re.compile(r'(?P<key>[A-Z]+)(?:\{(?P<of>[^{}"]+)\})?(?P<op>==|!=|\+=|:=|=)'
                   r'"(?P<value>[^"]*)"')
MATCHES = {"ACTION", "SUBSYSTEM", "SUBSYSTEMS", "KERNEL", "KERNELS", "DRIVER", "DRIVERS", "ATTRS"}
ASSIGNS = {"GOTO", "LABEL", "GROUP", "MODE", "SYMLINK", "RUN"}
EITHER = {"ATTR", "ENV", "IMPORT"}
NAMED = {"ATTR", "ATTRS", "ENV", "IMPORT"}
SOURCES = "\n".join(path.read_text("utf-8") for path in TOP.glob("drivers/*/*.c"))


def rules_of(path):
    """The rules of a file, each a list of matches of TOKEN; all text must belong to one."""
    found = []
    for line in path.read_text(encoding="ascii").replace("\\\n", "").splitlines():
        if not line.strip() or line.startswith("#"):
            continue
        rest = TOKEN.sub("T", line).replace("\t", "").replace(" ", "")
        assert re.fullmatch("T(,T)*", rest), f"{path.name}: {line}"
        found.append(list(TOKEN.finditer(line)))
    return found


@pytest.mark.parametrize("path", RULES, ids=lambda path: path.name)
def test_syntax(path):
    """Each key exists and has an operator of its kind; each GOTO has a LABEL further down."""
    rules = rules_of(path)
    assert rules
    for at, rule in enumerate(rules):
        for token in rule:
            key, op = token["key"], token["op"]
            assert key in MATCHES | ASSIGNS | EITHER, token[0]
            assert (key in NAMED) == bool(token["of"]), token[0]
            assert key in EITHER or (op in ("==", "!=")) == (key in MATCHES), token[0]
            if key == "GOTO":
                assert any(one["key"] == "LABEL" and one["value"] == token["value"]
                           for later in rules[at + 1:] for one in later), token[0]


@pytest.mark.parametrize("path", RULES, ids=lambda path: path.name)
def test_attributes_exist(path):
    """What a rule writes below a host's smq* folders is an attribute in the sources."""
    for rule in rules_of(path):
        for token in rule:
            if token["key"] == "ATTR" and (token["of"] or "").startswith("smq"):
                group, name = token["of"].split("/")
                assert f'"{group}"' in SOURCES or group.removeprefix("smq_") in SOURCES, group
                assert re.search(rf"\b\w*(?:ATTR|KNOB)\w*\((?:\w+_, )?{name}\b", SOURCES), name


def test_program_that_attaches_a_host(tmp_path):
    """The program of the rule loads smq_conv, and writes the name of the LUN's host."""
    path = TOP / "docs/boot/udev/rules.d/90-smq-attach.rules"
    program, = (token["value"] for rule in rules_of(path) for token in rule
                if token["key"] == "RUN")
    # As udev replaces them. It refuses a program with another one that it does not know.
    words = {"$$": "$", "%%": "%", "%k": "12:0:3:4"}
    assert not re.search("[$%]", re.sub(r"\$\$|%%|%k", "", program)), program
    program = re.sub(r"\$\$|%%|%k", lambda found: words[found[0]], program)
    driver = "/sys/bus/scsi/drivers/smq_conv/"
    assert driver + "attach" in program and "DRIVER_ATTR_WO(attach)" in SOURCES
    (tmp_path / "modprobe").write_text('#!/bin/sh\necho "$@" > ${0%/*}/loaded\n', encoding="ascii")
    (tmp_path / "modprobe").chmod(0o755)
    # udev splits the program's words at spaces, and takes quotes away.
    shell, option, text = re.fullmatch(r"(\S+) (\S+) '(.*)'", program).groups()
    subprocess.run([shell, option, text.replace(driver, f"{tmp_path}/")], check=True,
                   env={"PATH": f"{tmp_path}:/bin"})
    assert (tmp_path / "loaded").read_text(encoding="ascii") == "smq_conv\n"
    assert (tmp_path / "attach").read_text(encoding="ascii") == "host12\n"
