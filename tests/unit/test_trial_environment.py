"""What measured processes get of the environment, what is stored of it, and whether it arrived."""

from pathlib import Path

import pytest

from perfguard.trial.environment import (
    changes,
    command_environment,
    lost_on_the_way,
    runner_environment,
    undelivered,
    unlike,
)
from perfguard.trial.secrets import REDACTED, redact

BEFORE = "it had not arrived when the process began (a launcher or wrapper in front of it)"
USER = {
    "PATH": "/bin",
    "HOME": "/home/u",
    "CUDA_VISIBLE_DEVICES": "1",
    "NCCL_PROTO": "LL",
    "LD_PRELOAD": "/x.so",
    "PYTHONPATH": "/mine",
    "OMP_NUM_THREADS": "64",
    "GIT_DIR": "/r/.git",
    "TRITON_CACHE_DIR": "/shared",
    "HF_TOKEN": "hf_x",
}


def test_a_runner_gets_the_allow_list_and_what_was_asked_for_and_nothing_else():
    seen = runner_environment(USER, {"NCCL_ALGO": "Ring", "HOME": "/other"}, Path("/c"))
    assert {name: seen[name] for name in ("PATH", "HOME", "CUDA_VISIBLE_DEVICES", "NCCL_ALGO", "OMP_NUM_THREADS")} == {
        "PATH": "/bin", "HOME": "/other", "CUDA_VISIBLE_DEVICES": "1", "NCCL_ALGO": "Ring", "OMP_NUM_THREADS": "1",
    }  # fmt: skip
    assert not {"NCCL_PROTO", "LD_PRELOAD", "PYTHONPATH", "GIT_DIR", "HF_TOKEN"} & set(seen)
    assert seen["PERFGUARD_ASKED"] == "HOME,NCCL_ALGO"


def test_compile_caches_lie_in_the_folder_of_the_build_for_runners_and_commands():
    runner = runner_environment(USER, {}, Path("/c/1"))
    command = command_environment(USER, {}, Path("/c/1"), trial="t", commit="c")
    for seen in (runner, command):
        for name in ("TRITON_CACHE_DIR", "TORCHINDUCTOR_CACHE_DIR", "TORCH_EXTENSIONS_DIR", "CUDA_CACHE_PATH"):
            assert seen[name].startswith("/c/1/")
    asked = command_environment(USER, {"TRITON_CACHE_DIR": "/asked"}, Path("/c"), trial="t", commit="c")
    assert asked["TRITON_CACHE_DIR"] == "/asked"


def test_a_command_inherits_everything_but_what_git_left_and_is_not_told_its_side():
    seen = command_environment(USER, {"NCCL_PROTO": "Simple"}, Path("/c"), trial="t7", commit="abc")
    assert {name: seen[name] for name in ("PATH", "PYTHONPATH", "OMP_NUM_THREADS", "HF_TOKEN", "NCCL_PROTO")} == {
        "PATH": "/bin", "PYTHONPATH": "/mine", "OMP_NUM_THREADS": "64", "HF_TOKEN": "hf_x", "NCCL_PROTO": "Simple",
    }  # fmt: skip
    assert "GIT_DIR" not in seen
    ours = {name: value for name, value in seen.items() if name.startswith("PERFGUARD_")}
    assert ours == {"PERFGUARD_TRIAL": "t7", "PERFGUARD_COMMIT": "abc"}


@pytest.mark.parametrize(
    "name",
    ["HF_TOKEN", "AWS_SECRET_ACCESS_KEY", "MY_PASSWORD", "apiKey", "OPENAI_API_KEY", "SSH_KEY", "DB_PASS", "BASIC_AUTH",
     "GITHUB_PAT", "SESSION_COOKIE", "exec:HF_TOKEN", "GOOGLE_APPLICATION_CREDENTIALS"],
)  # fmt: skip
def test_secrets_are_redacted_by_name(name):
    assert redact({name: "plain words"}) == {name: REDACTED}


@pytest.mark.parametrize(
    ("value", "stored"),
    [
        ("https://user:pa55@host/simple", f"https://{REDACTED}@host/simple"),
        ("https://ghp_abc@host:80/x and http://b:c@d", f"https://{REDACTED}@host:80/x and http://{REDACTED}@d"),
        ("x ghp_" + "a1" * 15, f"x {REDACTED}"),
        ("hf_" + "A" * 34, REDACTED),
        ("sk-proj-" + "Ab1" * 10, REDACTED),
        ("AKIA" + "Q" * 16, REDACTED),
        ("glpat-" + "a" * 20, REDACTED),
        ("Authorization: Bearer abcdefghijklmnop1234", f"Authorization: {REDACTED}"),
        ("eyJhbGciOiJI.eyJzdWIiOiIx.c2lnbmF0dXJl", REDACTED),
        ("-----BEGIN OPENSSH PRIVATE KEY-----\nabc\n-----END", REDACTED),
    ],
)
def test_secrets_are_redacted_by_their_shape(value, stored):
    assert redact({"ANY": value}) == {"ANY": stored}


