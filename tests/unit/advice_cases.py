"""Whether what perfguard advises can be run as it stands: parsed by the program itself, and not run."""

import re
import shlex

import typer

from perfguard.cli import app
from perfguard.report.next_step import Place, located, pieces

COMMANDS = typer.main.get_command(app).commands
PLACEHOLDER = re.compile(r"\b(ID|BASE|HEAD|GOOD|BAD|VALUE|REV|FILE|DIR)\b(?!~)")


def understood(advice: str) -> list[str]:
    """The commands in it, each understood by the program with a database and a repository named, none with a
    placeholder; `HEAD` alone is a revision of git, and allowed."""
    found = [piece.text for piece in pieces(advice) if piece.is_command]
    for piece in pieces(located(advice, Place(db="r.db", repo="/r"))):
        words = shlex.split(piece.text) if piece.is_command else ["", ""]
        if words[0] == "perfguard":
            COMMANDS[words[1]].make_context(words[1], words[2:], resilient_parsing=False)
        assert not [w for w in words if PLACEHOLDER.search(w) and w != "HEAD"], piece.text
    return found
