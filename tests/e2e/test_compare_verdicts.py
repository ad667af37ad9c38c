"""`perfguard compare` from two commits to a verdict, as processes."""

import json
import subprocess

import pytest
from cli_support import codes, rows, texts

from perfguard.stats.plan import build_order

# Keys of the JSON contract; more may be added, none of these may go.
COMPARISON_KEYS = {
    "schema", "id", "outcome", "exit_code", "scope", "base", "head", "workload", "seed", "margin", "alpha", "metrics",
    "blocks", "trials", "reasons",
}  # fmt: skip
METRIC_KEYS = {
    "name", "unit", "better", "primary", "outcome", "slowdown", "ci_low", "ci_high", "base_median", "head_median",
    "p_order", "mde",
}  # fmt: skip
# A command whose time follows from the code. It sleeps: that is steady on a busy machine, computing is not.
BENCH = """\
import time
from engine import STEP_S
begin = time.perf_counter()
time.sleep(STEP_S)
print('{"seconds": %f}' % (time.perf_counter() - begin))
"""
SECONDS = ("--metric", "seconds", "--unit", "s")
# Speeds exactly as planned, and one primary metric.
FAKE = ("-w", "fake", "--set", "noise=0", "--modes", "plain")


@pytest.fixture
def engine(project):
    """A commit of documentation, then one that makes a step three times as long. As many fresh builds as ever."""
    settings = "[policy]\npause_share = 0\n"
    project.commit({"engine.py": "STEP_S = 0.05\n", "bench.py": BENCH, "README": "one\n", "perfguard.toml": settings})
    project.commit({"README": "two\n"}, "Say more")
    project.commit({"engine.py": "STEP_S = 0.15\n"}, "Slow down")
    return project


def test_a_slower_commit_is_a_confirmed_regression(engine):
    comparison = engine.compare(*SECONDS, "--", "python3", "bench.py", code=1)
    (metric,) = comparison["metrics"]
    assert (comparison["outcome"], metric["outcome"]) == ("REGRESSION", "REGRESSION")
    # 0.15 s against 0.05 s, and what a busy machine adds to both.
    assert 2.0 < metric["slowdown"] < 3.2
    assert metric["ci_low"] <= metric["slowdown"] <= metric["ci_high"]
    # Two blocks of suspicion, two of confirmation with fresh builds; two blocks apart are luck in 1 of 36.
    assert comparison["blocks"] == {"used": 4, "void": 0, "needed": None}
    assert comparison["trials"] == {"ok": 16, "invalid": 0, "crashed": 0, "timed_out": 0}
    assert metric["p_order"] == pytest.approx(1 / 36)
    assert "1 of 36" in texts(comparison)
    assert "1 of 1 changed files were loaded, each from its own checkout" in comparison["conclusions"]["can"]


def test_a_documentation_commit_is_never_a_change(engine):
    comparison = engine.compare(*SECONDS, "--", "python3", "bench.py", base="HEAD~2", head="HEAD~1", code=(0, 3))
    assert comparison["outcome"] in ("EQUIVALENT", "INCONCLUSIVE")
    assert "was seen loaded by Python" in comparison["conclusions"]["can"]


def test_the_same_seed_draws_the_same_orders_and_whatever_else_a_launch_draws(project):
    """The fake's noise stands for all that a launch draws from seed and place."""
    project.commit({"fake.json": {"noise": 0.01}})
    first, again = (project.compare("-w", "fake", base="HEAD", code=0) for _ in range(2))
    other = project.compare("-w", "fake", "--seed", "2", base="HEAD", code=0)
    assert first["id"] != again["id"]
    assert first["metrics"] == again["metrics"] != other["metrics"]


@pytest.mark.parametrize("seed", [1, 2, 3, 4])
def test_builds_are_made_and_first_run_in_an_order_that_is_drawn(project, seed):
    """What goes by that order, such as slots given out in turn, would otherwise go by the side."""
    project.commit({"fake.json": {"slowdown": 1.0}})
    project.commit({"fake.json": {"slowdown": 1.5}})
    project.compare(*FAKE, "--seed", str(seed), code=1)
    made = rows(project.db, "SELECT stage, side, build FROM trials ORDER BY rowid")
    first_runs = [("AB"["bh".index(side[0])], build) for stage, side, build in made if stage == 0]
    assert first_runs == [*build_order(seed, 1, [1]), *build_order(seed, 2, [2, 3])]


