"""Where the measured processes' code lies: beside the package in a checkout, below it in an installed wheel."""

import hashlib
from pathlib import Path

PACKAGE = Path(__file__).resolve().parent


def bundle_root() -> Path:
    """The folder that holds `runners/` and `model/` of this perfguard."""
    inside = PACKAGE / "_bundle"
    return inside if inside.is_dir() else PACKAGE.parent


def runner_fingerprint() -> str:
    """sha256 over the source of the runners and of the wire format: the measuring program's own version."""
    digest = hashlib.sha256()
    for path in [*sorted((bundle_root() / "runners").rglob("*.py")), PACKAGE / "protocol.py"]:
        digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()
