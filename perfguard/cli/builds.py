"""`perfguard builds`: what the cache of builds holds, and the way to empty it."""

from pathlib import Path
from typing import Annotated, Any

import typer

from perfguard.cli import options as o
from perfguard.cli.app import app


@app.command()
def builds(
    clear: Annotated[bool, typer.Option("--clear", help="Remove all that nobody is using, and logs.")] = False,
    json_file: o.Json = "",
) -> None:
    """Builds that --setup made and that later campaigns may use again. Limits: build_cache_gb and build_cache_hours.

    Example: perfguard builds --clear
    """
    from perfguard.report.terminal import open_console, render_builds
    from perfguard.subject.kept import clear_places
    from perfguard.subject.workspace import cache_root

    o.check_json(json_file)
    root = cache_root()
    if clear:
        freed_bytes = clear_places(root)
    rows = _rows(root)
    if json_file:
        o.write_json({"schema": "perfguard/builds@1", "folder": str(root), "builds": rows}, json_file)
    if json_file != "-":
        if clear:
            typer.echo(f"removed {freed_bytes / 1e9:.3g} GB")
        render_builds(rows, str(root), open_console())


def _rows(root: Path) -> list[dict[str, Any]]:
    """Newest use first."""
    from dataclasses import asdict
    from datetime import UTC, datetime

    from perfguard.subject.kept import entries, used_s

    rows = []
    for folder, entry in reversed(entries(root)):
        used_at = datetime.fromtimestamp(used_s(folder), UTC).isoformat(timespec="seconds")
        rows.append({**asdict(entry), "used_at": used_at, "folder": str(folder)})
    return rows
