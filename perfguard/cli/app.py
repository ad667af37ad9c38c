"""The typer application that every command registers on, and what `perfguard` alone prints."""

from typing import Annotated

import typer

from perfguard.cli.panels import PanelledGroup

FIRST_STEPS = """\
perfguard tells whether a commit changed performance, and never reports a phantom as real.

  perfguard demo                                    the whole story in miniature, no GPU needed
  perfguard compare HEAD~1 HEAD -- python bench.py  both commits, interleaved, one verdict
  perfguard bisect v1.4 HEAD -- python bench.py     which commit it was, or none
  perfguard doctor                                  is this machine fit to measure, and what to do about it
  perfguard workloads                               what can be measured without a command of your own
  perfguard calibrate -w moe-eagle3                 how noisy this machine is, and which margin fits it
  perfguard recheck v1.4 --was 89 -w moe-eagle3     does this commit still give that number?
  perfguard explain A B, timeline --since WHEN      why two numbers differ, what changed meanwhile
  perfguard runs, show, report                      what is stored

perfguard COMMAND --help shows an example of each command.
"""

app = typer.Typer(
    name="perfguard",
    cls=PanelledGroup,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)


def _version(wanted: bool) -> None:
    if wanted:
        from perfguard import __version__

        typer.echo(f"perfguard {__version__}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def first_steps(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Show it.")] = False,
) -> None:
    """Performance-regression harness for LLM inference. A phantom is never reported as real."""
    if context.invoked_subcommand is None:
        typer.echo(FIRST_STEPS, nl=False)
