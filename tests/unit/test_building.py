"""Builds of an arm with real commits and real setups: which one may come from the cache, and by which key."""

from dataclasses import asdict, replace
from pathlib import Path

import pytest
from subject_support import commit, git, make_repository

from perfguard.building import Builder
from perfguard.campaign import Request, Wish, plan_campaign
from perfguard.errors import BuildError
from perfguard.launching import Launcher
from perfguard.policy import Policy
from perfguard.stats.plan import plan_block
from perfguard.subject.buildkey import build_key
from perfguard.subject.repository import open_repository
from perfguard.subject.workspace import open_workspace
from perfguard.workloads import of_command

MAKE = 'echo x >> "$RUNS" && cc -o prog main.c && pwd > where'
PROGRAM = "int main(void) { return 0; }\n"


@pytest.fixture
def repo(tmp_path, monkeypatch):
    monkeypatch.setenv("RUNS", str(tmp_path / "runs"))
    make_repository(tmp_path / "repo", {"main.c": PROGRAM}, {"main.c": PROGRAM.replace("0", "1")})
    return tmp_path / "repo"


@pytest.fixture
def workspace(tmp_path):
    with open_workspace(tmp_path / "cache") as opened:
        yield opened


def builder(repo, workspace, base="HEAD~1", head="HEAD", setup=MAKE, policy=None, **wish):
    repository = open_repository(repo)
    workload = of_command(("./prog",), metric="", better="lower", unit="", read="", setup=setup)
    wishes = (Wish(side="base", revision=base, **wish), Wish(side="head", revision=head, **wish))
    request = Request(wishes=wishes, workload=workload, policy=policy or Policy(), seed=1)
    campaign = plan_campaign(request, repository)
    return Builder(campaign=campaign, repository=repository, workspace=workspace)


def num_runs(repo):
    runs = repo.parent / "runs"
    return len(runs.read_text().splitlines()) if runs.exists() else 0


def build_and_release(one, side=0, number=1):
    provided = one.build(one.campaign.arms[side], number)
    one.workspace.release(provided.build)
    return provided


def test_the_first_build_comes_from_the_cache_and_those_that_confirm_are_made_afresh(repo, workspace):
    one = builder(repo, workspace)
    assert [build_and_release(one, number=number).is_cached for number in (1, 2, 3)] == [False] * 3
    assert num_runs(repo) == 3
    assert build_and_release(one).is_cached
    assert num_runs(repo) == 3
    assert not build_and_release(one, number=2).is_cached
    assert num_runs(repo) == 4


def test_a_build_that_confirms_is_never_kept(repo, workspace):
    one = builder(repo, workspace)
    build_and_release(one, number=2)
    assert not build_and_release(one).is_cached
    assert num_runs(repo) == 2


def test_both_sides_at_one_commit_never_share_a_folder(repo, workspace):
    one = builder(repo, workspace, base="HEAD", head="HEAD")
    base, head = (one.build(arm, 1) for arm in one.campaign.arms)
    places = [Path((provided.build.checkout / "where").read_text().strip()) for provided in (base, head)]
    assert places == [base.build.checkout, head.build.checkout]
    assert places[0] != places[1]
    assert len(str(places[0])) == len(str(places[1]))


def test_head_of_one_campaign_is_base_of_the_next(repo, workspace):
    build_and_release(builder(repo, workspace), side=1)
    commit(repo, {"README": "more\n"})
    assert build_and_release(builder(repo, workspace), side=0).is_cached


def key(one):
    return build_key(one.facts(one.campaign.arms[1]))


def test_commit_patch_tag_setup_and_environment_change_the_key(repo, workspace, monkeypatch):
    known = {key(builder(repo, workspace))}
    assert key(builder(repo, workspace)) in known
    known.add(key(builder(repo, workspace, head="HEAD~1")))
    (repo / "main.c").write_text("int main(void) { return 2; }\n")
    known.add(key(builder(repo, workspace, head="WORKTREE")))
    (repo / "main.c").write_text("int main(void) { return 3; }\n")
    known.add(key(builder(repo, workspace, head="WORKTREE")))
    known.add(key(builder(repo, workspace, setup="make")))
    known.add(key(builder(repo, workspace, env={"CFLAGS": "-O3"})))
    known.add(key(builder(repo, workspace, python="/opt/python")))
    with monkeypatch.context() as other:
        other.setenv("CFLAGS", "-O1")
        known.add(key(builder(repo, workspace)))
    git(repo, "tag", "v1")
    known.add(key(builder(repo, workspace)))
    assert len(known) == 9


