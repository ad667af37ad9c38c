"""Which build is which: everything known before a setup that decides what it makes -> a key. Pure.

docs/decisions/0003-build-cache.md says what no key can know.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

# Raised when builds are kept or restored in another way: older entries are then never found.
FORMAT = 1
# Of a terminal, a desktop or a service manager: other in every session, read by no build.
SESSION_VARIABLES = frozenset({
    "_", "PWD", "OLDPWD", "SHLVL", "COLUMNS", "LINES", "TERM", "COLORTERM", "TERM_PROGRAM", "TERM_PROGRAM_VERSION",
    "TERM_SESSION_ID", "TMUX", "TMUX_PANE", "STY", "WINDOW", "WINDOWID", "DISPLAY", "WAYLAND_DISPLAY", "XAUTHORITY",
    "DBUS_SESSION_BUS_ADDRESS", "DESKTOP_SESSION", "SSH_CLIENT", "SSH_CONNECTION", "SSH_TTY", "SSH_AUTH_SOCK",
    "SSH_AGENT_PID", "GPG_AGENT_INFO", "GPG_TTY", "INVOCATION_ID", "JOURNAL_STREAM", "SYSTEMD_EXEC_PID",
    "NOTIFY_SOCKET", "PS1", "PS2", "HISTFILE", "LS_COLORS",
})  # fmt: skip
SESSION_PREFIXES = ("XDG_SESSION_", "VSCODE_", "GNOME_", "KDE_")


@dataclass(frozen=True, kw_only=True)
class BuildFacts:
    """`cache`: folder of the cache, since builds hold absolute paths. `tags_sha256`: version tools ask the tags.

    `environment`: what the setup sees, secrets redacted, without paths that perfguard draws for each build. `tools`:
    folders that a setup takes programs and headers from, each with the time of its last change. `machine`: its
    fingerprint.
    """

    cache: str
    repository: str
    commit: str
    tree: str
    patch_sha256: str
    tags_sha256: str
    setup: str
    python: str
    environment: Mapping[str, str]
    machine: Mapping[str, Any]
    tools: Mapping[str, int]


def build_key(facts: BuildFacts) -> str:
    """sha256 in hex of all facts, names that only tell one session from another left out."""
    known = asdict(facts) | {"environment": deciding_variables(facts.environment), "format": FORMAT}
    return hashlib.sha256(json.dumps(known, sort_keys=True).encode()).hexdigest()


def deciding_variables(environment: Mapping[str, str]) -> dict[str, str]:
    return {
        name: value
        for name, value in environment.items()
        if name not in SESSION_VARIABLES and not name.startswith(SESSION_PREFIXES)
    }
