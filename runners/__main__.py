"""Entry of one measured process: `python -P /abs/runners/__main__.py SPEC.json`, once a rank, also under torchrun.

Loads the harness's own `perfguard` and `runners` by their location, so that neither a subject's copies of them nor
PYTHONPATH decide who measures; the rest is launch.py. Must not import anything else of the harness or the subject.
"""

import contextlib
import faulthandler
import importlib.util
import os
import signal
import sys
import time
from pathlib import Path

# Asked for by perfguard/trial/warden.py, which says why this one.
STACKS = signal.SIGURG


def load_package(name: str, folder: Path) -> None:
    """Make `folder` the package `name` whatever sys.path says. Raises ImportError if there is none."""
    for loaded in [key for key in sys.modules if key == name or key.startswith(f"{name}.")]:
        del sys.modules[loaded]  # a sitecustomize may have imported another version
    spec = importlib.util.spec_from_file_location(
        name, folder / "__init__.py", submodule_search_locations=[str(folder)]
    )
    if spec is None or spec.loader is None:
        raise ImportError(f"no package {name} at {folder}")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)


def perfguard_folder(runners: Path) -> Path:
    """In a checkout perfguard/ lies beside runners/; in a wheel runners/ lies in perfguard/_bundle/."""
    return runners.parent.parent if runners.parent.name == "_bundle" else runners.parent / "perfguard"


def main(arguments: list[str]) -> int:
    started_s = time.perf_counter()
    started_env = dict(os.environ)  # after sitecustomize, before the subject
    # First of all: a rank that hangs, even in an import, can be asked for its stacks and can be ended.
    faulthandler.enable()
    faulthandler.register(STACKS, all_threads=True)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    runners = Path(os.path.abspath(__file__)).parent
    perfguard = perfguard_folder(runners)
    load_package("perfguard", perfguard)
    load_package("runners", runners)
    from runners import launch

    harness = (runners, runners.parent, perfguard.parent)
    return launch.main(arguments, harness=harness, started_s=started_s, started_env=started_env)


if __name__ == "__main__":
    code = main(sys.argv[1:])
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError):  # the log may be on a full disk
            stream.flush()
    # The result is written and the session closed. Taking the interpreter down with torch in it costs 0.4 s a
    # launch, and a failed rank must not wait there for peers that will never answer.
    os._exit(code)
