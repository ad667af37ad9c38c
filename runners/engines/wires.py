"""What is said on each wire: the body of a request, and what one event of the stream means.

Must not read sockets or streams. Strict wires carry nothing that OpenAI's own API does not know: servers that check
their input refuse `ignore_eos` and token ids.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from runners.engines.records import Endpoint, Load, Prompt

CONTENT_KEYS = ("content", "reasoning_content", "reasoning")  # a thinking model's first token is a first token


@dataclass(frozen=True, kw_only=True)
class Said:
    """What one event said. `ids` None: it does not tell; `total`: tokens of the answer so far, where it counts them.

    `is_whole`: `text` and `ids` may be those of the answer so far and not only what is new.
    """

    text: str = ""
    ids: tuple[int, ...] | None = None
    total: int | None = None
    is_whole: bool = False
    finish: str = ""
    error: str = ""
    usage: Mapping[str, Any] = field(default_factory=dict)
    meta: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Wire:
    """`may_echo`: the first text of an answer may be the prompt itself. `takes_ignore_eos`: answers can be asked to go
    on behind the model's own end.
    """

    path: str
    body: Callable[[Endpoint, Prompt, Load], dict[str, Any]]
    understand: Callable[[Mapping[str, Any]], Said]
    takes_ids: bool = False
    takes_ignore_eos: bool = False
    may_echo: bool = False


def find(name: str) -> Wire:
    """Raises ValueError that names the known wires."""
    if name not in WIRES:
        raise ValueError(f"no wire {name!r}; known: {', '.join(sorted(WIRES))}")
    return WIRES[name]


def refuse(wire: Wire, prompt: Prompt) -> None:
    """Raises ValueError for a prompt that the wire cannot carry."""
    if prompt.text is None and not (wire.takes_ids and prompt.ids is not None):
        raise ValueError(f"a prompt has no text, and {wire.path} takes no token ids on this wire")


def request(endpoint: Endpoint, wire: Wire, prompt: Prompt, load: Load) -> bytes:
    """One HTTP/1.1 request, ready to be sent. Raises ValueError for a prompt that the wire cannot carry."""
    refuse(wire, prompt)
    body = json.dumps(wire.body(endpoint, prompt, load), ensure_ascii=False).encode()
    head = (
        f"POST {wire.path} HTTP/1.1\r\nHost: {endpoint.host}:{endpoint.port}\r\nUser-Agent: perfguard\r\n"
        f"Accept: text/event-stream\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n"
        "Connection: close\r\n\r\n"
    )
    return head.encode() + body


def _common(endpoint: Endpoint, load: Load) -> dict[str, Any]:
    return {"model": endpoint.model, "max_tokens": load.num_tokens, "temperature": 0, "stream": True}


def _extended(endpoint: Endpoint, load: Load) -> dict[str, Any]:
    own = {"ignore_eos": load.ignore_eos, "return_token_ids": True}
    return {**_common(endpoint, load), "stream_options": {"include_usage": True}, **own}


def _messages(prompt: Prompt) -> list[dict[str, str]]:
    return [{"role": "user", "content": prompt.text or ""}]


def _completions_body(endpoint: Endpoint, prompt: Prompt, load: Load) -> dict[str, Any]:
    asked = prompt.text if prompt.ids is None else list(prompt.ids)
    return {**_extended(endpoint, load), "prompt": asked}


def _chat_body(endpoint: Endpoint, prompt: Prompt, load: Load) -> dict[str, Any]:
    return {**_extended(endpoint, load), "messages": _messages(prompt)}


def _openai_body(endpoint: Endpoint, prompt: Prompt, load: Load) -> dict[str, Any]:
    return {**_common(endpoint, load), "stream_options": {"include_usage": True}, "prompt": prompt.text}


def _transformers_body(endpoint: Endpoint, prompt: Prompt, load: Load) -> dict[str, Any]:
    return {**_common(endpoint, load), "prompt": prompt.text}


def _transformers_chat_body(endpoint: Endpoint, prompt: Prompt, load: Load) -> dict[str, Any]:
    return {**_common(endpoint, load), "messages": _messages(prompt)}


def _generate_body(endpoint: Endpoint, prompt: Prompt, load: Load) -> dict[str, Any]:
    sampling = {"max_new_tokens": load.num_tokens, "temperature": 0, "ignore_eos": load.ignore_eos}
    asked = {"text": prompt.text} if prompt.ids is None else {"input_ids": list(prompt.ids)}
    return {**asked, "sampling_params": sampling, "stream": True}


def understand_openai(event: Mapping[str, Any]) -> Said:
    """One event of /v1/completions or /v1/chat/completions; the last may hold `usage` and no choice."""
    error, usage = said_error(event), _mapping(event.get("usage"))
    choices = event.get("choices")
    if error or not isinstance(choices, list):
        return Said(error=error or f"an event without choices: {json.dumps(event)[:200]}", usage=usage)
    choice = _mapping(choices[0]) if choices else {}
    return Said(
        text=_text(choice),
        ids=_ids(choice.get("token_ids")),
        finish=str(choice.get("finish_reason") or ""),
        usage=usage,
    )


def understand_generate(event: Mapping[str, Any]) -> Said:
    """One event of SGLang's /generate, whose text and output_ids are those so far unless it streams increments."""
    meta = _mapping(event.get("meta_info"))
    error = said_error(event) or ("" if meta else f"an event without meta_info: {json.dumps(event)[:200]}")
    reason = meta.get("finish_reason")
    finish = reason.get("type") if isinstance(reason, Mapping) else reason
    if finish == "abort":
        error = error or f"aborted: {_mapping(reason).get('message', '')}"
    return Said(
        text=str(event.get("text") or ""),
        ids=_ids(event.get("output_ids")),
        total=whole_number(meta.get("completion_tokens")),
        is_whole=True,
        finish=str(finish or ""),
        error=error,
        meta=meta,
    )


def said_error(event: Mapping[str, Any]) -> str:
    """What an error object says, however it is wrapped: {"error": …}, {"detail": …}, {"object": "error", …}."""
    found = event.get("error") or event.get("detail")
    if event.get("object") == "error":
        found = found or event.get("message") or "unnamed"
    if isinstance(found, Mapping):
        found = found.get("message") or json.dumps(found)
    return str(found)[:300] if found else ""


def whole_number(value: Any) -> int | None:
    """A count as a server may give it; anything else is unknown."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def _text(choice: Mapping[str, Any]) -> str:
    delta = choice.get("delta")
    if isinstance(delta, Mapping):
        return "".join(str(delta.get(key) or "") for key in CONTENT_KEYS)
    return str(choice.get("text") or "")


def _ids(value: Any) -> tuple[int, ...] | None:
    return tuple(value) if isinstance(value, list) and all(isinstance(one, int) for one in value) else None


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


WIRES: Mapping[str, Wire] = {
    "completions": Wire(
        path="/v1/completions",
        body=_completions_body,
        understand=understand_openai,
        takes_ids=True,
        takes_ignore_eos=True,
    ),
    "chat": Wire(path="/v1/chat/completions", body=_chat_body, understand=understand_openai, takes_ignore_eos=True),
    "generate": Wire(
        path="/generate", body=_generate_body, understand=understand_generate, takes_ids=True, takes_ignore_eos=True
    ),
    "openai": Wire(path="/v1/completions", body=_openai_body, understand=understand_openai),
    "transformers": Wire(path="/v1/completions", body=_transformers_body, understand=understand_openai, may_echo=True),
    "transformers-chat": Wire(
        path="/v1/chat/completions", body=_transformers_chat_body, understand=understand_openai, may_echo=True
    ),
}
