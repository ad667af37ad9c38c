"""Stored comparisons -> documents to hand to a colleague, in every format. Reads the store, writes nothing."""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from perfguard.errors import UsageError
from perfguard.explain import explain_claim, explain_stored
from perfguard.explaining.words import without_values
from perfguard.modes import are_compared
from perfguard.records import Campaign, Trial
from perfguard.replay import reworded
from perfguard.report import raw
from perfguard.report.bisect import bisect_markdown
from perfguard.report.bisect_page import bisect_html
from perfguard.report.explanation import hypotheses_markdown, rows
from perfguard.report.html import comparison_html
from perfguard.report.issue import comparison_issue
from perfguard.report.junit import comparison_junit
from perfguard.report.markdown import LIMIT, comparison_markdown
from perfguard.report.next_step import Place, placed
from perfguard.report.public import public, public_trials
from perfguard.report.result_page import search_html, sweep_html
from perfguard.report.search import search_markdown
from perfguard.report.sweep import sweep_markdown
from perfguard.store import Store

DIFFERENT = ("REGRESSION", "IMPROVEMENT", "SUSPECT")
FORMATS = ("html", "md", "issue", "json", "junit", "csv")
# What is no comparison and is reported all the same: how as Markdown, how as a page, and the command that goes on.
Maker = Callable[[Mapping[str, Any]], str]
OTHERS: Mapping[str, tuple[Maker, Maker, str]] = {
    "bisect": (bisect_markdown, bisect_html, "perfguard bisect"),
    "search": (search_markdown, search_html, "perfguard explain --experiment"),
    "sweep": (sweep_markdown, sweep_html, "perfguard sweep"),
}
# Ids of comparisons that a search or a bisect makes for itself go on behind its own.
PART = re.compile(r"^\d{8}-\d{6}-\w{4}-")
OTHER_FORMATS = ("html", "md", "json")
PlaceOf = Callable[[str], Place]


@dataclass(frozen=True, kw_only=True)
class Reported:
    """A comparison as it is reported: its verdict, its trials and why numbers may differ, redacted if asked for."""

    verdict: Mapping[str, Any]
    trials: Sequence[Trial]
    hypotheses: Sequence[Mapping[str, str]] = ()


def document(
    store: Store,
    ids: Sequence[str],
    format: str,
    place_of: PlaceOf = lambda _: Place(),
    is_public: bool = False,
) -> str:
    """The report of comparisons `ids` (none: the newest), or of bisects, searches and sweeps. `place_of`: from a
    repository to what the next commands must name; JSON and what is public name no place. Raises UsageError where they
    fit no single document.
    """
    if format == "html" and len(ids) > 1:
        raise UsageError(f"one HTML page holds one result, not {len(ids)}", f"perfguard report {ids[0]} -f html")
    if ids and all(store.campaign(wanted).kind in OTHERS for wanted in ids):
        return "\n".join(_other(store, wanted, format, place_of, is_public=is_public) for wanted in ids)
    wanted_ids, is_json = ids or [newest_judged(store)], format == "json"
    found = [reported(store, wanted, is_public=is_public, is_reworded=not is_json) for wanted in wanted_ids]
    if not is_json and not is_public:
        repositories = [store.campaign(str(one.verdict["id"])).repository for one in found]
        places = [place_of(repository) for repository in repositories]
        found = [replace(o, verdict=placed(o.verdict, place)) for o, place in zip(found, places, strict=True)]
    return _MAKERS[format](found)


def check_format(format: str) -> None:
    """Raises UsageError for a format that no report has."""
    if format not in FORMATS:
        raise UsageError(f"-f {format!r} is none of {', '.join(FORMATS)}", "perfguard report -f html")


