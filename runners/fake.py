"""Runner fake: numbers that are planned instead of measured, and every way to fail, without torch or a model.

For tests, demonstrations and calibration. The same seed, place in the campaign and settings give the same values;
only `state` lets launches know of each other. Must not be used to say anything about real code.
"""

import fcntl
import hashlib
import json
import math
import os
import random
import signal
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from runners import origin
from runners.contract import Launch, Measurement, ParamsError, UnbuildableError, announce_ready, parse_params
from runners.timing import find_warmup

PLAN_FILE = "fake.json"
# Enough that rounding to whole tokens moves an accept length by less than a thousandth.
PROMPT_CYCLES = 1000
BROKEN_VALUES = {
    "nan": math.nan, "infinite": math.inf, "zero": 0.0, "negative": -1.0, "text": "fast", "null": None,
}  # fmt: skip
FAULTS = {
    "crash": ("", "before", "measured"),
    "crash_how": ("raise", "exit", "kill"),
    "hang": ("", "before", "measured"),
    "broken_as": ("", "missing", *BROKEN_VALUES),
}


@dataclass(frozen=True, kw_only=True)
class FakeParams:
    """The plan of a launch: workload parameters, overridden by fake.json in the subject's root.

    Factors multiply the time a token takes: 1.05 is 5 % slower. `noise` and `iteration_noise` are standard
    deviations of the logarithm, between launches and within one; `drift` is added to the logarithm per launch.
    """

    tp: int = 1
    speed: float = 100.0  # token/s of plain decoding
    eagle3_speed: float = 120.0
    accept_length: float = 2.0
    accept_rates: str = ""  # "0.7,0.5": how often each drafted token is accepted if those before it were
    phases: str = ""  # "0.2,0.7,0.1": shares of draft, verify and accept in a cycle
    batch: int = 1  # accepted and not used
    prompts: int = 0  # prompts of which eagle3 gives counts; 0: no such counts
    accept_noise: float = 0.0  # standard deviation of the logarithm of a prompt's accept length; needs prompts
    slowdown: float = 1.0
    eagle3_slowdown: float = 1.0  # on top of slowdown
    env_slowdown: Mapping[str, float] = field(default_factory=dict)  # "NAME=VALUE" -> factor if it is set so
    output: str = "tokens"
    eagle3_output: str = ""  # empty: the same
    noise: float = 0.0
    iteration_noise: float = 0.0
    iterations: int = 60
    state: str = ""  # a file shared by launches: drift and the bimodal clock need to know how many there were
    drift: float = 0.0
    instance_noise: float = 0.0  # standard deviation of the logarithm between instances, also in one launch
    order_drift: float = 0.0  # added to the logarithm for each instance that the launch built before
    bimodal_factor: float = 1.0
    bimodal_stay: float = 0.9
    lottery_rate: float = 0.0
    lottery_factor: float = 1.3
    crash: str = ""
    crash_how: str = "raise"
    crash_probability: float = 1.0
    hang: str = ""
    fault_rank: int = -1  # the rank that crashes or hangs; -1: all
    broken_metric: str = ""
    broken_as: str = ""
    load_s: float = 0.0
    measured_s: float = 0.0


def run(launch: Launch) -> Measurement:
    """Raises UnbuildableError for a broken fake.json, ValueError for unknown settings, and what is planned."""
    plan = read_plan(launch)
    coin = random.Random(f"{launch.spec.seed}/{launch.spec.place}")
    is_struck = coin.random() < plan.crash_probability and plan.fault_rank in (-1, launch.rank)
    time.sleep(plan.load_s)
    fail("before", plan, is_struck=is_struck)
    factor = launch_factor(plan, launch, coin)
    load_s = announce_ready(launch)
    begin = time.perf_counter()
    time.sleep(plan.measured_s)
    fail("measured", plan, is_struck=is_struck)
    return Measurement(
        origin=plan_origin(launch.subject_root),
        digests=digests(plan, launch.spec.modes),
        load_s=load_s,
        measured_s=time.perf_counter() - begin,
        versions={"torch": None},
        **(numbers(plan, launch.spec.modes, factor, coin) if launch.is_first else {}),
    )


