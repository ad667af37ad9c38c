"""Secrets: found by the name of a variable or the shape of a value, and kept out of everything that is stored. Pure.

Must not read os.environ: the caller hands it in.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from perfguard.errors import UsageError
from perfguard.records import Trial

REDACTED = "<redacted>"
SECRET_NAME = re.compile(
    r"TOKEN(?!IZ)|SECRET|PASSWORD|PASSWD|PASSPHRASE|CREDENTIAL|COOKIE|AUTH(?!OR)"
    r"|(PRIVATE|API|ACCESS)_?KEY|(^|_)(KEY|PASS|PAT|PWD)$",
    re.IGNORECASE,
)
# Names that look like secrets and are none.
PLAIN_NAMES = frozenset({"PWD", "OLDPWD", "TOKENIZERS_PARALLELISM", "XAUTHORITY", "SSH_AUTH_SOCK"})
SECRET_VALUE = re.compile(
    r"gh[pousr]_\w{20,}|github_pat_\w{20,}|glpat-[\w-]{15,}|hf_\w{20,}"
    r"|\bsk-[\w-]{16,}|nvapi-[\w-]{20,}|xox[abeprs]-[\w-]{10,}"
    r"|\b(?:AKIA|ASIA)[0-9A-Z]{16}\b|\beyJ[\w-]{6,}\.eyJ[\w-]{6,}\.[\w-]+|-----BEGIN [A-Z ]*PRIVATE KEY-----[\s\S]*"
    r"|(?i:\bbearer )[\w.~+/-]{16,}=*"
)
# user:password@ of a URL; the user's name goes as well, since a token often stands there.
URL_CREDENTIALS = re.compile(r"(?<=://)[^/@\s]+(?=@)")
# A secret that a command or a setup spells out: NAME=value, --name value. One that the shell fills in ($NAME) is none.
_VALUE = r"(?P<value>'[^']+'|\"[^\"]+\"|[^\s'\"&|;)]+)"
SPELLED_OUT = (
    re.compile(rf"(?P<name>(?<![\w-])[A-Za-z_]\w*=){_VALUE}"),
    re.compile(rf"(?P<name>(?<![\w-])--?[A-Za-z][\w-]*(?:=|\s+)){_VALUE}"),
)
# Of options only those that hold nothing else: --key and --pad-token are words of many programs.
SECRET_OPTION = re.compile(
    r"PASSWORD|PASSWD|PASSPHRASE|SECRET|CREDENTIAL|(PRIVATE|API|ACCESS|AUTH)_?(KEY|TOKEN)$|^TOKEN$", re.IGNORECASE
)
# Shorter values ("1", "yes") would be found in half of all words.
MIN_LENGTH = 6
UNTOUCHED = ("origin", "checkout")


def redact(environment: Mapping[str, str]) -> dict[str, str]:
    """`environment` as it may be stored and shown: secrets replaced, found by name and by the shape of the value."""
    return {name: redacted(name, value) for name, value in environment.items()}


def redacted(name: str, value: str) -> str:
    return REDACTED if value and is_secret_name(name) else redact_text(value)


def redact_text(text: str) -> str:
    """`text` without what has the shape of a secret."""
    return URL_CREDENTIALS.sub(REDACTED, SECRET_VALUE.sub(REDACTED, text))


def redact_words(words: Sequence[str]) -> list[str]:
    """A command without the secrets that it spells out: API_TOKEN=x, --password x, -c 'API_TOKEN=x run'."""
    found = []
    for index, word in enumerate(words):
        before = words[index - 1] if index else ""
        # `--password`, `x`: the value is a word of its own.
        is_value = before.startswith("-") and not word.startswith(("-", "$"))
        found.append(REDACTED if is_value and _is_secret_option(before) else redact_command(word))
    return found


def redact_command(text: str) -> str:
    """A line of shell without the secrets that it spells out."""

    def hidden(match: "re.Match[str]") -> str:
        name, value = match["name"].rstrip("= \t\n"), match["value"]
        # `key=time` is a word of many programs, KEY=… is a variable.
        is_secret = is_secret_name(name) if name.isupper() else _is_secret_option(name)
        is_number = name.endswith("TOKENS") and value.isdigit()
        is_plain = is_number or value.strip("'\"").startswith(("$", "`", REDACTED))
        return match.group() if not is_secret or is_plain else f"{match['name']}{REDACTED}"

    for pattern in SPELLED_OUT:
        text = pattern.sub(hidden, text)
    return redact_text(text)


def redact_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Parameters as they may be shown: a text by its name and shape; a number (tokens=64) is no secret."""
    return {name: redacted(name, item) if isinstance(item, str) else item for name, item in settings.items()}


