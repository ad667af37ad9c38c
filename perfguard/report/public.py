"""A comparison and its trials without what a stranger should not read. Pure.

Hosts, paths, addresses, commit messages and secrets go, the last by the rule for what may be stored.
Commits, numbers, versions and the words of perfguard stay: the report can be checked by who has the repository.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from perfguard.records import Trial
from perfguard.trial.secrets import redact_command, redact_settings, redact_words

PATH, HOST = "<path>", "<host>"
# A path: a slash (or ~, a drive) with at least one more part. Single slashes ("token/s", "12/40") are no paths.
_PATHS = re.compile(r"(?<![\w<])(?:~|[A-Za-z]:)?(?:/[^\s/'\"`:;,)\]}]+){2,}/?")
_HOSTS = re.compile(r"\b[\w.+-]+@[\w.-]+\b|\b(?:\d{1,3}\.){3}\d{1,3}\b|\b[a-z]+://[^\s'\"]+")
# A card by its UUID or the beginning of it, as findings name it.
_CARDS = re.compile(r"\bGPU[- ](?=[0-9a-f-]*[0-9])[0-9a-f]{8}(?:-[0-9a-f]+)*")
# Named by what they are, whatever they hold.
_DROPPED = {"subject": "", "hostname_sha256": HOST, "repository": PATH, "committed_at": ""}
# A number of a machine's part is a name of the machine.
_SERIALS = ("uuid", "serial")


def public(comparison: Mapping[str, Any]) -> dict[str, Any]:
    """The comparison redacted."""
    redacted: dict[str, Any] = _redacted(comparison)
    return redacted


def public_trials(trials: Sequence[Trial]) -> list[Trial]:
    """Numbers only: what was loaded, logs, environments and conditions name paths, people and cards."""
    return [replace(trial, reasons=(), record={}) for trial in trials]


def _redacted(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {_text(key): _dropped(str(key), item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_redacted(item) for item in value]
    return _text(value) if isinstance(value, str) else value


def _dropped(key: str, item: Any) -> Any:
    if key == "schema":  # perfguard/comparison@1 is no address
        return item
    if key in _SERIALS:
        return HOST
    if key in ("env", "params") and isinstance(item, Mapping):
        item = redact_settings(item)
    if key == "command" and isinstance(item, list | tuple):
        item = redact_words([str(word) for word in item])
    return _DROPPED[key] if key in _DROPPED else _redacted(item)


def _text(text: str) -> str:
    return _CARDS.sub("GPU <id>", _PATHS.sub(PATH, _HOSTS.sub(HOST, redact_command(text))))
