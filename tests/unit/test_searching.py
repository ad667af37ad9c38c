"""The story of a search with comparisons that are scripted instead of measured."""

from dataclasses import replace

import pytest
from campaign_cases import campaign as campaign_case
from subject_support import make_repository

from perfguard import experiment
from perfguard.errors import BuildError, Interrupted, NotComparableError, StoreError, UsageError
from perfguard.explaining.facts import Facts
from perfguard.policy import Policy
from perfguard.records import Arm
from perfguard.report.result_page import search_html
from perfguard.report.search import search_markdown
from perfguard.searching import StoredSide, plan_search, resume_search, search
from perfguard.store import Store, open_store
from perfguard.subject.repository import open_repository

POLICY = Policy(margin=0.05, max_blocks=4, max_confirm_blocks=4)


class Watcher:
    """Keeps what it was told."""

    def __init__(self):
        self.said = []

    def say(self, text):
        self.said.append(text)


@pytest.fixture
def repository(tmp_path):
    make_repository(tmp_path / "repo", {"engine.txt": "one"}, {"engine.txt": "two"})
    return open_repository(tmp_path / "repo")


@pytest.fixture
def store(tmp_path):
    with open_store(tmp_path / "results.db") as opened:
        yield opened


def side(repository, label, seconds, revision="HEAD", **changes):
    arm = Arm(side="base", revision=repository.resolve(revision), **changes)
    facts = Facts(label=label, values={"seconds": (seconds,)}, id="c-1", side="base")
    return StoredSide(label=label, arm=arm, campaign=campaign_case(), facts=facts)


def scripted(monkeypatch, is_slow, *, fails=lambda arm: False, before=lambda campaign: None):
    """Comparisons decided by `is_slow(arm)`, stored as real ones are. Returns what was compared."""
    compared = []

    def compare(campaign, repository, store, observer):
        store.add_campaign(campaign)
        before(campaign)
        if any(fails(arm) for arm in campaign.arms):
            raise BuildError("these do not go together")
        compared.append(campaign)
        base, head = map(is_slow, campaign.arms)
        outcome = "EQUIVALENT" if base == head else "REGRESSION" if head else "IMPROVEMENT"
        metrics = [{"name": "seconds", "primary": True, "slowdown": 1.4, "ci_low": 1.3, "ci_high": 1.5}]
        verdict = {"id": campaign.id, "outcome": outcome, "stopped": "", "metrics": metrics, "trials": {"ok": 8}}
        store.add_verdict(campaign.id, verdict)
        return verdict

    monkeypatch.setattr(experiment, "compare", compare)
    return compared


def searched(a, b, repository, store, **more):
    campaign = plan_search(a, b, repository, POLICY, seed=3, **more)
    return search(campaign, repository, store, Watcher())


def test_the_factor_that_matters_is_named_with_its_values(repository, store, monkeypatch):
    a = side(repository, "then", 1.0, env={"NCCL_PROTO": "LL", "NCCL_ALGO": "Ring"})
    b = side(repository, "now", 1.4, env={"NCCL_ALGO": "Tree"})
    compared = scripted(monkeypatch, lambda arm: arm.env.get("NCCL_PROTO") != "LL")
    result = searched(a, b, repository, store, not_toggled=[{"name": "software: torch", "a": "2.8", "b": "2.9"}])
    assert result["found"] == ["NCCL_PROTO"]
    assert result["sentence"] == (
        "NCCL_PROTO (LL in A, not set in B) makes B slower by 40.0 %; a wrong set is named in at most 0.5 %. "
        "Not toggled, so neither blamed nor acquitted: software: torch."
    )
    assert result["trials"] == 8 * len(compared)
    assert [dict(arm.env) for arm in compared[0].arms] == [
        {"NCCL_PROTO": "LL", "NCCL_ALGO": "Ring"},
        {"NCCL_ALGO": "Tree"},
    ]
    assert {one.policy["is_confirmed"] for one in compared} == {True, False}
    assert len({one.seed for one in compared}) == len(compared)
    assert "| software: torch | 2.8 | 2.9 | not toggled |" in search_markdown(result)
    page = search_html(result)
    assert '<th scope="row">software: torch</th><td>2.8</td><td>2.9</td><td>not toggled</td>' in page
    assert 'class="verdict explained"' in page


def test_the_commit_is_named_where_it_is_the_commit(repository, store, monkeypatch):
    a = side(repository, "then", 1.0, "HEAD~1", env={"NCCL_ALGO": "Ring"})
    b = side(repository, "now", 1.4)
    slow = b.arm.revision.commit
    scripted(monkeypatch, lambda arm: arm.revision.commit == slow)
    assert searched(a, b, repository, store)["found"] == ["commit"]


