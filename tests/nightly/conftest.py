"""A made-up machine for nights in this process; everything else is real."""

import pytest

from tests.e2e.cli_support import Project
from tests.nightly.night_cases import Nights


@pytest.fixture
def nights(tmp_path, monkeypatch):
    found = Nights(project=Project(folder=tmp_path))
    monkeypatch.setenv("PERFGUARD_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PERFGUARD_LOCK_DIR", str(tmp_path / "lock"))
    monkeypatch.setattr("perfguard.campaign.machine_fingerprint", lambda: found.machine)
    return found