# Each new checkout is fast or slow in turn, whatever it holds.
IN_TURN = """\
grep -qxF "$PWD" {folder}/seen 2>/dev/null || echo "$PWD" >> {folder}/seen
place=$(grep -nxF "$PWD" {folder}/seen | cut -d: -f1)
echo "{{\\"seconds\\": $((1 + (place + 1) % 2))}}"
"""


def test_a_change_between_sides_that_are_the_same_is_never_reported(project):
    """The draw that takes what goes by the order of builds for a change: base and head in turn, each time."""
    seed = next(s for s in range(1000) if arms(build_order(s, 1, [1]), build_order(s, 2, [2, 3])) == "ABABAB")
    chosen = ("--seed", str(seed), "--metric", "seconds", "--", "sh", "bench.sh")
    project.commit({"bench.sh": IN_TURN.format(folder=project.folder)})
    same = project.compare(*chosen, base="HEAD", code=4)
    assert (same["outcome"], same["metrics"][0]["outcome"], codes(same)[0]) == ("INVALID", "INVALID", "SAME_SIDES")
    assert "both sides are the same commit with the same settings: REGRESSION would be a phantom" in texts(same)
    assert "agrees" in project.run("replay").stdout
    # Of two commits nobody knows: only the draw stands against it.
    project.commit({"README": "other words\n"})
    (project.folder / "seen").unlink()
    assert project.compare(*chosen, code=1)["outcome"] == "REGRESSION"


def arms(*orders):
    return "".join(letter for order in orders for letter, _ in order)


def test_the_json_has_the_keys_of_the_contract_and_the_numbers_that_were_planned(project):
    base = project.commit({"fake.json": {}})
    head = project.commit({"fake.json": {"slowdown": 1.3}})
    comparison = project.compare("-w", "fake", "--set", "noise=0", code=1)
    assert comparison.keys() >= COMPARISON_KEYS
    assert comparison["schema"] == "perfguard/comparison@1"
    assert (comparison["base"]["revision"], comparison["base"]["commit"]) == ("HEAD~1", base)
    assert (comparison["head"]["revision"], comparison["head"]["commit"]) == ("HEAD", head)
    assert (comparison["seed"], comparison["margin"], comparison["alpha"]) == (1, 0.2, 0.05)
    assert comparison["scope"] == "full"
    assert all(metric.keys() >= METRIC_KEYS for metric in comparison["metrics"])
    assert all(reason.keys() == {"code", "text"} for reason in comparison["reasons"])
    # The fake decodes 100 and 120 token/s; the metric is a rate, so a third less of it is a slowdown above 1.
    plain, eagle3, accept_length = comparison["metrics"]
    assert (plain["name"], plain["unit"], plain["better"]) == ("plain_throughput", "token/s", "higher")
    assert (plain["base_median"], plain["head_median"]) == (pytest.approx(100), pytest.approx(100 / 1.3))
    assert (eagle3["base_median"], eagle3["head_median"]) == (pytest.approx(120), pytest.approx(120 / 1.3))
    assert plain["slowdown"] == eagle3["slowdown"] == pytest.approx(1.3)
    assert (accept_length["primary"], accept_length["outcome"]) == (False, "EQUIVALENT")
    assert accept_length["base_median"] == 2
    assert comparison["outcome"] == plain["outcome"] == eagle3["outcome"] == "REGRESSION"


def test_a_faster_commit_with_other_output_is_no_improvement_and_says_so_first(project):
    project.commit({"fake.json": {}})
    project.commit({"fake.json": {"slowdown": 0.5, "output": "other tokens"}})
    comparison = project.compare(*FAKE, code=3)
    assert comparison["outcome"] == "INCONCLUSIVE"
    assert comparison["metrics"][0]["slowdown"] == pytest.approx(0.5)
    assert codes(comparison)[0] == "OUTPUT_CHANGED"
    assert comparison["sentence"].startswith("Head produces other output than base")


def test_a_head_that_drafts_worse_is_slower_by_its_accept_length_and_the_report_says_so(project):
    # 120 token/s at 2 token a cycle: 16.7 ms. At 1.6 token a cycle of the same 16.7 ms it is 96 token/s.
    project.commit({"fake.json": {}})
    project.commit({"fake.json": {"accept_length": 1.6, "eagle3_speed": 96.0}})
    planned = ("-w", "fake", "--modes", "eagle3", "--set", "noise=0", "--set", "prompts=12")
    comparison = project.compare(*planned, "--set", "accept_noise=0.01", code=1)
    (found,) = comparison["speculation"]
    assert (found["slowdown"], found["by_accept_length"]) == (pytest.approx(1.25), pytest.approx(1.25, rel=0.02))
    assert found["by_cycle"] == pytest.approx(1.0, rel=0.02)
    # All twelve prompts lose: luck in 1 of 2^12.
    assert (found["accept_length"]["finding"], found["accept_length"]["p"]) == ("shorter", pytest.approx(2**-12))
    report = project.run("report").stdout
    assert report.index("eagle3 accept length: base ") < report.index("shorter over 12 prompts (p 0.00024)")
    assert "eagle3 slowdown +25.0 %: accept length" in report
    assert project.run("replay").stdout.count("agrees") == 1