def _is_secret_option(name: str) -> bool:
    return bool(SECRET_OPTION.search(name.lstrip("-").replace("-", "_")))


def is_secret_name(name: str) -> bool:
    # `exec:NAME` and `start:NAME` are NAME as a process began with it, and as its program began with it.
    plain = name.removeprefix("exec:").removeprefix("start:")
    return plain.upper() not in PLAIN_NAMES and bool(SECRET_NAME.search(plain))


def secret_values(environment: Mapping[str, str]) -> tuple[str, ...]:
    """Values that must not appear anywhere, longest first; of a URL with credentials the credentials."""
    found = {value for name, value in environment.items() if is_secret_name(name) and len(value) >= MIN_LENGTH}
    for value in environment.values():
        found |= {match.group() for match in SECRET_VALUE.finditer(value)}
        found |= {match.group() for match in URL_CREDENTIALS.finditer(value) if len(match.group()) >= MIN_LENGTH}
    return tuple(sorted(found, key=len, reverse=True))


def scrubbed(trial: Trial, environment: Mapping[str, str]) -> Trial:
    """The trial without the secrets of `environment`: programs print them, in a trace or in a list of settings."""
    values = secret_values(environment)
    reasons = tuple(replace(reason, text=scrub(reason.text, values)) for reason in trial.reasons)
    # Files that were loaded are compared by path and hash: a password that is a word must not change them.
    kept = {name: trial.record[name] for name in UNTOUCHED if name in trial.record}
    return replace(trial, reasons=reasons, record=scrub(trial.record, values) | kept)


def scrub(tree: Any, values: Sequence[str]) -> Any:
    """Every text in `tree` (mappings, lists and tuples of JSON data) without secrets."""
    if isinstance(tree, Mapping):
        return {scrub(key, values): scrub(item, values) for key, item in tree.items()}
    if isinstance(tree, list | tuple):
        return type(tree)(scrub(item, values) for item in tree)
    if not isinstance(tree, str):
        return tree
    for value in values:
        tree = tree.replace(value, REDACTED)
    return redact_text(tree)


def taken_from(environment: Mapping[str, str], asked: Mapping[str, str]) -> dict[str, str]:
    """What an arm asks for, with values that are not stored taken from `environment`. Raises UsageError."""
    missing = [name for name, value in asked.items() if value == REDACTED and name not in environment]
    if missing:
        raise UsageError(
            f"{missing[0]} is asked for, its value is never stored, and it is not set here", f"export {missing[0]}=..."
        )
    return {name: environment[name] if value == REDACTED else value for name, value in asked.items()}


def refuse_secrets(asked: Mapping[str, str], words: Sequence[str], environment: Mapping[str, str]) -> None:
    """Raises UsageError where something that would be stored holds a secret: --env NAME=VALUE, or a command.

    The message never holds the value.
    """
    for name, value in asked.items():
        if value != REDACTED and redacted(name, value) != value:
            raise UsageError(
                f"--env {name}=...: this looks like a secret, and what is asked for is stored",
                f"export {name}=... first, then --env {name}",
            )
    values = secret_values(environment)
    if any(scrub(word, values) != word for word in words) or redact_words(words) != list(words):
        raise UsageError(
            "the command or its setup holds a secret, and commands are stored",
            "let it read the secret from the environment",
        )


def refuse_secret_settings(settings: Mapping[str, Any], environment: Mapping[str, str]) -> None:
    """The same for parameters (--set NAME=VALUE)."""
    values = secret_values(environment)
    for name, value in settings.items():
        if value != REDACTED and scrub(redact_settings({name: value})[name], values) != value:
            raise UsageError(
                f"parameter {name}: its value looks like a secret, and parameters are stored",
                "let the workload read the secret from the environment",
            )
