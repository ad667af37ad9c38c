"""Strip plots as one self-contained SVG: no script, no font, no style sheet, nothing loaded. Pure."""

from collections.abc import Mapping, Sequence
from typing import Any

from perfguard.records import Trial
from perfguard.report import foreign, strips

_WIDTH, _LEFT, _RIGHT, _ROW = 760, 110, 180, 22
_TRACK = _WIDTH - _LEFT - _RIGHT
_HEADING, _AXIS = 40, 46
# Told apart without colour too: base is a ring, head is filled.
_MARKS = {"base": 'fill="white" stroke="#1f5fa8" stroke-width="2"', "head": 'fill="#b3480e" fill-opacity="0.85"'}


def strip_svg(comparison: Mapping[str, Any], trials: Sequence[Trial]) -> str:
    """Every primary metric below the other: one row a block, rings for base, dots for head, one axis in units."""
    plots, top = [], 8
    for strip in strips.strips(comparison, trials):
        plots.append(_plot(strip, top))
        top += _HEADING + _ROW * len(strip.rows) + _AXIS
    title = foreign.xml(f"Trials of {comparison['id']} by block")
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {top}" width="{_WIDTH}" height="{top}" '
        f'role="img" font-family="sans-serif" font-size="13">\n<title>{title}</title>\n'
        f'<rect width="{_WIDTH}" height="{top}" fill="white"/>\n{"".join(plots)}</svg>\n'
    )


def _plot(strip: strips.Strip, top: int) -> str:
    direction = "slower" if strip.better == "lower" else "faster"
    heading = f"{strip.name}: {strips.BASE} base, {strips.HEAD} head; further right is {direction}"
    rows = "".join(_row(row, top + _HEADING + _ROW * k) for k, row in enumerate(strip.rows))
    bottom = top + _HEADING + _ROW * len(strip.rows)
    return f"{_label(8, top + 20, heading, weight='bold')}{rows}{_axis(strip, bottom)}"


def _row(row: strips.StripRow, y: int) -> str:
    line = f'<line x1="{_LEFT}" y1="{y}" x2="{_LEFT + _TRACK}" y2="{y}" stroke="#dddddd"/>\n'
    marks = "".join(
        f'<circle cx="{_LEFT + place * _TRACK:.1f}" cy="{y}" r="5" {_MARKS[side]}/>\n' for side, place in row.marks
    )
    name, note = _label(8, y + 4, f"{row.label} {row.order}"), _label(_LEFT + _TRACK + 14, y + 4, row.note)
    return f"{name}{line}{marks}{note if row.note else ''}"


def _axis(strip: strips.Strip, y: int) -> str:
    places = zip(strips.axis_labels(strip), (0, _TRACK // 2, _TRACK), ("start", "middle", "end"), strict=True)
    labels = "".join(_label(_LEFT + x, y + 18, text, anchor=anchor) for text, x, anchor in places)
    return f'<line x1="{_LEFT}" y1="{y}" x2="{_LEFT + _TRACK}" y2="{y}" stroke="#444444"/>\n{labels}'


def _label(x: int, y: int, text: str, *, anchor: str = "start", weight: str = "normal") -> str:
    return (
        f'<text x="{x}" y="{y}" text-anchor="{anchor}" font-weight="{weight}" fill="#222222">'
        f"{foreign.xml(text)}</text>\n"
    )
