"""Accept length that is not exact, tested by prompt: head against base over the same fixed prompts. Decides nothing.

Two base launches and one head launch give one difference a prompt; what base differs from itself is credited.
"""

from collections.abc import Sequence

import numpy as np

from perfguard.stats.order_test import TOLERANCE, tail_share


def prompt_p(base: Sequence[float], base_again: Sequence[float], head: Sequence[float], *, seed: int = 0) -> float:
    """P value against "head's accept lengths are no shorter than base's", by exact sign flips over prompts.

    All values are positive, one a prompt, in the same order of prompts. A prompt's difference is
    the mean of both base logs less the log of head, less the size of the mean log difference between the base launches.
    Enumerated up to 36 prompts, beyond that Monte Carlo with `seed`. Never below 2^-prompts.
    """
    first_P, second_P, head_P = (np.log(np.asarray(values, dtype=float)) for values in (base, base_again, head))
    credit = abs(float((first_P - second_P).mean()))
    loss_P = (first_P + second_P) / 2 - head_P - credit
    slack = TOLERANCE * float(np.abs(loss_P).sum() + credit)
    return tail_share(np.stack([loss_P, -loss_P], axis=1), float(loss_P.sum()) - slack, seed)
