"""The keeper of a resident: starts a side's server, puts it to sleep, waits to be told to end. Measures nothing."""

import time
from dataclasses import asdict

from runners.contract import Launch, Measurement, announce_ready
from runners.engines.dialect import Dialect
from runners.engines.params import EngineParams
from runners.engines.records import Reason
from runners.engines.residence import Stay, write
from runners.engines.running import left_behind, running
from runners.engines.server import Server, exit_code, last_words
from runners.engines.sleeping import DIED, fall_asleep, gpu_bytes, nap_of

LOOK_S = 0.1


def run_keeper(launch: Launch, params: EngineParams, dialect: Dialect, stay: Stay) -> Measurement:
    """Start the server of a side and keep it, asleep, until it has to end. Measures nothing."""
    (mode,) = launch.spec.modes or ("",)
    idle_bytes = gpu_bytes()
    with running(launch, params, dialect, mode, stay) as run_:
        reasons = keep(launch, stay, run_.server, dialect, idle_bytes)
    told = [asdict(reason) for reason in (*reasons, *left_behind(run_))]
    return Measurement(reasons=told, engine={"kept": {"stop": dict(run_.ending)}})


def keep(launch: Launch, stay: Stay, server: Server, dialect: Dialect, idle_bytes: int | None) -> tuple[Reason, ...]:
    """From a server that is ready to the word that it has to end. Returns why it could not be kept.

    `idle_bytes`: in use on the GPUs before the server was started.
    """
    nap = nap_of(server, dialect)
    nap.seen["before"] = idle_bytes
    if failed := fall_asleep(nap):
        return (failed,)
    write(stay, server)
    announce_ready(launch)
    while not stay.end.exists():
        if exit_code(server) is not None:
            return (Reason(code=DIED, text=f"the engine died while it was kept{last_words(server)}"),)
        time.sleep(LOOK_S)
    return ()
