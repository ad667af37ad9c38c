"""`perfguard speculate` end to end: real processes, real git, the fake runner; once the tiny model itself."""

import json
import signal
from pathlib import Path

import pytest
from cli_support import SHORT, rows, wait_for

ROOT = Path(__file__).resolve().parents[2]
PLANNED = ("--set", "accept_rates=0.6,0.5,0.4", "--set", "phases=0.2,0.7,0.1")
FAKE = ("-w", "fake", "--set", "noise=0", "--set", "instance_noise=0.003", *PLANNED)
MEASURED = "SELECT id, record FROM trials WHERE stage = 1"


@pytest.fixture
def fake(project):
    project.commit({"README": "one\n"})
    return project


def speculate(project, *arguments, code, workload=FAKE):
    done = project.run("speculate", *workload, *SHORT, "--quiet", "--json", "-", *arguments, code=code)
    found = json.loads(done.stdout)
    assert found["exit_code"] == done.returncode
    return found


@pytest.mark.parametrize(("speed", "result", "code"), [(200, "win", 0), (100, "tie", 0), (50, "loss", 1)])
def test_win_tie_and_loss_replay_and_report(fake, speed, result, code):
    found = speculate(fake, "--set", f"eagle3_speed={speed}", code=code)
    assert (found["schema"], found["speculate"]["result"]) == ("perfguard/comparison@1", result)
    assert found["speculate"]["gate"]["passed"]
    # Cycles of 1 + 0.6 + 0.3 + 0.12 tokens: at 200 token/s 10.1 ms against steps of 10 ms, and so on.
    expected = 2.02 * 100 / speed
    assert found["speculate"]["break_even"]["accept_length"] == pytest.approx(expected, rel=0.02)
    assert f"{found['id']}  {found['outcome']}  agrees" in fake.run("replay").stdout
    text = fake.run("report", "-f", "md").stdout
    assert "break-even accept length" in text
    assert "| accept length |" in text
    page = fake.folder / "page.html"
    fake.run("report", "-f", "html", "-o", str(page))
    assert "Gain over plain decoding by accept length" in page.read_text()


def test_a_block_is_one_launch_and_a_confirming_one_is_four_of_the_same_build(fake):
    wanted = speculate(fake, "--set", "eagle3_speed=50", code=1)["id"]
    assert "one mode of a comparison of two" in fake.run("compare", wanted, "HEAD", code=2).stderr
    assert "differ in mode" in fake.run("bisect", wanted, code=2).stderr
    trials = rows(fake.db, "SELECT stage, build, json_extract(record, '$.launch') FROM trials WHERE stage > 0")
    assert {build for _, build, _ in trials} == {1}
    assert [len({launch for stage, _, launch in trials if stage == number}) for number in (1, 2)] == [2, 1]
    assert {launch for stage, _, launch in trials if stage == 2} == {None}


def test_the_price_list_measures_nothing(fake):
    said = fake.run("speculate", *FAKE, "--plan-only").stdout
    assert "a block is one launch" in said
    assert not rows(fake.db, "SELECT id FROM trials")


def test_several_batch_sizes_share_alpha_and_the_worst_of_them_gives_the_code(fake):
    found = speculate(fake, "--set", "eagle3_speed=50", "--concurrency", "1,4", "--max-blocks", "3", code=1)
    assert found["schema"] == "perfguard/speculations@1"
    assert [one["workload"]["params"]["batch"] for one in found["comparisons"]] == [1, 4]
    assert [one["alpha"] for one in found["comparisons"]] == [0.025, 0.025]
    assert len({one["seed"] for one in found["comparisons"]}) == 2


def test_a_crashing_mode_is_invalid_and_a_command_has_no_modes(fake):
    fake.commit({"fake.json": {"crash": "measured"}})
    found = speculate(fake, code=4)
    assert (found["outcome"], found["speculate"]["gate"]) == ("INVALID", None)
    assert "no list of different whole numbers" in fake.run("speculate", *FAKE, "--concurrency", "1,1", code=2).stderr
    mine = '[workload.mine]\ncommand = "true"\nmetrics = [{name = "seconds", unit = "s", better = "lower"}]\n'
    (fake.repo / "perfguard.toml").write_text(mine)
    assert "measures no plain decoding" in fake.run("speculate", "-w", "mine", code=2).stderr


def test_ctrl_c_leaves_a_comparison_that_goes_on(fake):
    said = fake.folder / "said"
    slow = ("--set", "measured_s=0.1", "--set", "eagle3_speed=200")
    process = fake.start("speculate", *FAKE, *SHORT, *slow, said=said)
    wait_for(lambda: rows(fake.db, MEASURED) or process.poll() is not None, "a measured launch")
    process.send_signal(signal.SIGINT)
    assert process.wait(30) == 130
    assert "--resume" in said.read_text()
    done = fake.run("speculate", "--resume", "latest", "--quiet", "--json", "-", code=0)
    found = json.loads(done.stdout)
    assert found["speculate"]["result"] == "win"
    assert "agrees" in fake.run("replay").stdout


def test_the_tiny_model_says_the_same_with_its_draft(project):
    files = {f"model/{path.relative_to(ROOT / 'model')}": path.read_text() for path in (ROOT / "model").rglob("*.py")}
    project.commit(files)
    tiny = ("-w", "moe-eagle3", "--set", "tokens=24", "--set", "prompts=2")
    found = speculate(project, "--no-confirm", "--max-blocks", "2", code=(0, 1, 3), workload=tiny)
    told = found["speculate"]
    states = {check["name"]: check["state"] for check in told["gate"]["checks"]}
    assert states["output"] == "passed"
    assert told["accept_length"] > 1.5
    assert told["break_even"]["accept_length"] > 1.0
    assert told["reading"]["experts_expected"]["plain"] == 2
    # Of 8 experts 2 a token: four tokens of uniform routing read 8 (1 - 0.75^4).
    assert told["reading"]["experts_expected"]["eagle3"] == pytest.approx(8 * (1 - 0.75**4))
