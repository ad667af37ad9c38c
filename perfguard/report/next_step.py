"""What to do next, told as it can be copied: which part of the text is a command, and with which options. Pure.

Decides nothing and knows no file: the text comes from a verdict, the place from whoever asks.
"""

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from perfguard.report import foreign

# A command of ours or of git goes on to the end, or to the words that perfguard says behind one. What is quoted for
# a shell belongs to the command whatever it holds.
_ENDS = r", (?:or|then|if|with)\b|; | lists | \("
_COMMAND = re.compile(rf"""(?:perfguard [a-z]|git [-a-z])(?:'[^']*'|"[^"]*"|(?!{_ENDS})[^'"])*""")
_GLUE = ", ; ()"
# Subcommands that have no such option; a test holds both lists against the command line.
WITHOUT_DB = ("builds", "ci", "clocks", "demo", "judge", "timeline", "workloads")
WITH_REPO = ("bisect", "calibrate", "check", "compare", "nightly", "pin", "recheck", "run", "speculate", "sweep")


@dataclass(frozen=True, kw_only=True)
class Place:
    """What has to be named for a command to find the same things: "" where it finds them by itself."""

    db: str = ""
    repo: str = ""


@dataclass(frozen=True, kw_only=True)
class Piece:
    """A part of an advice: a command that can be run as it stands, or words."""

    text: str
    is_command: bool


def pieces(advice: str) -> tuple[Piece, ...]:
    """Commands and the words between them, in order: "perfguard extend ID, or a wider --margin" has one of each."""
    found: list[Piece] = []
    at = 0
    for match in _COMMAND.finditer(advice):
        found += [Piece(text=advice[at : match.start()], is_command=False)]
        found += [Piece(text=match.group().rstrip(), is_command=True)]
        at = match.start() + len(match.group().rstrip())
    found += [Piece(text=advice[at:], is_command=False)]
    return tuple(piece for piece in found if piece.text.strip())


def placed(document: Mapping[str, Any], place: Place) -> dict[str, Any]:
    """A verdict, or an explanation, as it is shown at `place`; what is stored names no place."""
    found = dict(document)
    if found.get("next"):
        found["next"] = located(str(found["next"]), place)
    if isinstance(found.get("explanation"), Mapping):
        found["explanation"] = placed(found["explanation"], place)
    return found


def located(advice: str, place: Place) -> str:
    """The same advice, every command of it with --db and --repo (git: -C) where they are needed."""
    return "".join(_located(piece.text, place) if piece.is_command else piece.text for piece in pieces(advice))


def markdown(advice: str) -> str:
    """Commands as code, words as words."""
    return "".join(foreign.code(p.text) if p.is_command else foreign.markdown(p.text) for p in pieces(advice))


def lines(advice: str) -> tuple[str, ...]:
    """For a terminal: what follows a command stands on the next line, so that the command can be taken as it is."""
    broken = "".join(f"{piece.text}\n" if piece.is_command else piece.text for piece in pieces(advice))
    return tuple(line.strip(_GLUE) for line in broken.splitlines() if line.strip(_GLUE))


def _located(command: str, place: Place) -> str:
    if command.startswith("git "):
        is_needed = bool(place.repo) and not command.startswith("git -C ")
        return f"git -C {shlex.quote(place.repo)} {command[4:]}" if is_needed else command
    name = command.split()[1]
    if command.endswith("--help"):
        return command
    db = ["--db", place.db] if place.db and name not in WITHOUT_DB and " --db " not in command else []
    repo = ["--repo", place.repo] if place.repo and name in WITH_REPO and " --repo " not in command else []
    # Options stand in front of a command of the user's own, which comes after `--`.
    ours, dashes, own = command.partition(" -- ")
    return f"{' '.join([ours, *map(shlex.quote, (*db, *repo))])}{dashes}{own}"
