"""The client's times held against the server's own histograms. Pure; must not fetch anything."""

from runners.engines.records import Observation


def cross_check(observation: Observation, before: str, after: str) -> Observation:
    """The observation, with a reason for each contradiction between it and the server's Prometheus text.

    `before` and `after` are the texts of /metrics around the measured load and nothing else ("": not served). What
    the server does not count is not checked; counts["server"] says what its histograms showed.
    """
    raise NotImplementedError
