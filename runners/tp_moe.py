"""Runner tp_moe: drives the subject's model.entry through the modes of the workload, all in one launch.

Must not know how a mode is timed (tp_moe_decode, eagle3_decode) and must not import torch.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from runners import acceptance, eagle3_decode, first_difference, marked, observe, origin, tp_moe_decode, weights
from runners.contract import (
    Launch,
    Measurement,
    ModeRun,
    ParamsError,
    Session,
    announce_ready,
    import_entry,
    parse_params,
)
from runners.opening import has_marks, open_session
from runners.timing import clock, quiet

MODES = {"plain": tp_moe_decode.measure, "eagle3": eagle3_decode.measure}
# Enough to compile, allocate and touch what the loop uses; the rest of the warm-up is found in the data.
WARMUP_TOKENS = 8
# Below this precision ties and rounding may let the two modes part without any fault.
EXACT_DTYPES = ("float32", "float64")


@dataclass(frozen=True, kw_only=True)
class TpMoeParams:
    """Parameters of the workload. `tp` 0: as many ranks as were started. `target`, `draft`: file, folder with a
    checkpoint or preset:NAME, empty for the tiny pair of models, of which `layers` (0: all) are loaded.

    `accept_length` or `accept_rates` (0.8,0.5): so many drafted tokens are accepted, whatever the logits say; without
    them the models decide, greedily at `temperature` 0. `weights_seed`: of a preset; `sampling_seed`: of all coins.
    `batch` prompts are decoded together. `kernels`, `graphs`, `all_reduce`: see model.spec.Spec of the subject.
    Two are controls, which a comparison must find: `planted_slowdown` 1.05 makes every timed step 5 % slower,
    `pathology` names known faults of the subject's own, with commas between them.
    """

    tp: int = 0
    prompts: int = 4
    tokens: int = 64
    num_draft_tokens: int = 3
    dtype: str = "float32"
    device: str = "cpu"
    num_threads: int = 1
    planted_slowdown: float = 1.0
    batch: int = 1
    kernels: str = "auto"
    graphs: str = "auto"
    all_reduce: str = "nccl"
    pathology: str = ""
    target: str = ""
    draft: str = ""
    prompt_file: str = ""
    layers: int = 0
    weights_seed: int = 0
    accept_length: float = 0.0
    accept_rates: str = ""
    temperature: float = 0.0
    sampling_seed: int = 0

    @property
    def rates(self) -> list[float]:
        return acceptance.wanted_rates(self.accept_length, self.accept_rates, self.num_draft_tokens)

    @property
    def is_greedy(self) -> bool:
        """Then both modes say the same, but for ties."""
        return not self.rates and self.temperature == 0

    @property
    def prompts_path(self) -> Path:
        return Path(self.prompt_file or weights.ASSETS / "prompts.json")

    def sources(self, modes: Sequence[str]) -> dict[str, str]:
        """Where target and draft come from; a launch without eagle3 loads no draft."""
        seed, needs_draft = self.weights_seed, "eagle3" in modes
        draft = weights.draft_text(self.draft, self.target, seed) if needs_draft else ""
        return {"target": weights.target_text(self.target, self.layers, seed), "draft": draft}


def run(launch: Launch) -> Measurement:
    """Measure every mode of the spec, in its order. Raises ValueError, OriginError, UnbuildableError."""
    params = parse_params(TpMoeParams, launch.spec.params)
    check(launch, params)
    prompts = read_prompts(params)
    session = open_session(import_entry(launch.subject_root), session_spec(launch, params, prompts))
    for mode in launch.spec.modes:
        MODES[mode](session, prompts[: params.batch], min(WARMUP_TOKENS, params.tokens), batch=params.batch)
    probes = [session.probe()]
    load_s = announce_ready(launch)
    begin = clock()
    with quiet():
        runs = measure_modes(session, launch.spec.modes, prompts, params)
    measured_s = clock() - begin
    probes.append(session.probe())
    marks = {mode: mark(session, mode, run, prompts, params, probes) for mode, run in runs.items()}
    peak_memory_bytes = session.peak_memory_bytes()
    told = explain(session, runs, prompts, params)  # last of all: none of it is in what was measured
    observed = {
        "origin": origin.collect(launch.subject_root, observe.own_maps()),
        "versions": versions(session, params, launch),
        "peak_memory_bytes": peak_memory_bytes,
        "load_s": load_s,
        "measured_s": measured_s,
        "digests": {mode: token_digest(run.tokens) for mode, run in runs.items()},
    }
    session.close()
    check_acceptance(runs, params)
    origin.check(launch.subject_root)  # again: what was imported late counts as well
    return Measurement(**observed, **(numbers(runs, marks, params, told) if launch.is_first else {}))


def check(launch: Launch, params: TpMoeParams) -> None:
    unknown = [mode for mode in launch.spec.modes if mode not in MODES]
    if unknown or not launch.spec.modes:
        raise ValueError(f"modes are {list(launch.spec.modes)}, this runner has {', '.join(MODES)}")
    if params.tokens < 2:
        raise ParamsError(f"params: tokens is {params.tokens}; at least 2, as prefill gives the first")
    if params.batch < 1 or params.prompts % params.batch:
        raise ParamsError(f"params: {params.prompts} prompts do not make whole batches of {params.batch}")
    if params.tp not in (0, launch.world_size):
        raise ParamsError(f"params: tp is {params.tp}, but {launch.world_size} ranks were started")
    if not 1.0 <= params.planted_slowdown < float("inf"):
        raise ParamsError(f"params: planted_slowdown is {params.planted_slowdown}; a factor of at least 1")


def read_prompts(params: TpMoeParams) -> list[list[int]]:
    path = params.prompts_path
    prompts: list[list[int]] = json.loads(path.read_text(encoding="utf-8"))["prompts"]
    if not 1 <= params.prompts <= len(prompts):
        raise ParamsError(f"params: prompts is {params.prompts}; {path} holds {len(prompts)}")
    return prompts[: params.prompts]


def session_spec(launch: Launch, params: TpMoeParams, prompts: Sequence[Sequence[int]]) -> dict[str, Any]:
    """What model.entry.build gets."""
    longest = max(map(len, prompts))
    sources = params.sources(launch.spec.modes)
    return {
        "target": sources["target"],
        "draft": sources["draft"] or None,
        "dtype": params.dtype,
        "device": params.device,
        # The last cycle may begin one token short and still write the bonus and all drafted ones.
        "max_len": longest + params.tokens + params.num_draft_tokens + 1,
        "num_draft_tokens": params.num_draft_tokens,
        "num_threads": params.num_threads,
        "seed": launch.spec.seed,
        "batch": params.batch,
        "kernels": params.kernels,
        "graphs": params.graphs,
        "all_reduce": params.all_reduce,
        "pathologies": [name for name in params.pathology.split(",") if name],
        "temperature": params.temperature,
        # Plain decoding drafts nothing, and has nothing to accept.
        "accept_rates": params.rates if "eagle3" in launch.spec.modes else [],
        "sampling_seed": params.sampling_seed,
    }


def measure_modes(
    session: Session, modes: Sequence[str], prompts: Sequence[list[int]], params: TpMoeParams
) -> dict[str, ModeRun]:
    def measure(mode: str) -> ModeRun:
        return MODES[mode](session, prompts, params.tokens, params.planted_slowdown, batch=params.batch)

    return {mode: measure(mode) for mode in modes}


def mark(
    session: Session,
    mode: str,
    run: ModeRun,
    prompts: Sequence[list[int]],
    params: TpMoeParams,
    probes: Sequence[Mapping[str, Any]],
) -> dict[str, Any]:
    """The pass with time stamps, on the first batch; {} where the subject takes none. All ranks make it together."""
    if not has_marks(session):
        return {}
    some = prompts[: params.batch]
    found = marked.summarise(
        marked.measure(session, mode, some, params.tokens),
        run.values["plain_token_s" if mode == "plain" else "eagle3_cycle_s"],
    )
    rows = params.batch * (1 if mode == "plain" else params.num_draft_tokens + 1)
    context = sum(map(len, some)) + params.batch * min(params.tokens, marked.TOKENS) // 2
    speed = max((probe.get("copy_bytes_per_s", 0.0) for probe in probes), default=0.0)
    roofline = marked.roofline(session, found, rows=rows, context=context, copy_bytes_per_s=speed)
    return {**found, "roofline": roofline, "probes": list(probes)}


def explain(
    session: Session, runs: Mapping[str, ModeRun], prompts: Sequence[list[int]], params: TpMoeParams
) -> dict[str, Any]:
    """Whether rounding explains where the modes part; {} unless both ran, greedily. All ranks together."""
    if not runs.keys() >= {"plain", "eagle3"} or not params.is_greedy:
        return {}
    return first_difference.explain(session, prompts, runs["plain"].tokens, runs["eagle3"].tokens, params.dtype)


def check_acceptance(runs: Mapping[str, ModeRun], params: TpMoeParams) -> None:
    """Raises InvalidError, on all ranks alike."""
    if "eagle3" in runs:
        acceptance.check(params.rates, runs["eagle3"].counts)


def numbers(
    runs: Mapping[str, ModeRun],
    marks: Mapping[str, Mapping[str, Any]],
    params: TpMoeParams,
    told: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """What rank 0 alone reports. `told`: more counts of mode eagle3."""
    more = {"eagle3": told or {}}
    counts = {mode: {**run.counts, "marks": marks[mode], **more.get(mode, {})} for mode, run in runs.items()}
    if runs.keys() >= {"plain", "eagle3"} and params.dtype in EXACT_DTYPES and params.is_greedy:
        counts["eagle3"]["equals_plain"] = runs["eagle3"].tokens == runs["plain"].tokens
    return {
        "values": {
            name: value
            for mode, run in runs.items()
            for name, value in {**phases(mode, marks[mode]), **run.values}.items()
        },
        "samples": {name: series for run in runs.values() for name, series in run.samples.items()},
        "warmup": {mode: run.warmup for mode, run in runs.items()},
        "counts": counts,
    }


def phases(mode: str, found: Mapping[str, Any]) -> dict[str, float]:
    """Phases of a cycle by the device's stamps, for subjects whose phases the runner's clock cannot tell apart."""
    if mode != "eagle3" or not {"draft_extend_s", "draft_steps_s", "verify_s", "accept_s"} <= found.keys():
        return {}
    return {
        "eagle3_draft_s": found["draft_extend_s"] + found["draft_steps_s"],
        "eagle3_verify_s": found["verify_s"],
        "eagle3_accept_s": found["accept_s"],
    }


def versions(session: Session, params: TpMoeParams, launch: Launch) -> dict[str, Any]:
    """torch and model as the session describes them; files of the workload by digest, hashed on rank 0 only."""
    described = json.loads(json.dumps(session.describe(), default=str))
    files = {**params.sources(launch.spec.modes), "prompts": str(params.prompts_path)}
    digests = weights.digests(files) if launch.is_first else {}
    torch = described.get("versions", {}).get("torch")
    return {"torch": torch, "session": described, "files_sha256": digests}


def token_digest(generated: Sequence[Sequence[int]]) -> str:
    """sha256 of the ids as decimals: commas between them, a line feed after each prompt."""
    text = "".join(",".join(map(str, ids)) + "\n" for ids in generated)
    return hashlib.sha256(text.encode("ascii")).hexdigest()
