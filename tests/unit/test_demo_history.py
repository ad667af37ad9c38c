"""The commits that `perfguard demo` measures must still mean something for today's model."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from perfguard.demo import model_tree
from perfguard.demo_history import STEPS, Step, apply
from perfguard.errors import HarnessError

MODEL = Path(__file__).resolve().parents[2] / "model"


@pytest.fixture(scope="module")
def trees():
    """The tree before the first step and after each step."""
    tree = model_tree(MODEL)
    found = [tree]
    for step in STEPS:
        found.append(apply(step, found[-1]))
    return found


def changed(trees, tag):
    number = next(n for n, step in enumerate(STEPS) if step.tag == tag)
    before, after = trees[number], trees[number + 1]
    return {path: text for path, text in after.items() if before.get(path) != text}


def test_the_tree_of_a_commit_is_a_whole_model(trees, tmp_path):
    for path, text in trees[-1].items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    code = "import model.entry; print(model.entry.__file__)"
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True)
    assert (done.returncode, done.stdout.strip()) == (0, str(tmp_path / "model/entry.py")), done.stderr


def test_every_step_changes_something_and_leaves_python_that_parses(trees):
    for step, before, after in zip(STEPS, trees, trees[1:], strict=False):
        assert before != after, step.message
        for path, text in after.items():
            if path.endswith(".py"):
                ast.parse(text)


def test_the_slow_step_adds_collectives_after_each_sum_and_touches_nothing_else(trees):
    """Collectives: what a CPU shows at two ranks. The sum itself stays, so the output is the same."""
    files = changed(trees, "slow")
    assert list(files) == ["model/parallel.py"]
    reduce = next(n for n in ast.walk(ast.parse(files["model/parallel.py"])) if getattr(n, "name", "") == "all_reduce")
    called = [n.func.attr for n in ast.walk(reduce) if isinstance(n, ast.Call) and ast.unparse(n.func)[:5] == "dist."]
    assert called.count("all_reduce") == 1
    assert len(called) > 1


def test_the_documentation_step_touches_no_code(trees):
    assert list(changed(trees, "docs-only")) == ["TAPS.md"]


def test_the_step_with_other_output_changes_the_routing(trees):
    files = changed(trees, "other-output")
    assert list(files) == ["model/moe.py"]
    assert "torch.ones_like(best_BTK)" in files["model/moe.py"]


def test_tags_and_messages_are_unique():
    tags = [step.tag for step in STEPS if step.tag]
    assert len(set(tags)) == len(tags)
    assert len({step.message for step in STEPS}) == len(STEPS)


@pytest.mark.parametrize("text", ["nothing of it", "old old"])
def test_an_edit_whose_text_is_not_there_exactly_once_is_an_error(text):
    step = Step(message="Edit", edits={"a.py": ("old", "new")})
    with pytest.raises(HarnessError, match=r"'old' is not once in a\.py"):
        apply(step, {"a.py": text})
    assert apply(step, {"a.py": "one old"}) == {"a.py": "one new"}
