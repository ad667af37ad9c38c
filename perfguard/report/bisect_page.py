"""A bisect as one HTML page that opens without a network: each reading, the probability of each commit. Pure.

`bisect` follows perfguard/bisect@1 everywhere.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from markupsafe import Markup

from perfguard.report import bisect as told
from perfguard.report import foreign, next_step, outcomes, svg, units
from perfguard.report.html import Plot, cut, environment, link, short

ROW, TOP, HEIGHT = 20, 14, 240
LEFT, BOTTOM = 78, 196
# Where bars end, and where subjects begin.
BAR_END, SUBJECT_AT = 420, 490
SUBJECT = 30


def bisect_html(bisect: Mapping[str, Any], *, home: str = "") -> str:
    """The whole page, searches inside merges below each other. `home`: where the site lies that it is part of."""
    searches = [bisect]
    while searches[-1]["inside"]:
        searches.append(searches[-1]["inside"])
    ends = f"{bisect['good']['revision']} → {bisect['bad']['revision']}"
    return environment().get_template("bisect.html.j2").render(
        b=bisect,
        home=home,
        title=f"{bisect['outcome']}: {ends}, {bisect['metric']['name']}",
        outcome_kind=str(bisect["outcome"]).lower(),
        searches=[_search(one) for one in searches],
        next_pieces=next_step.pieces(cut(foreign.one_line(bisect["next"] or ""))),
        json_link=link(json.dumps(short(bisect), ensure_ascii=False), "application/json"),
    )


def _search(bisect: Mapping[str, Any]) -> dict[str, Any]:
    """What the page shows of one search."""
    plots = {"Slowdown against GOOD, by commit": readings_plot(bisect)}
    plots["Where the change lies"] = probability_plot(bisect)
    return {
        "id": bisect["id"],
        "headline": outcomes.headline(bisect),
        "facts": told.facts(bisect),
        "plots": [Plot(heading=name, svg=Markup(drawn)) for name, drawn in plots.items() if drawn],
        "notes": [*told.unbuildable_lines(bisect), *told.reason_lines(bisect), told.cost_line(bisect)],
        "log": told.log_lines(bisect),
        "further": told.further_lines(bisect),
        "inside": bisect["inside"]["merge"][: told.SHORT] if bisect["inside"] else "",
    }


def readings_plot(bisect: Mapping[str, Any]) -> str:
    """A mark a reading, the margin shaded, a line in front of the culprit; "" without a reading that has a value."""
    shown = [reading for reading in bisect["readings"] if reading["slowdown"] is not None]
    if not shown:
        return ""
    margin, last = float(bisect["margin"]), max(len(bisect["posterior"]), *(one["position"] for one in shown))
    ends = [float(one["slowdown"]) for one in shown]
    low, high = svg.padded(min(1 / (1 + margin), *ends), max(1 + margin, *ends))
    x = svg.Axis(low=0.5, high=last + 0.5, start=LEFT, end=svg.WIDTH - svg.RIGHT)
    y = svg.Axis(low=low, high=high, start=BOTTOM, end=TOP)
    upper, lower = y.at(1 + margin), y.at(1 / (1 + margin))
    within = f"within the margin of {units.share(margin)}"
    parts = [svg.rectangle(LEFT, upper, svg.WIDTH - svg.RIGHT - LEFT, lower - upper, "margin", within)]
    parts += [*_axes(x, y), *_culprit(bisect, x)]
    parts += [svg.mark("head", x.at(one["position"]), y.at(one["slowdown"]), _said(one)) for one in shown]
    about = f"{units.counted(len(shown), 'reading')} from {units.slowdown(min(ends))} to {units.slowdown(max(ends))}"
    return svg.drawing("Slowdown against GOOD by commit", about, HEIGHT, parts)


def _axes(x: svg.Axis, y: svg.Axis) -> list[str]:
    parts = []
    for tick in svg.ticks((y.low - 1) * 100, (y.high - 1) * 100, 4):
        at = y.at(1 + tick / 100)
        parts += [svg.line(LEFT, at, svg.WIDTH - svg.RIGHT, at, "grid" if tick else "zero")]
        parts += [svg.text(LEFT - 6, at + 4, f"{tick:+.3g} %" if tick else "0 %", "tick", "end")]
    for tick in svg.ticks(x.low, x.high, 8):
        if tick == round(tick):
            parts += [svg.line(x.at(tick), BOTTOM, x.at(tick), BOTTOM + 5, "tick")]
            parts += [svg.text(x.at(tick), BOTTOM + 18, f"{tick:g}", "tick", "middle")]
    return [*parts, svg.text(LEFT, HEIGHT - 6, "commit, oldest first", "note")]


def _culprit(bisect: Mapping[str, Any], x: svg.Axis) -> list[str]:
    places = [place for place, entry in enumerate(bisect["posterior"], 1) if entry["commit"] == bisect["culprit"]]
    if not places:
        return []
    at = x.at(places[0] - 0.5)
    anchor, step = ("end", -6) if at > svg.WIDTH / 2 else ("start", 6)
    name = f"✗ from {bisect['culprit'][: told.SHORT]} on"
    return [svg.line(at, TOP, at, BOTTOM, "stage"), svg.text(at + step, TOP + 8, name, "primary", anchor)]


def _said(reading: Mapping[str, Any]) -> str:
    number, order = reading["number"] + 1, reading["order"]
    return f"reading {number} {order}, {reading['commit'][: told.SHORT]}: {units.slowdown(reading['slowdown'])}"


def probability_plot(bisect: Mapping[str, Any]) -> str:
    """A bar a commit; long stretches of unlikely commits are one. "" where nothing was searched."""
    entries = bisect["posterior"]
    if not entries:
        return ""
    rows: list[Mapping[str, Any]] = [{"probability": bisect["p_nothing_changed"], "name": "nothing changed"}]
    rows += told.folded(entries, bisect["culprit"])
    axis = svg.Axis(low=0.0, high=1.0, start=svg.LEFT, end=BAR_END)
    parts = [part for place, row in enumerate(rows) for part in _bar(row, bisect["culprit"], axis, TOP + place * ROW)]
    likeliest = max(entries, key=lambda entry: float(entry["probability"]))
    about = f"likeliest {likeliest['commit'][: told.SHORT]}, {told.share(float(likeliest['probability']))}"
    return svg.drawing("Probability by commit, oldest first", about, TOP + len(rows) * ROW + 8, parts)


def _bar(row: Mapping[str, Any], culprit: str | None, axis: svg.Axis, y: float) -> Sequence[str]:
    is_culprit = "commit" in row and row["commit"] == culprit
    name = row.get("name") or told.entry_name(row, culprit)
    probability = float(row["probability"])
    read = f"read {row['readings']}×" if row.get("readings") else ""
    subject = cut(foreign.one_line(row.get("subject", "")))
    said = " ".join(filter(None, (name, told.share(probability), read, subject)))
    end = axis.at(probability)
    return (
        svg.text(svg.LEFT - 8, y + 13, name, "primary" if is_culprit else "", "end"),
        svg.rectangle(svg.LEFT, y + 2, max(end - svg.LEFT, 1), ROW - 5, "part1" if is_culprit else "part0", said),
        svg.text(end + 6, y + 13, told.share(probability), "tick"),
        svg.text(SUBJECT_AT, y + 13, foreign.shortened(subject, SUBJECT), "note"),
    )
