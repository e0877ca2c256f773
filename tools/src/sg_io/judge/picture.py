# SPDX-License-Identifier: GPL-2.0
"""The picture of a replay beside the original, as SVG."""

from collections.abc import Iterator, Sequence
from typing import Any

from judge import text
from judge.columns import Numbers

LEFT, WIDTH, HEIGHT, GAP = 70, 800, 200, 60
LEAST = 0.001   # the least height of a panel, so that it is not 0


def label(x: int, y: int, anchor: str, words: str) -> str:
    return f'<text x="{x}" y="{y}" text-anchor="{anchor}">{words}</text>'


def panel(top: int, title: str, unit: str,
          curves: dict[str, Sequence[float] | Numbers]) -> Iterator[str]:
    """Curves of one scale, by their colors."""
    most = max(LEAST, *(max(curve) for curve in curves.values()))
    yield (f'<rect x="{LEFT}" y="{top}" width="{WIDTH}" height="{HEIGHT}" fill="none" '
           'stroke="#888"/>')
    yield label(LEFT, top - 8, "start", title)
    yield label(LEFT - 6, top + 10, "end", f"{most:.4g}{unit}")
    yield label(LEFT - 6, top + HEIGHT, "end", "0")
    for color, curve in curves.items():
        points = " ".join(f"{LEFT + (i + 0.5) * WIDTH / len(curve):.1f},"
                          f"{top + HEIGHT - v * HEIGHT / most:.1f}" for i, v in enumerate(curve))
        yield f'<polyline fill="none" stroke-width="1.5" stroke="{color}" points="{points}"/>'


def drawing(f: dict[str, Any], late: Numbers, span: int) -> Iterator[str]:
    """The lines of the picture."""
    panels: list[tuple[str, str, dict[str, Sequence[float] | Numbers]]] = []
    if f["in_flight"]:
        panels.append(("Commands in flight: original (grey), replay (blue)", "",
                       {"#999": f["original_in_flight"]["curve"],
                        "#06c": f["in_flight"]["curve"]}))
    if f["mode"] == "time":
        panels.append(("How late commands were issued, the latest of each piece of time", " us",
                       {"#c30": late}))
    yield (f'<svg xmlns="http://www.w3.org/2000/svg" width="{LEFT + WIDTH + 20}" '
           f'height="{40 + len(panels) * (HEIGHT + GAP)}" font-family="sans-serif" '
           'font-size="12">')
    yield '<rect width="100%" height="100%" fill="white"/>'
    bottom = 40 - GAP
    for title, unit, curves in panels:
        yield from panel(bottom + GAP, title, unit, curves)
        bottom += HEIGHT + GAP
    ends = ("0 s", f"{span / 1e9:.4g} s") if f["mode"] == "time" else (
        "first command", f"{f['commands']}th")
    yield label(LEFT, bottom + 16, "start", ends[0])
    yield label(LEFT + WIDTH, bottom + 16, "end", ends[1])
    yield "</svg>"


def draw(path: str, f: dict[str, Any], late: Numbers, span: int) -> None:
    """Writes the picture to a file."""
    with text.open_text(path) as out:
        out.write("\n".join(drawing(f, late, span)) + "\n")