def test_variables_and_parameters_of_one_side_are_measured_as_the_difference_they_make(project):
    project.commit({"fake.json": {"env_slowdown": {"NCCL_PROTO=Simple": 1.4}}})
    sides = ("--base-env", "NCCL_PROTO=LL", "--head-env", "NCCL_PROTO=Simple", "--base-set", "speed=90")
    comparison = project.compare(*FAKE, *sides, "--head-set", "speed=60", "--no-confirm", base="HEAD", code=3)
    # Without confirmation a change ends as a suspicion with its odds.
    assert comparison["outcome"] == "SUSPECT"
    assert comparison["trials"]["ok"] == 8
    assert "1 of 36" in texts(comparison)
    # 1.4 times as long a step for the variable, 90 to 60 token/s for the parameter.
    assert comparison["metrics"][0]["slowdown"] == pytest.approx(1.4 * 1.5)
    assert (comparison["base"]["env"], comparison["head"]["env"]) == ({"NCCL_PROTO": "LL"}, {"NCCL_PROTO": "Simple"})
    assert (comparison["base"]["params"], comparison["head"]["params"]) == ({"speed": 90}, {"speed": 60})


def test_a_command_of_ones_own_sees_the_variables_of_its_side_and_is_not_told_which_it_is(project):
    project.commit({"README": "one\n"})
    seen = project.folder / "seen"
    bench = f'env | grep PERFGUARD >> {seen}; echo "{{\\"seconds\\": $LEVEL}}"'
    sides = ("--env", "LEVEL=1", "--head-env", "LEVEL=2")
    comparison = project.compare(*SECONDS, *sides, "--no-confirm", "--", "sh", "-c", bench, base="HEAD", code=3)
    assert comparison["metrics"][0]["slowdown"] == pytest.approx(2)
    assert "PERFGUARD_COMMIT=" + comparison["head"]["commit"] in seen.read_text()
    assert "base" not in seen.read_text()
    assert "head" not in seen.read_text()


def test_a_variable_that_does_not_arrive_makes_the_comparison_invalid(project):
    """A sitecustomize takes it away, as a patch of an engine may."""
    project.commit({"fake.json": {}})
    site = project.folder / "site"
    site.mkdir()
    (site / "sitecustomize.py").write_text("import os\nos.environ.pop('NCCL_PROTO', None)\n")
    asked = ("--env", "NCCL_PROTO=LL", "--env", f"PYTHONPATH={site}")
    comparison = project.compare(*FAKE, *asked, base="HEAD", code=4)
    assert comparison["outcome"] == "INVALID"
    assert "environment" in codes(comparison)
    assert "rank 0 does not see NCCL_PROTO, asked for as 'LL'" in texts(comparison)


def test_a_head_whose_launches_are_slow_at_random_is_not_called_equivalent_where_that_showed(project):
    """Half of its launches take three times as long; which ones, no seed of ours decides."""
    project.commit({"fake.json": {}})
    project.commit({"fake.json": {"lottery_rate": 0.5, "lottery_factor": 3.0, "noise": 0.01}})
    comparison = project.compare(*FAKE, "--max-blocks", "3", "--no-confirm", code=(0, 3))
    (metric,) = comparison["metrics"]
    is_fast = {t["values"]["plain_throughput"] > 60 for t in shown_trials(project) if t["side"] == "head"}
    assert (comparison["outcome"] == "EQUIVALENT") == (is_fast == {True})
    if is_fast == {True, False}:  # the lottery drew both
        assert any("launches fall into two modes" in reason["text"] for reason in metric["reasons"])


def shown_trials(project):
    shown = json.loads(project.run("show", "latest", "--json", "-").stdout)
    return [trial for trial in shown["trials"] if trial["stage"] > 0]


