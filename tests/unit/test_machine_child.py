"""Our own small processes: what they say is theirs alone, and how they ended is told with its cause."""

import pytest

from perfguard.machine.child import ChildGone, start_child
from perfguard.machine.snapshot import Snapshot, snapshot

LIMIT_S = 60.0  # generous: the machine may be busy


@pytest.fixture
def child_of(tmp_path, monkeypatch):
    """Starts a child whose module has this text; only our own search path leads to it."""
    monkeypatch.syspath_prepend(str(tmp_path))
    children = []

    def start(text):
        name = f"child_{tmp_path.name}"
        (tmp_path / f"{name}.py").write_text(text)
        children.append(start_child(name))
        return children[-1]

    yield start
    for child in children:
        child.close(LIMIT_S)


SAYS = "import os\nfrom perfguard.machine.child import answer, listen\ndef main():\n"


def test_what_a_library_prints_is_no_answer(child_of):
    child = child_of(f"{SAYS}    os.write(1, b'NVML: driver says hello\\n')\n    answer({{'ready': True}})\n")
    assert child.hear(LIMIT_S) == {"ready": True}


@pytest.mark.parametrize("line", ["hello", "5", "{"])
def test_a_line_that_is_no_answer_counts_as_the_end_of_the_child(child_of, line):
    child = child_of(f"{SAYS}    os.write(0, b'{line}\\n')\n    listen(None)\n")
    with pytest.raises(ChildGone, match="did not speak our protocol"):
        child.hear(LIMIT_S)


def test_the_cause_of_its_end_is_told(child_of):
    child = child_of("import no_such_module_anywhere\n")
    with pytest.raises(ChildGone, match="exit code 1: ModuleNotFoundError: No module named 'no_such_module_anywhere'"):
        child.hear(LIMIT_S)


def test_a_child_that_ended_without_hearing_us_is_gone(child_of):
    child = child_of(f"{SAYS}    answer({{'ready': True}})\n    os._exit(7)\n")
    child.hear(LIMIT_S)
    child.process.wait(LIMIT_S)
    with pytest.raises(ChildGone, match="exit code 7"):
        child.ask({"do": "anything"}, LIMIT_S)


def test_a_snapshot_needs_no_installed_perfguard_and_says_why_it_failed(played, monkeypatch, tmp_path):
    monkeypatch.delenv("PYTHONPATH", raising=False)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("perfguard.machine.child._search_path", lambda: ["/nowhere"])
    taken = snapshot(["uuid"])
    assert taken == Snapshot(reason=taken.reason)
    assert taken.reason.startswith("NVML: its process ended with exit code 1: ModuleNotFoundError")
