"""How a measuring command ends: prices or a verdict shown, hooks told, the exit code."""

from typing import TYPE_CHECKING, Any

import typer

from perfguard.cli import options as o

if TYPE_CHECKING:
    from collections.abc import Callable

    from perfguard.hooks import Hooks
    from perfguard.store import Store


def print_prices(seed: int, lines: tuple[str, ...], json_file: str) -> None:
    if json_file:
        plan = {"schema": "perfguard/plan@1", "seed": seed, "prices": list(lines)}
        o.write_json(plan, json_file)
    if json_file != "-":
        for line in lines:
            typer.echo(line)


def finish(comparison: dict[str, Any], store: "Store", json_file: str, hooks: "Hooks") -> None:
    if json_file:
        with o.verdict_output():
            o.write_measured(comparison, json_file)
    conclude(comparison, store, hooks, is_shown=json_file != "-")
    raise typer.Exit(comparison["exit_code"])


def finish_both(
    of_slice: dict[str, Any],
    measure_block: "Callable[[], dict[str, Any] | None]",
    store: "Store",
    json_file: str,
    hooks: "Hooks",
) -> None:
    """A slice's verdict at once, then the block at full size, then one document and the exit code of both. Where the
    block is interrupted or fails, the document has the slice alone.
    """
    from perfguard.full_size import document

    conclude(of_slice, store, hooks, is_shown=json_file != "-")
    of_block: dict[str, Any] | None = None
    try:
        of_block = measure_block()
    finally:
        whole = document(of_slice, of_block)
        if json_file:
            with o.verdict_output():
                o.write_measured(whole, json_file)
    if of_block is not None:
        conclude(of_block, store, hooks, is_shown=json_file != "-")
    raise typer.Exit(whole["exit_code"])


def conclude(comparison: dict[str, Any], store: "Store", hooks: "Hooks", *, is_shown: bool) -> None:
    """A verdict shown and hooks told, where more may follow."""
    from perfguard.hooks import tell_of_machine_change, tell_of_outcome
    from perfguard.report.next_step import placed
    from perfguard.report.terminal import open_console, render_comparison

    with o.verdict_output():
        if is_shown:
            trials = store.trials(comparison["id"], with_record=False)
            place = o.place_of(store.path, store.campaign(comparison["id"]).repository)
            render_comparison(placed(comparison, place), trials, open_console())
    with o.verdict_output():
        told = (tell_of_outcome(hooks, comparison), tell_of_machine_change(hooks, comparison.get("machine_moved", ())))
        for problem in filter(None, told):
            typer.echo(problem, err=True)
