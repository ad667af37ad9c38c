"""What each wire sends: strict ones nothing that a checking server would refuse."""

import json

import pytest
from client_cases import PROMPT, a_load

from runners.engines import wires
from runners.engines.records import Endpoint, Prompt

HERE = Endpoint(host="127.0.0.1", port=8000, model="tiny")
STRICT = {"model", "prompt", "messages", "max_tokens", "temperature", "stream", "stream_options"}


def sent(wire, prompt=PROMPT, **load):
    head, _, body = wires.request(HERE, wires.find(wire), prompt, a_load(**load)).partition(b"\r\n\r\n")
    return head.decode(), json.loads(body)


@pytest.mark.parametrize("wire", ["openai", "transformers", "transformers-chat"])
def test_strict_wires_send_text_and_no_field_of_an_engine(wire):
    _, body = sent(wire)
    assert set(body) <= STRICT
    assert body.get("prompt", PROMPT.text) == PROMPT.text


def test_token_ids_are_sent_where_a_wire_takes_them():
    assert sent("completions")[1]["prompt"] == [11, 12, 13]
    assert sent("generate")[1]["input_ids"] == [11, 12, 13]
    assert sent("completions", Prompt(text="hi"))[1]["prompt"] == "hi"
    assert sent("generate", Prompt(text="hi"))[1]["text"] == "hi"


@pytest.mark.parametrize("wire", ["chat", "openai", "transformers", "transformers-chat"])
def test_ids_alone_cannot_be_sent_on_a_wire_of_text(wire):
    with pytest.raises(ValueError, match="no text"):
        sent(wire, Prompt(ids=(11,)))


def test_length_and_temperature_are_fixed_on_every_wire():
    for wire in wires.WIRES:
        body = sent(wire, num_tokens=77)[1]
        sampling = body.get("sampling_params", body)
        assert (sampling.get("max_tokens", sampling.get("max_new_tokens")), sampling["temperature"]) == (77, 0)
        assert body["stream"] is True


def test_engines_are_told_to_go_on_to_the_end_unless_not_wanted():
    assert sent("completions")[1]["ignore_eos"] is True
    assert sent("chat", ignore_eos=False)[1]["ignore_eos"] is False
    assert sent("generate", ignore_eos=False)[1]["sampling_params"]["ignore_eos"] is False
    assert sent("completions")[1]["return_token_ids"] is True


def test_a_request_is_whole_and_asks_for_the_end_of_the_connection():
    head, body = sent("chat", Prompt(text="größe"))
    lines = head.split("\r\n")
    assert lines[0] == "POST /v1/chat/completions HTTP/1.1"
    assert "Connection: close" in lines
    assert "Host: 127.0.0.1:8000" in lines
    length = len(wires.request(HERE, wires.find("chat"), Prompt(text="größe"), a_load()).partition(b"\r\n\r\n")[2])
    assert f"Content-Length: {length}" in lines
    assert body["messages"] == [{"role": "user", "content": "größe"}]


def test_an_unknown_wire_names_the_known_ones():
    with pytest.raises(ValueError, match="no wire 'sse'; known: chat, completions, generate"):
        wires.find("sse")