def read_plan(launch: Launch, subject_root: Path | None = None) -> FakeParams:
    path = (subject_root or launch.subject_root) / PLAN_FILE
    planted: dict[str, Any] = {}
    if path.is_file():
        try:
            planted = json.loads(path.read_text(encoding="utf-8"))
        except ValueError as error:
            raise UnbuildableError(f"{path}: {error}") from error
    if not isinstance(planted, dict):
        raise UnbuildableError(f"{path}: not a JSON object")
    plan = parse_params(FakeParams, {**launch.spec.params, **planted})
    for name, allowed in FAULTS.items():
        if getattr(plan, name) not in allowed:
            raise ParamsError(f"params: {name} is {getattr(plan, name)!r}, expected one of {list(allowed)}")
    if (plan.drift or plan.bimodal_factor != 1.0) and not plan.state:
        raise ParamsError("params: drift and bimodal_factor need `state`, a file that the launches share")
    return plan


def fail(window: str, plan: FakeParams, *, is_struck: bool) -> None:
    """Crash or hang if that is planned for this window."""
    if not is_struck:
        return
    if plan.hang == window:
        while True:
            time.sleep(3600)
    if plan.crash != window:
        return
    if plan.crash_how == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if plan.crash_how == "exit":
        os._exit(3)  # no result, as when a library ends the process
    raise RuntimeError(f"planned crash ({window})")


def launch_factor(plan: FakeParams, launch: Launch, coin: random.Random) -> float:
    """How much slower than planned this launch is as a whole, commit included."""
    (own,) = instance_factors([plan], coin)
    return own * process_factor(plan, coin) * state_factor(plan, launch)


def instance_factors(plans: Sequence[FakeParams], coin: random.Random) -> list[float]:
    """How much slower each instance of a launch is by itself, in the order they are built."""
    return [
        plan.slowdown
        * math.exp(plan.order_drift * place + (coin.gauss(0.0, plan.instance_noise) if plan.instance_noise else 0.0))
        for place, plan in enumerate(plans)
    ]


def process_factor(plan: FakeParams, coin: random.Random) -> float:
    """What the process does to every instance in it."""
    factor = math.exp(coin.gauss(0.0, plan.noise) if plan.noise else 0.0)
    if coin.random() < plan.lottery_rate:
        factor *= plan.lottery_factor
    for setting, slower in plan.env_slowdown.items():
        name, _, value = setting.partition("=")
        factor *= slower if os.environ.get(name) == value else 1.0
    return factor


def state_factor(plan: FakeParams, launch: Launch) -> float:
    """What launches do to each other; moves the shared file on by one launch."""
    if not plan.state or not launch.is_first:
        return 1.0
    count, is_slow = next_state(Path(plan.state), plan, launch.spec.seed)
    return math.exp(plan.drift * count) * (plan.bimodal_factor if is_slow else 1.0)


def next_state(path: Path, plan: FakeParams, seed: int) -> tuple[int, bool]:
    """(launches before this one, whether the sticky clock is slow now); the file is moved on by one launch."""
    with open(path, "a+", encoding="utf-8") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        handle.seek(0)
        text = handle.read()
        before = json.loads(text) if text else {"launches": 0, "is_slow": False}
        leaves = random.Random(f"{seed}/{before['launches']}").random() >= plan.bimodal_stay
        is_slow = before["is_slow"] != leaves
        handle.seek(0)
        handle.truncate()
        json.dump({"launches": before["launches"] + 1, "is_slow": is_slow}, handle)
    return before["launches"], is_slow


