"""perfguard killed with kill -9 at random moments while it locks clocks: what the cards are left with. Real processes.

Also guardian and perfguard both killed, and a power cut: then the next start puts back what the disk says.
"""

import json
import os
import random
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest
from clock_support import FREE, cards, uuid, was_ever_locked
from standin import h200

sys.path.append(str(Path(__file__).resolve().parents[1] / "e2e"))
from cli_support import Project, wait_for

from perfguard.errors import BusyError
from perfguard.machine.hold import hold_machine

COMMAND = ("--metric", "x", "--", "sh", "-c", 'sleep 0.05; echo {\\"x\\": 1}')
RUN = ("run", "HEAD", "--trials", "1", "--clocks", "lock", "--quiet", *COMMAND)
KEEP = ("clocks", "lock")


class Box:
    """A project on a machine of two scripted cards."""

    def __init__(self, folder, script):
        self.script = script.write(*h200(0), *h200(1))
        self.project = Project(folder=folder)
        self.project.commit({"file": "1"})
        self.states = folder / "lock" / "clocks"
        self.gpus = {name: script.env[name] for name in ("LD_LIBRARY_PATH", "PERFGUARD_STANDIN")}

    def start(self, *arguments):
        project = self.project
        env = project.env(**self.gpus)
        silent = subprocess.DEVNULL
        return subprocess.Popen([project.program, *arguments], cwd=project.repo, env=env, stdout=silent, stderr=silent)

    def run(self, *arguments, code=0):
        return self.project.run(*arguments, code=code, **self.gpus)

    def wait_until_free(self):
        """Until no guardian holds the machine any more."""
        with hold_machine("test", wait_s=60, folder=self.project.folder / "lock"):
            pass

    def left(self):
        return [json.loads(path.read_text()) for path in self.states.glob("[!.]*.json")]

    def guardian(self):
        """Its pid, as soon as it has locked all cards."""
        calls = wait_for(lambda: self.script.calls("nvmlDeviceSetMemoryLockedClocks")[1:], "both cards locked")
        return calls[0].pid


@pytest.fixture
def box(tmp_path, script):
    return Box(tmp_path, script)


def is_gone(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"


def killed_at(box, arguments, delay_s):
    """Start, kill after `delay_s`, wait for what outlives it. Returns whether it was still running."""
    process = box.start(*arguments)
    with suppress(subprocess.TimeoutExpired):
        process.wait(delay_s)
    was_running = process.poll() is None
    process.kill()
    process.wait()
    box.wait_until_free()
    return was_running


def kill_at_random(box, count):
    """`count` kills spread over a run that locks clocks for itself, and over `clocks lock`, in turn."""
    seed = random.randrange(2**31)
    print("seed", seed)
    draw = random.Random(seed)
    spans = {}
    for arguments in (RUN, KEEP):
        began_s = time.monotonic()
        box.start(*arguments).wait()
        spans[arguments] = 1.1 * (time.monotonic() - began_s)
        box.run("clocks", "restore")
    num_killed = number = 0
    # On a machine that was busier when the span was taken, most have ended before they are killed: then there are more.
    while number < count or (num_killed <= count / 4 and number < 4 * count):
        arguments = (RUN, KEEP)[number % 2]
        num_killed += killed_at(box, arguments, draw.uniform(0.0, spans[arguments]))
        kept = [state for state in box.left() if state["is_kept"]]
        if len(kept) == 2:  # `clocks lock` had done all it was asked for
            assert arguments is KEEP
            box.run("clocks", "restore")
        assert box.left() == []
        number += 1
        assert cards(box.script) == [FREE, FREE], f"after {number} kills"
    assert was_ever_locked(box.script)
    assert num_killed > count / 4


def test_clocks_are_free_or_kept_as_a_whole_after_kill_9_at_ten_random_moments(box):
    kill_at_random(box, 10)


@pytest.mark.soak
def test_clocks_are_free_or_kept_as_a_whole_after_kill_9_at_200_random_moments(box):
    kill_at_random(box, 200)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_run_that_is_stopped_while_it_measures_restores_the_clocks(box, number):
    process = box.start("run", "HEAD", "--clocks", "lock", "--metric", "x", "--", "sleep", "60")
    box.guardian()
    process.send_signal(number)
    process.wait(60)
    box.wait_until_free()
    assert cards(box.script) == [FREE, FREE]
    assert box.left() == []


def test_nobody_else_measures_before_the_clocks_of_a_killed_run_are_back(box):
    process = box.start("run", "HEAD", "--clocks", "lock", "--metric", "x", "--", "sleep", "60")
    box.guardian()
    box.script.write(*h200(0), *h200(1), "fault nvmlDeviceResetGpuLockedClocks sleep=1.0")
    process.kill()
    process.wait()
    with pytest.raises(BusyError), hold_machine("test", folder=box.project.folder / "lock"):
        pass
    box.wait_until_free()
    assert cards(box.script) == [FREE, FREE]


def test_if_the_guardian_is_killed_as_well_the_next_start_restores_and_says_so(box):
    process = box.start("run", "HEAD", "--clocks", "lock", "--metric", "x", "--", "sleep", "60")
    guardian = box.guardian()
    for pid in (guardian, process.pid):
        os.kill(pid, signal.SIGKILL)
    process.wait()
    wait_for(lambda: is_gone(guardian), "the guardian to be gone")
    assert FREE not in cards(box.script)
    assert {state["uuid"] for state in box.left()} == {uuid(0), uuid(1)}
    said = box.run("run", "HEAD", "--trials", "1", *COMMAND).stderr
    assert f"restored the clocks that an earlier run left locked: {uuid(0)}, {uuid(1)}" in said
    assert cards(box.script) == [FREE, FREE]
    assert box.left() == []


def test_after_a_power_cut_the_state_on_disk_is_restored_by_hand_or_by_the_next_start(box):
    box.run("clocks", "lock")
    (states,) = [list(box.states.glob("[!.]*.json"))]
    for path in states:  # as a campaign leaves them when the light goes out
        path.write_text(json.dumps(json.loads(path.read_text()) | {"is_kept": False, "boot_id": "another"}))
    Path(f"{box.script.path}.state").unlink()  # the driver starts anew
    shown = box.run("clocks", "show").stdout
    assert "not put back yet" in shown
    assert "perfguard clocks restore" in shown
    restored = json.loads(box.run("clocks", "restore", "--json", "-").stdout)
    assert restored["restored"] == [uuid(0), uuid(1)]
    assert box.left() == []
    assert "nothing to restore" in box.run("clocks", "restore").stdout
