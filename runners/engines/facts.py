"""What an engine says of itself -> one record, whatever the engine. Pure.

Must not ask anybody: state, log and command are handed in. What nobody said is not in the record; a default that was
not seen is no fact. Names of the record: docs/protocol.md.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

# Differ between launches by their meaning: ports, seeds drawn at start, names of files of one launch.
VOLATILE = frozenset(
    {
        "host", "port", "nccl_port", "dist_init_addr", "random_seed", "launch_command", "status", "version", "frontend",
        "startup_time", "internal_states", "kv_events", "max_total_num_tokens", "max_req_input_len", "instance_id",
        "log_requests_target", "download_dir", "crash_dump_folder", "file_storage_path", "served_model_name",
        "observability_config", "cache_dir", "local_cache_dir", "debug_dump_path", "compilation_time",
        "enabled_custom_ops", "disabled_custom_ops", "traced_files", "static_forward_context", "last_gen_throughput",
        "memory_usage", "disaggregation_bootstrap_port", "engine_info_bootstrap_port", "decrypted_config_file",
        "profiler_config", "torch_profiler_dir",
    }
)  # fmt: skip
# Never recorded, whatever they hold.
SECRET_ENDS = ("api_key", "password", "secret", "hf_token", "auth_token")
# No value of an argument is longer; what is longer is a table of sizes, and its beginning tells it.
MAX_VALUE = 300
FULL, PIECEWISE, NONE = "full", "piecewise", "none"


@dataclass(frozen=True, kw_only=True)
class Told:
    """What was read of one server. `info`: the JSON of its own state, empty where it has no such endpoint.

    `log` is what it printed so far, `command` how it was started.
    """

    name: str
    version: str = ""
    command: tuple[str, ...] = ()
    info: Mapping[str, Any] = field(default_factory=dict)
    log: str = ""


def of_command(told: Told) -> dict[str, Any]:
    """The record of an engine that says nothing of itself: what it was asked for."""
    return known({"name": told.name, "version": told.version, "asked": asked_flags(told.command)})


def asked_flags(command: Sequence[str]) -> dict[str, str]:
    """--flag value, --flag=value and bare --flag ("true") of a command line, by their names with underscores."""
    found: dict[str, str] = {}
    for place, word in enumerate(command):
        if not word.startswith("--"):
            continue
        name, sign, value = word[2:].partition("=")
        follows = command[place + 1] if place + 1 < len(command) else "--"
        if not sign:
            value = "true" if follows.startswith("--") else follows
        found[name.replace("-", "_")] = value
    return {name: value for name, value in found.items() if not is_secret(name)}


def is_secret(name: str) -> bool:
    return name.lower().endswith(SECRET_ENDS)


def plain_args(args: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Arguments that can be compared between launches: nested ones by dotted names, long ones cut, no secret."""
    found: dict[str, Any] = {}
    for name, value in args.items():
        if name.rpartition(".")[2] in VOLATILE or is_secret(name):
            continue
        if isinstance(value, Mapping):
            found |= plain_args(value, f"{prefix}{name}.")
        else:
            found[f"{prefix}{name}"] = _short(value)
    return found


def _short(value: Any) -> Any:
    if value is None or isinstance(value, bool | int | float):
        return value
    text = value if isinstance(value, str) else str(value)
    return text if len(text) <= MAX_VALUE else f"{text[:MAX_VALUE]}…"


def written_args(text: str) -> dict[str, Any]:
    """ "a='x', b=[1, 2], c=C(d=1)" as a Python repr writes it -> {"a": "x", "b": "[1, 2]", "c.d": 1}.

    Ends where the text closes a bracket that it did not open: what follows belongs to something else.
    """
    found: dict[str, Any] = {}
    for part in _parts(text):
        name, sign, value = part.partition("=")
        if sign and name.strip().isidentifier():
            found |= _named(name.strip(), value.strip())
    return found


def _named(name: str, value: str) -> dict[str, Any]:
    """A value that is itself a call is taken apart, so that one changed field of it is one difference."""
    callee, bracket, inside = value.partition("(")
    if bracket and value.endswith(")") and callee.replace(".", "").isidentifier():
        fields = written_args(inside[:-1])
        if fields:
            return {f"{name}.{field_name}": field_value for field_name, field_value in fields.items()}
    if value.startswith("{") and value.endswith("}"):
        pairs = [part.partition(":") for part in _parts(value[1:-1])]
        if pairs and all(sign for _, sign, _ in pairs):
            return {f"{name}.{key.strip().strip(QUOTES)}": _literal(item.strip()) for key, _, item in pairs}
    return {name: _literal(value)}


QUOTES = "'\""
_LITERALS = {"None": None, "True": True, "False": False}


def _literal(text: str) -> Any:
    if text in _LITERALS:
        return _LITERALS[text]
    if len(text) >= 2 and text[0] in QUOTES and text[-1] == text[0]:
        return text[1:-1]
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def _parts(text: str) -> list[str]:
    """Split at commas outside of brackets and quotes; "<…>" of an enumeration counts as brackets."""
    parts: list[str] = []
    depth, start, quote = 0, 0, ""
    for place, sign in enumerate(text):
        if quote:
            quote = "" if sign == quote and text[place - 1] != "\\" else quote
        elif sign in QUOTES:
            quote = sign
        elif sign in "([{<":
            depth += 1
        elif sign in ")]}>":
            depth -= 1
            if depth < 0:
                return [*parts, text[start:place]]
        elif sign == "," and depth == 0:
            parts.append(text[start:place])
            start = place + 1
    return [*parts, text[start:]] if text[start:].strip() else parts


def known(record: Mapping[str, Any]) -> dict[str, Any]:
    """Without what nobody said."""
    return {name: value for name, value in record.items() if value not in (None, "", {}, [], ())}
