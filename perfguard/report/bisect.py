"""A bisect for a terminal and for Markdown: the answer, the probability of each commit, every reading. Pure but for
the console it prints to.

`bisect` follows perfguard/bisect@1 everywhere.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.text import Text

from perfguard.report import foreign, next_step, outcomes, terminal, units
from perfguard.report.bars import bars

# Columns of a full bar; with sha, probability and subject a line stays below 100.
BAR = 30
# More lines than this are folded: the unlikely neighbours become one line.
MAX_LINES = 24
LIKELY = 0.005
SPARK = 60
SUBJECT = 34
SHORT = 12


def render_bisect(bisect: Mapping[str, Any], console: Console) -> None:
    """The answer in a sentence, the picture, the log of readings, what it cost, what to do next."""
    _render(bisect, console)
    terminal.render_next(bisect["next"], console)


def _render(bisect: Mapping[str, Any], console: Console) -> None:
    _line(console, outcomes.headline(bisect), outcomes.style(str(bisect["outcome"])))
    console.print()
    for line in (*facts(bisect), "", *picture(bisect), ""):
        _line(console, line)
    for line in (*log_lines(bisect), *unbuildable_lines(bisect), *reason_lines(bisect)):
        _line(console, line)
    _line(console, cost_line(bisect))
    if bisect["inside"]:
        console.print()
        _line(console, f"Inside merge {bisect['inside']['merge'][:SHORT]}:", "bold")
        _render(bisect["inside"], console)
    for line in further_lines(bisect):
        _line(console, line)


def bisect_markdown(bisect: Mapping[str, Any]) -> str:
    """The same as Markdown, for an issue or a merge request."""
    return "\n\n".join([*_markdown(bisect), f"Next: {next_step.markdown(bisect['next'])}"]) + "\n"


def _markdown(bisect: Mapping[str, Any]) -> list[str]:
    parts = [f"**{foreign.markdown(outcomes.headline(bisect))}**"]
    parts += ["\n".join(f"- {foreign.markdown(line)}" for line in facts(bisect))]
    plots = [foreign.one_line(line) for line in picture(bisect)]
    parts += [foreign.fenced("\n".join(plots))] if plots else []
    rest = [*unbuildable_lines(bisect), *reason_lines(bisect), cost_line(bisect)]
    parts += ["\n".join(f"- {foreign.markdown(line)}" for line in rest)]
    parts += [foreign.fenced("\n".join(map(foreign.one_line, log_lines(bisect))))]
    if bisect["inside"]:
        parts += [f"Inside merge {bisect['inside']['merge'][:SHORT]}:", *_markdown(bisect["inside"])]
    others = "\n".join(f"- {foreign.markdown(line)}" for line in further_lines(bisect))
    return [*parts, others] if others else parts


def facts(bisect: Mapping[str, Any]) -> list[str]:
    """GOOD, BAD, what lies between, what is searched for."""
    metric = bisect["metric"]
    same = bisect["commits"] - bisect["candidates"]
    unchanged = f", {same} of them with the code of the one before" if same else ""
    claimed = bisect["claimed"]
    return [
        f"good  {outcomes.differences(bisect['good'])}",
        f"bad   {outcomes.differences(bisect['bad'])}",
        f"{units.counted(bisect['commits'], 'commit')} between{unchanged}; searched for {bisect['look_for']} "
        f"{metric['name']} by {units.share(bisect['margin'])} or more, seed {bisect['seed']}, id {bisect['id']}",
        *([_claimed(claimed, metric)] if claimed else []),
    ]


def _claimed(claimed: Mapping[str, Any], metric: Mapping[str, Any]) -> str:
    value = units.value(float(claimed["value"]), metric["unit"])
    if claimed["reached"] is None:
        return f"claimed {value}; GOOD was not measured"
    return (
        f"claimed {value}; GOOD {'reaches' if claimed['reached'] else 'does not reach'} it in {claimed['launches']}"
        " launches now"
    )


def picture(bisect: Mapping[str, Any]) -> list[str]:
    """Probability by commit as bars, oldest first; long stretches of unlikely commits are one line each."""
    entries = bisect["posterior"]
    if not entries:
        return []
    lines = [_bar_line("nothing changed", float(bisect["p_nothing_changed"]), "", "")]
    for entry in folded(entries, bisect["culprit"]):
        lines.append(_entry_line(entry, bisect["culprit"]) if "commit" in entry else _fold_line(entry))
    return lines


def folded(entries: Sequence[Mapping[str, Any]], culprit: str | None) -> Iterator[Mapping[str, Any]]:
    """Entries as they are while they are few; else each run of unlikely ones summed up."""
    if len(entries) <= MAX_LINES:
        yield from entries
        return
    least = sorted((float(entry["probability"]) for entry in entries), reverse=True)[MAX_LINES // 2]
    run: list[Mapping[str, Any]] = []
    for entry in entries:
        if float(entry["probability"]) > max(LIKELY, least) or entry["commit"] == culprit:
            yield from _run(run)
            run = []
            yield entry
        else:
            run.append(entry)
    yield from _run(run)


def _run(run: Sequence[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    if len(run) == 1:
        yield run[0]
    elif run:
        total = sum(float(entry["probability"]) for entry in run)
        yield {"number": len(run), "probability": total, "readings": sum(entry["readings"] for entry in run)}


def _entry_line(entry: Mapping[str, Any], culprit: str | None) -> str:
    read = f"{entry['readings']}×" if entry["readings"] else ""
    return _bar_line(entry_name(entry, culprit), float(entry["probability"]), read, entry["subject"])


def entry_name(entry: Mapping[str, Any], culprit: str | None) -> str:
    """A commit with its mark, or how many are folded."""
    if "commit" not in entry:
        return f"… {entry['number']} commits"
    mark = "✗" if entry["commit"] == culprit else {"unbuildable": "u", "beside": "|"}.get(entry["status"], " ")
    return f"{mark} {entry['commit'][:SHORT]}"


def _fold_line(run: Mapping[str, Any]) -> str:
    read = f"{run['readings']}×" if run["readings"] else ""
    return _bar_line(entry_name(run, None), float(run["probability"]), read, "")


def _bar_line(name: str, probability: float, read: str, subject: str) -> str:
    bar = "█" * round(probability * BAR)
    return f"{name:<16} {bar:<{BAR}} {share(probability):>7} {read:>4} {foreign.shortened(subject, SUBJECT)}".rstrip()


def spark(posterior: Sequence[Mapping[str, Any]]) -> str:
    """All candidates in at most 60 columns, one level a column: the probability that lies there."""
    width = min(SPARK, len(posterior))
    sums = [0.0] * width
    for place, entry in enumerate(posterior):
        sums[place * width // len(posterior)] += float(entry["probability"])
    return bars([total if total > LIKELY else None for total in sums], 0.0, 1.0)


def reading_line(reading: Mapping[str, Any]) -> str:
    """`  7 1a2b3c4d5e6f (12 of 32) BA   +5.1 %; none 2.0 %; likeliest 9f8e7d6c5b4a 61.0 %; 14 trials, about 9 left`."""
    last, likeliest = reading["reading"], reading["likeliest"]
    if last is None:
        return "no reading yet"
    seen = "no value" if last["slowdown"] is None else units.slowdown(last["slowdown"])
    place = f"{last['commit'][:SHORT]} ({last['position']} of {reading['candidates']})"
    believed = ""
    if reading["p_nothing_changed"] is not None and likeliest is not None:
        chance = f"{likeliest['commit'][:SHORT]} {share(float(likeliest['probability']))}"
        believed = f"; none {share(reading['p_nothing_changed'])}; likeliest {chance}"
    left = round(reading["expected_trials_left"])
    ahead = f", about {left} left" if left else ""
    return f"{last['number'] + 1:>3} {place} {last['order']} {seen:>8}{believed}; {reading['trials']} trials{ahead}"


def log_lines(bisect: Mapping[str, Any]) -> list[str]:
    """In the manner of `git bisect log`: what is known of each commit, then each reading in the order it was made."""
    good, bad = bisect["good"], bisect["bad"]
    lines = [f"# good: [{good['commit']}] {good['subject']}", f"# bad: [{bad['commit']}] {bad['subject']}"]
    for reading in bisect["readings"]:
        seen = "no value" if reading["slowdown"] is None else units.slowdown(reading["slowdown"])
        lines.append(f"reading {reading['number'] + 1} {reading['order']} {reading['commit'][:SHORT]}: {seen}")
    merge, confirmed, own = (bisect.get(key) for key in ("merged_by", "confirmation", "merge_confirmation"))
    if merge and own:
        # The comparison handed on is that of the commit on the branch, and stands in the log of the search there.
        lines.append(f"confirmation of merge {merge[:SHORT]}: it changed ({own})")
    elif confirmed and not merge:
        sides = f"{confirmed['base']['commit'][:SHORT]} against {confirmed['head']['commit'][:SHORT]}"
        lines.append(f"confirmation {sides}: {confirmed['outcome']} ({confirmed['id']})")
    if bisect["culprit"] and not bisect["inside"]:
        lines.append(f"# culprit: [{bisect['culprit']}]")
    return lines


def further_lines(bisect: Mapping[str, Any]) -> list[str]:
    """Searches before and behind the culprit, where it did not explain everything."""
    return [
        f"further, {other['good']['commit'][:SHORT]}..{other['bad']['commit'][:SHORT]}: {outcomes.headline(other)} "
        f"({other['id']})"
        for other in bisect.get("further", ())
    ]


def unbuildable_lines(bisect: Mapping[str, Any]) -> list[str]:
    """Neighbours that cannot be measured as ranges, each with the reason of its first commit."""
    places = [place for place, entry in enumerate(bisect["posterior"]) if entry["status"] == "unbuildable"]
    because = bisect["unbuildable_because"]
    lines = []
    for first, last in _ranges(places):
        ends = [bisect["posterior"][place]["commit"] for place in (first, last)]
        which = (
            ends[0][:SHORT] if first == last else f"{ends[0][:SHORT]}..{ends[1][:SHORT]} ({last - first + 1} commits)"
        )
        said = [line for line in because.get(ends[0], "").splitlines() if line.strip()]
        reason = f"{said[0]} … {said[-1].strip()}" if len(said) > 1 else "".join(said)
        lines.append(f"cannot be measured: {which}: {reason}")
    return lines


def _ranges(places: Sequence[int]) -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = []
    for place in places:
        if found and found[-1][1] == place - 1:
            found[-1] = (found[-1][0], place)
        else:
            found.append((place, place))
    return found


def reason_lines(bisect: Mapping[str, Any]) -> list[str]:
    return [f"{reason['code']}: {reason['text']}" for reason in bisect["reasons"]]


def cost_line(bisect: Mapping[str, Any]) -> str:
    """What it took, the search inside a merge included."""
    by = bisect["trials_by"]
    failed = sum(by.get(status, 0) for status in ("invalid", "crashed", "timed_out"))
    lost = f", {failed} without a value" if failed else ""
    spent = units.duration(float(bisect["launches_s"]))
    return (
        f"Trials: {bisect['trials']} ({by['search']} of the search, {by['confirmation']} to confirm{lost}). "
        f"Builds: {bisect['builds']}{_cached(bisect)}. All launches took {spent}."
    )


def _cached(bisect: Mapping[str, Any]) -> str:
    """Builds that an earlier campaign made; an older document does not say."""
    cached = bisect.get("cached_builds", ())
    if not cached:
        return ""
    ends = [one["end"] for one in cached if one["end"]]
    which = f", {' and '.join(dict.fromkeys(ends))} among them" if ends else ""
    oldest = min(str(one["built_at"]) for one in cached)
    return f" ({len(cached)} from the cache of builds{which}, the oldest of {oldest})"


def share(probability: float) -> str:
    if 0 < probability < 0.0005:
        return "<0.1 %"
    if 0.9995 <= probability < 1:
        return ">99.9 %"
    return f"{100 * probability:.1f} %"


def _line(console: Console, content: str, style: str = "") -> None:
    console.print(Text(foreign.one_line(content), style=style, overflow="fold"))
