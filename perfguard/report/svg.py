"""Small drawings as inline SVG: an axis with ticks, marks, bars. Pure strings; knows nothing of verdicts.

No script and no colour of its own: classes, which the page's style sheet gives colours for light, dark and print.
Every drawing has a title and a description for screen readers, and every mark says its value when pointed at.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from perfguard.report.foreign import xml

WIDTH = 720
LEFT, RIGHT = 150, 20


@dataclass(frozen=True, kw_only=True)
class Axis:
    """A linear scale from values `low` … `high` to pixels `start` … `end`; `end` < `start` where it runs upwards."""

    low: float
    high: float
    start: float
    end: float

    def at(self, value: float) -> float:
        span = self.high - self.low
        part = 0.5 if span == 0 else (value - self.low) / span
        return round(self.start + part * (self.end - self.start), 2)


def padded(low: float, high: float, share: float = 0.06) -> tuple[float, float]:
    """A range with room at both ends; one of no width gets some."""
    room = (high - low) * share or abs(high) * 0.01 or 1.0
    return low - room, high + room


def ticks(low: float, high: float, count: int = 5) -> list[float]:
    """About `count` round values (1, 2 or 5 times a power of ten) inside low … high."""
    if not high > low:
        return [low]
    raw = (high - low) / count
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(power * m for m in (1, 2, 5, 10) if power * m >= raw * 0.999)
    first = math.ceil(low / step - 1e-9)
    return [n * step for n in range(first, math.floor(high / step + 1e-9) + 1)]


def drawing(name: str, description: str, height: float, parts: Iterable[str]) -> str:
    """The whole SVG; scales with its column, and scrolls where that would make it too small to read."""
    body = "\n".join(parts)
    return (
        f'<div class="plot" tabindex="0" role="group" aria-label="{xml(name)}">'
        f'<svg viewBox="0 0 {WIDTH} {height:g}" role="img" aria-label="{xml(name)}: {xml(description)}">'
        f"<desc>{xml(description)}</desc>\n{body}\n</svg></div>"
    )


def line(x1: float, y1: float, x2: float, y2: float, kind: str) -> str:
    return f'<line class="{kind}" x1="{x1:g}" y1="{y1:g}" x2="{x2:g}" y2="{y2:g}"/>'


def rectangle(x: float, y: float, width: float, height: float, kind: str, told: str = "") -> str:
    place = f'x="{x:g}" y="{y:g}" width="{max(width, 0):g}" height="{height:g}"'
    return f'<rect class="{kind}" {place}>{_title(told)}</rect>'


def text(x: float, y: float, content: object, kind: str = "", anchor: str = "start") -> str:
    return f'<text class="{kind}" x="{x:g}" y="{y:g}" text-anchor="{anchor}">{xml(content)}</text>'


def mark(side: str, x: float, y: float, told: str) -> str:
    """Base is a ring, head a filled triangle, anything else a cross: shape says it without colour."""
    if side == "base":
        return f'<circle class="base" cx="{x:g}" cy="{y:g}" r="4.5">{_title(told)}</circle>'
    if side == "head":
        points = f"{x:g},{y - 5.5:g} {x - 5:g},{y + 4:g} {x + 5:g},{y + 4:g}"
        return f'<polygon class="head" points="{points}">{_title(told)}</polygon>'
    path = f"M{x - 4:g} {y - 4:g}l8 8m-8 0l8 -8"
    return f'<path class="void" d="{path}">{_title(told)}</path>'


def polyline(points: Sequence[tuple[float, float]], kind: str) -> str:
    joined = " ".join(f"{x:g},{y:g}" for x, y in points)
    return f'<polyline class="{kind}" points="{joined}"/>'


def _title(told: str) -> str:
    return f"<title>{xml(told)}</title>" if told else ""
