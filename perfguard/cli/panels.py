"""What `--help` shows together: commands and options by what somebody wants to do, in plain text.

typer groups by `rich_help_panel` only where rich draws the page, which takes twice as long as all the rest of
`--help`; so the panels are printed here, from two tables. Must not import anything heavy.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

COMMANDS: Mapping[str, Sequence[str]] = {
    "Start": ("demo", "workloads"),
    "Compare and measure": ("compare", "extend", "recheck", "run", "speculate", "sweep", "judge"),
    "Find the cause": ("bisect", "explain", "timeline", "checkout"),
    "Look at results": ("runs", "show", "report", "browse", "replay"),
    "Know the machine": ("doctor", "calibrate", "clocks"),
    "History and CI": ("nightly", "pin", "ack", "history", "check", "ci"),
    "Keep results": ("import", "export", "merge", "prune", "builds"),
}
OPTIONS: Mapping[str, Sequence[str]] = {
    "What is measured": (
        *("--workload", "--metric", "--better", "--unit", "--read", "--setup", "--bench-from", "--repo", "--carry"),
        *("--modes", "--set", "--env", "--revision", "--against", "--rev", "--paths", "--one-at-a-time"),
    ),
    "One side only": ("--base-set", "--head-set", "--base-env", "--head-env", "--base-python", "--head-python"),
    "When it is decided": (
        *("--margin", "--alpha", "--max-blocks", "--max-trials", "--max-rounds", "--trials", "--launches"),
        *("--slow-rate", "--no-confirm", "--scope", "--seed", "--was"),
        *("--look-for", "--all-parents", "--find-good", "--back", "--experiment"),
    ),
    "Time and machine": (*("--budget", "--timeout", "--ready-timeout", "--no-build-cache", "--clocks", "--sm-clock"),),
    "Engines": ("--url", "--concurrency", "--pin-args", "--thin", "--trace", "--age", "--no-full-size"),
    "Results": (
        *("--db", "--json", "--format", "--markdown", "--plan-only", "--resume", "--on-suspect", "--quiet", "--help"),
    ),
}
# Fewer options than this are taken in at a glance.
FEW = 12
_WIDEST = 26
_LONG = 100


class PanelledCommand(TyperCommand):
    """A command that shows many options by panel, and its example in one line, which can be copied."""

    def format_help_text(self, ctx: Any, formatter: Any) -> None:
        with formatter.indentation():
            formatter.write_paragraph()
            # click breaks no line of a paragraph that begins with \b.
            formatter.write_text((self.help or "").strip().replace("\n\nExample:", "\n\n\b\nExample:"))

    def format_options(self, ctx: Any, formatter: Any) -> None:
        records = [(param, param.get_help_record(ctx)) for param in self.get_params(ctx)]
        arguments = [told for param, told in records if told and param.param_type_name == "argument"]
        options = {name_of(param): told for param, told in records if told and param.param_type_name == "option"}
        sections = {"Arguments": arguments}
        sections |= panelled(options, OPTIONS) if len(options) > FEW else {"Options": list(options.values())}
        _write(sections, formatter)


class PanelledGroup(TyperGroup):
    """The program itself: its commands by panel, each with the first sentence of its help."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        told = {name: (name, first_sentence(command.help or "")) for name, command in self.commands.items()}
        _write(panelled(told, COMMANDS), formatter)


def panelled(rows: Mapping[str, Any], panels: Mapping[str, Sequence[str]]) -> dict[str, list[Any]]:
    """Rows by panel, both in the order of the table; what the table does not know comes last."""
    found = {panel: [rows[name] for name in names if name in rows] for panel, names in panels.items()}
    known = {name for names in panels.values() for name in names}
    return found | {"More": [row for name, row in rows.items() if name not in known]}


def name_of(option: Any) -> str:
    """`--workload` of -w and --workload, in whatever order they are given."""
    return str(max(option.opts, key=len))


def first_sentence(text: str) -> str:
    """The first sentence of a help; of a long one what stands before its colon or semicolon."""
    paragraph = " ".join(text.split("\n\n")[0].split())
    sentence = re.split(r"(?<=[.?]) ", paragraph)[0].rstrip(".")
    return sentence if len(sentence) <= _LONG else re.split("[:;] ", sentence)[0]


def arrange(app: typer.Typer) -> None:
    """Every command that is registered shows its options by panel."""
    for command in app.registered_commands:
        command.cls = PanelledCommand


def _write(sections: Mapping[str, Sequence[tuple[str, str]]], formatter: Any) -> None:
    """The second column begins at the same place in all of them."""
    wide = [len(name) for rows in sections.values() for name, _ in rows if len(name) <= _WIDEST]
    for heading, rows in sections.items():
        if rows:
            with formatter.section(heading):
                formatter.write_dl([(name.ljust(max(wide, default=0)), text) for name, text in rows], _WIDEST)
