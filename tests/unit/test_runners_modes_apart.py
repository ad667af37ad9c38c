"""Slots of one launch that measure a mode each: what they share, what they answer, and what is refused."""

import time
from dataclasses import replace
from pathlib import Path

import pytest

from perfguard.protocol import Spec, read_spec, write
from runners import fake_in_process, in_process
from runners.contract import Launch

# Counts the instances that were built in the process, and says in which mode each prompt was taken in.
ENTRY = """
import builtins

API_VERSION = 1

class Session:
    def __init__(self, spec):
        builtins.perfguard_built = getattr(builtins, "perfguard_built", 0) + 1
        self.newest = 0
    def prefill(self, prompt, mode="plain"):
        builtins.perfguard_turns.append(mode)
        self.newest = prompt[-1]
        return self.newest
    def decode(self, token):
        self.newest = token + 1
        return self.newest
    def draft(self):
        return [self.newest + 1]
    def verify(self, drafted):
        return [self.newest + 1, self.newest + 2]
    def accept(self, drafted, verified):
        self.newest = verified[1]
        return verified
    def synchronize(self): pass
    def marks(self): return {}
    def peak_memory_bytes(self): return 1
    def describe(self): return {}
    def close(self): pass

def build(spec):
    return Session(spec)
"""
MODES = ("plain", "eagle3", "eagle3", "plain")


@pytest.fixture
def launch(tmp_path, monkeypatch):
    monkeypatch.setattr("builtins.perfguard_built", 0, raising=False)
    monkeypatch.setattr("builtins.perfguard_turns", [], raising=False)
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "__init__.py").write_text("")
    (tmp_path / "model" / "entry.py").write_text(ENTRY)
    (tmp_path / "prompts.json").write_text('{"prompts": [[0, 10], [0, 20], [0, 30]]}')
    root = str(tmp_path)
    spec = Spec(
        trial="t1", runner="tp_moe", modes=("plain", "eagle3"), subject_root=root, seed=5, slots=(root,) * 4,
        params={"prompts": 3, "tokens": 5, "prompt_file": str(tmp_path / "prompts.json")}, slot_modes=MODES,
        result=str(tmp_path / "result-{rank}"), ready=str(tmp_path / "ready-{rank}"),
    )  # fmt: skip
    return Launch(spec=spec, rank=0, world_size=1, subject_root=tmp_path, started_s=time.perf_counter())


def test_slots_of_one_root_share_an_instance_and_answer_with_their_own_mode(launch):
    import builtins

    measured = in_process.run(launch)
    assert builtins.perfguard_built == 1
    assert [set(slot["counts"]) for slot in measured.slots] == [{mode} for mode in MODES]
    assert [f"{mode}_throughput" in slot["values"] for mode, slot in zip(MODES, measured.slots, strict=True)] == [
        True
    ] * 4
    assert len({digest for slot in measured.slots for digest in slot["digests"].values()}) == 1


def test_every_round_holds_two_turns_of_each_mode(launch):
    import builtins

    in_process.run(launch)
    timed = builtins.perfguard_turns[4:]  # each slot warms its mode up with one prompt
    rounds = [timed[start : start + 4] for start in range(0, 12, 4)]
    assert [sorted(turns) for turns in rounds] == [["eagle3", "eagle3", "plain", "plain"]] * 3


def test_modes_that_the_launch_does_not_have_are_refused(launch):
    for wrong in (("plain",), ("plain", "plain", "plain", "eagle9")):
        with pytest.raises(ValueError, match="slot_modes are"):
            in_process.run(replace(launch, spec=replace(launch.spec, slot_modes=wrong)))


def test_the_fake_runner_plans_rates_phases_and_another_output(launch, tmp_path):
    params = {"accept_rates": "0.5,0.4", "phases": "0.2,0.7,0.1", "eagle3_output": "other", "eagle3_speed": 150.0}
    measured = fake_in_process.run(replace(launch, spec=replace(launch.spec, runner="fake", params=params)))
    plain, eagle3 = measured.slots[0], measured.slots[1]
    assert set(plain["values"]) == {"plain_throughput"}
    assert eagle3["counts"]["eagle3"]["accepted_by_position"] == [500, 200]
    assert eagle3["values"]["eagle3_accept_length"] == pytest.approx(1.7)
    assert eagle3["samples"]["eagle3_verify_s"][0] == pytest.approx(0.7 * 1.7 / 150)
    assert plain["digests"]["plain"] != eagle3["digests"]["eagle3"]


def test_modes_of_slots_survive_the_file(launch, tmp_path):
    path = Path(tmp_path) / "spec.json"
    write(path, launch.spec)
    assert read_spec(path) == launch.spec
