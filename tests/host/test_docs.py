# SPDX-License-Identifier: GPL-2.0
"""README and guides: their size, and that their links, commands, names and figures match the tree.

The tests find text that has become outdated: a file that was moved, an option that was renamed, a
module parameter or attribute that was removed, a figure that was updated in only one place."""

import functools
import re
import subprocess
from pathlib import Path

import pytest

TOP = Path(__file__).resolve().parents[2]
README = TOP / "README.md"
GUIDES = sorted((TOP / "docs").glob("*.md"))
PAGES = [README, *GUIDES, *sorted(TOP.glob("[A-Z]*.md")), TOP / "target-configs/README.md",
         *sorted((TOP / "drivers").glob("*/README.md"))]
PAGES = list(dict.fromkeys(PAGES))
MOST_LINES, MOST_COLUMNS = 150, 120
START = 30  # a guide must have commands to copy within this number of lines

LINK = re.compile(r"\[[^]]*\]\(([^)\s]+)\)", re.S)
CODE = re.compile(r"`([^`]+)`")
# The path of a file in the tree; a star is a shell pattern.
FILE = re.compile(r"(?<![\w/.{}$*-])"
                  r"(?:tests|drivers|include|docs|target-configs|tools)/[\w./*-]*\w")
# A command with its words, up to an operator of the shell.
# Users' programs have no folder: they are those of an installation, by packages or make install.
INSTALLED = "sg_io|smqtop|fc-check|targetcli-smq"
COMMAND = re.compile(rf"(?<![\w/.~-])(tools/[\w/.-]+|(?:{INSTALLED})(?= ))"
                     r"((?: +(?!-- |#)[^\s;|&)>`\\]+)*)")
IN_TREE = re.compile(rf"(?<![\w/])tools/(?:{INSTALLED}) ")
FOREIGN = {"tools/targetcli-smq"}  # passes its options to another program
SUBCOMMANDS = {"tools/sg_io"}
ATTRIBUTE = r"\b\w*(?:ATTR|KNOB)\w*\((?:\w+_, )?{}\b"


def name_of(path):
    return str(path.relative_to(TOP))


def text_of(page):
    return page.read_text(encoding="utf-8")


def code_of(text):
    """All lines of indented blocks, and all text in backquotes."""
    blocks = [line.strip().removeprefix("# ").removeprefix("$ ").removeprefix("hba# ")
              for line in text.splitlines() if line.startswith("    ")]
    joined = re.sub(r"\\\n\s*", "", "\n".join(blocks))
    prose = "\n".join(line for line in text.splitlines() if not line.startswith("    "))
    # A command may continue on the next line of a paragraph, but not in the next paragraph.
    spans = [span.replace("\n", " ") for paragraph in prose.split("\n\n")
             for span in CODE.findall(paragraph)]
    return [*joined.splitlines(), *spans]


@functools.cache
def sources():
    """The text of all C files of the modules."""
    return "\n".join(path.read_text(encoding="utf-8")
                     for folder in ("drivers", "tests/lld", "tests/load")
                     for path in sorted((TOP / folder).rglob("*.[ch]")))


@functools.cache
def words_of_the_code():
    """All words in the sources, scripts and makefiles."""
    text = "\n".join(path.read_text(encoding="utf-8")
                     for folder in ("drivers", "include", "tests/lld", "tools")
                     for path in (TOP / folder).rglob("*")
                     if path.suffix in (".c", ".h", ".mk", ".py", ".bash")
                     or path.name in ("Makefile", "Kbuild", "build-modules", "kernels"))
    return set(re.findall(r"\w+", text + text_of(TOP / "Makefile")))


@functools.cache
def help_of(*command):
    done = subprocess.run([TOP / command[0], *command[1:], "--help"], cwd=TOP, timeout=60,
                          capture_output=True, text=True, check=False)
    return done.stdout + done.stderr


def commands(page):
    """Each tool that the page names, with its arguments."""
    for line in code_of(text_of(page)):
        for tool, words in COMMAND.findall(line):
            tool = tool.rstrip(".")
            yield tool if "/" in tool else f"tools/{tool}", words.split()


def braces(word):
    """Expands braces like the shell: a{b,c} is ab and ac."""
    found = re.search(r"\{([^{}]*,[^{}]*)\}", word)
    if not found:
        return [word]
    return [one for part in found[1].split(",")
            for one in braces(word[:found.start()] + part + word[found.end():])]


def attribute_exists(name):
    return re.search(ATTRIBUTE.format(re.escape(name)), sources())


def test_readme_is_short():
    lines = text_of(README).splitlines()
    assert len(lines) <= MOST_LINES
    wide = [f"{n}: {len(line)}" for n, line in enumerate(lines, 1) if len(line) > MOST_COLUMNS]
    assert wide == []


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_targets_of_links_exist(page):
    for link in LINK.findall(text_of(page)):
        if "://" in link:
            continue
        path, _, anchor = link.partition("#")
        to = page.parent / path if path else page
        assert to.exists(), link
        if anchor:
            titles = re.findall(r"^#+ (.*)$", text_of(to), re.M)
            assert anchor in {re.sub(r"[^\w -]", "", one.lower()).replace(" ", "-")
                              for one in titles}, link


@pytest.mark.parametrize("page", GUIDES, ids=name_of)
def test_guides_begin_with_their_purpose_and_commands(page):
    start = text_of(page).splitlines()[:START]
    said = [line for line in start if line and not line.startswith(("#", "<!--"))]
    assert re.match(r"(After|With) this page you ", said[0])
    assert sum(line.startswith("    ") for line in start) >= 3, "fewer than three lines to copy"


