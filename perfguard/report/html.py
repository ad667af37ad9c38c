"""A comparison as one HTML page that opens without a network: no script, no font, no picture from elsewhere.

Everything foreign goes through jinja2's escaping or through `foreign`; numbers are formatted here and in `units`.
"""

import base64
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from perfguard import changes
from perfguard.records import Trial
from perfguard.report import conditions, foreign, machine, next_step, outcomes, plots, raw, reproduce, speculate, units
from perfguard.report.gain_plot import gain_plot

# A longer text of others (a commit message of megabytes) is cut on the page and in what it carries.
MAX_TEXT = 600


@dataclass(frozen=True, kw_only=True)
class Plot:
    """A drawing under its heading; `svg` is ours and safe."""

    heading: str
    svg: Markup


def comparison_html(
    comparison: Mapping[str, Any],
    trials: Sequence[Trial],
    hypotheses: Sequence[Mapping[str, str]] = (),
    *,
    home: str = "",
) -> str:
    """The whole page. `hypotheses`: rows (hypothesis, state, detail) of an explanation, if there is one. `home`: where
    the site lies that the page is part of.
    """
    measured = [trial for trial in trials if trial.stage > 0]
    page = environment().get_template("comparison.html.j2")
    return page.render(
        c=comparison,
        home=home,
        next_pieces=next_step.pieces(cut(foreign.one_line(comparison.get("next") or ""))),
        headline=cut(outcomes.headline(comparison)),
        engine=[cut(line) for line in outcomes.engine(comparison)],
        outcome_kind=str(comparison["outcome"]).lower(),
        facts=_facts(comparison, measured),
        intervals=Markup(plots.intervals(comparison)),
        columns=outcomes.COLUMNS,
        legend=changes.LEGEND,
        metrics=[outcomes.metric_cells(metric, comparison.get("margin")) for metric in comparison["metrics"]],
        claimed=_claimed(comparison),
        trial_plots=_trial_plots(comparison, measured),
        cycles=_cycles(comparison),
        condition_plots=[Plot(heading=name, svg=Markup(svg)) for name, svg in conditions.plots(comparison)],
        condition_lines=[cut(line) for line in (*machine.notices(comparison), *machine.lines(comparison))],
        gate_columns=machine.GATE_COLUMNS,
        gate_rows=machine.gate_rows(comparison),
        hypotheses=hypotheses,
        provenance=_provenance(comparison),
        machine=flat(comparison.get("machine", {})),
        speculation=outcomes.speculation(comparison),
        speculate_tables=speculate.tables(comparison),
        reasons=[cut(line) for line in outcomes.reasons(comparison)],
        counts=f"{outcomes.counts(comparison)} {outcomes.cached_builds(comparison)}".strip(),
        rows=raw.rows(comparison, measured),
        row_columns=raw.COLUMNS,
        csv_link=link(raw.csv_text(comparison, measured), "text/csv"),
        json_link=link(json.dumps(short(comparison), ensure_ascii=False), "application/json"),
        reproduce=reproduce.with_perfguard(comparison),
    )


def environment() -> Environment:
    """Of every page: what is foreign is escaped, and what is missing is an error."""
    loader = PackageLoader("perfguard.report")
    environment = Environment(loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True)
    environment.filters["line"] = lambda text: cut(foreign.one_line(text))
    return environment


def cut(text: str) -> str:
    return text if len(text) <= MAX_TEXT else f"{text[:MAX_TEXT]} … (cut, {len(text):,} characters)"


def _facts(comparison: Mapping[str, Any], measured: Sequence[Trial]) -> list[tuple[str, str]]:
    spent_s = sum(trial.wall_s for trial in measured)
    return [
        ("workload", str(comparison["workload"].get("name", ""))),
        ("scope", outcomes.scope(comparison)),
        ("launches", f"{len(measured)} in {units.duration(spent_s)}"),
        ("margin", units.share(comparison.get("margin"))),
        ("alpha", units.share(comparison.get("alpha"))),
        ("seed", str(comparison.get("seed"))),
        ("measured", units.moment(str(comparison.get("created_at", "")))),
        ("id", str(comparison["id"])),
    ]


def _claimed(comparison: Mapping[str, Any]) -> list[tuple[str, str, str, str]]:
    """Metric, what was believed, base now, head now."""
    claimed = comparison.get("claimed") or {}
    by_name = {metric["name"]: metric for metric in comparison["metrics"]}
    return [
        (name, units.value(value, by_name[name]["unit"]), *_medians(by_name[name]))
        for name, value in claimed.items()
        if name in by_name and isinstance(value, int | float)
    ]


def _medians(metric: Mapping[str, Any]) -> tuple[str, str]:
    return units.value(metric["base_median"], metric["unit"]), units.value(metric["head_median"], metric["unit"])


def _trial_plots(comparison: Mapping[str, Any], measured: Sequence[Trial]) -> list[Plot]:
    plotted = [m for m in comparison["metrics"] if m.get("primary", True) and not m.get("exact")]
    drawn = [(metric["name"], plots.trials(metric, measured)) for metric in plotted]
    return [Plot(heading=name, svg=Markup(svg)) for name, svg in drawn if svg]


def _cycles(comparison: Mapping[str, Any]) -> list[Plot]:
    found = plots.cycle_parts(comparison)
    drawn = [Plot(heading=mode, svg=Markup(plots.cycle(mode, parts))) for mode, parts in found.items()]
    gained = gain_plot(comparison)
    return [*drawn, Plot(heading="Gain over plain decoding", svg=Markup(gained))] if gained else drawn


def _provenance(comparison: Mapping[str, Any]) -> list[tuple[str, str, str, bool]]:
    """Field, base, head, and whether they differ."""
    base, head = (flat(comparison[side]) for side in ("base", "head"))
    fields = [*dict.fromkeys([*base, *head])]
    both = [(field, base.get(field, ""), head.get(field, "")) for field in fields]
    return [(field, one, other, one != other) for field, one, other in both if one or other]


def flat(tree: Mapping[str, Any], prefix: str = "") -> dict[str, str]:
    """Nested facts as dotted names and texts, cut where others wrote pages."""
    found: dict[str, str] = {}
    for key, value in tree.items():
        name = f"{prefix}{key}"
        if isinstance(value, Mapping):
            found |= flat(value, f"{name}.")
        elif isinstance(value, list) and value and isinstance(value[0], Mapping):
            for index, item in enumerate(value):
                found |= flat(item, f"{name}.{index}.")
        else:
            found[name] = "" if value in (None, [], "") else cut(foreign.one_line(value))
    return found


def short(value: Any) -> Any:
    """The same data with every long text cut, as the page itself cuts it."""
    if isinstance(value, Mapping):
        return {key: short(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [short(item) for item in value]
    return cut(value) if isinstance(value, str) else value


def link(text: str, kind: str) -> str:
    return f"data:{kind};charset=utf-8;base64,{base64.b64encode(text.encode()).decode()}"
