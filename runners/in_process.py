"""Runner tp_moe with several instances in one launch: built in the order of the spec's slots, replayed in turn.

A turn is one batch of prompts in one mode on one instance; in every round each slot has one turn, in an order drawn
for that round. Where slots have a mode each, those of one root share an instance and a round holds turns of all modes.
Timing and values are those of a launch of its own (tp_moe_decode, eagle3_decode). Must not know which slot belongs to
which side, and must not import torch.
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
    """One instance with its own copy of its subject's code, or the use of another slot's in a mode of its own.

    By mode: log, ids by prompt, what they come to, time stamps. `told`: where its modes part, if it speculates.
    """

    table: tables.Table
    session: Session
    api_version: int
    modes: tuple[str, ...]
    logs: dict[str, Any] = field(default_factory=dict)
    tokens: dict[str, list[list[int]]] = field(default_factory=dict)
    runs: dict[str, ModeRun] = field(default_factory=dict)
    marks: dict[str, dict[str, Any]] = field(default_factory=dict)
    told: dict[str, Any] = field(default_factory=dict)
    measured_s: float = 0.0


def run(launch: Launch) -> Measurement:
    """Raises ValueError, OriginError, UnbuildableError, InvalidError, and TogetherError if these subjects need a
    process each.
    """
    params = parse_params(TpMoeParams, launch.spec.params)
    tp_moe.check(launch, params)
    prompts = tp_moe.read_prompts(params)
    spec, is_shared = tp_moe.session_spec(launch, params, prompts), bool(launch.spec.slot_modes)
    slots = build_slots(launch.spec.slots, spec, own_modes(launch), is_shared=is_shared)
    check_alike(slots)
    for slot in slots:
        warm_up(slot, prompts, params)
    load_s = announce_ready(launch)
    begin = clock()
    with quiet():
        replay(launch, slots, prompts, params)
    measured_s = clock() - begin
    for slot in slots:
        look_back(slot, prompts, params)
    peak_memory_bytes = max(slot.session.peak_memory_bytes() for slot in slots)
    for slot in slots:
        explain(slot, slots, prompts, params)
    about = {
        "load_s": load_s,
        "measured_s": measured_s,
        "peak_memory_bytes": peak_memory_bytes,
        "versions": tp_moe.versions(slots[0].session, params, launch),
    }
    close(slots)  # before anything about a slot is refused
    return Measurement(slots=[observe_slot(slot, params, is_first=launch.is_first) for slot in slots], **about)


def own_modes(launch: Launch) -> list[tuple[str, ...]]:
    """By slot: all modes of the launch, or the one of its own. Raises ValueError."""
    spec = launch.spec
    if not spec.slot_modes:
        return [spec.modes] * len(spec.slots)
    if len(spec.slot_modes) != len(spec.slots) or not set(spec.slot_modes) <= set(spec.modes):
        raise ValueError(f"slot_modes are {list(spec.slot_modes)}, not one of {list(spec.modes)} for each slot")
    return [(mode,) for mode in spec.slot_modes]


def build_slots(
    roots: Sequence[str], spec: Mapping[str, Any], modes: Sequence[tuple[str, ...]], *, is_shared: bool
) -> list[Slot]:
    """Import and build one after the other; what fails beside others and not alone is a TogetherError.

    `is_shared`: slots of one root use one instance, each in its own modes.
    """
    path = tables.without_roots(roots)
    slots: list[Slot] = []
    for root, own in zip(roots, modes, strict=True):
        twin = next((slot for slot in slots if is_shared and slot.table.root == Path(root)), None)
        slots.append(new_slot(root, own, path, spec, len(slots)) if twin is None else sharing(twin, own))
    return slots


def sharing(twin: Slot, modes: tuple[str, ...]) -> Slot:
    """Another slot on the instance of `twin`, with logs of its own."""
    return Slot(table=twin.table, session=twin.session, api_version=twin.api_version, modes=modes)


def new_slot(root: str, modes: tuple[str, ...], path: list[str], spec: Mapping[str, Any], place: int) -> Slot:
    table = tables.new_table(Path(root), path)
    try:
        with table.active():
            entry = import_entry(table.root)
            session = open_session(entry, spec)
    except Exception as error:
        if not place or isinstance(error, origin.OriginError):
            raise
        what = f"{type(error).__name__}: {error}"
        raise TogetherError(f"instance {place} ({root}) cannot be built beside others: {what}") from error
    if name := table.shared_registry():
        raise TogetherError(f"{name} of {root} registers operators of torch: one side would run the other's")
    return Slot(table=table, session=session, api_version=entry.API_VERSION, modes=modes)


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


def warm_up(slot: Slot, prompts: Sequence[list[int]], params: TpMoeParams) -> None:
    some, tokens = prompts[: params.batch], min(tp_moe.WARMUP_TOKENS, params.tokens)
    with slot.table.active():
        for mode in slot.modes:
            MODES[mode].measure(slot.session, some, tokens, batch=params.batch)


def replay(launch: Launch, slots: Sequence[Slot], prompts: Sequence[list[int]], params: TpMoeParams) -> None:
    """Mode after mode over all slots; where each slot has its own mode, all of them at once."""
    names = ("",) if launch.spec.slot_modes else launch.spec.modes
    for name in names:
        modes = launch.spec.slot_modes or (name,) * len(slots)
        for slot, mode in zip(slots, modes, strict=True):
            slot.logs[mode], slot.tokens[mode] = MODES[mode].new_log(len(prompts) * params.tokens), []
        for number, some in enumerate(batches(prompts, params.batch)):
            for place in round_order(launch, name, number):
                take_turn(slots[place], modes[place], some, params)


def round_order(launch: Launch, mode: str, number: int) -> list[int]:
    """The same on every rank, since ranks of one instance have to run together."""
    places = list(range(len(launch.spec.slots)))
    random.Random(f"{launch.spec.seed}/{launch.spec.place}/{mode}/{number}").shuffle(places)
    return places


def take_turn(slot: Slot, mode: str, prompts: Sequence[list[int]], params: TpMoeParams) -> None:
    with slot.table.active():
        begin = clock()
        log = slot.logs[mode]
        generated = MODES[mode].generate(slot.session, prompts, params.tokens, log, params.planted_slowdown)
        slot.measured_s += clock() - begin
    slot.tokens[mode] += [ids[: params.tokens] for ids in generated]


def look_back(slot: Slot, prompts: Sequence[list[int]], params: TpMoeParams) -> None:
    """Sums up what was measured, and makes the pass with time stamps. All ranks together."""
    slot.runs = {mode: MODES[mode].summarise(log, slot.tokens[mode]) for mode, log in slot.logs.items()}
    with slot.table.active():
        slot.marks = {
            mode: tp_moe.mark(slot.session, mode, ended, prompts, params, ()) for mode, ended in slot.runs.items()
        }


def explain(slot: Slot, slots: Sequence[Slot], prompts: Sequence[list[int]], params: TpMoeParams) -> None:
    """A slot that speculates, against plain decoding of the same instance: its own, or that of another slot."""
    plain = [one.runs["plain"] for one in (slot, *slots) if one.session is slot.session and "plain" in one.runs]
    if "eagle3" in slot.runs and plain:
        both = {"plain": plain[0], "eagle3": slot.runs["eagle3"]}
        with slot.table.active():
            slot.told = tp_moe.explain(slot.session, both, prompts, params)


def observe_slot(slot: Slot, params: TpMoeParams, *, is_first: bool) -> dict[str, Any]:
    """What protocol.SLOT_FIELDS names; numbers on rank 0 only. Raises InvalidError, on all ranks alike."""
    tp_moe.check_acceptance(slot.runs, params)
    with slot.table.active():
        origin.check(slot.table.root)  # again: what was imported late counts as well
        files = origin.collect(slot.table.root, observe.own_maps())
    return {
        "origin": files,
        "measured_s": slot.measured_s,
        "digests": {mode: tp_moe.token_digest(run.tokens) for mode, run in slot.runs.items()},
        **(tp_moe.numbers(slot.runs, slot.marks, params, slot.told) if is_first else {}),
    }


def close(slots: Sequence[Slot]) -> None:
    """The last built first: the first one owns the process group that all share."""
    for session, table in reversed({id(slot.session): (slot.session, slot.table) for slot in slots}.values()):
        with table.active():
            session.close()
