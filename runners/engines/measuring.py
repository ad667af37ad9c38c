"""One load put on a running server: prompts to requests, recorded, taken apart, made into numbers.

Must not start, stop or warm up a server.
"""

from runners.engines.records import Endpoint, Load, Observation


def measure(endpoint: Endpoint, wire: str, load: Load) -> Observation:
    """Send the load over `wire` (a name of wires.WIRES) and say what came back.

    Failed requests, cut streams and a starved client are reasons in the observation, never exceptions.
    Raises ValueError for a load that cannot be sent: an unknown wire, or a prompt that the wire cannot carry.
    """
    raise NotImplementedError
