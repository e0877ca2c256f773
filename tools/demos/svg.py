# SPDX-License-Identifier: GPL-2.0
"""Draws the cells of a terminal's screen as SVG."""

from html import escape
from itertools import groupby
from typing import Any

WIDTH, HEIGHT = 8.4, 18    # of a cell, in pixels
BACK, TEXT = "#1c1c1c", "#d0d0d0"
COLOURS = {"red": "#ff5f5f", "brown": "#ffd75f", "magenta": "#ff87ff", "blue": "#5f87ff",
           "cyan": "#5fd7d7", "green": "#5fd75f", "default": TEXT}


def look(char: Any) -> tuple[str, str, str]:
    """A cell's colour, background and weight."""
    front, back = COLOURS[char.fg], BACK
    if char.reverse:
        front, back = back, front
    return front, back, "bold" if char.bold else "normal"


def draw(screen: Any) -> str:
    """The picture of a pyte.Screen."""
    width, height = (screen.columns + 2) * WIDTH, (screen.lines + 1) * HEIGHT
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" '
             f'width="{width:g}" height="{height:g}" font-family="monospace" font-size="14">',
             f'<rect width="100%" height="100%" rx="6" fill="{BACK}"/>']
    for y in range(screen.lines):
        cells = [screen.buffer[y][x] for x in range(screen.columns)]
        looks = [look(cell) for cell in cells]
        for (front, back, weight), run in groupby(range(screen.columns), looks.__getitem__):
            places = list(run)
            text = "".join(cells[x].data for x in places)
            x, top = (places[0] + 1) * WIDTH, (y + 0.5) * HEIGHT
            if back != BACK:
                parts.append(f'<rect x="{x:g}" y="{top:g}" width="{len(text) * WIDTH:g}" '
                             f'height="{HEIGHT}" fill="{back}"/>')
            if text.strip():
                parts.append(f'<text x="{x:g}" y="{top + 13:g}" fill="{front}" '
                             f'font-weight="{weight}" textLength="{len(text) * WIDTH:g}" '
                             f'xml:space="preserve">{escape(text)}</text>')
    return "\n".join([*parts, "</svg>"]) + "\n"
