# SPDX-License-Identifier: GPL-2.0
"""bench-report/index.html: the report as one file that includes its pictures and needs no
network."""

import html
import re
from pathlib import Path
from types import ModuleType

from .errors import BenchError

STYLE = """\
body { font: 15px/1.45 sans-serif; color: #222; max-width: 78rem; margin: 2rem auto }
table { border-collapse: collapse; margin: .8rem 0; font-variant-numeric: tabular-nums }
th, td { padding: .2rem .7rem; border-bottom: 1px solid #ddd; vertical-align: top }
th { text-align: left; border-bottom: 2px solid #888 }
div.wide { overflow-x: auto }
code { font-size: 90% }
svg { max-width: 100%; height: auto }
nav { column-width: 20rem; font-size: 90% }
nav a { display: block }
h2 { margin-top: 2.5rem; border-bottom: 1px solid #888 }
"""
IMAGE = re.compile(r'<p><img alt="([^"]*)" src="([^"/]+\.svg)" ?/?></p>')
HEADING = re.compile(r"<h2>(.*?)</h2>")


def _markdown() -> ModuleType:
    """The Markdown library, set to escape text."""
    try:
        import markdown
    except ImportError as error:
        raise BenchError(f"{error}; as root: apt-get install python3-markdown") from error
    module: ModuleType = markdown
    return module


def need() -> None:
    """Fails at once if the library is missing, instead of after all measurements."""
    _markdown()


def _drawing(svg: str, number: int) -> str:
    """A picture as an element. The names of its clip paths and markers are made unique: otherwise
    it would use those of another picture in the page."""
    svg = svg[svg.index("<svg"):]
    for name in sorted(set(re.findall(r'\bid="([^"]+)"', svg)), key=len, reverse=True):
        own = f"p{number}-{name}"
        svg = svg.replace(f'id="{name}"', f'id="{own}"').replace(f"url(#{name})", f"url(#{own})")
        svg = svg.replace(f'href="#{name}"', f'href="#{own}"')
    return svg


def html_of(text: str, folder: Path) -> str:
    """The page of a report in Markdown; @folder has its pictures."""
    body = _markdown().markdown(text, extensions=["tables", "sane_lists"])
    pictures = iter(range(1, 1000))

    def picture(found: re.Match[str]) -> str:
        try:
            svg = (folder / found[2]).read_text(encoding="utf-8")
        except OSError as error:
            raise BenchError(f"{folder / found[2]}: {error.strerror}") from error
        return (f'<figure role="img" aria-label="{found[1]}">'
                f"{_drawing(svg, next(pictures))}</figure>")

    names: list[str] = []

    def heading(found: re.Match[str]) -> str:
        names.append(found[1])
        return f'<h2 id="s{len(names)}">{found[1]}</h2>'

    body = IMAGE.sub(picture, body)
    body = HEADING.sub(heading, body)
    body = body.replace("<table>", '<div class="wide"><table>').replace("</table>",
                                                                        "</table></div>")
    links = "".join(f'<a href="#s{at}">{name}</a>' for at, name in enumerate(names, 1))
    title = html.escape(text.partition("\n")[0].lstrip("# "))
    head, mark, rest = body.partition("</h1>")
    return ("<!DOCTYPE html>\n"
            f'<html lang="en"><head><meta charset="utf-8"><title>{title}</title>\n'
            f"<style>\n{STYLE}</style></head>\n<body>\n{head}{mark}\n<nav>{links}</nav>\n"
            f"{rest}\n</body></html>\n")
