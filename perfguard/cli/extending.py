"""`perfguard extend`: an undecided comparison goes on. Parses, makes one call, prints, ends with an exit code."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from perfguard.cli import options as o
from perfguard.cli.app import app
from perfguard.cli.asking import hooks_of
from perfguard.cli.ending import finish, print_prices
from perfguard.cli.measure import opened
from perfguard.config import load, parse_duration_s
from perfguard.policy import MOST_BLOCKS

if TYPE_CHECKING:
    from perfguard.extension import PlannedExtension
    from perfguard.store import Store

Blocks = Annotated[
    int | None, typer.Option("--max-blocks", help="Most further blocks in each of its stages.", min=2, max=MOST_BLOCKS)
]
PlanOnly = Annotated[bool, typer.Option("--plan-only", help="Print the price list and measure nothing.")]


@app.command()
def extend(
    id: Annotated[str, typer.Argument(help="Id of a comparison, a unique beginning of it, or latest.")],
    budget: o.Budget = "",
    max_blocks: Blocks = None,
    seed: o.Seed = None,
    db: o.Db = "",
    json_file: o.Json = "",
    on_suspect: o.OnSuspect = "",
    plan_only: PlanOnly = False,
    quiet: o.Quiet = False,
) -> None:
    """Go on with a comparison that ended INCONCLUSIVE or SUSPECT, with orders of its own and alpha kept back for it.

    Example: perfguard extend latest --budget 4h
    """
    from perfguard.extension import extend as extend_
    from perfguard.extension import plan_extension
    from perfguard.subject.repository import open_repository

    o.check_json(json_file)
    budget_s = parse_duration_s(budget, "--budget") if budget else 0.0
    database = str(o.existing_database(db))
    with opened({"db": database, "quiet": quiet}, Path.cwd()) as (store, observer):
        planned = plan_extension(id, store, max_blocks=max_blocks, budget_s=budget_s, seed=seed)
        lines = _price_lines(planned, store)
        if plan_only:
            print_prices(planned.extension.seed, lines, json_file)
            raise typer.Exit(0)
        for line in lines:
            observer.say(line)
        repository = open_repository(Path(planned.campaign.repository))
        comparison = extend_(planned, repository, store, observer)
        finish(comparison, store, json_file, hooks_of(on_suspect, load(repository.root), repository.root))


def _price_lines(planned: "PlannedExtension", store: "Store") -> tuple[str, ...]:
    from perfguard.pricing import price_lines_of

    extension, lines = planned.extension, price_lines_of(planned.campaign, store, planned.policy)
    about = (
        f"extension {extension.number} of {planned.campaign.id}: up to {extension.max_blocks} blocks and "
        f"{extension.max_confirm_blocks} to confirm; EQUIVALENT counts the blocks before it too and may come sooner"
    )
    if planned.can_report:
        return (about, *lines)
    short = "so few blocks cannot report any change at the alpha kept back for this extension: give more --max-blocks"
    return (about, short, *lines)
