"""Runner tp_moe with several instances in one launch: built in the order of the spec's slots, replayed in turn.

A turn is one batch of prompts in one mode on one instance; in every round each instance has one turn, in an order drawn
for that round. Timing and values are those of a launch of its own (tp_moe_decode, eagle3_decode). Must not know which slot
belongs to which side, and must not import torch.
"""

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from runners import eagle3_decode, observe, origin, tables, tp_moe, tp_moe_decode
from runners.contract import (
    Launch,
    Measurement,
    ModeRun,
    Session,
    TogetherError,
    announce_ready,
    import_entry,
    parse_params,
)
from runners.opening import innermost, open_session
from runners.timing import batches, clock, quiet
from runners.tp_moe import TpMoeParams

MODES = {"plain": tp_moe_decode, "eagle3": eagle3_decode}
# What sessions say of the model they run. Where both say it, it has to be the same.
DESCRIBED = ("api_version", "target", "draft", "tap_layers", "world_size")


@dataclass(kw_only=True)
class Slot:
    """One instance with its own copy of its subject's code. By mode: log, ids by prompt, time stamps."""

    table: tables.Table
    session: Session
    api_version: int
    logs: dict[str, Any] = field(default_factory=dict)
    tokens: dict[str, list[list[int]]] = field(default_factory=dict)
    marks: dict[str, dict[str, Any]] = field(default_factory=dict)
    measured_s: float = 0.0


def run(launch: Launch) -> Measurement:
    """Raises ValueError, OriginError, UnbuildableError, and TogetherError if these subjects need a process each."""
    params = parse_params(TpMoeParams, launch.spec.params)
    tp_moe.check(launch, params)
    prompts = tp_moe.read_prompts(params)
    slots = build_slots(launch.spec.slots, tp_moe.session_spec(launch, params, prompts))
    check_alike(slots)
    for slot in slots:
        warm_up(slot, launch.spec.modes, prompts, params)
    load_s = announce_ready(launch)
    begin = clock()
    with quiet():
        replay(launch, slots, prompts, params)
    measured_s = clock() - begin
    about = {
        "load_s": load_s,
        "measured_s": measured_s,
        "peak_memory_bytes": max(slot.session.peak_memory_bytes() for slot in slots),
        "versions": tp_moe.versions(slots[0].session, params, launch),
    }
    observed = [observe_slot(slot, params, is_first=launch.is_first) for slot in slots]
    close(slots)
    return Measurement(slots=observed, **about)


def build_slots(roots: Sequence[str], spec: Mapping[str, Any]) -> list[Slot]:
    """Import and build one after the other; what fails beside others and not alone is a TogetherError."""
    path = tables.without_roots(roots)
    slots: list[Slot] = []
    for root in roots:
        table = tables.new_table(Path(root), path)
        try:
            with table.active():
                entry = import_entry(table.root)
                session = open_session(entry, spec)
        except Exception as error:
            if not slots or isinstance(error, origin.OriginError):
                raise
            what = f"{type(error).__name__}: {error}"
            raise TogetherError(f"instance {len(slots)} ({root}) cannot be built beside others: {what}") from error
        if name := table.shared_registry():
            raise TogetherError(f"{name} of {root} registers operators of torch: one side would run the other's")
        slots.append(Slot(table=table, session=session, api_version=entry.API_VERSION))
    return slots


def check_alike(slots: Sequence[Slot]) -> None:
    """Raises TogetherError unless all instances speak one contract and run models of one layout."""
    first, *others = [{"API_VERSION": slot.api_version, **described(slot), **layout(slot.session)} for slot in slots]
    for other, slot in zip(others, slots[1:], strict=True):
        differing = [key for key in first | other if first.get(key) != other.get(key)]
        if differing:
            key = differing[0]
            more = f" (and {len(differing) - 1} more)" if len(differing) > 1 else ""
            what = f"{key}{more} is {first.get(key)} in {slots[0].table.root} and {other.get(key)} in {slot.table.root}"
            raise TogetherError(f"the two sides differ: {what}")


def described(slot: Slot) -> dict[str, Any]:
    with slot.table.active():
        said = slot.session.describe()
    return {key: said.get(key) for key in DESCRIBED}


def layout(session: Session) -> dict[str, Any]:
    """Names and shapes of the parameters of whatever modules the session holds; nothing where it holds none."""
    return {
        f"parameter {name}.{parameter}": tuple(tensor.shape)
        for name, held in modules_of(innermost(session), "session", depth=2)
        for parameter, tensor in held.named_parameters()
    }


def modules_of(owner: Any, name: str, *, depth: int) -> Iterator[tuple[str, Any]]:
    """(place, module) of what `owner` holds, and of what that holds where it is no module itself."""
    if hasattr(owner, "named_parameters"):
        yield name, owner
    elif depth:
        for inner, held in getattr(owner, "__dict__", {}).items():
            yield from modules_of(held, f"{name}.{inner}", depth=depth - 1)


def warm_up(slot: Slot, modes: Sequence[str], prompts: Sequence[list[int]], params: TpMoeParams) -> None:
    some, tokens = prompts[: params.batch], min(tp_moe.WARMUP_TOKENS, params.tokens)
    with slot.table.active():
        for mode in modes:
            MODES[mode].measure(slot.session, some, tokens, batch=params.batch)


def replay(launch: Launch, slots: Sequence[Slot], prompts: Sequence[list[int]], params: TpMoeParams) -> None:
    for mode in launch.spec.modes:
        for slot in slots:
            slot.logs[mode], slot.tokens[mode] = MODES[mode].new_log(len(prompts) * params.tokens), []
        for number, some in enumerate(batches(prompts, params.batch)):
            for place in round_order(launch, mode, number):
                take_turn(slots[place], mode, some, params)
        for slot in slots:
            with slot.table.active():
                slot.marks[mode] = tp_moe.mark(slot.session, mode, ends(slot, mode), prompts, params, ())


def round_order(launch: Launch, mode: str, number: int) -> list[int]:
    """The same on every rank, since ranks of one instance have to run together."""
    places = list(range(len(launch.spec.slots)))
    random.Random(f"{launch.spec.seed}/{launch.spec.trial}/{mode}/{number}").shuffle(places)
    return places


def take_turn(slot: Slot, mode: str, prompts: Sequence[list[int]], params: TpMoeParams) -> None:
    with slot.table.active():
        begin = clock()
        log = slot.logs[mode]
        generated = MODES[mode].generate(slot.session, prompts, params.tokens, log, params.planted_slowdown)
        slot.measured_s += clock() - begin
    slot.tokens[mode] += [ids[: params.tokens] for ids in generated]


def ends(slot: Slot, mode: str) -> ModeRun:
    return MODES[mode].summarise(slot.logs[mode], slot.tokens[mode])


def observe_slot(slot: Slot, params: TpMoeParams, *, is_first: bool) -> dict[str, Any]:
    """What protocol.SLOT_FIELDS names; numbers on rank 0 only."""
    runs = {mode: ends(slot, mode) for mode in slot.logs}
    with slot.table.active():
        origin.check(slot.table.root)  # again: what was imported late counts as well
        files = origin.collect(slot.table.root, observe.own_maps())
    return {
        "origin": files,
        "measured_s": slot.measured_s,
        "digests": {mode: tp_moe.token_digest(run.tokens) for mode, run in runs.items()},
        **(tp_moe.numbers(runs, slot.marks, params) if is_first else {}),
    }


def close(slots: Sequence[Slot]) -> None:
    """The last built first: the first one owns the process group that all share."""
    for slot in reversed(slots):
        with slot.table.active():
            slot.session.close()
