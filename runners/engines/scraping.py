"""The text of a server's /metrics, before and after the measured window. Must not read it in between."""

import time

from runners.engines.control import Ask
from runners.engines.counters import totals

# Counters of a request move a moment after its last token was sent.
SETTLE_S, LOOK_S = 3.0, 0.1


def scrape(ask: Ask) -> str:
    """ "" where none is served, or something that is no text of counters."""
    reply = ask("GET", "/metrics")
    try:
        totals(reply.text)
    except ValueError:
        return ""
    return reply.text if reply.status == 200 else ""


def settled(ask: Ask, before: str, name: str, num_tokens: int | None) -> str:
    """The text once the counter `name` has grown by all tokens that were received, or after a moment.

    "" without a text before: a difference to nothing would be all that the server ever served.
    """
    if not before:
        return ""
    text = scrape(ask)
    if not name:
        return text
    until_s = time.monotonic() + SETTLE_S
    first = totals(before).get(name, 0.0)
    # A server that answers no more has died, and then nothing is worth waiting for.
    while text and time.monotonic() < until_s and totals(text).get(name, 0.0) - first < (num_tokens or 0):
        time.sleep(LOOK_S)
        text = scrape(ask)
    return text
