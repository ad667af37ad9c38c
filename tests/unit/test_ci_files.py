"""The files of `perfguard ci init` are what the systems expect, do what exit codes ask for, and overwrite nothing."""

import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import typer
from ruamel.yaml import YAML

from perfguard.ci_files import FILES, NEXT_STEPS, ci_files, write
from perfguard.cli import run
from perfguard.cli.app import app
from perfguard.config import load
from perfguard.errors import UsageError
from perfguard.nightly.wishes import wishes_of

ROOT = Path(__file__).resolve().parents[2]
COMMANDS = typer.main.get_command(app).commands
WORKFLOWS = ("nightly.yml", "perfguard-pull-request.yml")
SCHEMAS = {"github": ["vendor.github-workflows"], "gitlab": ["vendor.gitlab-ci", "--data-transform", "gitlab-ci"]}


def written(system, folder, *, overwrite=False):
    """The files of a system in a folder that also is the project."""
    return write(ci_files(system, folder), folder, overwrite=overwrite)


def parsed(path):
    # YAML 1.1, as GitHub reads it, would take `on` for true.
    return YAML(typ="safe").load(path.read_text())


def workflow(name, tmp_path):
    return parsed(next(path for path in written("github", tmp_path, overwrite=True) if path.name == name))


def steps(name, tmp_path):
    (job,) = workflow(name, tmp_path)["jobs"].values()
    return job["steps"]


def script(name, step, tmp_path):
    return next(one["run"] for one in steps(name, tmp_path) if one.get("name") == step)


@pytest.mark.parametrize("system", SCHEMAS)
def test_the_files_are_valid_by_the_published_schema(system, tmp_path):
    schema, *options = SCHEMAS[system]
    files = [str(path) for path in written(system, tmp_path)]
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", schema, *options, *files]
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stdout + found.stderr


def test_the_schema_would_notice_a_mistake(tmp_path):
    path = written("github", tmp_path)[0]
    path.write_text(path.read_text().replace("runs-on:", "run-on:"))
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.github-workflows", str(path)]
    assert subprocess.run(command, capture_output=True, check=False).returncode == 1


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="no systemd-analyze here")
def test_systemd_finds_nothing_wrong_with_the_units(tmp_path):
    files = [str(path) for path in written("systemd", tmp_path)]
    found = subprocess.run(["systemd-analyze", "verify", *files], capture_output=True, text=True, check=False)
    assert (found.returncode, found.stderr) == (0, "")


def test_the_shell_finds_nothing_wrong_with_the_batch_script(tmp_path):
    (path,) = written("slurm", tmp_path)
    assert subprocess.run(["bash", "-n", path], check=False).returncode == 0
    for asked in ("--exclusive", "--nodes=1", "--signal=B:USR1@300", "--requeue"):
        assert f"#SBATCH {asked}\n" in path.read_text()


@pytest.mark.parametrize("name", WORKFLOWS)
def test_measured_code_gets_neither_a_secret_nor_a_token_that_writes(name, tmp_path):
    found = workflow(name, tmp_path)
    assert "pull_request_target" not in found["on"]
    assert found["permissions"] == {"contents": "read"}
    assert all("permissions" not in job for job in found["jobs"].values())
    checkout = steps(name, tmp_path)[0]
    assert checkout["uses"].startswith("actions/checkout@")
    assert checkout["with"]["persist-credentials"] is False
    text = (tmp_path / ".github/workflows" / name).read_text()
    assert re.findall(r"\$\{\{[^}]*(?:secrets|token)", text) == []


@pytest.mark.parametrize("name", WORKFLOWS)
def test_foreign_text_never_becomes_part_of_a_script(name, tmp_path):
    assert [one["run"] for one in steps(name, tmp_path) if "${{" in one.get("run", "")] == []


@pytest.mark.parametrize("name", WORKFLOWS)
def test_actions_of_others_are_named_by_their_commit(name, tmp_path):
    used = [one["uses"] for one in steps(name, tmp_path) if "uses" in one]
    assert used
    assert all(re.fullmatch(r"actions/[\w-]+@[0-9a-f]{40}", one) for one in used)