def test_what_is_no_secret_stays_readable():
    plain = {
        "PATH": "/usr/bin:/bin", "NCCL_PROTO": "LL", "CUDA_VISIBLE_DEVICES": "0,1", "PWD": "/home/u", "KEYBOARD": "us",
        "TOKENIZERS_PARALLELISM": "false", "AUTHOR": "me", "MONKEY": "1", "URL": "https://host/path@2",
        "EMPTY_TOKEN": "", "SSH_AUTH_SOCK": "/tmp/s", "TASK": "task-force-of-sixteen", "COMPASS": "north",
    }  # fmt: skip
    assert redact(plain) == plain


def test_a_variable_that_arrived_everywhere_is_no_reason():
    ranks = [{"NCCL_PROTO": "LL", "RANK": "0", "LOCAL_RANK": "0"}, {"NCCL_PROTO": "LL", "RANK": "1", "LOCAL_RANK": "1"}]
    assert undelivered({"NCCL_PROTO": "LL"}, ranks) == ()
    assert undelivered({}, []) == ()


def test_rank_and_variable_are_named_where_it_did_not_arrive():
    reasons = undelivered({"NCCL_PROTO": "LL"}, [{"NCCL_PROTO": "LL"}, {}, {"NCCL_PROTO": "Simple"}])
    assert [(reason.code, reason.text) for reason in reasons] == [
        ("environment", f"rank 1 does not see NCCL_PROTO, asked for as 'LL': {BEFORE}"),
        ("environment", f"rank 2 sees NCCL_PROTO='Simple', asked for 'LL': {BEFORE}"),
    ]


def test_a_variable_that_only_some_ranks_have_is_named_though_nobody_asked_for_it():
    reasons = undelivered({}, [{"A": "1"}, {"A": "1", "NCCL_ALGO": "Ring"}, {"A": "2", "NCCL_ALGO": "Ring"}])
    assert [reason.text for reason in reasons] == [
        "A is '1' on rank 0 and '2' on rank 2",
        "NCCL_ALGO is not set on rank 0 and 'Ring' on rank 1",
    ]


def test_a_secret_that_did_not_arrive_is_not_printed():
    (reason,) = undelivered({"HF_TOKEN": "hunter2"}, [{"HF_TOKEN": "hunter3"}])
    assert "hunter" not in reason.text


@pytest.mark.parametrize(
    ("seen", "place"),
    [
        ({"NCCL_PROTO": "Simple"}, BEFORE),
        ({"exec:NCCL_PROTO": "LL", "start:NCCL_PROTO": ""}, "changed while Python started, by /site/sitecustomize.py"),
        (
            {"NCCL_PROTO": "Simple", "exec:NCCL_PROTO": "LL", "start:NCCL_PROTO": "Simple"},
            "changed while Python started, by /site/sitecustomize.py",
        ),
        (
            {"NCCL_PROTO": "Simple", "exec:NCCL_PROTO": "LL"},
            "changed after the process began, by the code under test or a library that it imports",
        ),
    ],
)
def test_the_place_where_a_variable_got_lost_is_named(seen, place):
    (reason,) = undelivered({"NCCL_PROTO": "LL"}, [seen], ["/site/sitecustomize.py"])
    assert reason.text.endswith(f": {place}")


def test_what_nobody_asked_for_and_changed_on_the_way_is_named_with_its_place():
    seen = {"NCCL_ALGO": "Ring", "exec:NCCL_ALGO": "", "start:NCCL_ALGO": "Ring", "OMP_NUM_THREADS": "1"}
    assert changes(seen, "/s.py") == {"NCCL_ALGO": "changed while Python started, by /s.py"}


def test_ranks_on_other_software_are_named():
    one = {"python": "CPython 3.11.7", "packages": {"numpy": "2.1"}, "torch": {"version": "2.9"}}
    other = {"python": "CPython 3.11.7", "packages": {}, "torch": {"version": "2.8"}}
    assert unlike([one, one]) == unlike([]) == ()
    assert [reason.text for reason in unlike([one, other])] == [
        "numpy is 2.1 on rank 0 and missing on rank 1",
        "torch version is 2.9 on rank 0 and 2.8 on rank 1",
    ]


def process(rank="", **environment):
    return {"rank": rank, "environment": environment, "software": {"startup": {"sitecustomize": {"path": "/s.py"}}}}


def test_a_helper_of_a_command_may_lack_a_variable_but_not_a_rank_and_not_all():
    asked = {"NCCL_PROTO": "LL"}
    assert lost_on_the_way(asked, [process(NCCL_PROTO="LL"), process()]) == ()
    assert lost_on_the_way(asked, []) == ()  # no Python process told anything
    (all_lack,) = lost_on_the_way(asked, [process(), process()])
    assert all_lack.text.startswith("no Python process of the command sees NCCL_PROTO='LL' as asked for, but not set: ")
    (rank_lacks,) = lost_on_the_way(asked, [process("0", NCCL_PROTO="LL"), process("1"), process()])
    assert rank_lacks.text.startswith("rank 1 does not see NCCL_PROTO='LL' as asked for, but not set: ")
