"""Story of `doctor --bench`: measure what the machine itself can do, keep it, and tell when it has moved.

Starts the measuring program (runners/machine_bench.py) as a process of its own; holds the machine meanwhile, so that
no campaign is disturbed. Must not judge any code.
"""

import json
import subprocess
import sys
from math import inf
from typing import Any

from perfguard.bundle import bundle_root
from perfguard.campaign import machine_now
from perfguard.conditions.history import facts_of, machine_of
from perfguard.errors import HarnessError
from perfguard.machine.hold import hold_machine
from perfguard.machine_history import BENCH, add_readings, now
from perfguard.records import MachineReading
from perfguard.store import Store

SCHEMA = "perfguard/bench@1"
# What it may spend on measuring, and with loading torch and waking cards.
BENCH_S, LIMIT_S = 30.0, 120.0


def bench(store: Store, *, python: str = sys.executable, bench_s: float = BENCH_S) -> dict[str, Any]:
    """{"schema", "readings", "notes", "machine_moved"}. Waits while a campaign holds the machine.

    Raises HarnessError if the measuring program fails as a whole.
    """
    with hold_machine("perfguard doctor --bench", wait_s=inf):
        told = _measure(python, bench_s)
    fingerprint = machine_now()
    readings = [
        MachineReading(**one, measured_at=now(), source=BENCH, facts=facts_of(fingerprint)) for one in told["readings"]
    ]
    moved = add_readings(machine_of(fingerprint), readings, store)
    return {"schema": SCHEMA, "readings": told["readings"], "notes": told["notes"], "machine_moved": moved}


def _measure(python: str, bench_s: float) -> dict[str, Any]:
    # -P: the folder of the script is not put on the path, where its neighbours could shadow packages.
    command = [python, "-P", str(bundle_root() / "runners" / "machine_bench.py"), repr(bench_s)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, check=True)
        told: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    except subprocess.TimeoutExpired:
        raise HarnessError(f"the bench did not end within {LIMIT_S:g} s", "perfguard doctor") from None
    except subprocess.CalledProcessError as error:
        last = (error.stderr.strip().splitlines() or ["no word why"])[-1]
        raise HarnessError(f"the bench ended with code {error.returncode}: {last}", "perfguard doctor") from error
    except (OSError, ValueError, IndexError) as error:
        raise HarnessError(f"the bench gave no result: {error}", "perfguard doctor") from error
    return told