def test_readme_has_a_link_to_every_guide():
    links = {(README.parent / link).resolve() for link in LINK.findall(text_of(README))}
    assert [name_of(page) for page in GUIDES if page.resolve() not in links] == []


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_commands_exist_with_their_options(page):
    for tool, words in commands(page):
        assert (TOP / tool).exists(), tool
        if not (TOP / tool).is_file() or tool in FOREIGN:
            continue
        options = [word.partition("=")[0] for word in words if re.match(r"--[a-z]", word)]
        if not options:
            continue
        first = words[0:1] if tool in SUBCOMMANDS else []
        said = help_of(tool, *first) if first and first[0][0] != "-" else help_of(tool)
        for option in options:
            assert re.search(rf"(?<![\w-]){option}(?![\w-])", said), f"{tool}: {option}"


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_commands_are_those_of_an_installation(page):
    """`tools/sg_io` exists only in a folder in which `make tools` was run, not after make deb."""
    assert [line for line in code_of(text_of(page)) if IN_TREE.search(line)] == []


# The list of changes may name things that no longer exist.
@pytest.mark.parametrize("page", [page for page in PAGES if page.stem != "CHANGELOG"], ids=name_of)
def test_named_files_exist(page):
    for line in code_of(text_of(page)):
        for name in FILE.findall(line):
            assert any(TOP.glob(name)), f"{name}: {line}"


def test_maintainers_names_files_that_exist():
    patterns = re.findall(r"^F:\t(.+)$", text_of(TOP / "MAINTAINERS"), re.M)
    assert [pattern for pattern in patterns if not any(TOP.glob(pattern))] == []
    drivers = {f"{name_of(path)}/" for path in (TOP / "drivers").iterdir() if path.is_dir()}
    assert drivers <= set(patterns)


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_make_targets_exist(page):
    makefile = text_of(TOP / "Makefile")
    for line in code_of(text_of(page)):
        for words in re.findall(r"(?:^|[ ;(])make((?: +[\w./=-]+)*)", line):
            if " -C " in words or "my_lld" in line:
                continue
            for word in words.split():
                if "=" not in word and not word.startswith("-"):
                    assert re.search(rf"^{re.escape(word)}\b.*:|^\.PHONY:.*\b{word}\b", makefile,
                                     re.M), f"make {word}"


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_module_parameters_exist(page):
    for line in code_of(text_of(page)):
        for module, words in re.findall(r"modprobe (smq_\w+)((?: +\w+=[\w.,-]*)*)", line):
            folders = [path for path in (*(TOP / "drivers").iterdir(), *(TOP / "tests").iterdir())
                       if path.is_dir() and (path / "Kbuild").exists()
                       and re.search(rf"\b{module}\.o\b", text_of(path / "Kbuild"))]
            assert folders, module
            code = "\n".join(text_of(path) for path in folders[0].glob("*.c"))
            for word in words.split():
                name = word.partition("=")[0]
                assert re.search(rf"module_param(_named)?\({name},", code), f"{module} {word}"


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_names_of_the_code_exist(page):
    """Functions and constants that a page names exist in the code."""
    names = set(re.findall(r"\b(?:smq|smqsg)_\w+(?=\()|\bSMQ_[A-Z0-9_]+[A-Z0-9]\b",
                           text_of(page)))
    assert sorted(names - words_of_the_code()) == []


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_attributes_exist(page):
    """In a path below one of our sysfs directories the last part is an attribute in our code."""
    ours = re.compile(r"/sys/(?:class/smq_sg/smqsg\w+|class/scsi_host/host[^/\s]+/smq\w*"
                      r"|bus/\w+/drivers/smq_\w+)/([\w{},]+)")
    for line in text_of(page).splitlines():
        for last in ours.findall(line):
            for name in braces(last):
                # bind and unbind belong to the driver core.
                if name and name not in ("bind", "unbind"):
                    assert attribute_exists(name), f"{name}: {line.strip()}"


def test_attributes_in_tables_exist():
    """Attributes that the guides list in the first column of a table exist."""
    for page, title in ((TOP / "docs/ram-disk.md", "`model/`"),
                        (TOP / "docs/sg_io.md", "attribute")):
        table = text_of(page).partition(f"| {title} |")[2].partition("\n\n")[0]
        names = [name for row in table.splitlines()[2:]
                 for name in CODE.findall(row.split("|")[1])]
        assert names
        assert [name for name in names if not attribute_exists(name)] == []


def test_figures_of_the_readme_are_in_the_guides():
    table = text_of(README).partition("## What it gains")[2].partition("\n\n")[2]
    rows = [row for row in table.partition("\n\n")[0].splitlines()[2:]]
    assert len(rows) >= 8
    for row in rows:
        guide = text_of(TOP / LINK.search(row)[1])
        for figure in re.findall(r"(?<![\w.])\d+\.\d+|(?<![\w.])\d{3,}(?![\w.])", row):
            assert re.search(rf"(?<![\d.]){re.escape(figure)}(?!\.?\d)", guide), \
                f"{figure} is not in the guide of: {row}"


def test_picture_shows_the_current_figures():
    done = subprocess.run([TOP / "tools/bench/picture", "--check"], capture_output=True,
                          text=True, check=False, timeout=60)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")
