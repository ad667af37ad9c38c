"""Two subjects that both call themselves `model` in one process: whose code runs, in what order, and when not."""

import sys
import time
from pathlib import Path

import pytest

from perfguard.protocol import SLOT_FIELDS, Spec
from runners import in_process, tables
from runners.contract import Launch, TogetherError
from runners.in_process import round_order

# Speaks the contract without torch. Its ids are the prompt's last id plus STEP, which is imported late.
ENTRY = """
import builtins
import importlib

API_VERSION = 1

class Part:
    def __init__(self, shape):
        self.shape = shape
    def named_parameters(self):
        return [("weight", self)]

class Session:
    def __init__(self, spec):
        self.target = Part((2, 3))
        self.newest = 0
    def prefill(self, prompt, mode="plain"):
        log = getattr(builtins, "perfguard_turns", None)
        if log is not None and len(prompt) > 1:
            log.append((__file__, prompt[-1]))
        from model import late
        self.newest = prompt[-1] + late.STEP
        return self.newest
    def decode(self, token):
        import helpers
        self.newest = token + importlib.import_module("model.later").STEP + helpers.STEP
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
    def describe(self): return {"target": {"hidden": 8}}
    def close(self): pass

def build(spec):
    return Session(spec)
"""


def subject(folder: Path, step: int, entry: str = ENTRY) -> str:
    (folder / "model").mkdir(parents=True)
    files = {"model/__init__.py": "", "model/entry.py": entry, "helpers.py": f"STEP = {step}\n"}
    files |= {f"model/{name}.py": f"STEP = {step}\n" for name in ("late", "later")}
    for name, text in files.items():
        (folder / name).write_text(text)
    return str(folder)


@pytest.fixture
def launch(tmp_path):
    """launch(base, head): a launch of slots base, head, head, base."""
    prompts = tmp_path / "prompts.json"
    prompts.write_text('{"prompts": [[0, 10], [0, 20], [0, 30]]}')

    def make(base, head, *, modes=("plain",), place="s1b0t0a0", rank=0, **params):
        slots = (base, head, head, base)
        params = {"prompts": 3, "tokens": 3, "prompt_file": str(prompts)} | params
        spec = Spec(
            trial="t1", runner="tp_moe", modes=modes, params=params, subject_root=slots[0], seed=5, slots=slots,
            place=place, result=str(tmp_path / "result-{rank}"), ready=str(tmp_path / "ready-{rank}"),
        )  # fmt: skip
        root = Path(slots[0])
        return Launch(spec=spec, rank=rank, world_size=1, subject_root=root, started_s=time.perf_counter())

    return make


@pytest.fixture
def pair(tmp_path):
    return subject(tmp_path / "one", 1), subject(tmp_path / "two", 2)


def ids(step):
    """By hand: prefill adds STEP once, each later step twice (model.later and helpers)."""
    return [[last + step, last + 3 * step, last + 5 * step] for last in (10, 20, 30)]


def test_modules_imported_late_inside_functions_are_the_instances_own(launch, pair):
    measured = in_process.run(launch(*pair))
    expected = [in_process.tp_moe.token_digest(ids(step)) for step in (1, 2, 2, 1)]
    assert [slot["digests"]["plain"] for slot in measured.slots] == expected


def test_every_slot_proves_where_its_modules_came_from(launch, pair):
    base, head = pair
    measured = in_process.run(launch(base, head))
    for slot, root in zip(measured.slots, (base, head, head, base), strict=True):
        assert {name: file["path"] for name, file in slot["origin"].items()} == {
            "model": f"{root}/model/__init__.py",
            "model.entry": f"{root}/model/entry.py",
            "model.late": f"{root}/model/late.py",
            "model.later": f"{root}/model/later.py",
        }


def test_every_slot_says_all_that_the_protocol_asks_for(launch, pair):
    measured = in_process.run(launch(*pair, modes=("plain", "eagle3")))
    assert len(measured.slots) == 4
    for slot in measured.slots:
        assert set(slot) == set(SLOT_FIELDS)
        assert {"plain_throughput", "eagle3_throughput", "eagle3_accept_length"} <= set(slot["values"])
        assert slot["counts"]["plain"]["steps"] == 6
        assert slot["measured_s"] > 0
    assert measured.values == {}