def test_a_secret_has_no_part_in_the_key(repo, workspace, monkeypatch):
    monkeypatch.setenv("PYPI_TOKEN", "one")
    before = key(builder(repo, workspace))
    monkeypatch.setenv("PYPI_TOKEN", "two")
    assert key(builder(repo, workspace)) == before


@pytest.mark.parametrize(
    ("setup", "limits"), [(MAKE, {"build_cache_gb": 0.0}), (MAKE, {"build_cache_hours": 0.0}), ("", {})]
)
def test_a_limit_of_nothing_or_no_setup_keeps_nothing(repo, workspace, setup, limits):
    one = builder(repo, workspace, setup=setup, policy=Policy(**limits))
    assert not build_and_release(one).is_cached
    assert not build_and_release(one).is_cached
    assert not (workspace.root / "builds").exists()


@pytest.mark.parametrize("number", [1, 2])
def test_the_log_of_a_failed_setup_outlives_its_campaign_and_the_failure_is_no_verdict(repo, tmp_path, number):
    root, switch = tmp_path / "cache", tmp_path / "network"
    setup = f"echo compiling; test -e {switch} || {{ echo no network >&2; exit 3; }}"
    with open_workspace(root) as workspace:
        one = builder(repo, workspace, setup=setup)
        with pytest.raises(BuildError, match=r"no network\nwhole log: ") as caught:
            one.build(one.campaign.arms[1], number)
    assert Path(caught.value.log).read_text() == "compiling\nno network\n"
    assert str(caught.value).startswith("head HEAD (")
    switch.touch()
    with open_workspace(root) as workspace:
        one = builder(repo, workspace, setup=setup)
        assert not one.build(one.campaign.arms[1], number).is_cached


def test_a_build_can_be_dropped_before_its_campaign_ends(repo, workspace):
    one = builder(repo, workspace)
    launcher = Launcher(campaign=one.campaign, repository=one.repository, workspace=workspace)
    (base, _) = one.campaign.arms
    for number in (1, 2):
        launcher.make_build(base, number)
        checkout = launcher.builds["base", number].checkout
        assert checkout.is_dir()
        launcher.drop_build(base, number)
        assert not checkout.exists()
        assert launcher.builds == {}
    (note,) = launcher.make_build(base, 1)
    assert note.startswith("base: build of ")


def test_builds_of_a_block_that_ran_are_dropped_unless_a_later_block_uses_them(repo, workspace):
    one = builder(repo, workspace)
    launcher = Launcher(campaign=one.campaign, repository=one.repository, workspace=workspace)
    plans = [plan_block(1, stage, index, 4) for stage in (1, 2) for index in range(3)]  # 2323, 4545, 2323 and so on
    for arm in one.campaign.arms:
        for number in range(1, 6):
            launcher.builds[arm.side, number] = workspace.new_build()
            launcher.provided[arm.side, number] = None
    kept = {}
    for plan in plans:
        launcher.drop_done(plan, plans)
        kept[plan.stage, plan.index] = sorted({number for _, number in launcher.builds})
        assert len(list(workspace.folder.glob("*/tree"))) == len(launcher.builds)
    assert [kept[1, index] for index in range(3)] == [[1, 2, 3, 4, 5]] * 3
    # The first pair is used again by the third block, the second pair by none.
    assert [kept[2, index] for index in range(3)] == [[1, 2, 3, 4, 5], [1, 2, 3], [1]]


def test_limits_of_a_stored_campaign_from_before_the_cache_are_today_s(repo, workspace):
    one = builder(repo, workspace)
    old = {name: value for name, value in asdict(Policy()).items() if not name.startswith("build_cache")}
    stored = replace(one, campaign=replace(one.campaign, policy=old))
    assert [build_and_release(stored).is_cached for _ in range(2)] == [False, True]
