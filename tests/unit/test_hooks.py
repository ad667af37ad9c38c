"""What is told of a suspicion, and that nothing a hook does matters. Real processes."""

import json
import time

import pytest

from perfguard.config import load
from perfguard.errors import UsageError
from perfguard.hooks import Hook, tell_of_suspicion

SUSPECT = {"outcome": "SUSPECT", "id": "c-1", "sentence": "Head may be 3 % slower – “perhaps”."}


def test_a_hook_gets_the_comparison_on_its_standard_input(tmp_path):
    assert tell_of_suspicion(Hook(command="cat > told.json", folder=tmp_path), SUSPECT) == ""
    assert json.loads((tmp_path / "told.json").read_text()) == SUSPECT


@pytest.mark.parametrize("outcome", ["REGRESSION", "IMPROVEMENT", "EQUIVALENT", "INCONCLUSIVE", "INVALID"])
def test_it_is_told_of_nothing_but_a_suspicion(outcome, tmp_path):
    assert tell_of_suspicion(Hook(command="touch told", folder=tmp_path), {**SUSPECT, "outcome": outcome}) == ""
    assert list(tmp_path.iterdir()) == []


def test_without_a_command_nothing_runs(tmp_path):
    assert tell_of_suspicion(Hook(command="", folder=tmp_path), SUSPECT) == ""


@pytest.mark.parametrize(("command", "problem"), [
    ("exit 3", "exit code 3"),
    ("kill -TERM $$", "ended by signal 15"),
    ("no-such-command-anywhere 2>/dev/null", "exit code 127"),
])  # fmt: skip
def test_a_hook_that_fails_is_said_and_nothing_more(command, problem, tmp_path):
    said = tell_of_suspicion(Hook(command=command, folder=tmp_path), SUSPECT)
    assert said == f"on_suspect {command!r}: {problem}; the verdict stands"


def test_a_hook_that_does_not_read_what_it_is_told_does_not_fail(tmp_path):
    large = {**SUSPECT, "reasons": ["x" * 1000] * 1000}  # far more than a pipe holds
    assert tell_of_suspicion(Hook(command="exec true", folder=tmp_path), large) == ""


def test_a_hook_that_hangs_is_ended_with_all_it_started(tmp_path):
    pids = tmp_path / "pid"
    hook = Hook(command=f"sleep 600 & echo $! > {pids}; wait", folder=tmp_path, limit_s=0.5)
    assert "did not end within 0.5 s" in tell_of_suspicion(hook, SUSPECT)
    pid = int(pids.read_text())
    for _ in range(500):
        if not is_alive(pid):
            return
        time.sleep(0.02)
    raise AssertionError(f"{pid} still runs")


def is_alive(pid):
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().rpartition(")")[2].split()[0] not in ("Z", "X")
    except OSError:
        return False


def test_a_folder_that_is_gone_is_said(tmp_path):
    assert "cannot be run" in tell_of_suspicion(Hook(command="true", folder=tmp_path / "gone"), SUSPECT)


def test_the_command_is_named_in_perfguard_toml(tmp_path):
    (tmp_path / "perfguard.toml").write_text("[hooks]\non_suspect = 'mail me'\n")
    assert load(tmp_path).on_suspect == "mail me"
    assert load(tmp_path / "elsewhere").on_suspect == ""


@pytest.mark.parametrize(("text", "message"), [
    ("[hooks]\non_suspicion = 'x'\n", "unknown key 'on_suspicion'; did you mean 'on_suspect'"),
    ("[hooks]\non_suspect = ['mail', 'me']\n", r"on_suspect = \['mail', 'me'\] is not a command"),
    ("hooks = 1\n", r"\[hooks\] is not a table"),
])  # fmt: skip
def test_a_wrong_hook_is_refused_before_anything_is_measured(text, message, tmp_path):
    (tmp_path / "perfguard.toml").write_text(text)
    with pytest.raises(UsageError, match=message):
        load(tmp_path)
