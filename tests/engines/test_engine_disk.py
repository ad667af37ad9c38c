"""A trial whose result does not fit on its disk: how it ends, and what is left of its server."""

import os
import resource
import subprocess

from engine_support import is_alive, prepare, runner_of

FULL_AT = 2000  # bytes of a file: less than any result has, more than a list of process numbers


def test_a_result_that_cannot_be_written_ends_the_trial_by_its_own_code_and_leaves_no_server(tmp_path):
    """A limit on the size of files stands for a full disk: the same call fails, with another number."""
    pids = tmp_path / "pids"
    prepare(tmp_path, "vllm", {"orphan": True, "pids": str(pids)}, stop_grace_s=0.3)
    done = subprocess.run(
        runner_of(tmp_path),
        # What Python compiles would be cut at the limit as well, and left beside the sources for every later start.
        env={"PATH": os.environ["PATH"], "PYTHONUNBUFFERED": "1", "PYTHONDONTWRITEBYTECODE": "1"},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (FULL_AT, FULL_AT)),
    )
    assert done.returncode == 74
    assert "cannot be written: [Errno 27] File too large" in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "result-0.json").exists()
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []
    assert len(pids.read_text().split()) == 2
    assert [pid for pid in map(int, pids.read_text().split()) if is_alive(pid)] == []


def test_words_that_have_no_room_either_change_no_exit_code(tmp_path):
    prepare(tmp_path, "vllm", {})
    (tmp_path / "spec.json").write_text("{")
    with open("/dev/full", "wb") as full:
        done = subprocess.run(runner_of(tmp_path), stdout=full, stderr=full, timeout=60)
    assert done.returncode == 2