def test_only_rank_0_gives_numbers(launch, pair):
    measured = in_process.run(launch(*pair, rank=1))
    assert [set(slot) for slot in measured.slots] == [{"origin", "measured_s", "digests"}] * 4


def test_nothing_of_the_subjects_is_left_behind_and_what_was_there_is_back(launch, pair, monkeypatch):
    stranger = type(sys)("model")
    monkeypatch.setitem(sys.modules, "model", stranger)
    path = list(sys.path)
    before = {name for name in sys.modules if tables.is_model(name)}  # another test may have loaded the real one
    in_process.run(launch(*pair))
    assert sys.modules["model"] is stranger
    assert {name for name in sys.modules if tables.is_model(name)} == before
    assert "helpers" not in sys.modules
    assert sys.path == path


def test_two_instances_of_one_folder_share_no_module(pair):
    root = Path(pair[0])
    first, second = (tables.new_table(root, list(sys.path)) for _ in range(2))
    for table in (first, second):
        with table.active():
            import model.late  # noqa: F401
    assert first.modules.keys() == second.modules.keys() == {"model", "model.late"}
    assert first.modules["model.late"] is not second.modules["model.late"]


def test_each_round_gives_every_instance_one_turn_before_the_next_prompt(launch, pair, monkeypatch):
    turns = []
    monkeypatch.setattr("builtins.perfguard_turns", turns, raising=False)
    asked = launch(*pair)
    in_process.run(asked)
    warm_up, replayed = turns[:4], turns[4:]
    base, head = (f"{root}/model/entry.py" for root in pair)
    assert warm_up == [(base, 10), (head, 10), (head, 10), (base, 10)]
    files = [base, head, head, base]
    assert replayed == [
        (files[place], prompt)
        for number, prompt in enumerate((10, 20, 30))
        for place in round_order(asked, "plain", number)
    ]


def test_rounds_are_drawn_anew_and_alike_on_every_rank(launch, pair):
    asked = launch(*pair)
    orders = [tuple(round_order(asked, "plain", number)) for number in range(40)]
    assert all(sorted(order) == [0, 1, 2, 3] for order in orders)
    assert len(set(orders)) > 10
    assert orders == [tuple(round_order(launch(*pair, rank=1), "plain", number)) for number in range(40)]
    assert orders != [tuple(round_order(launch(*pair, place="s1b1t0a0"), "plain", number)) for number in range(40)]


@pytest.mark.parametrize(("old", "new", "said"), [
    ("API_VERSION = 1", "API_VERSION = 3", "API_VERSION is 3, supported: 1, 2"),
    ("Part((2, 3))", "Part((3, 2))", r"parameter session\.target\.weight is \(2, 3\) in .*one and \(3, 2\) in .*two"),
    ('"hidden": 8', '"hidden": 9', "target is {'hidden': 8} in .*one and {'hidden': 9} in .*two"),
    ("return Session(spec)", 'raise RuntimeError("the default process group exists")', "process group exists"),
    ("import builtins", "import builtins  # torch.library.custom_op", "model.entry of .*two registers operators"),
])  # fmt: skip
def test_subjects_that_cannot_live_together_are_declined_with_the_reason(launch, tmp_path, old, new, said):
    assert ENTRY.count(old) == 1
    base, head = subject(tmp_path / "one", 1), subject(tmp_path / "two", 2, ENTRY.replace(old, new))
    with pytest.raises(TogetherError, match=said):
        in_process.run(launch(base, head))


def test_what_the_first_instance_cannot_do_alone_is_no_matter_of_living_together(launch, tmp_path):
    broken = ENTRY.replace("return Session(spec)", 'raise RuntimeError("no weights")')
    with pytest.raises(RuntimeError, match="no weights"):
        in_process.run(launch(subject(tmp_path / "one", 1, broken), subject(tmp_path / "two", 2)))
