# SPDX-License-Identifier: GPL-2.0
"""Reads manual pages."""

import re
from pathlib import Path

TOP = Path(__file__).resolve().parents[2]
PAGES = sorted(path for folder in ("man", "tools") for path in (TOP / folder).rglob("[a-z]*.[1-9]"))


def text_of(page):
    """The page with plain hyphens in place of \\-."""
    return page.read_text(encoding="ascii").replace("\\-", "-")


def section(page, name, macro="SH"):
    """The text of a section, or with @macro "SS" of a subsection."""
    ends = {"SH": r"^\.SH ", "SS": r"^\.S[HS] "}[macro]
    found = re.search(rf"^\.{macro} {re.escape(name)}\n(.*?)(?={ends}|\Z)", text_of(page),
                      flags=re.M | re.S)
    assert found, f"{page.name}: no section {name}"
    return found[1]


def entries(text):
    """The names in the heads of a section's paragraphs, each with the text of its paragraph."""
    found = {}
    text = re.sub(r"^\.RS\n.*?^\.RE\n", "", text, flags=re.M | re.S)
    for paragraph in re.split(r"^\.TP\n", text, flags=re.M)[1:]:
        head = paragraph.partition("\n")[0]
        for name in re.sub(r'"[^"]*"', "", head).split()[1:]:
            assert name not in found, name
            found[name] = paragraph
    return found


def options(text):
    """The long options in the heads of a section's paragraphs."""
    heads = re.findall(r"^\.TP\n((?:.*\\\n)*.*)", text, flags=re.M)
    return {name for head in heads for name in re.findall(r"--[a-z-]+", head)}
