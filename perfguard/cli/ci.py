"""`perfguard ci`: files that let a CI system, a timer or a batch system measure."""

from pathlib import Path
from typing import Annotated

import typer

from perfguard.cli import options as o
from perfguard.cli.app import app
from perfguard.errors import UsageError


@app.command()
def ci(
    action: Annotated[str, typer.Argument(help="init: write the files.")],
    system: Annotated[str, typer.Argument(help="github, gitlab, systemd or slurm.")] = "",
    output: Annotated[Path | None, typer.Option(help="Folder. Default: that of the project.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite files that are there.")] = False,
) -> None:
    """Files that measure every night, and every change before it is merged: written once, then yours to change.

    Example: perfguard ci init github
    """
    from perfguard.ci_files import NEXT_STEPS, ci_files, write

    if action != "init":
        raise UsageError(f"ci {action!r} is not init", "perfguard ci init github")
    project = o.project_folder(Path.cwd())
    for path in write(ci_files(system, project), output or project, overwrite=force):
        typer.echo(f"written: {path}")
    typer.echo(f" next: {NEXT_STEPS[system]}")
