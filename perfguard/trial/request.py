"""What a story hands to this edge for one trial, and whether its folders are still there."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from perfguard.errors import StorageError
from perfguard.records import Arm, Side, Workload


def place_of(stage: int, block: int, slot: int, attempt: int) -> str:
    """A trial's name within its campaign."""
    return f"s{stage}b{block}t{slot}a{attempt}"


@dataclass(frozen=True, kw_only=True)
class TrialRequest:
    """One trial to run. `workload` is the arm's (its parameters already on top).

    `checkout` and `caches` belong to the arm's build; `folder` is this trial's own, for spec, results and logs;
    what it may leave outside is remembered in a file in `strays`.
    `owner` marks the processes (PERFGUARD_OWNER); `seed` and `place` make what a launch draws. `cache_state`: what the
    compile caches hold before the launch, as trial.caches.state_of tells it.
    """

    id: str
    stage: int
    block: int
    slot: int
    side: Side
    build: int
    attempt: int
    arm: Arm
    workload: Workload
    checkout: Path
    caches: Path
    folder: Path
    strays: Path
    owner: str
    seed: int
    cache_state: Mapping[str, int] = field(default_factory=dict)

    @property
    def place(self) -> str:
        return place_of(self.stage, self.block, self.slot, self.attempt)


def check_still_there(request: TrialRequest) -> None:
    """Raises StorageError where a folder went away under the trial: what it gave then says nothing of its code."""
    gone = next((folder for folder in (request.checkout, request.folder) if not folder.is_dir()), None)
    if gone is not None:
        raise StorageError(f"{gone} was removed while a trial ran in it", "PERFGUARD_CACHE=DIR")
