"""`perfguard prune`: make room in results.db without taking from any verdict what it rests on."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from perfguard.cli import options as o
from perfguard.cli.app import app
from perfguard.errors import UsageError


@app.command()
def prune(
    keep: Annotated[str, typer.Option("--keep", help="Leave whole what is younger than this, such as 90d.")] = "",
    keep_last: Annotated[int | None, typer.Option("--keep-last", help="Leave the newest N whole.", min=0)] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would go.")] = False,
    db: o.Db = "",
    json_file: o.Json = "",
) -> None:
    """Make room: samples, telemetry and logs of old comparisons go, then old comparisons that never said anything.

    No verdict, bisect, night, pin or ack loses what it rests on: each verdict is derived again before anything goes.

    Example: perfguard prune --keep 90d --dry-run
    """
    from perfguard import pruning
    from perfguard.config import parse_duration_s
    from perfguard.store import open_store

    o.check_json(json_file)
    if bool(keep) == (keep_last is not None):
        raise UsageError("prune needs one of --keep and --keep-last", "perfguard prune --keep 90d --dry-run")
    kept = pruning.Keep(age_s=parse_duration_s(keep, "--keep") if keep else None, num_last=keep_last)
    path = o.existing_database(db)
    with open_store(path, read_only=dry_run) as store:
        result = (pruning.plan if dry_run else pruning.prune)(store, kept, datetime.now(UTC))
    if json_file:
        o.write_json(result, json_file)
    if json_file != "-":
        typer.echo("\n".join(_lines(result, path)))


def _lines(result: dict[str, Any], path: Path) -> list[str]:
    would = "would go" if result["is_dry_run"] else "gone"
    lines = [
        f"{path}: {result['num_old']} campaigns are old enough",
        f"{would}: samples, telemetry and ends of logs of {len(result['thinned'])} campaigns, "
        f"{result['thinned_bytes'] / 1e6:.1f} MB{' and telemetry' if result['is_dry_run'] else ''}",
        f"{would}: {len(result['removed'])} comparisons without a conclusion, {result['removed_trials']} trials",
    ]
    if result["left_whole"]:
        lines.append(f"left as they are, their verdicts need what is left: {', '.join(result['left_whole'])}")
    if not result["is_dry_run"]:
        lines.append(f"freed: {result['freed_bytes'] / 1e6:.1f} MB")
    if result["problem"]:
        lines.append(f"the file could not be made smaller: {result['problem']}")
        lines.append(" next: perfguard prune again, when nothing else is in it")
    return lines