def numbers(plan: FakeParams, modes: Sequence[str], factor: float, coin: random.Random) -> dict[str, Any]:
    speeds = {"plain": plan.speed / factor, "eagle3": plan.eagle3_speed / (factor * plan.eagle3_slowdown)}
    values = {f"{mode}_throughput": speeds[mode] for mode in modes}
    samples: dict[str, list[float]] = {}
    by_position: dict[str, Any] = {}
    by_prompt: dict[str, list[int]] = {}
    if "plain" in modes:
        samples["plain_token_s"] = iteration_times(1 / speeds["plain"], plan, coin)
    if "eagle3" in modes:
        by_position = position_counts(plan)
        by_prompt = prompt_counts(plan, coin)
        values["eagle3_accept_length"] = accept_length(plan, by_position, by_prompt)
        cycle_s = iteration_times(values["eagle3_accept_length"] / speeds["eagle3"], plan, coin)
        samples["eagle3_cycle_s"] = cycle_s
        for name, share in zip(("draft", "verify", "accept"), parts(plan.phases), strict=False):
            samples[f"eagle3_{name}_s"] = [share * seconds for seconds in cycle_s]
    named = (f"{mode}_{'token' if mode == 'plain' else 'cycle'}_s" for mode in modes)
    warmups = {name.partition("_")[0]: find_warmup(samples[name]) for name in named}
    steps = {"plain": {"steps": plan.iterations}, "eagle3": {"cycles": plan.iterations, **by_position, **by_prompt}}
    return {
        "values": broken(values, plan),
        "samples": samples,
        "warmup": {mode: vars(warmup) for mode, warmup in warmups.items()},
        "counts": {mode: steps[mode] for mode in modes},
    }


def parts(text: str) -> list[float]:
    """"0.2,0.7" -> numbers. Raises ValueError for anything else."""
    return [float(part) for part in text.split(",")] if text else []


def position_counts(plan: FakeParams) -> dict[str, Any]:
    """Counts of PROMPT_CYCLES cycles in which each drafted token is accepted as planned; nothing without rates."""
    accepted, counts = float(PROMPT_CYCLES), []
    for rate in parts(plan.accept_rates):
        accepted *= rate
        counts.append(round(accepted))
    if not counts:
        return {}
    drafted = PROMPT_CYCLES * len(counts)
    return {
        "cycles": PROMPT_CYCLES,
        "drafted": drafted,
        "accepted": sum(counts),
        "emitted": PROMPT_CYCLES + sum(counts),
        "accepted_by_position": counts,
    }


def accept_length(
    plan: FakeParams, by_position: Mapping[str, Any], by_prompt: Mapping[str, Sequence[int]]
) -> float:
    """By the counts where there are any, else as planned."""
    if by_prompt:
        return sum(by_prompt["emitted_by_prompt"]) / sum(by_prompt["cycles_by_prompt"])
    return by_position["emitted"] / PROMPT_CYCLES if by_position else plan.accept_length


def prompt_counts(plan: FakeParams, coin: random.Random) -> dict[str, list[int]]:
    """Tokens of PROMPT_CYCLES cycles of each prompt; nothing without prompts."""
    if not plan.prompts:
        return {}
    lengths = [plan.accept_length * math.exp(coin.gauss(0.0, plan.accept_noise)) for _ in range(plan.prompts)]
    emitted = [round(PROMPT_CYCLES * length) for length in lengths]
    return {"cycles_by_prompt": [PROMPT_CYCLES] * plan.prompts, "emitted_by_prompt": emitted}


def iteration_times(level_s: float, plan: FakeParams, coin: random.Random) -> list[float]:
    return [level_s * math.exp(coin.gauss(0.0, plan.iteration_noise)) for _ in range(plan.iterations)]


def broken(values: Mapping[str, float], plan: FakeParams) -> dict[str, Any]:
    """The values with one of them spoiled: not a number, not positive, not numeric, or not there."""
    if plan.broken_metric not in values:
        return dict(values)
    kept = {name: value for name, value in values.items() if name != plan.broken_metric}
    return kept if plan.broken_as == "missing" else {**kept, plan.broken_metric: BROKEN_VALUES[plan.broken_as]}


def plan_origin(subject_root: Path) -> dict[str, dict[str, str]]:
    path = subject_root / PLAN_FILE
    if not path.is_file():
        return {}
    return {PLAN_FILE: {"path": str(path), "sha256": origin.sha256(path)}}


def digests(plan: FakeParams, modes: Sequence[str]) -> dict[str, str]:
    outputs = {"eagle3": plan.eagle3_output or plan.output}
    return {mode: digest(outputs.get(mode, plan.output)) for mode in modes}


def digest(output: str) -> str:
    return hashlib.sha256(output.encode("utf-8")).hexdigest()