def test_a_pull_request_from_a_fork_waits_for_its_label_after_every_push(tmp_path):
    found = workflow("perfguard-pull-request.yml", tmp_path)
    condition = " ".join(found["jobs"]["compare"]["if"].split())
    assert condition == (
        "(github.event.action != 'labeled' && github.event.pull_request.head.repo.full_name == github.repository) || "
        "(github.event.action == 'labeled' && github.event.label.name == 'measure-performance')"
    )


def git(folder, *words):
    identity = ("-c", "user.name=t", "-c", "user.email=t@example.org")
    subprocess.run(["git", "-C", str(folder), *identity, *words], check=True, capture_output=True)


@pytest.mark.parametrize("name", WORKFLOWS)
def test_a_shallow_clone_is_refused_and_a_whole_one_is_not(name, tmp_path):
    assert steps(name, tmp_path)[0]["with"]["fetch-depth"] == 0
    check = script(name, "Refuse a shallow clone", tmp_path)
    whole = tmp_path / "whole"
    whole.mkdir()
    git(whole, "init", "--quiet")
    for message in "ab":
        git(whole, "commit", "--quiet", "--allow-empty", "--message", message)
    git(tmp_path, "clone", "--quiet", "--depth", "1", whole.as_uri(), "shallow")
    codes = [
        subprocess.run(["bash", "-e", "-c", check], cwd=folder, capture_output=True, check=False).returncode
        for folder in (whole, tmp_path / "shallow")
    ]
    assert codes == [0, 2]


