"""`report --site`: a folder of pages of all that is stored. Reads the store, writes only what is new or changed there.

A page of a campaign is made again only after a further verdict or with another perfguard; the few others are always
made, and written if they came out different.
"""

import hashlib
import json
import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from perfguard import __version__
from perfguard.errors import HarnessError, UsageError
from perfguard.history import history_json
from perfguard.nightly.standing import all_series
from perfguard.report import site
from perfguard.report.bisect_page import bisect_html
from perfguard.report.html import comparison_html, flat
from perfguard.report.site import Cell
from perfguard.reporting import reported
from perfguard.store import CampaignOverview, Store

# Tells a site of ours from somebody's folder, and what its pages were made from.
MANIFEST = ".perfguard-site.json"
PAGED = ("compare", "bisect")
SHOWN_CAMPAIGNS = 20
SHOWN_NIGHTS = 60
SERIES_COLUMNS = ("workload", "metric", "nights", "change points", "newest change")


@dataclass(frozen=True, kw_only=True)
class Written:
    """How many pages there are, and how many were written this time or removed."""

    num_pages: int
    num_written: int
    num_removed: int


@dataclass(frozen=True, kw_only=True)
class Page:
    """`made_from`: what the page follows from; the same means the same page. "" where it must be made to know."""

    path: str
    made_from: str
    make: Callable[[], str]


def write_site(store: Store, folder: Path, *, is_public: bool = False) -> Written:
    """Bring the site in `folder` up to date. Raises UsageError for a folder that holds something else."""
    known = _manifest(folder)
    digests: dict[str, str] = {}
    num_written = 0
    for page in _pages(store, is_public=is_public):
        path = folder / page.path
        if page.made_from and known.get(page.path) == page.made_from and path.exists():
            digests[page.path] = page.made_from
            continue
        content = page.make()
        digests[page.path] = page.made_from or hashlib.sha256(content.encode()).hexdigest()
        if known.get(page.path) != digests[page.path] or not path.exists():
            _write(path, content)
            num_written += 1
    gone = [name for name in known if name not in digests]
    for name in gone:
        (folder / name).unlink(missing_ok=True)
    _write(folder / MANIFEST, json.dumps(digests, indent=0, sort_keys=True))
    return Written(num_pages=len(digests), num_written=num_written, num_removed=len(gone))


def _manifest(folder: Path) -> Mapping[str, str]:
    path = folder / MANIFEST
    if path.exists():
        try:
            known: dict[str, str] = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise UsageError(f"{path} cannot be read: {error}", f"rm -r {folder}") from error
        return {name: digest for name, digest in known.items() if _is_inside(name)}
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UsageError(f"{folder} holds something that is no site of perfguard's", "name a new folder with --site")
    return {}


def _is_inside(name: str) -> bool:
    """A manifest that somebody edited must not make us remove a file elsewhere."""
    return not Path(name).is_absolute() and ".." not in Path(name).parts


