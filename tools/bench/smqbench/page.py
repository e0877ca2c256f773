# SPDX-License-Identifier: GPL-2.0
"""bench-report/index.html: the report as a page that needs no network."""

import html
from importlib import import_module
from types import ModuleType

from .errors import BenchError

STYLE = """\
body { font: 15px/1.45 sans-serif; color: #222; max-width: 78rem; margin: 2rem auto }
table { border-collapse: collapse; margin: .8rem 0; font-variant-numeric: tabular-nums }
table { display: block; overflow-x: auto }
th, td { padding: .2rem .7rem; border-bottom: 1px solid #ddd; vertical-align: top }
th { text-align: left; border-bottom: 2px solid #888 }
code { font-size: 90% }
img { max-width: 100%; height: auto }
.toc { column-width: 20rem; font-size: 90% }
h2 { margin-top: 2.5rem; border-bottom: 1px solid #888 }
"""


def markdown() -> ModuleType:
    """The Markdown library."""
    try:
        return import_module("markdown")
    except ImportError as error:
        raise BenchError(f"{error}; as root: apt-get install python3-markdown") from error


def html_of(text: str) -> str:
    """The page of a report in Markdown."""
    title, _, rest = text.partition("\n")
    body = markdown().markdown(f"{title}\n\n[TOC]\n\n{rest}", extensions=[
        "tables", "sane_lists", "toc"], extension_configs={"toc": {"toc_depth": "2-2"}})
    return ("<!DOCTYPE html>\n"
            f'<html lang="en"><head><meta charset="utf-8"><title>{html.escape(title[2:])}</title>\n'
            f"<style>\n{STYLE}</style></head>\n<body>\n{body}\n</body></html>\n")
