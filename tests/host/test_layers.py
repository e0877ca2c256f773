# SPDX-License-Identifier: GPL-2.0
"""Calls go down: each file of drivers/sg calls only files in the rows below its own in the table of
drivers/sg/README.md, and those after it in its own row."""

import re
from pathlib import Path

TOP = Path(__file__).resolve().parents[2]
SG = TOP / "drivers/sg"
HEADING = "## Which file calls which"


def rows(readme):
    """The units in the order of the table: {unit: (row, place in the row)}. A unit is a .c file, a
    .h file, or both."""
    found = {}
    row = -1
    for line in readme.partition(HEADING)[2].partition("\n## ")[0].splitlines():
        cells = [cell.strip() for cell in line.split("|")]
        if len(cells) < 4 or cells[1] == "row" or set(cells[1]) == {"-"}:
            continue
        row += bool(cells[1])
        for unit in re.findall(r"`(\w+)\.(?:\[ch\]|c|h)`", cells[2]):
            assert unit not in found, f"{unit} stands twice in the table"
            found[unit] = row, len(found)
    return found


def stripped(source):
    """The source without comments, strings and declarations of functions."""
    source = re.sub(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"', "", source, flags=re.DOTALL)
    return re.sub(r"^\w[^;{}=]*\([^;{}]*\)(?: __\w+)*;$", "", source, flags=re.MULTILINE)


def defined(source):
    """The names of the functions and of the variables that are not static in a stripped source."""
    functions = re.findall(r"^\w[^;{}()=]*[ *](\w+)\([^;{}]*\)\n{", source, re.MULTILINE)
    ends = re.findall(r"^SMQ_END_IO\((\w+),", source, re.MULTILINE)
    variables = re.findall(r"^(?!extern|static|typedef|struct \w+;)\w[\w *]*[ *](\w+)"
                           r"(?:\[\w*\])? ?[=;]", source, re.MULTILINE)
    return {*functions, *ends, *variables}


def uses(sources):
    """Which units use which. @sources: {unit: text}. Returns {(user, used): names}."""
    owner = {name: unit for unit, text in sources.items() for name in defined(text)
             if name.startswith("smqsg_")}
    found = {}
    for unit, text in sources.items():
        for name in re.findall(r"\bsmqsg_\w+", text):
            used = owner.get(name, unit)
            if used != unit:
                found.setdefault((unit, used), set()).add(name)
    return found


def units():
    """The text of each unit, without comments, strings and declarations."""
    found = {}
    for path in sorted(SG.glob("*.[ch]")):
        text = stripped(path.read_text(encoding="utf-8"))
        found[path.stem] = found.get(path.stem, "") + "\n" + text
    return found


def upward(order, found):
    """The uses that the table does not allow, as text."""
    return [f"{user} uses {', '.join(sorted(names))} of {used}, which is not below it"
            for (user, used), names in sorted(found.items())
            if used != "sg" and order[user] >= order[used]]


def test_all_files_are_in_the_table():
    """A file that is not in the table has no place, so nothing limits what it calls. sg.h is the
    ground of all."""
    order = rows((SG / "README.md").read_text(encoding="utf-8"))
    assert set(order) == set(units()) - {"sg"}


def test_calls_go_down():
    """A call upwards would make two files depend on each other."""
    order = rows((SG / "README.md").read_text(encoding="utf-8"))
    found = uses({unit: text for unit, text in units().items() if unit != "sg"})
    assert len(found) > 100
    assert not upward(order, found)


def test_finds_calls_upwards():
    """The check itself: names in comments and declarations are no calls; a call, a pointer and a
    variable are; within a row the order counts."""
    order = rows(f"""{HEADING}
| row | files | subject |
| --- | --- | --- |
| top | `run.[ch]` | |
| ground | `one.c`, `two.[ch]` | |
| | `three.c` | |
## Next
| row | `other.c` | |
""")
    assert order == {"run": (0, 0), "one": (1, 1), "two": (1, 2), "three": (1, 3)}
    sources = {
        "run": "int smqsg_run(void)\n{\n\treturn smqsg_two(&smqsg_wq);\n}\n",
        "one": "/* smqsg_run() */\nint smqsg_run(void);\n"
               "void smqsg_one(void)\n{\n\tsmqsg_two(0);\n}\n",
        "two": "int smqsg_two(void *wq)\n{\n\treturn 0;\n}\n",
        "three": "struct workqueue_struct *smqsg_wq;\n"
                 "static struct x y = {\n\t.end = smqsg_one,\n};\n",
    }
    found = uses({unit: stripped(text) for unit, text in sources.items()})
    assert found == {("run", "two"): {"smqsg_two"}, ("run", "three"): {"smqsg_wq"},
                     ("one", "two"): {"smqsg_two"}, ("three", "one"): {"smqsg_one"}}
    assert upward(order, found) == ["three uses smqsg_one of one, which is not below it"]
