"""Slots of subjects of API_VERSION 2: the pass with time stamps, and an accept length that was asked for."""

import builtins
import time
from dataclasses import replace
from pathlib import Path

import pytest

from perfguard.protocol import Spec
from runners import in_process
from runners.contract import InvalidError, Launch

# Refuses every drafted token, and notes prefills (with or without stamps, is garbage collected) and closings.
ENTRY = """
import builtins
import gc

API_VERSION = 2

class Session:
    run_ahead, num_drafted = 0, 2
    def prefill(self, prompts, mode="plain", marks=False):
        builtins.perfguard_seen.append((mode, "stamped" if marks else "measured", gc.isenabled()))
        return [7 for _ in prompts]
    def decode(self): pass
    def draft(self): pass
    def verify(self): pass
    def accept(self): pass
    def read(self): return [[8]]
    def synchronize(self): pass
    def marks(self): return {"decode_s": 1e-9}
    def peak_memory_bytes(self): return 1
    def describe(self): return {}
    def close(self): builtins.perfguard_seen.append("closed")

def build(spec):
    return Session()
"""


@pytest.fixture
def seen(monkeypatch):
    monkeypatch.setattr(builtins, "perfguard_seen", [], raising=False)
    return builtins.perfguard_seen


@pytest.fixture
def launch(tmp_path):
    """launch(**params): a launch of four slots, both modes in each."""
    roots = tmp_path / "one", tmp_path / "two"
    for root in roots:
        (root / "model").mkdir(parents=True)
        (root / "model" / "__init__.py").write_text("")
        (root / "model" / "entry.py").write_text(ENTRY)
    (tmp_path / "prompts.json").write_text('{"prompts": [[0, 10], [0, 20]]}')
    slots = tuple(str(root) for root in (*roots, *reversed(roots)))

    def make(**params):
        spec = Spec(
            trial="t1", runner="tp_moe", modes=("plain", "eagle3"), subject_root=slots[0], seed=5, slots=slots,
            params={"prompts": 2, "tokens": 20, "num_draft_tokens": 2, "prompt_file": str(tmp_path / "prompts.json")}
            | params,
            result=str(tmp_path / "result-{rank}"), ready=str(tmp_path / "ready-{rank}"),
        )  # fmt: skip
        return Launch(spec=spec, rank=0, world_size=1, subject_root=roots[0], started_s=time.perf_counter())

    return make


def test_stamps_are_taken_when_all_modes_have_been_measured(launch, seen):
    measured = in_process.run(launch())
    warm_up, timed, rest = seen[:8], seen[8:24], seen[24:]
    assert {what for _, what, _ in warm_up} == {"measured"}
    # Two prompts in each of four slots, mode after mode; no garbage collection inside the measured part alone.
    assert timed == [(mode, "measured", False) for mode in ("plain", "eagle3") for _ in range(8)]
    assert rest == [("plain", "stamped", True), ("eagle3", "stamped", True)] * 4 + ["closed"] * 4
    assert [slot["counts"]["plain"]["marks"]["decode_s"] for slot in measured.slots] == [1e-9] * 4


def test_what_a_slot_measured_is_summed_up_once_for_each_mode(launch, seen, monkeypatch):
    calls = []
    for mode, module in in_process.MODES.items():
        real = module.summarise
        monkeypatch.setattr(module, "summarise", lambda *a, real=real, mode=mode: calls.append(mode) or real(*a))
    monkeypatch.setattr(in_process, "warm_up", lambda *_: None)
    in_process.run(launch())
    assert calls == ["plain", "eagle3"] * 4


def test_an_accept_length_that_was_asked_for_and_missed_makes_slots_invalid_when_all_are_closed(launch, seen):
    # Each of 2 x 19 cycles emits one token.
    with pytest.raises(InvalidError, match=r"accept length 1\.000 in 38 cycles, but 3\.000 was asked for"):
        in_process.run(launch(accept_length=3.0))
    assert seen[-4:] == ["closed"] * 4


# Says 9 where it speculates and 8 otherwise; its logits of the two are 0.1 apart.
PARTING = """
    def next_logits(self, tokens, ids):
        builtins.perfguard_seen.append(("asked", tuple(tokens), ids))
        return [3.0, 2.9, 3.0]
"""


def parting(root):
    entry = root / "model" / "entry.py"
    text = entry.read_text().replace("return [[8]]", "return [[9 if self.mode == 'eagle3' else 8]]")
    text = text.replace("        return [7 for", "        self.mode = mode\n        return [7 for")
    text = text.replace("return 1\n", "builtins.perfguard_seen.append('peak'); return 1\n")
    text = text.replace("return {}", "return {'target': {'num_layers': 8, 'hidden_size': 4}}")
    entry.write_text(text.replace("\ndef build", f"{PARTING}\ndef build"))


@pytest.mark.parametrize("slot_modes", [(), ("plain", "eagle3", "eagle3", "plain")])
def test_a_slot_that_speculates_is_asked_where_it_parts_from_plain_decoding_when_memory_was_read(
    launch, seen, slot_modes
):
    asked = launch(dtype="bfloat16")
    spec = asked.spec
    for root in spec.slots[:2]:
        parting(Path(root))
    if slot_modes:  # slots of one root then share its instance
        spec = replace(spec, slots=(spec.slots[0],) * 4, slot_modes=slot_modes)
    measured = in_process.run(replace(asked, spec=spec))
    # By hand: 8 layers, 2 * 4 / 256 of 3.0 is 0.094, less than the gap.
    told = {"num_differing": 2, "num_explained": 0, "worst_gap": pytest.approx(0.1), "worst_bound": 24 / 256}
    for slot, mode in zip(measured.slots, slot_modes or ("eagle3",) * 4, strict=True):
        counts = slot["counts"].get("eagle3", {})
        assert counts.get("first_differences") == (told if mode == "eagle3" else None)
        assert counts.get("first_difference_explained") is (False if mode == "eagle3" else None)
    questions = [place for place, what in enumerate(seen) if what[0] == "asked"]
    assert [seen[place] for place in questions[:2]] == [("asked", (0, 10, 7), (8, 9)), ("asked", (0, 20, 7), (8, 9))]
    assert len(questions) == 2 * (2 if slot_modes else 4)
    # Whatever is measured or stamped has been by then.
    assert max(place for place, what in enumerate(seen) if what == "peak" or "eagle3" in what) < min(questions)


def test_nobody_is_asked_where_acceptance_is_set(launch, seen):
    asked = launch(accept_length=1.0)
    for root in asked.spec.slots[:2]:
        parting(Path(root))
    measured = in_process.run(asked)
    assert not any(what[0] == "asked" for what in seen)
    assert "first_differences" not in measured.slots[0]["counts"]["eagle3"]
