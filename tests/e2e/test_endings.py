"""Outputs that cannot be written, and a terminal that is closed: what was measured is shown and stored."""

import signal
import subprocess

import pytest
from cli_support import Project, wait_for

FAKE = ("-w", "fake", "--set", "noise=0", "--modes", "plain", "--quiet")


def test_a_result_that_cannot_be_written_is_shown_all_the_same_with_the_way_to_write_it_again(project):
    project.commit({"fake.json": {"speed": 89}})
    done = project.run("recheck", "HEAD", "--was", "90", *FAKE, "--json", "/dev/full", code=0)
    assert "REPRODUCED" in done.stdout
    assert "/dev/full cannot be written: No space left on device" in done.stderr
    assert " --json FILE" in done.stderr
    with open("/dev/full", "w") as full:
        runs = subprocess.run([project.program, "runs"], cwd=project.repo, env=project.env(), stdout=full, stderr=-1)
    assert (runs.returncode, runs.stderr.decode().splitlines()[0]) == (
        5, "error: the output cannot be written: No space left on device",
    )  # fmt: skip
    assert b"Traceback" not in runs.stderr


@pytest.mark.parametrize(
    ("command", "code"),
    [("run HEAD", 0), ("compare HEAD~1 HEAD --margin 20% --max-blocks 2 --no-confirm --alpha 0.05", 3)],
)
def test_a_closed_standard_output_changes_no_exit_code(project, command, code):
    project.commit({"fake.json": {"speed": 89}})
    project.commit({"fake.json": {"speed": 50}})
    line = f'"$0" {command} "$@" >&-'
    shell = Project(folder=project.folder, program="bash")
    said = shell.run("-c", line, str(project.program), *FAKE, code=code).stderr
    assert "Traceback" not in said


def test_a_closed_terminal_interrupts_as_ctrl_c_does(project):
    project.commit({"fake.json": {"speed": 89}})
    said = project.folder / "said"
    running = project.start("run", "HEAD", *FAKE, "--setup", f"touch {project.folder}/begun; sleep 605", said=said)
    wait_for(lambda: "begun" in [p.name for p in project.folder.iterdir()] or running.poll() is not None, "the setup")
    running.send_signal(signal.SIGHUP)
    assert running.wait(60) == 130
    assert "interrupted" in said.read_text()


def test_a_cache_that_is_no_folder_is_named(project):
    project.commit({"README": "one\n"})
    done = project.run("builds", code=2, PERFGUARD_CACHE="/dev/null")
    assert "the cache folder /dev/null cannot be written: Not a directory" in done.stderr
