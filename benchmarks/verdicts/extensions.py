"""What extending an undecided comparison brings and costs: reports, wrong EQUIVALENT and trials on simulated machines.

    python -m benchmarks.verdicts.extensions [comparisons a case] [extension_share]

Everybody extends here whenever they may, up to EXTENSIONS times: the worst case for false verdicts.
"""

import sys
from collections.abc import Sequence

import numpy as np

from benchmarks.verdicts.engine import METRIC, Simulated, draw_batch, mean_trials, share
from benchmarks.verdicts.scenarios import SCENARIOS, Noise
from perfguard.policy import Policy
from perfguard.records import Extension, Outcome
from perfguard.stats.design import Rules, rules_of
from perfguard.stats.effects import Series, first, joined, series_of_logs
from perfguard.stats.extension import extension_policy, report_bound
from perfguard.stats.results import outcome_of
from perfguard.stats.sequential import UNDECIDED, follow

EXTENSIONS = 2
# (scenario, true slowdown, noise of a launch). At exactly the margin every EQUIVALENT is wrong, but only just.
CASES = (
    ("iid", 0.0, 0.02),
    ("iid", 0.0, 0.03),
    ("iid", 0.03, 0.02),
    ("iid", 0.05, 0.02),
    ("iid", 0.05, 0.03),
    ("iid", 0.02, 0.01),
    ("iid", 0.02, 0.02),
    ("iid", 0.02, 0.03),
    ("sticky clocks", 0.0, 0.01),
    ("periodic neighbour", 0.0, 0.01),
)


def extended(
    policy: Policy, extensions: Sequence[Extension], noise: Noise, *, effect: float, sd: float, num: int, seed: int
) -> list[list[Simulated]]:
    """`num` comparisons of one metric: how each stood after the original and after each extension it needed."""
    rng = np.random.default_rng(seed)
    parts = [rules_of(policy, 1), *(rules_of(extension_policy(policy, e), 1) for e in extensions)]
    return [_one(parts, noise, effect, sd, rng) for _ in range(num)]


def _one(parts: Sequence[Rules], noise: Noise, effect: float, sd: float, rng: np.random.Generator) -> list[Simulated]:
    ends: list[Simulated] = []
    earlier: Series | None = None
    for rules in parts:
        if ends and ends[-1].outcome not in UNDECIDED:
            break
        batch = draw_batch(1, rules, sd, rng, Policy().confirm_builds)
        logs = (noise(batch, rng) + np.log1p(effect) * batch.is_head)[0]
        middle = rules.max_blocks
        ones = series_of_logs(logs[:middle], batch.is_head[0][:middle])
        twos = series_of_logs(logs[middle:], batch.is_head[0][middle:])
        state = follow(rules, METRIC, ones, twos, batch.builds[0][middle:], 0, earlier)
        before = ends[-1].trials if ends else 0
        trials = before + 4 * (state.one.at + (state.two.at if state.two else 0))
        ends.append(Simulated(outcome=outcome_of(state), trials=trials))
        used = first(ones, state.one.at)
        earlier = used if earlier is None else joined(earlier, used)
    return ends


def ten_blocks_each(num: int) -> list[Extension]:
    return [
        Extension(number=number, created_at="", seed=number, max_blocks=10, max_confirm_blocks=10)
        for number in range(1, num + 1)
    ]


def main() -> None:
    num = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    policy = Policy(extension_share=float(sys.argv[2])) if len(sys.argv) > 2 else Policy()
    extensions = ten_blocks_each(EXTENSIONS)
    print(f"extension_share {policy.extension_share:g}: bound {report_bound(policy, 1, extensions):.3g}, {num} a case")
    print("scenario, truth, sd: extensions allowed: REGRESSION / EQUIVALENT / SUSPECT / INCONCLUSIVE % (mean trials)")
    for scenario, effect, sd in CASES:
        results = extended(policy, extensions, SCENARIOS[scenario], effect=effect, sd=sd, num=num, seed=7)
        for allowed in range(EXTENSIONS + 1):
            ends = [one[min(allowed, len(one) - 1)] for one in results]
            shares = (Outcome.REGRESSION, Outcome.EQUIVALENT, Outcome.SUSPECT, Outcome.INCONCLUSIVE)
            shown = " / ".join(f"{100 * share(ends, outcome):.1f}" for outcome in shares)
            faster = 100 * share(ends, Outcome.IMPROVEMENT)
            print(
                f"{scenario}, {100 * effect:g} %, {100 * sd:g} %: {allowed}: {shown} ({mean_trials(ends):.1f})"
                + (f" IMPROVEMENT {faster:.2g}" if faster else ""),
                flush=True,
            )


if __name__ == "__main__":
    main()