def test_the_uncommitted_state_can_be_head_and_stays_as_it_is(project):
    project.commit({"fake.json": {}})
    project.write({"fake.json": {"slowdown": 1.5}, "notes.txt": "untracked\n"})
    before = project.git("status", "--porcelain")
    comparison = project.compare(*FAKE, "--no-confirm", base="HEAD", head="WORKTREE", code=3)
    assert comparison["metrics"][0]["slowdown"] == pytest.approx(1.5)
    head = comparison["head"]
    assert (head["revision"], head["commit"]) == ("WORKTREE", project.git("rev-parse", "HEAD"))
    assert len(head["patch_sha256"]) == 64
    assert comparison["base"]["patch_sha256"] is None
    assert project.git("status", "--porcelain") == before


def test_a_carried_patch_lies_on_top_of_the_commit(project):
    project.commit({"fake.json": {"speed": 100}})
    project.write({"fake.json": {"speed": 50}})
    patch = project.folder / "speed.patch"
    patch.write_text(project.git("diff") + "\n")
    project.git("checkout", "--quiet", "fake.json")
    done = project.run("run", "HEAD", "--trials", "1", *FAKE, "--carry", str(patch), "--quiet", "--json", "-")
    result = json.loads(done.stdout)
    assert result["metrics"][0]["values"] == [pytest.approx(50)]
    assert len(result["base"]["patch_sha256"]) == 64


def test_a_price_list_is_printed_and_nothing_is_measured(project):
    project.commit({"fake.json": {}})
    plan_only = ("compare", "HEAD", "HEAD", "-w", "fake", "--plan-only", "--budget", "30s", "--json")
    done = project.run(*plan_only, "plan.json")
    # 5 s to load and 5 s measured are assumed, without pauses; two first runs and two blocks at the least: 100 s.
    assert "a block of four: 40 s" in done.stdout
    assert "earliest EQUIVALENT: 2 blocks, 2 min" in done.stdout
    assert "this budget (30 s) cannot reach any verdict" in done.stdout
    plan = json.loads((project.repo / "plan.json").read_text())
    assert plan["schema"] == "perfguard/plan@1"
    assert plan["prices"] == done.stdout.splitlines()
    assert rows(project.db, "SELECT count(*) FROM campaigns") == [(0,)]
    assert not (project.cache / "work").exists()


def test_a_budget_ends_a_comparison_with_what_is_known(project):
    """Each launch takes 0.3 s at least: the first runs fit, a block of four does not."""
    project.commit({"fake.json": {"load_s": 0.3}})
    comparison = project.compare(*FAKE, "--budget", "1.2s", base="HEAD", code=3)
    assert (comparison["outcome"], comparison["stopped"]) == ("INCONCLUSIVE", "budget")
    assert codes(comparison)[0] == "STOPPED"
    assert comparison["blocks"]["used"] == 0
    assert "agrees" in project.run("replay", comparison["id"]).stdout


def test_a_person_gets_the_verdict_on_stdout_and_the_progress_on_stderr(project):
    project.commit({"fake.json": {}})
    done = project.run("compare", "HEAD", "HEAD", *FAKE, "--was", "89", "--json", "out.json")
    assert done.stdout.startswith("= EQUIVALENT: No change beyond 2 %")
    assert "claimed  value 89" in done.stdout
    assert "What cannot:" in done.stdout
    assert "next: perfguard report" in done.stdout
    assert "prices assumed" in done.stderr
    assert "block 1.0 " in done.stderr
    assert json.loads((project.repo / "out.json").read_text())["claimed"] == {"value": 89}


def test_a_reader_who_leaves_changes_no_exit_code(project):
    """rich and typer end with 1 then, which would be a REGRESSION."""
    project.commit({"fake.json": {}})
    lines = ["block,slot,arm,metric,value"]
    for block, order in enumerate(("ABBA", "BAAB", "BABA"), start=1):
        lines += [
            f"{block},{n},{'base' if arm == 'A' else 'head'},s,{ord(arm)}" for n, arm in enumerate(order, start=1)
        ]
    (project.repo / "trials.csv").write_text("\n".join(lines))
    for arguments, code in (
        ("judge trials.csv --margin 0.5% --alpha 0.05", 3),
        ("workloads", 0),
        # The progress cannot be written any more, so it is not measured to an end: neither good news nor bad.
        ("compare HEAD HEAD -w fake 2>&1", 130),
    ):
        line = f"{project.program} {arguments} | true; echo ${{PIPESTATUS[0]}}"
        done = subprocess.run(["bash", "-c", line], cwd=project.repo, env=project.env(), capture_output=True, text=True)
        assert int(done.stdout) == code, arguments
        assert "Traceback" not in done.stderr
