"""SIGKILL in mid-trial: after the next start nothing of a real vLLM is left, neither processes nor shared memory
nor sockets."""

import psutil
import pytest

from tests.engines_real import real_support as real

pytestmark = pytest.mark.engines

# Long enough to be killed in its middle.
LONG = ("--set", "requests=400", "--set", "tokens=256", "--set", "request_timeout_s=600")


@pytest.fixture
def measuring(vllm, models, tmp_path):
    """perfguard in the middle of a trial: its project, its process and everything below it."""
    project = real.vllm_project(tmp_path, vllm, models)
    arguments = ("run", "HEAD", "-w", "tiny", "--trials", "1", *real.variables(real.VLLM_ENV), *LONG)
    process = project.start(*arguments, "--set", real.ngram(3), said=tmp_path / "said")
    try:
        real.wait_for(
            lambda: process.poll() is not None or any(project.cache.glob("work/**/ready-0")), "the measured part", 900
        )
        assert process.poll() is None, (tmp_path / "said").read_text()
        yield project, process, real.below(process.pid)
    finally:
        for child in psutil.Process(process.pid).children(recursive=True) if process.poll() is None else ():
            child.kill()
        process.kill()
        process.wait()


def next_start(project):
    return project.run("run", "HEAD", "--trials", "1", "--", "true")


def test_killing_perfguard_alone_leaves_nothing(measuring):
    project, process, children = measuring
    engines = {pid for pid, command in children.items() if "VLLM::" in command or "resource_tracker" in command}
    names = real.shared_names(engines) | real.sockets(children)
    assert len(engines) >= 3  # EngineCore, Worker, resource_tracker
    assert any(name.startswith("psm_") for name in names)
    assert any("/pg-" in name for name in names)
    process.kill()
    process.wait()
    next_start(project)
    assert [children[pid] for pid in children if real.is_alive(pid)] == []
    assert real.names_left(names) == []


def test_killing_everything_but_the_engine_s_own_children_leaves_nothing_after_the_next_start(measuring):
    """The worst case: supervisor, client and server are gone at once, and nobody is left to tell the others."""
    project, process, children = measuring
    orphans = {pid for pid, command in children.items() if "VLLM::" in command or "resource_tracker" in command}
    names = real.shared_names(orphans) | real.sockets(children)
    real.kill([process.pid, *(pid for pid in children if pid not in orphans)])
    process.wait()
    assert any(real.is_alive(pid) for pid in orphans)
    done = next_start(project)
    assert "removed what an earlier run left in" in done.stderr
    assert [children[pid] for pid in orphans if real.is_alive(pid)] == []
    assert real.names_left(names) == []
