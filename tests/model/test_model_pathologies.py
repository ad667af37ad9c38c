"""Each pathology does what its name says, and none changes a token of greedy decoding."""

from dataclasses import fields

import pytest
import torch

from model.evaluate import generate_eagle3, generate_plain
from model.pathologies import Pathologies, parse_pathologies

PROMPT = [7, 30, 55, 2, 2, 61, 44, 9]
NAMES = [item.name for item in fields(Pathologies)]


def test_none_is_on_unless_it_is_named():
    assert parse_pathologies([]) == Pathologies()
    assert not any(getattr(Pathologies(), name) for name in NAMES)
    assert parse_pathologies(["no_draft_extension"]) == Pathologies(no_draft_extension=True)


# Without graphs nothing can be outside of one: tests/gpu/test_decode_gpu.py.
@pytest.mark.parametrize("name", [name for name in NAMES if name != "verify_outside_graph"])
def test_tokens_stay_what_they_are(trained_folder, open_session, name):
    prompt = list(range(60, 90))
    session = open_session(trained_folder, pathologies=[name])
    assert generate_eagle3(session, prompt, 16)[0] == generate_plain(open_session(trained_folder), prompt, 16)


def accept_length(session, prompts):
    emitted = [count for prompt in prompts for count in generate_eagle3(session, prompt, 48)[1]]
    return sum(emitted) / len(emitted)


@pytest.mark.parametrize("name", ["no_draft_extension", "wrong_tap_layers"])
def test_what_the_draft_is_not_given_costs_accept_length(trained_folder, open_session, trained_prompts, name):
    sick = accept_length(open_session(trained_folder, dtype="float32", pathologies=[name]), trained_prompts)
    well = accept_length(open_session(trained_folder, dtype="float32"), trained_prompts)
    print(f"{name}: {sick:.2f} against {well:.2f}")
    assert sick < 0.98 * well


def test_wrong_taps_are_those_of_the_layer_before(random_folder, open_session):
    session = open_session(random_folder, pathologies=["wrong_tap_layers"])
    assert session.describe()["tap_layers"] == [1, 2, 3]


def test_the_copy_takes_the_experts_of_the_first_row(random_folder, open_session, monkeypatch):
    session = open_session(random_folder, pathologies=["redundant_expert_copy"])
    session.prefill([PROMPT])
    copied = []
    real = torch.Tensor.index_select
    monkeypatch.setattr(torch.Tensor, "index_select", lambda x, dim, ids: copied.append(len(ids)) or real(x, dim, ids))
    session.decode()
    assert copied == [2, 2] * 7  # two experts a token, gate and up then down, in each of seven layers


def test_the_host_waits_after_every_step(random_folder, open_session, monkeypatch):
    session = open_session(random_folder, pathologies=["sync_every_step"])
    waits = []
    monkeypatch.setattr(session, "synchronize", lambda: waits.append(1))
    generate_plain(session, PROMPT, 4)
    assert len(waits) == 3