def reported(store: Store, wanted: str, *, is_public: bool = False, is_reworded: bool = True) -> Reported:
    """A stored comparison with its latest verdict, in today's words but for JSON. Raises UsageError where it has none
    or is something else.
    """
    wanted = newest_judged(store) if wanted == "latest" else wanted
    campaign, verdict = store.campaign(wanted), store.latest_verdict(wanted)
    if campaign.kind != "compare":
        raise UsageError(
            f"{campaign.id} is a {campaign.kind}; a report is of comparisons, or of bisects, searches and sweeps",
            f"perfguard show {campaign.id}",
        )
    if verdict is None:
        raise UsageError(f"{campaign.id} has no verdict yet", f"perfguard compare --resume {campaign.id}")
    verdict = reworded(store, campaign, verdict) if is_reworded else verdict
    trials = store.trials(wanted)
    hypotheses = hypothesis_rows(store, campaign, verdict, trials, is_public=is_public)
    if is_public:
        redacted = public({"rows": hypotheses})["rows"]
        return Reported(verdict=public(verdict), trials=public_trials(trials), hypotheses=redacted)
    return Reported(verdict=verdict, trials=trials, hypotheses=hypotheses)


def hypothesis_rows(
    store: Store, campaign: Campaign, verdict: Mapping[str, Any], trials: Sequence[Trial], *, is_public: bool = False
) -> list[dict[str, str]]:
    """Of the number that was believed, if one was named; else of the two sides where they came out differently."""
    if are_compared(campaign):
        return []  # the sides are one commit; how its modes differ is the report itself
    primary = [metric for metric in campaign.workload.metrics if metric.primary]
    if "claimed" in campaign.method and primary:
        found = explain_claim(store, campaign, trials, primary[0], campaign.method["claimed"])
    elif verdict.get("outcome") in DIFFERENT:
        found = explain_stored(store, f"{campaign.id}:base", f"{campaign.id}:head", is_timeline_wanted=False)
    else:
        return []
    return rows(without_values(found) if is_public else found)


def _other(store: Store, wanted: str, format: str, place_of: PlaceOf, *, is_public: bool) -> str:
    """They name commits and settings, so that there is nothing to them without."""
    campaign, verdict = store.campaign(wanted), store.latest_verdict(wanted)
    markdown, page, goes_on = OTHERS[campaign.kind]
    if format not in OTHER_FORMATS or is_public:
        what = "without --public" if is_public else f"as {' or '.join(OTHER_FORMATS)}"
        raise UsageError(
            f"{campaign.id} is a {campaign.kind}, which is reported {what}", f"perfguard report {campaign.id} -f md"
        )
    if verdict is None:
        raise UsageError(f"{campaign.id} has no verdict yet", f"{goes_on} --resume {campaign.id}")
    if format in ("html", "md"):
        make = page if format == "html" else markdown
        return make(placed(verdict, place_of(campaign.repository)))
    return json.dumps(verdict, indent=2, ensure_ascii=False)


def newest_judged(store: Store) -> str:
    """The newest comparison that has a verdict and that somebody asked for, not a search or a bisect; "latest" where
    none has, so that the error speaks of that."""
    rows = store.campaigns(1000, kind="compare")
    if not rows:
        raise UsageError("no comparison is stored yet", "perfguard compare HEAD~1 HEAD -- python bench.py")
    return next((row.id for row in rows if row.outcome and not PART.match(row.id)), "latest")


def _html(found: Sequence[Reported]) -> str:
    return comparison_html(found[0].verdict, found[0].trials, found[0].hypotheses)


def _markdown(found: Reported) -> str:
    """With the table of hypotheses, where there is one and it fits."""
    text = comparison_markdown(found.verdict, found.trials)
    table = f"\nWhy the numbers differ:\n\n{hypotheses_markdown(found.hypotheses)}\n" if found.hypotheses else ""
    return text + table if len(text) + len(table) < LIMIT else text


def _json(found: Sequence[Reported]) -> str:
    return "\n".join(json.dumps(one.verdict, indent=2, ensure_ascii=False) for one in found)


def _csv(found: Sequence[Reported]) -> str:
    """One header, then the trials of all."""
    texts = [raw.csv_text(one.verdict, one.trials) for one in found]
    return texts[0] + "".join(text.split("\n", 1)[1] for text in texts[1:])


_MAKERS: Mapping[str, Callable[[Sequence[Reported]], str]] = {
    "html": _html,
    "md": lambda found: "\n".join(_markdown(one) for one in found),
    "issue": lambda found: "\n".join(comparison_issue(one.verdict, one.trials) for one in found),
    "json": _json,
    "junit": lambda found: comparison_junit([(one.verdict, one.trials) for one in found]),
    "csv": _csv,
}