def _write(path: Path, content: str) -> None:
    """Whole or not at all: somebody may be reading."""
    partial = path.with_name(f"{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        partial.write_text(content, encoding="utf-8")
        os.replace(partial, path)
    except OSError as error:
        partial.unlink(missing_ok=True)
        raise HarnessError(
            f"{path} cannot be written: {error.strerror}", "free space, or name another --site"
        ) from error


def _pages(store: Store, *, is_public: bool) -> Iterator[Page]:
    rows = store.campaigns(1_000_000)
    stamps = store.verdict_stamps()
    judged = [
        row for row in rows if row.kind in PAGED and row.id in stamps and not (is_public and row.kind == "bisect")
    ]
    program = f"{__version__} {_templates()} {'public' if is_public else ''}"
    for row in judged:
        yield Page(
            path=site.campaign_path(row.id),
            made_from=hashlib.sha256(f"{program} {row.id} {stamps[row.id]}".encode()).hexdigest(),
            make=partial(_campaign, store, row, is_public=is_public),
        )
    paged = frozenset(row.id for row in judged)
    histories = {name: history_json(all_series(store, name))["series"] for name in store.nights.workloads()}
    for name, series in histories.items():
        yield Page(path=site.series_path(name), made_from="", make=partial(_series, name, series, paged))
    yield Page(path="index.html", made_from="", make=partial(_index, store, rows, histories, paged))
    yield from _campaign_lists(rows, paged)
    yield Page(path="workloads.html", made_from="", make=partial(_workloads, rows, histories))
    yield Page(path="machines.html", made_from="", make=partial(_machines, store, is_public=is_public))


def _templates() -> str:
    """Another look is another page."""
    folder = Path(site.__file__).parent
    digest = hashlib.sha256()
    for path in sorted([*folder.glob("*.py"), *(folder / "templates").iterdir()]):
        if path.is_file():
            digest.update(path.read_bytes())
    return digest.hexdigest()


def _campaign(store: Store, row: CampaignOverview, *, is_public: bool) -> str:
    if row.kind == "bisect":
        verdict = store.latest_verdict(row.id)
        assert verdict is not None  # only what was judged has a page
        return bisect_html(verdict, home="../index.html")
    found = reported(store, row.id, is_public=is_public)
    return comparison_html(found.verdict, found.trials, home="../index.html")


def _series(workload: str, series: list[dict[str, Any]], paged: frozenset[str]) -> str:
    """The machine of now first."""
    drawn = [site.drawn(one, "../", paged) for one in reversed(series)]
    return site.page(f"Series of {workload}", root="../", drawn=drawn)


def _index(
    store: Store, rows: list[CampaignOverview], histories: Mapping[str, list[dict[str, Any]]], paged: frozenset[str]
) -> str:
    nights = [night.document for night in store.nights.newest(SHOWN_NIGHTS) if night.document]
    newest = [asdict(row) for row in rows[:SHOWN_CAMPAIGNS]]
    more = Cell(text=f"all {len(rows)} campaigns", href="campaigns.html")
    tables = [
        site.table("Nights", site.NIGHT_COLUMNS, site.night_rows(nights, paged)),
        site.table("The machine", site.NOTICE_COLUMNS, site.notice_rows(nights)),
        site.table("Series", SERIES_COLUMNS, _series_rows(histories)),
        site.table("Newest campaigns", site.CAMPAIGN_COLUMNS, site.campaign_rows(newest, paged, ""), more),
    ]
    return site.page("Performance, night by night", tables=tables)


def _series_rows(histories: Mapping[str, list[dict[str, Any]]]) -> list[tuple[Cell, ...]]:
    return [_series_row(name, one) for name, series in histories.items() for one in series]


def _series_row(name: str, one: Mapping[str, Any]) -> tuple[Cell, ...]:
    changes = one["change_points"]
    newest = f"{changes[-1]['change']:+.1%} on {changes[-1]['time'][:10]}" if changes else ""
    return (
        Cell(text=name, href=site.series_path(name)),
        Cell(text=one["metric"]),
        Cell(text=str(one["points"])),
        Cell(text=str(len(changes))),
        Cell(text=newest),
    )


def _campaign_lists(rows: list[CampaignOverview], paged: frozenset[str]) -> Iterator[Page]:
    """One page a month, so that none grows without end, and one that lists the months."""
    months = Counter(row.created_at[:7] for row in rows)
    for month in months:
        own = [asdict(row) for row in rows if row.created_at.startswith(month)]
        yield Page(path=_month_path(month), made_from="", make=partial(_month, month, own, paged))
    listed = [(Cell(text=month, href=_month_path(month)), Cell(text=str(count))) for month, count in months.items()]
    tables = [site.table("Months", ("month", "campaigns"), listed)]
    yield Page(path="campaigns.html", made_from="", make=partial(site.page, "Campaigns", tables=tables))


def _month_path(month: str) -> str:
    return f"campaigns-{site.file_name(month)}.html"


def _month(month: str, rows: list[dict[str, Any]], paged: frozenset[str]) -> str:
    table = site.table(f"{len(rows)} campaigns", site.CAMPAIGN_COLUMNS, site.campaign_rows(rows, paged, ""))
    return site.page(f"Campaigns of {month}", tables=[table])


def _workloads(rows: list[CampaignOverview], histories: Mapping[str, Any]) -> str:
    counts = Counter(row.workload for row in rows)
    newest = {row.workload: row for row in reversed(rows)}
    listed = [
        (
            Cell(text=name, href=site.series_path(name) if name in histories else ""),
            Cell(text=str(count)),
            Cell(text=newest[name].created_at[:16].replace("T", " ")),
        )
        for name, count in sorted(counts.items())
    ]
    tables = [
        site.table("Workloads", ("workload", "campaigns", "newest (UTC)"), listed),
        site.table("Series", SERIES_COLUMNS, _series_rows(histories)),
    ]
    return site.page("Workloads and series", tables=tables)


def _machines(store: Store, *, is_public: bool) -> str:
    machines = store.machines()
    tables = [
        site.table(
            f"Machine {machine.id[:12]}",
            ("field", "value"),
            [
                (Cell(text="campaigns"), Cell(text=str(machine.num_campaigns))),
                (Cell(text="measured on"), Cell(text=f"{machine.first_at[:10]} to {machine.last_at[:10]}")),
                *([] if is_public else [(Cell(text=k), Cell(text=v)) for k, v in flat(machine.facts).items()]),
            ],
        )
        for machine in machines
    ]
    intro = "A machine is its hardware and software: another driver is another machine, whose series begins anew."
    return site.page("Machines", intro=intro, tables=tables)
