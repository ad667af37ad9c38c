"""`perfguard calibrate` from the command line to the database and into the prices of a comparison, real processes."""

import json
import os
import subprocess
from dataclasses import replace

import pytest
from scipy import stats

from perfguard.cli import run
from perfguard.pricing import age, newest_calibration
from perfguard.stats.plan import plan_block
from perfguard.store import open_store

# Values that a command reads one after the other, one launch each.
BENCH = """\
import json, pathlib
plan = json.loads(pathlib.Path("{plan}").read_text())
counter = pathlib.Path("{counter}")
number = int(counter.read_text()) if counter.exists() else 0
counter.write_text(str(number + 1))
print(json.dumps({{"seconds": plan[number]}}))
"""
CHANGES = ("REGRESSION", "IMPROVEMENT")


@pytest.fixture
def project(tmp_path, monkeypatch):
    """An empty repository in which one stands, with cache and lock of its own; nothing pauses."""
    monkeypatch.setenv("PERFGUARD_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PERFGUARD_LOCK_DIR", str(tmp_path / "lock"))
    for name in [name for name in os.environ if name.startswith("GIT_")]:
        monkeypatch.delenv(name)
    repo = tmp_path / "repo"
    repo.mkdir()
    (repo / "perfguard.toml").write_text("[policy]\npause_share = 0\n")
    monkeypatch.chdir(repo)
    identity = ["-c", "user.name=test", "-c", "user.email=test@example.org"]
    for command in (["init", "--quiet"], ["add", "--all"], [*identity, "commit", "--quiet", "--message", "one"]):
        subprocess.run(["git", *command], check=True)
    return repo


def calibrated(*arguments, code):
    """The calibration as JSON; the exit code is checked first."""
    assert run(["calibrate", "--quiet", "--json", "c.json", *arguments]) == code
    with open("c.json", encoding="utf-8") as file:
        return json.load(file)


def scripted(project, plan):
    """A command whose launches give these numbers; the two unmeasured first runs come before them."""
    (project.parent / "plan.json").write_text(json.dumps([1.0, 1.0, *plan]))
    script = project.parent / "bench.py"
    script.write_text(BENCH.format(plan=project.parent / "plan.json", counter=project.parent / "counter"))
    return ("--metric", "seconds", "--unit", "s", "--", "python3", str(script))


def codes(calibration):
    return [reason["code"] for reason in calibration["reasons"]]


def test_planted_noise_and_a_planted_slowdown_are_found_and_the_same_code_is_no_change(project, capsys):
    found = calibrated("-w", "fake", "--margin", "10%", "--set", "iteration_noise=0.05", code=0)
    assert (found["schema"], found["outcome"], found["kind"]) == ("perfguard/calibration@1", "CALIBRATED", "calibrate")
    assert found["trials"]["ok"] == 12
    plain, eagle3 = found["metrics"]
    # 1 % is planted. Twelve launches in three blocks have 9 degrees of freedom; beyond these bounds 1 in 500,000.
    low, high = ((stats.chi2.ppf(p, 9) / 9) ** 0.5 * 0.01 for p in (1e-6, 1 - 1e-6))
    assert low < plain["noise"]["sd"] < high, found["id"]
    assert eagle3["noise"]["sd"] == pytest.approx(plain["noise"]["sd"])
    # 5 % within a launch, from 12 x 60 iterations: known to 3 %.
    assert plain["levels"]["within"] == pytest.approx(0.05, rel=0.15)
    assert plain["warmup"]["num_launches"] == 12
    assert found["recommended"]["margin"] >= 2 * max(plain["noise"]["sd"], 0.0005)
    assert found["aa"]["outcome"] == "EQUIVALENT"
    control = found["control"]
    assert (control["how"], control["is_found"]) == ("measured", True)
    assert control["planted"] == pytest.approx(1.3)
    assert control["slowdowns"]["plain_throughput"] == pytest.approx(1.3, rel=0.06)
    shown = capsys.readouterr().out
    assert "CALIBRATED" in shown
    assert "planted +30.0 %, found" in shown


