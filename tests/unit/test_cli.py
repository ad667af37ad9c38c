"""The command line without measuring: usage errors, exit codes, where the database lies. In this process."""

import json
import os
import sqlite3
import subprocess

import pytest
import typer

from perfguard import __version__, cli
from perfguard.cli import options
from perfguard.cli.app import app
from perfguard.cli.asking import WorkloadOptions, claimed_metric, policy_of, project_config, workload_of
from perfguard.config import Config
from perfguard.errors import (
    BuildError,
    BusyError,
    HarnessError,
    Interrupted,
    NotComparableError,
    PerfguardError,
    RevisionError,
    StoreError,
    UsageError,
)

COMMANDS = sorted(typer.main.get_command(app).commands)


@pytest.fixture
def repository(tmp_path, monkeypatch):
    """Two commits; the current folder. Cache and lock are its own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PERFGUARD_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PERFGUARD_LOCK_DIR", str(tmp_path / "lock"))
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    git = ["git", "-c", "user.name=test", "-c", "user.email=test@example.org"]
    for command in (
        ["init", "--quiet", "--initial-branch=main"],
        *(["commit", "--quiet", "--allow-empty", "-m", "x"],) * 2,
    ):
        subprocess.run([*git, *command], check=True)
    return tmp_path


COMPARE = "compare HEAD~1 HEAD"


@pytest.mark.parametrize(
    ("line", "message", "next_step"),
    [
        (f"{COMPARE} -w fake --margn 2%", "No such option: --margn", "perfguard compare --help"),
        ("compair HEAD~1 HEAD", "No such command 'compair'", "perfguard --help"),
        ("recheck HEAD -w fake", "Missing option '--was'", "perfguard recheck --help"),
        ("run", "Missing argument 'revision'", "perfguard run --help"),
        ("run HEAD --trials 0 -w fake", "0 is not in the range 1<=x<=1000", "perfguard run --help"),
        (f"{COMPARE} -w fake --seed x", "'x' is not a valid int", "perfguard compare --help"),
        ("compare", "two revisions are needed", "perfguard compare HEAD~1 HEAD -- python bench.py"),
        ("compare HEAD", "two revisions are needed", "perfguard compare HEAD~1 HEAD -- python bench.py"),
        (COMPARE, "nothing to measure: neither -w WORKLOAD nor -- CMD", "perfguard workloads"),
        (f"{COMPARE} -w fake -- true", "both -w and a command were given", "give one of them"),
        (f"{COMPARE} -w fak", "no workload 'fak'; did you mean 'fake'?", "perfguard workloads"),
        (
            f"{COMPARE} -w moe-eagle3 --set tokns=3",
            "no parameter 'tokns'; did you mean 'tokens'?",
            "perfguard workloads",
        ),
        (f"{COMPARE} -w moe-eagle3 --head-set tokns=3", "did you mean 'tokens'?", "perfguard workloads"),
        (f"{COMPARE} -w moe-eagle3 --set tp=0", "tp=0 is not a whole number of ranks", "--set tp=2"),
        (f"{COMPARE} -w fake --metric s", "--metric belongs to a command of your own", "perfguard workloads"),
        (f"{COMPARE} --set a=1 -- true", "--set changes parameters of a workload; a command has none", "--env"),
        (f"{COMPARE} -w fake --modes fast", "--modes 'fast': fake has plain, eagle3", "perfguard workloads"),
        (f"{COMPARE} -w fake --margin 2x", "--margin '2x' is neither a percentage nor a number", "--margin 2%"),
        (f"{COMPARE} -w fake --margin 0", "margin = 0.0 is not between 0 and 1", "--margin"),
        (f"{COMPARE} -w fake --alpha 1", "alpha = 1.0 is not between 1e-5 and 0.05", "--alpha"),
        (f"{COMPARE} -w fake --max-blocks 1", "max_blocks = 1 is not between 2 and 40 blocks", "--max-blocks"),
        (f"{COMPARE} -w fake --budget soon", "--budget 'soon' is not a duration", "--budget 20m"),
        (f"{COMPARE} --timeout 0 -- true", "--timeout '0' is not a duration", "--timeout 20m"),
        (f"{COMPARE} -w fake --env NOT_SET", "--env NOT_SET: there is no such variable here", "--env NOT_SET=VALUE"),
        (f"{COMPARE} -w fake --head-env =1", "--head-env '=1' is not KEY=VALUE", "--head-env NAME=1"),
        (f"{COMPARE} -w fake --was nan", "--was nan is not a positive number", "--was 89"),
        ("recheck HEAD --was 1e-320 -w fake", "is not a positive number that anything measures", "--was 89"),
        ("recheck HEAD --was 0 -w fake", "--was 0 is not a positive number", "--was 89"),
        (
            f"{COMPARE} --metric s --better more -- true",
            "--better 'more' is neither lower nor higher",
            "--better lower",
        ),
        (f"{COMPARE} --metric s --read xml -- true", "--read 'xml' is none of wall, json, regex:PATTERN", "--help"),
        (f"{COMPARE} --metric s --read regex:( -- true", "is no regular expression", "--read"),
        (f"{COMPARE} --metric s --read regex:s -- true", "has no group around the number", "--read"),
        ("compare nowhere HEAD -- true", "git cannot resolve 'nowhere' in ", " fetch --all --tags"),
        ("compare mian HEAD -- true", "did you mean main?", " fetch --all --tags"),
        ("compare HEAD~1..HEAD HEAD -- true", "is a range; one revision is needed", "compare HEAD~1 HEAD"),
        (f"{COMPARE} --repo nowhere -- true", "nowhere is not a folder", "--repo DIR"),
        (f"{COMPARE} --carry /dev/zero -- true", "--carry /dev/zero is no regular file", "git diff > FILE.patch"),
        (f"{COMPARE} --carry no.patch -- true", "--carry no.patch: No such file", "git diff > FILE.patch"),
        (f"{COMPARE} --json no/x.json -- true", "no/x.json cannot be written", "--json -"),
        (f"{COMPARE} --margin 5 -- true", "--margin 5 is 500 %", "--margin 5%"),
        (f"{COMPARE} --metric tps -- true", "tps looks like a rate", "the same with --better higher"),
        ("run HEAD --json no/x.json -- true", "no/x.json cannot be written", "--json -"),
        ("compare --resume c-1", "no results database at ", "perfguard compare --resume ID --db FILE"),
        ("compare --resume c-1 --max-blocks 9", "max_blocks cannot be given again", "perfguard compare --resume c-1"),
        ("compare HEAD~1 HEAD --resume c-1", "base, head cannot be given again", "perfguard compare --resume c-1"),
        ("explain a b --budget 1m", "budget: only with --experiment", "perfguard explain a b --experiment"),
        ("explain now b --experiment", "a stored run is needed", "perfguard explain latest now --experiment"),
        ("sweep --env A=1 -w fake", "1 setting: a sweep compares 2 to 52", "perfguard sweep --env"),
        ("sweep --env A=1,2", "nothing to measure", "perfguard workloads"),
        ("runs", "no results database at ", "perfguard compare HEAD~1 HEAD -- python bench.py"),
        ("show c-1 --db no.db", "no results database at no.db", "perfguard compare"),
        ("report -f pdf", "-f 'pdf' is none of html, md, issue, json, junit, csv", "perfguard report -f html"),
        ("merge no.db", "no.db does not exist", "perfguard export FILE"),
        ("judge no.csv", "no.csv cannot be read", "write one row per trial and metric"),
        ("judge no.csv --better more", "--better 'more' is neither", "--better lower"),
    ],
)
def test_wrong_usage_ends_with_2_says_what_is_wrong_and_what_to_do(repository, capsys, line, message, next_step):
    assert cli.run(line.split()) == 2
    said = capsys.readouterr()
    first, *rest = said.err.splitlines()
    assert first.startswith("error: ")
    assert message in said.err
    assert rest[-1].startswith(" next: ")
    assert next_step in rest[-1]
    assert said.out == ""
    assert "Traceback" not in said.err
    # A mistake in the command line leaves nothing in the repository.
    assert not (repository / ".perfguard").exists()


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (UsageError, 2), (RevisionError, 2), (NotComparableError, 4), (HarnessError, 5), (BuildError, 5),
        (StoreError, 5), (BusyError, 5), (PerfguardError, 5), (Interrupted, 130),
    ],
)  # fmt: skip
def test_every_error_has_its_exit_code_and_is_shown_with_its_next_step(repository, capsys, monkeypatch, error, code):
    def fail(*_):
        raise error("something happened", "do this")

    monkeypatch.setattr("perfguard.subject.repository.open_repository", fail)
    assert cli.run(["compare", "HEAD", "HEAD", "--", "true"]) == code
    assert capsys.readouterr().err == "error: something happened\n next: do this\n"


def test_an_error_of_perfguard_itself_ends_with_5_and_its_trace(repository, capsys, monkeypatch):
    def fail(*_):
        raise ZeroDivisionError("a bug")

    monkeypatch.setattr("perfguard.subject.repository.open_repository", fail)
    assert cli.run(["compare", "HEAD", "HEAD", "--", "true"]) == 5
    said = capsys.readouterr().err
    assert "Traceback" in said
    assert "error: perfguard itself failed: ZeroDivisionError: a bug" in said


def test_ctrl_c_before_anything_is_measured_ends_with_130(repository, capsys, monkeypatch):
    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("perfguard.subject.repository.open_repository", interrupt)
    assert cli.run(["compare", "HEAD", "HEAD", "--", "true"]) == 130
    assert capsys.readouterr().err.strip() == "error: interrupted"


def test_a_comparison_that_ended_before_its_blocks_were_written_is_resumed(repository, capsys):
    words = ["compare", "HEAD", "HEAD", "-w", "fake", "--max-blocks", "2", "--margin", "50%", "--quiet"]
    cli.run([*words, "--db", "r.db"])
    with sqlite3.connect("r.db") as db:
        campaign, num_blocks = db.execute("SELECT campaign, count(*) FROM blocks").fetchone()
        for table in ("verdicts", "samples", "trials", "blocks"):
            db.execute(f"DELETE FROM {table}")
    db.close()
    assert cli.run(["compare", "--resume", campaign, "--quiet", "--db", "r.db"]) in (0, 3)
    with sqlite3.connect("r.db") as db:
        assert db.execute("SELECT count(*) FROM blocks").fetchone() == (num_blocks,)
    db.close()
    assert "Traceback" not in capsys.readouterr().err


@pytest.mark.parametrize("words", [["runs", "--db"], ["merge"], ["explain", "latest", "--db"], ["report", "--site"]])
def test_a_name_that_is_too_long_is_a_wrong_argument(repository, capsys, words):
    cli.run(["compare", "HEAD", "HEAD", "-w", "fake", "--max-blocks", "2", "--margin", "50%", "--quiet"])
    capsys.readouterr()
    assert cli.run([*words, "x" * 300]) == 2
    said = capsys.readouterr().err
    assert said.startswith("error: xxx")
    assert "File name too long" in said
    assert "Traceback" not in said


def test_the_version_and_the_first_steps_are_printed(capsys):
    assert cli.run(["--version"]) == 0
    assert capsys.readouterr().out == f"perfguard {__version__}\n"
    assert cli.run([]) == 0
    said = capsys.readouterr().out
    assert "perfguard demo" in said
    assert "never reports a phantom as real" in said


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_explains_itself_with_an_example(command, capsys):
    assert cli.run([command, "-h"]) == 0
    assert f"Example: perfguard {command}" in capsys.readouterr().out


def test_what_can_be_measured_is_listed_also_as_json(repository, capsys):
    (repository / "perfguard.toml").write_text(
        '[workload.mine]\ncommand = "./bench -n 3"\nmetrics = [{name = "rate", unit = "token/s", better = "higher"}]\n'
    )
    assert cli.run(["workloads"]) == 0
    lines = capsys.readouterr().out.splitlines()
    names = [line.split()[0] for line in lines]
    presets = ["qwen3-30b-a3b", "qwen3-235b-a22b", "mixtral-8x7b"]
    engines = ["openai", "transformers", "sglang", "sglang-eagle3", "sglang-kimi-eagle3", "vllm", "vllm-eagle3"]
    assert names == ["workload", "moe-eagle3", *presets, "fake", *engines, "vllm-ngram", "mine"]
    assert "./bench -n 3" in lines[-1]
    assert "rate (token/s)" in lines[-1]
    assert cli.run(["workloads", "--json", "-"]) == 0
    listed = json.loads(capsys.readouterr().out)
    assert listed["schema"] == "perfguard/workloads@1"
    assert listed["workloads"][-1]["metrics"][0]["better"] == "higher"


def test_a_file_of_trials_is_judged_and_its_exit_code_follows(tmp_path, capsys):
    path = tmp_path / "trials.csv"
    rows = ["block,slot,arm,metric,value"]
    for block, order in enumerate(("ABBA", "BAAB", "BABA", "AABB"), start=1):
        for slot, arm in enumerate(order, start=1):
            rows.append(f"{block},{slot},{'head' if arm == 'B' else 'base'},s,{1.3 if arm == 'B' else 1.0}")
    path.write_text("\n".join(rows))
    assert cli.run(["judge", str(path), "--margin", "5%", "--alpha", "0.05", "--json", "-"]) == 1
    assert json.loads(capsys.readouterr().out)["outcome"] == "REGRESSION"
    assert cli.run(["judge", str(path), "--margin", "5%", "--alpha", "0.05", "--better", "higher"]) == 0
    assert capsys.readouterr().out.startswith("✓ IMPROVEMENT")
    path.write_text("\n".join(rows).replace("1,1,base,s,1.0", "1,1,base,s,-1.0"))
    assert cli.run(["judge", str(path)]) == 2
    assert "trials.csv: line 2: value is -1.0" in capsys.readouterr().err


# --- which database, which project


def test_the_database_lies_beside_the_configuration_or_the_repository(tmp_path):
    inner = tmp_path / "project" / "src"
    inner.mkdir(parents=True)
    assert options.database("here.db", inner).name == "here.db"
    assert options.database("", inner) == inner / ".perfguard" / "results.db"
    (tmp_path / ".git").mkdir()
    assert options.database("", inner) == tmp_path / ".perfguard" / "results.db"
    (tmp_path / "project" / "perfguard.toml").touch()
    assert options.database("", inner) == tmp_path / "project" / ".perfguard" / "results.db"


def test_the_configuration_is_found_upwards(tmp_path):
    inner = tmp_path / "a" / "b"
    inner.mkdir(parents=True)
    assert project_config(inner).path is None
    (tmp_path / "perfguard.toml").write_text("[policy]\nmargin = 0.07\n")
    assert project_config(inner).policy.margin == 0.07


# --- options become a workload and a policy


def test_the_command_line_overrides_the_file():
    config = Config(policy=policy_of(Config(), margin="7%", alpha=None, max_blocks=None, budget="", no_confirm=False))
    assert config.policy.margin == pytest.approx(0.07)
    policy = policy_of(config, margin="", alpha=0.01, max_blocks=3, budget="2m", no_confirm=True)
    assert (policy.margin, policy.alpha, policy.budget_s, policy.is_confirmed) == (
        config.policy.margin,
        0.01,
        120,
        False,
    )
    assert (policy.max_blocks, policy.max_confirm_blocks) == (3, 3)


def test_limits_and_setup_hold_for_a_named_workload_and_for_a_command():
    given = {"setup": "make", "timeout": "5s", "ready_timeout": "2m"}
    for asked in (WorkloadOptions(name="fake", **given), WorkloadOptions(command=("true",), **given)):
        workload = workload_of(asked, Config())
        assert (workload.setup, workload.timeout_s, workload.ready_timeout_s) == ("make", 5.0, 120.0)


def test_a_claimed_number_is_about_the_first_primary_metric():
    workload = workload_of(WorkloadOptions(name="moe-eagle3", modes="eagle3"), Config())
    assert claimed_metric(workload, 89.0).name == "eagle3_throughput"
