"""Secrets are refused where they would be stored, and scrubbed from what programs print."""

import pytest
from campaign_cases import trial as make_trial

from perfguard.errors import UsageError
from perfguard.records import Reason
from perfguard.trial.secrets import (
    REDACTED,
    redact_words,
    refuse_secret_settings,
    refuse_secrets,
    scrub,
    scrubbed,
    secret_values,
    taken_from,
)

ENVIRON = {
    "HF_TOKEN": "swordfish-1", "DB_PASSWORD": "short", "PIP_INDEX_URL": "https://me:letmein99@host/simple",
    "HOME": "/home/me", "X": "ghp_" + "a1" * 15,
}  # fmt: skip


def test_values_of_secrets_are_known_by_name_and_by_shape_the_longest_first():
    # "short" has fewer than six letters: it would be found in innocent words.
    assert secret_values(ENVIRON) == ("ghp_" + "a1" * 15, "me:letmein99", "swordfish-1")


def test_a_trial_is_stored_without_what_a_program_printed():
    reason = Reason(code="crashed", text="login with swordfish-1 failed")
    record = {"log_tail": "token=swordfish-1", "ranks": [{"argv": ("x", "me:letmein99")}], "samples": [1.0, 2.0]}
    stored = scrubbed(make_trial(1, 0, 0, "base", 1.0, reasons=(reason,), record=record), ENVIRON)
    assert stored.reasons[0].text == f"login with {REDACTED} failed"
    assert stored.record == {
        "log_tail": f"token={REDACTED}", "ranks": [{"argv": ("x", REDACTED)}], "samples": [1.0, 2.0],
    }  # fmt: skip


def test_what_has_the_shape_of_a_secret_is_scrubbed_though_nobody_knows_it():
    assert scrub("key hf_" + "B" * 34, ()) == f"key {REDACTED}"


@pytest.mark.parametrize(
    ("asked", "words"),
    [({"HF_TOKEN": "abc"}, []), ({"URL": "https://u:p4ssw0rd@h"}, []), ({}, ["bench", "--key=swordfish-1"])],
)
def test_a_secret_that_would_be_stored_is_refused_and_not_repeated(asked, words):
    with pytest.raises(UsageError) as refused:
        refuse_secrets(asked, words, ENVIRON)
    shown = str(refused.value) + refused.value.next_step
    assert not any(value in shown for value in ("abc", "p4ssw0rd", "swordfish"))


def test_a_secret_that_is_named_is_taken_from_the_environment_at_each_launch():
    refuse_secrets({"HF_TOKEN": REDACTED, "NCCL_PROTO": "LL"}, ["bench"], ENVIRON)
    asked = {"HF_TOKEN": REDACTED, "NCCL_PROTO": "LL"}
    assert taken_from(ENVIRON, asked) == {"HF_TOKEN": "swordfish-1", "NCCL_PROTO": "LL"}
    with pytest.raises(UsageError, match="HF_TOKEN is asked for, its value is never stored, and it is not set here"):
        taken_from({}, asked)


@pytest.mark.parametrize(
    "words",
    [
        ["sh", "-c", "API_TOKEN=hunter22 python bench.py"],
        ["pip install --index-url https://me:hunter22@host/simple"],
        ["bench", "--password", "hunter22"],
        ["bench", "--api-key=hunter22"],
        ["bench --auth-token hunter22 --fast"],
        ["bench", "password=hunter22"],
        ["DB_PASS='hunter22 x' make"],
    ],
)
def test_a_secret_that_a_command_spells_out_is_refused_and_redacted(words):
    with pytest.raises(UsageError, match="holds a secret"):
        refuse_secrets({}, words, {})
    assert "hunter22" not in " ".join(redact_words(words))


@pytest.mark.parametrize(
    "words",
    [
        ["bench", "--tokens", "64", "--max-new-tokens=64", "--pad-token", "0"],
        ["MAX_TOKENS=64 API_TOKEN=$API_TOKEN make"],
        ["bench", "--sort-key", "time", "key=time", "--tokenizer", "gpt2", "--author", "me"],
        ["sh", "-c", 'export HF_TOKEN="$(cat file)"'],
    ],
)
def test_words_that_only_look_like_a_secret_stay(words):
    assert redact_words(words) == words
    refuse_secrets({}, words, {})


def test_a_parameter_that_looks_like_a_secret_is_refused_and_a_number_of_tokens_is_none():
    refuse_secret_settings({"tokens": 64, "tokenizer": "gpt2", "dtype": "float32"}, ENVIRON)
    for params in ({"api_key": "hunter22"}, {"url": "https://u:hunter22@h"}, {"x": "swordfish-1"}):
        with pytest.raises(UsageError, match="looks like a secret"):
            refuse_secret_settings(params, ENVIRON)
