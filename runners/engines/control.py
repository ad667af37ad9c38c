"""Short questions to a server outside of the measured window: versions, counters, flushing. Must not be used in it."""

import http.client
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

TIMEOUT_S = 10.0
# The longest are the metrics and arguments of a large server: megabytes.
LIMIT_BYTES = 64 * 2**20


@dataclass(frozen=True, kw_only=True)
class Reply:
    """`status` 0: nobody answered. `text` is then why."""

    status: int
    text: str = ""

    @property
    def fields(self) -> Mapping[str, Any]:
        """The JSON object that was answered; empty where it was none."""
        try:
            found = json.loads(self.text) if self.status == 200 else {}
        except (ValueError, RecursionError):
            return {}
        return found if isinstance(found, dict) else {}


# (method, path) -> what the server answers. Bound to one server.
Ask = Callable[[str, str], Reply]


def asker(host: str, port: int, timeout_s: float = TIMEOUT_S, *, body: str = "") -> Ask:
    """`body`: JSON that goes with every question, for servers that refuse one without."""
    headers = {"Content-Type": "application/json"} if body else {}

    def ask(method: str, path: str) -> Reply:
        connection = http.client.HTTPConnection(host, port, timeout=timeout_s)
        try:
            connection.request(method, path, body=body or None, headers=headers)
            response = connection.getresponse()
            return Reply(status=response.status, text=response.read(LIMIT_BYTES).decode("utf-8", errors="replace"))
        except (OSError, http.client.HTTPException) as error:
            return Reply(status=0, text=f"{type(error).__name__}: {error}")
        finally:
            connection.close()

    return ask


def first_known(ask: Ask, paths: tuple[str, ...]) -> Reply:
    """The answer to the first of these paths that the server knows (older servers know older names)."""
    reply = Reply(status=404)
    for path in paths:
        reply = ask("GET", path)
        if reply.status != 404:
            return reply
    return reply
