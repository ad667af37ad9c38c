"""Files for CI systems, timers and batch systems: templates with a few places filled in, and writing them safely.

Must not know what is measured: the templates call `perfguard`, and perfguard.toml says the rest.
"""

import sys
from collections.abc import Mapping
from importlib import resources
from pathlib import Path

from perfguard.errors import UsageError

# System -> template -> where it goes in the project.
FILES: Mapping[str, Mapping[str, str]] = {
    "github": {
        "github-nightly.yml": ".github/workflows/nightly.yml",
        "github-pull-request.yml": ".github/workflows/perfguard-pull-request.yml",
    },
    "gitlab": {"gitlab.yml": ".gitlab/perfguard.yml"},
    "systemd": {
        "perfguard-nightly.service": "systemd/perfguard-nightly.service",
        "perfguard-nightly.timer": "systemd/perfguard-nightly.timer",
    },
    "slurm": {"perfguard-nightly.sbatch": "slurm/perfguard-nightly.sbatch"},
}

NEXT_STEPS: Mapping[str, str] = {
    "github": "adapt env and runs-on in both files, and read their comments on pull requests from forks",
    "gitlab": "include .gitlab/perfguard.yml in .gitlab-ci.yml and add a schedule (Build > Pipeline schedules)",
    "systemd": "systemctl --user link ./systemd/*; systemctl --user enable --now perfguard-nightly.timer",
    "slurm": "set partition and GPUs at the top, then sbatch slurm/perfguard-nightly.sbatch",
}


def ci_files(system: str, project: Path) -> dict[str, str]:
    """Path in the project -> text. Raises UsageError for a system that is not known."""
    if system not in FILES:
        raise UsageError(f"{system!r} is none of {', '.join(FILES)}", "perfguard ci init github")
    places = {"@PROJECT@": str(project.resolve()), "@PERFGUARD@": str(_program())}
    return {path: _filled(_template(name), places) for name, path in FILES[system].items()}


def write(files: Mapping[str, str], folder: Path, *, overwrite: bool) -> list[Path]:
    """All of them, or none where one is there already. Raises UsageError then, and where they cannot be written."""
    paths = {folder / path: text for path, text in files.items()}
    if (there := [str(path) for path in paths if path.exists()]) and not overwrite:
        raise UsageError(f"{', '.join(there)} exists; nothing was written", "perfguard ci init … --force")
    for path, text in paths.items():
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        except OSError as error:
            raise UsageError(f"{path} cannot be written: {error.strerror}", "name another --output") from error
    return list(paths)


def _template(name: str) -> str:
    return (resources.files("perfguard") / "ci_templates" / name).read_text(encoding="utf-8")


def _filled(text: str, places: Mapping[str, str]) -> str:
    for place, value in places.items():
        text = text.replace(place, value)
    return text


def _program() -> Path:
    """The `perfguard` of the Python that runs, so that a timer without a PATH finds the same one."""
    return Path(sys.executable).with_name("perfguard")
