"""A client that loses its processor: `starved.py PORT`, one request under two loops that come first; prints reasons.

A process of its own: a priority given up does not come back.
"""

import json
import multiprocessing
import os
import sys

from client_cases import a_load

from runners.engines.measuring import measure
from runners.engines.records import Endpoint


def spin() -> None:
    while True:
        pass


def main(port: int) -> None:
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})  # also for the loops below
    loops = [multiprocessing.get_context("fork").Process(target=spin, daemon=True) for _ in range(2)]
    for loop in loops:
        loop.start()
    os.nice(19)
    try:
        here = Endpoint(host="127.0.0.1", port=port, model="emitter")
        seen = measure(here, "completions", a_load(num_requests=1, num_tokens=40, max_wait_share=0.03))
    finally:
        for loop in loops:
            loop.kill()
    print(json.dumps({"reasons": [vars(one) for one in seen.reasons], "client": seen.counts["client"]}))


if __name__ == "__main__":
    main(int(sys.argv[1]))