@pytest.mark.parametrize(
    ("code", "is_red", "annotation"),
    [
        ("0", False, "::notice"),
        ("1", True, "::error"),
        ("2", True, "::error"),
        ("3", False, "::warning"),
        ("4", True, "::error"),
        ("5", True, "::error"),
        ("", True, "::error"),  # the step before never came that far
    ],
)
@pytest.mark.parametrize("name", WORKFLOWS)
def test_an_exit_code_is_annotated_and_only_a_suspicion_stays_green(name, code, is_red, annotation, tmp_path):
    found = subprocess.run(
        ["bash", "-e", "-c", script(name, "Result", tmp_path)],
        env={"CODE": code, "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (found.returncode != 0) is is_red
    assert found.stdout.startswith(f"{annotation} title=perfguard::")


def test_in_gitlab_only_a_suspicion_is_forgiven_and_one_job_measures_at_a_time(tmp_path):
    (path,) = written("gitlab", tmp_path)
    shared = parsed(path)[".perfguard"]
    assert shared["allow_failure"] == {"exit_codes": [3]}
    assert shared["resource_group"] == "perfguard"
    assert shared["variables"]["GIT_DEPTH"] == "0"


def stub(folder, name, text):
    path = folder / name
    path.write_text(f"#!/usr/bin/env bash\n{text}\n")
    path.chmod(0o755)
    return path


def batch_job(folder, night):
    """The batch script in a project, with stand-ins for every program it calls; `night` is what a night does."""
    project, programs = folder / "project", folder / "bin"
    project.mkdir()
    programs.mkdir()
    perfguard = stub(programs, "perfguard", f'[ "$1" = nightly ] || exit 0\necho ready > "{folder}/ready"\n{night}')
    stub(programs, "git", "exit 0")
    stub(programs, "scontrol", f'echo "$@" > "{folder}/requeued"')
    (text,) = ci_files("slurm", project).values()
    path = folder / "job"
    path.write_text(text.replace(str(Path(sys.executable).with_name("perfguard")), str(perfguard)))
    environment = {"PATH": f"{programs}:/usr/bin:/bin", "USER": "u", "SLURM_JOB_ID": "17", "HOME": str(folder)}
    return subprocess.Popen(["bash", str(path)], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


@pytest.mark.parametrize(("night", "job"), [(0, 0), (1, 1), (3, 0), (4, 4), (5, 5), (130, 130)])
def test_a_batch_job_ends_as_its_night_did_and_forgives_a_suspicion(night, job, tmp_path):
    process = batch_job(tmp_path, f"exit {night}")
    process.communicate(timeout=60)
    assert process.returncode == job
    assert not (tmp_path / "requeued").exists()


def test_a_batch_job_out_of_time_stops_its_night_and_is_queued_again(tmp_path):
    # As perfguard does on TERM: a moment to store what was measured, then 130.
    night = "trap 'sleep 0.2; exit 130' TERM\nwhile :; do sleep 0.05; done"
    process = batch_job(tmp_path, night)
    while not (tmp_path / "ready").exists():
        time.sleep(0.02)
    time.sleep(0.1)  # from the line that says ready to the trap
    process.send_signal(signal.SIGUSR1)
    process.communicate(timeout=60)
    assert process.returncode == 0
    assert (tmp_path / "requeued").read_text() == "requeue 17\n"


def perfguard_lines():
    for templates in FILES.values():
        for name in templates:
            text = (ROOT / "perfguard" / "ci_templates" / name).read_text()
            for line in text.replace('"@PERFGUARD@"', "perfguard").replace("@PERFGUARD@", "perfguard").splitlines():
                found = re.search(r"(?:^|[ ;=-])(perfguard (?!-)[a-z]+ ?.*)$", line.split(" #")[0])
                if found and not line.lstrip().startswith(("#", "name:", "Description=")):
                    yield name, re.split(r" (?:\|\||>{1,2}|&$)", found.group(1))[0]


@pytest.mark.parametrize(("name", "line"), list(perfguard_lines()))
def test_every_command_in_a_template_is_understood_by_the_program(name, line):
    _, command, *words = shlex.split(line)
    assert COMMANDS[command].make_context(command, words).command is COMMANDS[command]


def test_files_that_are_there_are_left_alone_unless_forced(tmp_path):
    (mine,) = written("gitlab", tmp_path)
    mine.write_text("mine")
    other = tmp_path / ".github/workflows/perfguard-pull-request.yml"
    other.parent.mkdir(parents=True)
    other.write_text("mine too")
    with pytest.raises(UsageError, match=r"gitlab/perfguard\.yml exists; nothing was written"):
        written("gitlab", tmp_path)
    with pytest.raises(UsageError):
        written("github", tmp_path)
    assert (mine.read_text(), other.read_text()) == ("mine", "mine too")
    assert not (tmp_path / ".github/workflows/nightly.yml").exists()
    written("gitlab", tmp_path, overwrite=True)
    assert mine.read_text() != "mine"


def test_the_command_writes_into_the_folder_asked_for_and_says_what_comes_next(tmp_path, capsys):
    assert run(["ci", "init", "systemd", "--output", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    assert all(str(tmp_path / path) in out for path in FILES["systemd"].values())
    assert NEXT_STEPS["systemd"] in out
    assert run(["ci", "init", "systemd", "--output", str(tmp_path)]) == 2
    assert run(["ci", "init", "jenkins"]) == 2
    assert run(["ci", "remove", "github"]) == 2


def test_no_place_of_a_template_is_left_open(tmp_path):
    texts = [text for system in FILES for text in ci_files(system, tmp_path).values()]
    assert [text for text in texts if re.search(r"@[A-Z]+@", text)] == []


def test_the_night_of_this_repository_is_the_one_that_is_written_for_others(tmp_path):
    ours = (ROOT / ".github/workflows/nightly.yml").read_text().splitlines()
    theirs = ci_files("github", tmp_path)[".github/workflows/nightly.yml"].splitlines()
    differing = [one for one, other in zip(ours, theirs, strict=True) if one != other]
    assert differing == ['  INSTALL: ".[model]" # this checkout, with what its own runner needs']
    assert [one.name for one in wishes_of(load(ROOT)).workloads] == ["decode"]
