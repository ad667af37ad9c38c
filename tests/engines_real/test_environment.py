"""Where a real engine cannot be had, a reason says why; installs nothing."""

import sys

import pytest

from tests.engines_real import environment
from tests.engines_real.environment import Unavailable, provide, require_room, step


def test_too_little_room_is_told_with_both_sizes():
    require_room("disk", 6_000_000_000, 6_000_000_000)
    with pytest.raises(Unavailable, match=r"disk: 5\.9 GB are free, 6 GB are needed"):
        require_room("disk", 5_900_000_000, 6_000_000_000)


def test_a_step_that_fails_is_told_by_its_last_words():
    assert step(sys.executable, "-c", "print('installed')") == "installed\n"
    with pytest.raises(Unavailable, match=r"exit code 3 of .*: no network$"):
        step(sys.executable, "-c", "import sys; sys.stderr.write('WARNING: old pip\\nno network'); sys.exit(3)")


def test_an_environment_that_is_complete_is_used_and_one_of_another_recipe_is_made_anew(tmp_path, monkeypatch):
    made = []

    def install(engine, folder, python):
        made.append(engine.name)
        python.parent.mkdir(parents=True)
        python.touch()

    monkeypatch.setenv(environment.FOLDER_VARIABLE, str(tmp_path))
    monkeypatch.setattr(environment, "install", install)
    monkeypatch.setattr(environment, "require_room", lambda what, free, needed: None)
    python = tmp_path / "vllm" / "bin" / "python"
    assert [provide("vllm"), provide("vllm")] == [python, python]
    assert made == ["vllm"]
    (tmp_path / "vllm" / "complete").write_text("an older recipe")
    assert provide("vllm") == python
    assert made == ["vllm", "vllm"]