def test_a_lost_patch_and_a_parameter_that_only_together_are_slow_are_both_named(repository, store, monkeypatch):
    (repository.root / "engine.txt").write_text("patched")
    patched = side(repository, "then", 1.0, "WORKTREE", params={"layers": 2})
    plain = side(repository, "now", 1.4, params={"layers": 3})
    is_slow = lambda arm: not arm.revision.patch and arm.params["layers"] == 3  # noqa: E731
    fake = replace(patched.campaign.workload, runner="fake", command=())
    sides = [replace(s, campaign=replace(s.campaign, workload=fake)) for s in (patched, plain)]
    scripted(monkeypatch, is_slow)
    result = searched(*sides, repository, store)
    assert sorted(result["found"]) == ["layers", "patch"]


def test_equal_now_is_not_reproducible_and_the_number_stands_alone(repository, store, monkeypatch):
    compared = scripted(monkeypatch, lambda arm: False)
    result = searched(
        side(repository, "then", 1.0, env={"NCCL_PROTO": "LL"}), side(repository, "now", 1.4), repository, store
    )
    assert (result["outcome"], result["exit_code"], len(compared)) == ("NOT_REPRODUCIBLE", 0, 1)
    assert "The earlier number stands alone." in result["sentence"]


@pytest.mark.parametrize(
    ("env", "verdicts"),
    [
        ({"NCCL_PROTO": "LL"}, ["makes none now"]),
        ({"NCCL_PROTO": "LL", "NCCL_ALGO": "Ring"}, ["none of them together"] * 2),  # one may take back the other
    ],
)
def test_factors_are_acquitted_alone_only_if_there_is_one(repository, store, monkeypatch, env, verdicts):
    scripted(monkeypatch, lambda arm: False)
    result = searched(side(repository, "then", 1.0, env=env), side(repository, "now", 1.4), repository, store)
    assert [one["verdict"] for one in result["factors"]] == verdicts


def test_a_factor_is_not_acquitted_where_b_is_the_faster_one_now(repository, store, monkeypatch):
    """`now` has no stored number, so that a slow run against it comes out the other way round."""
    scripted(monkeypatch, lambda arm: arm.env.get("NCCL_PROTO") == "LL")
    a, b = side(repository, "then", 1.4, env={"NCCL_PROTO": "LL"}), side(repository, "now", 1.0)
    result = searched(a, replace(b, facts=replace(b.facts, values={})), repository, store)
    assert (result["outcome"], [one["verdict"] for one in result["factors"]]) == ("NOT_REPRODUCIBLE", ["open"])
    assert "B is the faster one. What makes it so was not searched." in result["sentence"]


def test_the_faster_one_is_a_whatever_the_order(repository, store):
    slow, fast = side(repository, "x", 1.4, env={"NCCL_ALGO": "Tree"}), side(repository, "y", 1.0)
    campaign = plan_search(slow, fast, repository, POLICY)
    assert campaign.method["of"] == ["y", "x"]
    assert campaign.arms[1].env == {"NCCL_ALGO": "Tree"}


def test_settings_that_do_not_go_together_are_gone_around(repository, store, monkeypatch):
    names = {f"NCCL_{k}": "1" for k in "ABCD"}
    a, b = side(repository, "then", 1.0, env=names), side(repository, "now", 1.4)
    # A and B gone while C and D are there does not run; D makes the difference.
    scripted(
        monkeypatch,
        lambda arm: "NCCL_D" not in arm.env,
        fails=lambda arm: set(arm.env) == {"NCCL_C", "NCCL_D"},
    )
    result = searched(a, b, repository, store)
    assert result["found"] == ["NCCL_D"]
    assert [one["why"] for one in result["questions"] if one["why"]] == ["these do not go together"]


def test_an_interrupted_search_asks_no_question_twice(repository, store, monkeypatch):
    a, b = side(repository, "then", 1.0, env={"NCCL_A": "1", "NCCL_B": "1"}), side(repository, "now", 1.4)

    def interrupt(campaign):
        if campaign.id.endswith("-q3"):
            raise KeyboardInterrupt

    is_slow = lambda arm: "NCCL_B" not in arm.env  # noqa: E731
    scripted(monkeypatch, is_slow, before=interrupt)
    campaign = plan_search(a, b, repository, POLICY, seed=3)
    with pytest.raises(Interrupted, match="2 questions are answered") as stopped:
        search(campaign, repository, store, Watcher())
    assert f"--experiment --resume {campaign.id}" in stopped.value.next_step
    assert store.status(campaign.id) == "interrupted"

    compared = scripted(monkeypatch, is_slow)

    def go_on(campaign, repository, store, observer, budget_s=None):
        compared.append(campaign)
        verdict = {"outcome": "EQUIVALENT", "stopped": "", "metrics": [], "trials": {"ok": 8}}
        store.add_verdict(campaign.id, verdict)
        return verdict

    monkeypatch.setattr(experiment, "measure_to_verdict", go_on)
    result = resume_search(campaign.id, repository, store, Watcher())
    assert result["found"] == ["NCCL_B"]
    assert [one.id.rpartition("-")[2] for one in compared] == ["q3", "q4"]
    assert store.campaign("latest").id == campaign.id


