"""A bisect's answer in one sentence, and the command to run next. Pure words on perfguard/bisect@1."""

import shlex
from collections.abc import Mapping
from typing import Any

from perfguard import changes
from perfguard.commands import what_words

SHORT = 12


def sentence(bisect: Mapping[str, Any]) -> str:
    """What is known now, in words that hold by themselves."""
    match bisect["outcome"]:
        case "CULPRIT":
            return _culprit(bisect)
        case "PHANTOM":
            return _phantom(bisect)
        case "INVALID":
            return f"No answer: {bisect['reasons'][0]['text'].splitlines()[0]}."
    return _undecided(bisect)


def _culprit(bisect: Mapping[str, Any]) -> str:
    commit = bisect["culprit"]
    faster = bisect["slowdown"] is not None and bisect["slowdown"] < 1
    how = f"made it {'faster' if faster else 'slower'} ({_percent(bisect['slowdown'])})"
    about = _subject(bisect, commit)
    merged = bisect.get("merged_by")
    where = f", brought in by merge {merged[:SHORT]}" if merged else _of_merge(bisect)
    others = [other for other in bisect["further"] if other["outcome"] == "CULPRIT"]
    more = "".join(f" So did {o['culprit'][:SHORT]} ({_percent(o['slowdown'])})." for o in others)
    return f"{commit[:SHORT]}{about}{where} {how}, confirmed against its parent with fresh builds of both.{more}"


def _of_merge(bisect: Mapping[str, Any]) -> str:
    """The merge itself is the culprit: the search inside did not find one on its branch."""
    inside = bisect["inside"]
    if inside is None:
        return ""
    if inside["outcome"] == "PHANTOM":
        return ", the merge itself (its branch alone changed nothing)"
    return ", a merge (which commit of its branch it was stays undecided),"


def _subject(bisect: Mapping[str, Any], commit: str) -> str:
    entries = [*bisect["posterior"], *((bisect["inside"] or {}).get("posterior", ()))]
    deeper = (bisect["inside"] or {}).get("inside")
    entries += (deeper or {}).get("posterior", [])
    subject = next((entry["subject"] for entry in entries if entry["commit"] == commit), "")
    return f" ({subject})" if subject else ""


def _phantom(bisect: Mapping[str, Any]) -> str:
    good, bad, margin = bisect["good"]["revision"], bisect["bad"]["revision"], _share(bisect["margin"])
    sides = f"between GOOD ({good}) and BAD ({bad})"
    claimed = bisect["claimed"]
    if claimed and claimed["reached"] is False:
        unit = bisect["metric"]["unit"]
        value = f"{claimed['value']:g} {unit}".rstrip()
        return f"Nothing changed {sides}; GOOD does not reach {value} now, so what changed is older or no code."
    if claimed and claimed["reached"]:
        return f"Nothing changed {sides} beyond {margin}, and GOOD reaches {claimed['value']:g} now."
    seen = "" if bisect["slowdown"] is None else f"; BAD against GOOD {_percent(bisect['slowdown'])}"
    return f"Nothing changed {sides} beyond {margin}{seen}."


def _undecided(bisect: Mapping[str, Any]) -> str:
    if bisect["is_gradual"]:
        return f"The change ({_percent(bisect['slowdown'])} in all) grew over many commits; no single one is to blame."
    num = len(bisect["range"])
    because = bisect["reasons"][0]["text"] if bisect["reasons"] else "too little was measured"
    if not num:
        return f"Undecided: {because}."
    first, last = bisect["range"][0][:SHORT], bisect["range"][-1][:SHORT]
    which = f"{first}" if num == 1 else f"one of {num} commits, {first} to {last}"
    p_none = bisect["p_nothing_changed"]
    if p_none is not None and p_none > 0.5:
        return f"Undecided: {because}; if anything changed, then with {which}."
    return f"Undecided: {because}; the change came with {which}."


def next_step(bisect: Mapping[str, Any]) -> str:
    """One command or action that brings most now."""
    claimed = bisect["claimed"]
    match bisect["outcome"]:
        case "CULPRIT" if bisect["inside"] and (more := _extension(bisect["inside"], bisect["id"])):
            return more
        case "CULPRIT":
            return f"git show {bisect['culprit'][:SHORT]}"
        case "PHANTOM" if claimed and claimed["reached"] is False:
            ends = [_end(bisect[side]) for side in ("good", "bad")]
            measured = what_words(bisect["workload"], [bisect["metric"]])
            return shlex.join(["perfguard", "bisect", *ends, "--find-good", f"{claimed['value']:g}", *measured])
        case "PHANTOM":
            return "nothing to look for in the code; if a number was believed, measure it again with recheck --was"
        case "INVALID":
            return f"perfguard show {bisect['id']}, then remove the cause and search again"
    if bisect["stopped"]:
        return f"perfguard bisect --resume {bisect['id']}"
    if bisect["is_gradual"]:
        return f"git log --oneline {bisect['good']['commit'][:SHORT]}..{bisect['bad']['commit'][:SHORT]}"
    if any(reason["code"] == "ONE_SIDED" for reason in bisect["reasons"]):
        return "a new bisect with --clocks lock, below the limit that met one end only"
    return _extension(bisect, bisect["id"]) or f"a new bisect with a wider --margin than {_share(bisect['margin'])}"


def _end(arm: Mapping[str, Any]) -> str:
    """HEAD~1 is another commit tomorrow; only the working tree has no name of its own."""
    return str(arm["revision"] if arm["patch_sha256"] else arm["commit"][:SHORT])


def _extension(bisect: Mapping[str, Any], whole: str) -> str:
    """Where the confirmation stayed undecided, more of it decides; `whole`: id of the outermost bisect."""
    confirmed = bisect["confirmation"]
    if bisect["outcome"] != "INCONCLUSIVE" or not confirmed or confirmed["outcome"] not in ("INCONCLUSIVE", "SUSPECT"):
        return ""
    return f"perfguard extend {confirmed['id']} --budget 1h, then perfguard bisect --resume {whole}"


def _percent(ratio: float | None) -> str:
    return "by an unknown amount" if ratio is None else changes.signed(ratio)


def _share(margin: float) -> str:
    return f"{100 * margin:.3g} %"
