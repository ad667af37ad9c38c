"""What a bisect is likely to cost, before it runs: a forecast from the information a reading carries. Pure."""

from math import ceil, log, log2, sqrt

import numpy as np

# Searches need this much more than the bound, for the size of the change and the noise are not known beforehand.
OVER_BOUND = 1.5
# Error that the bound is computed for, and the odds that end a search without change.
ERROR, PHANTOM_ODDS = 0.01, 99.0
# Standard deviations between two levels from which on a reading leaves no doubt.
CERTAIN = 12.0
# Launches of the shortest confirmation: two blocks of four, then three on fresh builds.
CONFIRMING = 20
# No search without change ended with less.
LEAST_TRIALS = 6


def search_trials(num_candidates: int, log_slowdown: float, launch_sd: float) -> int:
    """Launches that a search for a change of this size takes on average, confirmation apart.

    Bound of noisy search with readings anchored to GOOD (M. V. Burnashev, 1976; capacity as in M. Ben-Or and A.
    Hassidim, 2008): 2 [(1 - e) (log2 N + 1) / C + ln(1/e) / (snr/2)], times what searches need beyond it.
    """
    snr = log_slowdown**2 / (2 * launch_sd**2)
    bound = (1 - ERROR) * (log2(num_candidates) + 1) / capacity(snr) + log(1 / ERROR) / (snr / 2)
    return 2 * ceil(OVER_BOUND * bound)


def capacity(snr: float) -> float:
    """Bits that one reading tells about "changed or not" asked at even odds: outputs N(0, 1) and N(sqrt(snr), 1)."""
    shift = sqrt(snr)
    if shift > CERTAIN:
        return 1.0
    grid_Y = np.linspace(-8.0, shift + 8.0, 4001)
    one_Y, other_Y = (np.exp(-0.5 * (grid_Y - mean) ** 2) / sqrt(2 * np.pi) for mean in (0.0, shift))
    mixed_Y = (one_Y + other_Y) / 2
    bits_Y = sum(0.5 * part_Y * np.log2(np.maximum(part_Y, 1e-300) / mixed_Y) for part_Y in (one_Y, other_Y))
    return float(np.sum(bits_Y) * (grid_Y[1] - grid_Y[0]))


def phantom_trials(smallest: float, launch_sd: float) -> int:
    """Launches until "nothing changed" is likely enough where that is so; `smallest`: log of the smallest change."""
    a_reading = smallest**2 / (4 * launch_sd**2)
    return max(LEAST_TRIALS, 2 * ceil(1.3 * log(PHANTOM_ODDS) / a_reading))
