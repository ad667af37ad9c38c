"""What tests of several folders share: a machine with scripted GPUs."""

import shutil
import signal
from pathlib import Path

import pytest
from standin import Script, build_standin, play_here

# A shell that starts tests in the background has them ignore Ctrl-C (nohup: a closed terminal as well), and what they
# start would inherit that: tests that interrupt a run would wait for ever.
for number, usual in (
    (signal.SIGINT, signal.default_int_handler),
    (signal.SIGHUP, signal.SIG_DFL),
    (signal.SIGQUIT, signal.SIG_DFL),
):
    if signal.getsignal(number) is signal.SIG_IGN:
        signal.signal(number, usual)


@pytest.fixture(scope="session")
def standin_library(tmp_path_factory) -> Path:
    """The stand-in for NVML, compiled once."""
    if shutil.which("gcc") is None:
        pytest.skip("the stand-in for NVML is compiled with gcc, which is not here")
    return build_standin(tmp_path_factory.mktemp("standin"))


@pytest.fixture
def script(standin_library, tmp_path) -> Script:
    """A machine without GPUs yet: `script.write(*h200(0), …)`."""
    return Script(path=tmp_path / "gpus", shared_object=standin_library).write()


@pytest.fixture
def played(script, monkeypatch) -> Script:
    """As `script`, seen by the bindings in this process."""
    return play_here(script, monkeypatch)
