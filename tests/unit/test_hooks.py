"""What is told of a suspicion, and that nothing a hook does matters. Real processes."""

import json
import time

import pytest

from perfguard.config import HOOKS, load
from perfguard.errors import UsageError
from perfguard.hooks import Hooks, tell_of_machine_change, tell_of_outcome

SUSPECT = {"outcome": "SUSPECT", "id": "c-1", "sentence": "Head may be 3 % slower – “perhaps”."}


def test_a_hook_gets_the_comparison_on_its_standard_input(tmp_path):
    assert tell_of_outcome(on_suspect("cat > told.json", folder=tmp_path), SUSPECT) == ""
    assert json.loads((tmp_path / "told.json").read_text()) == SUSPECT


def on_suspect(command, **more):
    return Hooks(commands={"on_suspect": command}, **more)


@pytest.mark.parametrize(("outcome", "told"), [
    ("REGRESSION", ["on_regression"]),
    ("CULPRIT", ["on_regression"]),
    ("SUSPECT", ["on_suspect"]),
    ("IMPROVEMENT", []),
    ("EQUIVALENT", []),
    ("INCONCLUSIVE", []),
    ("INVALID", []),
])  # fmt: skip
def test_each_outcome_is_told_to_its_own_hook_or_to_none(outcome, told, tmp_path):
    hooks = Hooks(commands={name: f"touch {name}" for name in HOOKS}, folder=tmp_path)
    assert tell_of_outcome(hooks, {**SUSPECT, "outcome": outcome}) == ""
    assert [path.name for path in tmp_path.iterdir()] == told


def test_a_machine_that_moved_is_told_with_its_notices_and_none_without(tmp_path):
    hooks = Hooks(commands={"on_machine_change": "cat > told.json"}, folder=tmp_path)
    assert tell_of_machine_change(hooks, []) == ""
    assert list(tmp_path.iterdir()) == []
    notice = {"code": "MACHINE_MOVED", "text": "driver: 1 then, 2 now"}
    assert tell_of_machine_change(hooks, [notice]) == ""
    told = json.loads((tmp_path / "told.json").read_text())
    assert told == {"schema": "perfguard/machine_moved@1", "notices": [notice]}


def test_without_a_command_nothing_runs(tmp_path):
    assert tell_of_outcome(on_suspect("", folder=tmp_path), SUSPECT) == ""


@pytest.mark.parametrize(("command", "problem"), [
    ("exit 3", "exit code 3"),
    ("kill -TERM $$", "ended by signal 15"),
    ("no-such-command-anywhere 2>/dev/null", "exit code 127"),
])  # fmt: skip
def test_a_hook_that_fails_is_said_and_nothing_more(command, problem, tmp_path):
    said = tell_of_outcome(on_suspect(command, folder=tmp_path), SUSPECT)
    assert said == f"on_suspect {command!r}: {problem}; the verdict stands"


def test_a_hook_that_does_not_read_what_it_is_told_does_not_fail(tmp_path):
    large = {**SUSPECT, "reasons": ["x" * 1000] * 1000}  # far more than a pipe holds
    assert tell_of_outcome(on_suspect("exec true", folder=tmp_path), large) == ""


def test_a_hook_that_hangs_is_ended_with_all_it_started(tmp_path):
    pids = tmp_path / "pid"
    hooks = on_suspect(f"sleep 600 & echo $! > {pids}; wait", folder=tmp_path, limit_s=0.5)
    assert "did not end within 0.5 s" in tell_of_outcome(hooks, SUSPECT)
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
    assert "cannot be run" in tell_of_outcome(on_suspect("true", folder=tmp_path / "gone"), SUSPECT)


def test_the_command_is_named_in_perfguard_toml(tmp_path):
    (tmp_path / "perfguard.toml").write_text("[hooks]\non_suspect = 'mail me'\n")
    assert load(tmp_path).hooks == {"on_suspect": "mail me"}
    assert load(tmp_path / "elsewhere").hooks == {}


@pytest.mark.parametrize(("text", "message"), [
    ("[hooks]\non_suspicion = 'x'\n", "unknown key 'on_suspicion'; did you mean 'on_suspect'"),
    ("[hooks]\non_suspect = ['mail', 'me']\n", r"on_suspect = \['mail', 'me'\] is not a command"),
    ("hooks = 1\n", r"\[hooks\] is not a table"),
])  # fmt: skip
def test_a_wrong_hook_is_refused_before_anything_is_measured(text, message, tmp_path):
    (tmp_path / "perfguard.toml").write_text(text)
    with pytest.raises(UsageError, match=message):
        load(tmp_path)
