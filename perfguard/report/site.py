"""The pages of a static site, but for those of comparisons (html.py): self-contained, no script. Pure: reads no store.

Rows and series come as the JSON that other outputs take, so that a page says what the terminal says.
"""

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from perfguard import changes
from perfguard.report import outcomes, series_plot, units
from perfguard.report.html import environment

SAFE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


@dataclass(frozen=True, kw_only=True)
class Cell:
    """A cell of a table; a link where `href` is given."""

    text: str
    href: str = ""


@dataclass(frozen=True, kw_only=True)
class Drawn:
    """A series under its heading, with what a person should know of it."""

    heading: str
    ratio: Markup
    reference: Markup
    changes: tuple[tuple[Cell, ...], ...]
    notices: tuple[str, ...]


def file_name(name: str) -> str:
    """A file name for a name that others chose: itself where that is harmless, else its letters and a digest."""
    if SAFE_NAME.fullmatch(name):
        return name
    letters = re.sub(r"[^A-Za-z0-9]+", "-", name).strip("-")[:40]
    return f"{letters}-{hashlib.sha256(name.encode('utf-8', 'replace')).hexdigest()[:12]}"


def campaign_path(campaign: str) -> str:
    return f"campaigns/{file_name(campaign)}.html"


def series_path(workload: str) -> str:
    return f"series/{file_name(workload)}.html"


def page(title: str, *, root: str = "", **parts: Any) -> str:
    """`root`: the way to the index, "../" from a folder. `parts`: see templates/site.html.j2."""
    whole = {"intro": "", "tables": [], "drawn": [], **parts}
    return environment().get_template("site.html.j2").render(title=title, root=root, **whole)


def table(
    caption: str, columns: Sequence[str], rows: Sequence[Sequence[Cell]], more: Cell | None = None
) -> dict[str, Any]:
    """`more`: where the rest is."""
    return {"caption": caption, "columns": columns, "rows": rows, "more": more}


def campaign_rows(rows: Sequence[Mapping[str, Any]], paged: frozenset[str], root: str) -> list[tuple[Cell, ...]]:
    """`paged`: ids that have a page of their own."""
    return [
        (
            Cell(text=row["id"], href=f"{root}{campaign_path(row['id'])}" if row["id"] in paged else ""),
            Cell(text=_minute(row["created_at"])),
            Cell(text=row["kind"]),
            Cell(text=row["workload"]),
            Cell(
                text=f"{row['base_commit'][:10]} → {row['head_commit'][:10]}"
                if row["head_commit"]
                else row["base_commit"][:10]
            ),
            Cell(text=outcomes.signed(row["outcome"]) if row["outcome"] else row["status"]),
        )
        for row in rows
    ]


CAMPAIGN_COLUMNS = ("id", "begun (UTC)", "kind", "workload", "commits", "outcome")
NIGHT_COLUMNS = ("night (UTC)", "outcome", "slowdown", "search", "workload", "head")
NOTICE_COLUMNS = ("night (UTC)", "notice")
CHANGE_COLUMNS = ("night", "commits", "level", "slowdown")


def night_rows(nights: Sequence[Mapping[str, Any]], paged: frozenset[str]) -> list[tuple[Cell, ...]]:
    """One line a night and workload, for the index; `nights`: JSON of nights (perfguard/nightly@1), newest first."""
    return [_night_row(night, entry, paged) for night in nights for entry in night["workloads"]]


def _night_row(night: Mapping[str, Any], entry: Mapping[str, Any], paged: frozenset[str]) -> tuple[Cell, ...]:
    outcome = outcomes.signed(entry["outcome"]) if entry["outcome"] else entry["state"]
    accepted = f", accepted until {entry['acked']['until']}" if entry["acked"] else ""
    primary = [m for m in entry["metrics"] if m["primary"] and m["slowdown"] is not None]
    searches = [s for s in night["searches"] if s["workload"] == entry["name"]]
    found = "; ".join(f"{outcomes.signed(s['outcome'])} {(s['culprit'] or '')[:12]}".strip() for s in searches)
    return (
        Cell(text=_minute(night["started_at"])),
        Cell(text=f"{outcome}{accepted}", href=_page_of(entry["campaign"], paged)),
        Cell(text="; ".join(f"{m['name']} {units.slowdown(m['slowdown'])}" for m in primary)),
        Cell(text=found, href=_page_of(searches[0]["bisect"], paged) if searches else ""),
        Cell(text=entry["name"], href=series_path(entry["name"])),
        Cell(text=night["head"]["commit"][:12]),
    )


def _page_of(campaign: str | None, paged: frozenset[str]) -> str:
    """ "" for one that has no page: pruned, or not public."""
    return campaign_path(campaign) if campaign is not None and campaign in paged else ""


def notice_rows(nights: Sequence[Mapping[str, Any]]) -> list[tuple[Cell, ...]]:
    """What nights said of the machine."""
    return [
        (Cell(text=_minute(night["started_at"])), Cell(text=notice["text"]))
        for night in nights
        for notice in night["notices"]
    ]


def _minute(time: str) -> str:
    return time[:16].replace("T", " ")


def drawn(series: Mapping[str, Any], root: str, paged: frozenset[str]) -> Drawn:
    """`series`: one of the JSON of a history."""
    machine = f", machine {series['machine'][:12]}" if series["machine"] else ""
    first, last = series["nights"][0][0][:10], series["nights"][-1][0][:10]
    return Drawn(
        heading=f"{series['metric']}: {units.counted(series['points'], 'night')}, {first} to {last}{machine}",
        ratio=Markup(series_plot.ratio_plot(series)),
        reference=Markup(series_plot.reference_plot(series)),
        changes=tuple(_change_row(series, change, root, paged) for change in series["change_points"]),
        notices=tuple(series["notices"]),
    )


def _change_row(
    series: Mapping[str, Any], change: Mapping[str, Any], root: str, paged: frozenset[str]
) -> tuple[Cell, ...]:
    slowdown = changes.slowdown(change["before"], change["after"], series["better"])
    campaign = series["campaigns"][change["index"]]
    return (
        Cell(text=change["time"][:10], href=f"{root}{campaign_path(campaign)}" if campaign in paged else ""),
        Cell(text=f"{change['last_good'][:12]}..{change['commit'][:12]}"),
        Cell(text=f"{units.number(change['before'])} → {units.number(change['after'])}"),
        Cell(text=f"{changes.signed(slowdown)} ({'worse' if slowdown > 1 else 'better'})"),
    )