def test_a_calibration_is_shown_as_what_it_is_and_found_again_for_the_same_size_only(project, capsys):
    fake = ("-w", "fake", "--modes", "plain")
    plan_only = ("compare", "HEAD", "HEAD", *fake, "--plan-only", "--json", "-")
    assert run([*plan_only]) == 0
    assert json.loads(capsys.readouterr().out)["prices"][0] == "never calibrated here: perfguard calibrate -w fake"
    made = calibrated(*fake, "--margin", "10%", "--launches", "8", code=0)
    capsys.readouterr()
    assert run([*plan_only]) == 0
    first = json.loads(capsys.readouterr().out)["prices"][0]
    assert first.startswith(f"calibrated less than a minute ago ({made['id']}): launch noise ")
    assert run([*plan_only, "--set", "speed=50"]) == 0
    assert json.loads(capsys.readouterr().out)["prices"][0].startswith("never calibrated here")
    with open_store(".perfguard/results.db", read_only=True) as store:
        campaign = store.campaign("latest")
        assert (campaign.id, campaign.kind) == (made["id"], "calibrate")  # and not its control, which ran later
        assert store.campaign(made["control"]["id"]).kind == "control"
        assert newest_calibration(replace(campaign, machine={"gpu": "another"}), store) is None
        # Slow on purpose: neither its times nor its noise may enter a price.
        assert [costs.campaign for costs in store.trial_costs("fake")] == [made["id"]]
    assert run(["show", "latest"]) == 0
    assert "CALIBRATED" in capsys.readouterr().out
    assert run(["show", made["control"]["id"]]) == 0
    assert "SUSPECT" in capsys.readouterr().out
    assert run(["replay"]) == 0  # neither of them is a comparison to be replayed


def test_a_clock_with_two_levels_is_found_as_modes(project):
    # The fake clock changes its level by lot from the seed: measured launches 7, 11 and 12 are slow with this one.
    state = project.parent / "clock"
    settings = ("noise=0.001", f"state={state}", "bimodal_factor=1.2", "bimodal_stay=0.8")
    sets = [part for setting in settings for part in ("--set", setting)]
    found = calibrated("-w", "fake", "--modes", "plain", "--seed", "2", *sets, code=3)
    (metric,) = found["metrics"]
    assert metric["modes"]["num_launches"] == 12
    assert metric["modes"]["num_slow"] == 3
    assert metric["modes"]["gap"] == pytest.approx(0.182, abs=0.01)  # ln 1.2
    assert "LOTTERY" in codes(found)
    assert found["aa"]["outcome"] not in CHANGES


def test_an_aa_that_does_not_end_equivalent_is_said_loudly_and_raises_the_margin(project, capsys):
    # Launches of 1.0 and 1.1 in turn: 5.5 % around block means, far beyond a margin of 2 %.
    found = calibrated("--launches", "8", "--seed", "1", *scripted(project, [1.0, 1.1] * 4), code=3)
    assert found["outcome"] == "INCONCLUSIVE"
    assert found["aa"]["outcome"] not in (*CHANGES, "EQUIVALENT")
    assert "AA_NOT_EQUIVALENT" in codes(found)
    # sd = sqrt(8 x 0.0477^2 / 6) = 5.5 %
    assert found["noise"] == pytest.approx(0.0550, abs=0.0002)
    assert found["recommended"]["margin"] >= 0.15
    assert found["recommended"]["floor"] >= 0.0375
    # A command records no iterations, and cannot be slowed from outside.
    (metric,) = found["metrics"]
    assert (metric["levels"], metric["warmup"]) == (None, None)
    assert found["control"]["how"].startswith("computed from the A/A launches")
    assert (found["control"]["is_found"], found["control"]["id"]) == (True, "")
    shown = capsys.readouterr().out
    assert "THE SAME CODE AGAINST ITSELF ENDED" in shown
    assert f"--margin {100 * found['recommended']['margin']:.2g}" in shown


def test_the_same_code_that_looks_changed_goes_through_confirmation_and_is_acquitted(project):
    # Luck puts head 10 % behind in both blocks; in all launches after those it is not.
    orders = [plan_block(1, stage=1, index=index, confirm_builds=8).order for index in range(2)]
    plan = [1.1 if arm == "B" else 1.0 for arm in "".join(orders)]
    found = calibrated("--launches", "8", "--seed", "1", *scripted(project, plan + [1.0] * 40), code=0)
    assert found["trials"]["ok"] > 8
    assert found["aa"]["outcome"] == "EQUIVALENT"
    # The launches of stage one alone are the noise: it is known that they looked changed.
    assert found["noise"] > 0.05
    assert codes(found) == ["MARGIN_TOO_SMALL", "LOTTERY"]


def test_a_budget_that_allows_no_launch_ends_undecided(project):
    found = calibrated("-w", "fake", "--budget", "0.001s", code=3)
    assert (found["outcome"], found["stopped"], found["trials"]["ok"]) == ("INCONCLUSIVE", "budget", 0)
    assert codes(found) == ["TOO_LITTLE"]


def test_a_launch_that_fails_makes_the_calibration_invalid(project):
    found = calibrated("-w", "fake", "--set", "crash=measured", "--launches", "8", code=4)
    assert found["outcome"] == "INVALID"
    assert (found["metrics"], found["control"]) == ([], None)
    assert "TOO_LITTLE" in codes(found)


def test_fewer_launches_than_two_blocks_are_refused(project, capsys):
    assert run(["calibrate", "-w", "fake", "--launches", "4"]) == 2


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(5, "less than a minute"), (60, "1 minute"), (3 * 86400 + 5, "3 days"), (7300, "2 hours")],
)
def test_ages_are_said_as_people_say_them(seconds, said):
    assert age(seconds) == said