def test_a_spent_budget_names_nothing_and_says_how_it_goes_on(repository, store, monkeypatch):
    scripted(monkeypatch, lambda arm: False)
    a, b = side(repository, "then", 1.0, env={"NCCL_A": "1"}), side(repository, "now", 1.4)
    campaign = plan_search(a, b, repository, replace(POLICY, budget_s=1e-9))
    result = search(campaign, repository, store, Watcher())
    assert (result["outcome"], result["stopped"], result["found"]) == ("INCONCLUSIVE", "budget", [])
    assert result["next"] == f"perfguard explain --experiment --resume {campaign.id}"


def test_a_question_that_is_gone_on_with_has_the_budget_of_today_not_what_was_left_of_the_first(
    repository, store, monkeypatch
):
    a, b = side(repository, "then", 1.0, env={"NCCL_A": "1"}), side(repository, "now", 1.4)
    campaign = plan_search(a, b, repository, replace(POLICY, budget_s=600.0))

    def runs_out(campaign, repository, store, observer):
        store.add_campaign(replace(campaign, policy={**campaign.policy, "budget_s": 0.01}))
        verdict = {"outcome": "INCONCLUSIVE", "stopped": "budget", "metrics": [], "trials": {"ok": 0}}
        store.add_verdict(campaign.id, verdict)
        return verdict

    monkeypatch.setattr(experiment, "compare", runs_out)
    assert search(campaign, repository, store, Watcher())["stopped"] == "budget"
    budgets = []

    def go_on(campaign, repository, store, observer, budget_s=None):
        budgets.append(budget_s)
        return {"outcome": "EQUIVALENT", "stopped": "", "metrics": [], "trials": {"ok": 8}}

    monkeypatch.setattr(experiment, "measure_to_verdict", go_on)
    assert resume_search(campaign.id, repository, store, Watcher())["outcome"] == "NOT_REPRODUCIBLE"
    assert budgets[0] > 500


@pytest.mark.parametrize("is_marked", [True, False])
def test_a_full_disk_ends_with_the_command_that_resumes_the_search(repository, store, monkeypatch, is_marked):
    """Also where nothing can be written any more, not even the mark."""
    a, b = side(repository, "then", 1.0, env={"NCCL_A": "1"}), side(repository, "now", 1.4)

    def full(*_):
        if not is_marked:
            monkeypatch.setattr(Store, "set_status", full)
        raise StoreError("the disk is full", "free space")

    scripted(monkeypatch, lambda arm: True, before=full)
    campaign = plan_search(a, b, repository, POLICY)
    with pytest.raises(StoreError, match="the disk is full") as stopped:
        search(campaign, repository, store, Watcher())
    step = f"free space, then perfguard explain --experiment --resume {campaign.id} --db {store.path}"
    assert stopped.value.next_step == step
    assert store.status(campaign.id) == ("interrupted" if is_marked else "running")


def test_what_cannot_be_set_is_said_and_nothing_measured(repository, store, monkeypatch):
    monkeypatch.setenv("NCCL_PROTO", "Simple")
    a, b = side(repository, "then", 1.0, env={"NCCL_PROTO": "LL"}), side(repository, "now", 1.4)
    with pytest.raises(UsageError, match="NCCL_PROTO: it is set here"):
        plan_search(a, b, repository, POLICY)


def test_runs_of_another_command_are_not_compared(repository, store):
    a, b = side(repository, "then", 1.0, env={"NCCL_A": "1"}), side(repository, "now", 1.4)
    other = replace(b.campaign.workload, command=("sh", "other.sh"))
    with pytest.raises(NotComparableError, match="command differs"):
        plan_search(a, replace(b, campaign=replace(b.campaign, workload=other)), repository, POLICY)


def test_too_few_blocks_to_blame_anything_are_refused(repository, store):
    a, b = side(repository, "then", 1.0, env={"NCCL_A": "1"}), side(repository, "now", 1.4)
    with pytest.raises(UsageError, match="2 blocks are too few"):
        plan_search(a, b, repository, Policy(max_blocks=2, max_confirm_blocks=2, search_alpha=1e-4))
