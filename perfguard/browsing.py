"""`browse`: results.db opened in Datasette, read-only, with every column explained and ready questions.

Starts one other program and waits for it. Writes nothing but a temporary folder.
"""

import json
import re
import shutil
import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory

from perfguard.errors import HarnessError, UsageError
from perfguard.store import open_store, upkeep
from perfguard.store.questions import metadata, queries

INSTALL = "pipx install datasette (or: uv tool install datasette), then perfguard browse"


def browse(path: Path, port: int) -> None:
    """Until the reader ends it. Raises UsageError where there is no Datasette, HarnessError where it fails."""
    datasette = shutil.which("datasette")
    if datasette is None:
        raise UsageError("datasette is not installed, or not on PATH", INSTALL)
    with TemporaryDirectory(prefix="perfguard-browse-") as folder:
        shown = _shown(path, Path(folder))
        explained = _explained(datasette, shown, Path(folder))
        command = [datasette, "serve", *_opened(shown), "--port", str(port), *explained]
        try:
            code = subprocess.run(command, check=False).returncode
        except KeyboardInterrupt:  # the way to end it
            return
    if code > 0:
        raise HarnessError(f"datasette ended with exit code {code}", f"perfguard browse --port {port + 1}")


def _shown(path: Path, folder: Path) -> Path:
    """The file itself; a copy at the newest schema where an older perfguard wrote it."""
    with open_store(path, read_only=True) as store:
        if upkeep.is_current(store):
            return path
        copy = folder / path.name
        upkeep.copy_to(store, copy)
    return copy


def _opened(path: Path) -> list[str]:
    """Immutable unless a run is going on: only then does a journal lie beside the file, which must not be passed over.
    Datasette opens the file read-only either way.
    """
    is_being_written = path.with_name(f"{path.name}-wal").exists()
    return [str(path)] if is_being_written else ["--immutable", str(path)]


def _explained(datasette: str, path: Path, folder: Path) -> list[str]:
    """Options that hand over descriptions and questions. From version 1 on these are two files."""
    words, ready = metadata(path.stem), queries(path.stem)
    described, config = folder / "metadata.json", folder / "datasette.json"
    if _major(datasette) >= 1:
        described.write_text(json.dumps(words), encoding="utf-8")
        config.write_text(json.dumps(ready), encoding="utf-8")
        return ["--metadata", str(described), "--config", str(config)]
    words["databases"][path.stem] |= ready["databases"][path.stem]
    described.write_text(json.dumps(words), encoding="utf-8")
    return ["--metadata", str(described)]


def _major(datasette: str) -> int:
    """0 where it cannot be told."""
    said = subprocess.run([datasette, "--version"], capture_output=True, text=True, check=False).stdout
    found = re.search(r"(\d+)\.", said)
    return int(found.group(1)) if found else 0
