"""Outputs that cannot be written, and a terminal that is closed: what was measured is shown and stored."""

import signal
import subprocess

from cli_support import wait_for

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
