"""Secrets are refused where they would be stored, and scrubbed from what programs print."""

import pytest
from campaign_cases import trial as make_trial

from perfguard.errors import UsageError
from perfguard.records import Reason
from perfguard.trial.secrets import REDACTED, refuse_secrets, scrub, scrubbed, secret_values, taken_from

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
