"""Other tools on the same simulated machines: how each takes its samples, and how often its rule says "changed".

The machine's noise is that of our own comparisons, chunk by chunk from the same seeds; only which trial is base and
which is head differs, as each tool orders them. Warm-up, tuning and calibration of a tool are not simulated.
"""

from dataclasses import dataclass, replace

import numpy as np

from benchmarks.verdicts.engine import draw_batch
from benchmarks.verdicts.peer_bootstrap import criterion
from benchmarks.verdicts.peer_history import bencher, conbench, otava
from benchmarks.verdicts.peer_rules import (
    action_benchmark,
    asv,
    benchstat,
    google_benchmark,
    hyperfine,
    nvbench_legacy,
    nvbench_robust,
    pyperf,
    single_run,
    welch,
)
from benchmarks.verdicts.scenarios import Batch, Flags, Floats, Noise, Numbers, Rule
from perfguard.policy import Policy
from perfguard.stats.design import rules_of

# Values of one process vary by this share of what launches vary by: an assumption, as all noises here.
WITHIN = 0.3


@dataclass(frozen=True, kw_only=True)
class Peer:
    """How a tool measures by default. `base`, `head`: launches; `repeats`: values of each; `gap`: trials in between.

    `is_interleaved`: rounds of base and head in turn, the order reversed each round. `is_history`: each launch is a
    commit's only one, in a session of its own.
    """

    rule: Rule
    base: int
    head: int
    repeats: int = 1
    gap: int = 0
    is_interleaved: bool = False
    is_history: bool = False


PEERS: dict[str, Peer] = {
    "one run each, 5 %": Peer(rule=single_run, base=1, head=1, gap=8),
    "github-action-benchmark, 200 %": Peer(rule=action_benchmark, base=1, head=1, gap=8),
    "google/benchmark U test": Peer(rule=google_benchmark, base=1, head=1, repeats=10),
    "criterion bootstrap": Peer(rule=criterion, base=1, head=1, repeats=100),
    "nvbench-compare": Peer(rule=nvbench_legacy, base=1, head=1, repeats=100),
    "nvbench-compare-robust": Peer(rule=nvbench_robust, base=1, head=1, repeats=100),
    "asv continuous": Peer(rule=asv, base=2, head=2, repeats=5, is_interleaved=True),
    "hyperfine bars": Peer(rule=hyperfine, base=10, head=10),
    "benchstat U test": Peer(rule=benchstat, base=10, head=10),
    "Welch's t, 5 a side": Peer(rule=welch, base=5, head=5),
    "Welch's t, 10 a side": Peer(rule=welch, base=10, head=10),
    "Welch's t, 30 a side": Peer(rule=welch, base=30, head=30),
    "pyperf compare_to": Peer(rule=pyperf, base=20, head=20, repeats=3),
    "bencher t": Peer(rule=bencher, base=64, head=1, is_history=True),
    "conbench z": Peer(rule=conbench, base=79, head=1, is_history=True),
    "otava": Peer(rule=otava, base=20, head=20, is_history=True),
}


def fresh_launches(peer: Peer) -> int:
    """Launches for one answer; stored ones of a history cost nothing now."""
    return peer.head if peer.is_history else peer.base + peer.head


def num_changed(peer: Peer, noise: Noise, *, effect: float, sd: float, num: int, seed: int) -> int:
    """In how many of `num` comparisons the rule says "changed" when head is slower by `effect`."""
    base, head = samples(peer, noise, effect=effect, sd=sd, num=num, seed=seed)
    return int(peer.rule(base, head).sum())


def samples(peer: Peer, noise: Noise, *, effect: float, sd: float, num: int, seed: int) -> tuple[Floats, Floats]:
    """Times of base (N, base x repeats) and of head, all positive."""
    rng = np.random.default_rng(seed)
    own = draw_batch(num, rules_of(Policy(), 1), sd, rng, Policy().confirm_builds)
    batch = _as_the_peer_runs(peer, own)
    logs = (noise(batch, rng) + np.log1p(effect) * batch.is_head).reshape(num, -1)
    within = np.random.default_rng([seed, 1])
    sides = (logs[:, places] for places in _places(peer))
    base, head = (_repeated(side, peer.repeats, WITHIN * sd, within) for side in sides)
    return np.exp(base), np.exp(head)


def _places(peer: Peer) -> tuple[Numbers, Numbers]:
    """Which trials of the machine's time are base's, and which head's."""
    if peer.is_interleaved:
        rounds = np.arange(peer.base)
        return 2 * rounds + rounds % 2, 2 * rounds + 1 - rounds % 2
    return np.arange(peer.base), peer.base + peer.gap + np.arange(peer.head)


def _as_the_peer_runs(peer: Peer, own: Batch) -> Batch:
    num, num_trials = len(own.is_head), own.is_head.shape[1] * 4
    _, places = _places(peer)
    is_head: Flags = np.zeros((num, num_trials), dtype=bool)
    is_head[:, places] = True
    time = np.arange(num_trials)
    sessions = time if peer.is_history else (time >= (0 if peer.is_interleaved else peer.base)).astype(np.int64)
    return replace(own, is_head=is_head.reshape(own.is_head.shape), builds=np.ones_like(own.builds), sessions=sessions)


def _repeated(logs: Floats, repeats: int, sd: float, rng: np.random.Generator) -> Floats:
    """Each launch's value `repeats` times, with what varies inside a process; one value is the launch itself."""
    if repeats == 1:
        return logs
    return (logs[:, :, None] + rng.normal(0.0, sd, (*logs.shape, repeats))).reshape(len(logs), -1)
