"""The builds of one search: made when first needed, proved by an unmeasured run, few kept at once.

Must not choose what is measured, and must not judge values.
"""

import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from perfguard.errors import BuildError, RevisionError, StorageError
from perfguard.experiment import Session
from perfguard.origin import judge_origin
from perfguard.policy import Policy
from perfguard.records import Arm, Bisect, Campaign, CandidateBuild, Reason, Revision, Trial
from perfguard.subject.repository import Repository

ANCHOR = 0
# A first run that fails is tried once more: two failures are the commit's.
STARTS = 2
# What is wrong with the way of measuring, not with one commit.
NOT_THE_COMMIT = frozenset({"same_code", "environment"})
MAX_TEXT = 4000


@dataclass(frozen=True, kw_only=True)
class Prepared:
    """Where a position is measured: an arm and the number of its build there."""

    arm: Arm
    number: int


@dataclass(frozen=True, kw_only=True)
class Workshop:
    """`ready`: positions whose build lies there now. `first_runs`: by position, what each loaded. `known`: verdicts on
    builds, stored ones included.
    """

    session: Session
    search: Bisect
    repository: Repository
    known: dict[int, CandidateBuild]
    ready: dict[int, Prepared] = field(default_factory=dict)
    first_runs: dict[int, Trial] = field(default_factory=dict)

    @property
    def campaign(self) -> Campaign:
        return self.session.campaign

    @property
    def policy(self) -> Policy:
        return self.session.policy

    def prepare(self, position: int) -> bool:
        """Build a position unless its build lies there; False if it cannot be measured. Position 0 is GOOD.

        Raises what is nobody's commit's fault: StorageError for a full disk, HarnessError.
        """
        if position in self.ready:
            return True
        self.session.observer.note(f"building {self._name(position)}")
        started_s = time.monotonic()
        try:
            trial = self._first_run(position, self._build(position))
        except StorageError:
            raise
        except (BuildError, RevisionError) as error:  # a runner too says so of a commit that it cannot drive
            return self._note(_failed(position, str(error)))
        cost = (time.monotonic() - started_s) / max(trial.wall_s, 1e-9)
        return self._note(replace(self._judged(position, trial), cost_trials=cost))

    def prepare_like(self, position: int) -> bool:
        """The same for a candidate, in the one build of all that hold its code."""
        home = self._home(position)
        if self.prepare(home):
            return True
        if home != position:
            self._note(replace(self.known[home], position=position))
        return False

    def place(self, position: int) -> Prepared:
        """Where a prepared position is measured."""
        return self.ready[ANCHOR if position == ANCHOR else self._home(position)]

    def _home(self, position: int) -> int:
        """The position that stands for all with this code: BAD, else the first."""
        candidates = self.search.candidates
        code = candidates[position - 1].code
        if candidates[-1].code == code:
            return len(candidates)
        return next(k for k, candidate in enumerate(candidates, start=1) if candidate.code == code)

    def _note(self, build: CandidateBuild) -> bool:
        """Stored at once. What GOOD's first build took stays: the search counts with it from its start."""
        before = self.known.get(build.position)
        kept = build if before is None else replace(build, cost_trials=before.cost_trials)
        if kept != before:
            self.known[build.position] = kept
            self.session.store.add_candidate_build(self.campaign.id, kept)
        if build.status != "ok":
            self.session.observer.say(f"{self._name(build.position)} is {build.status}: {_first_line(build)}")
            self._remove(build.position)
        return build.status == "ok"

    def _build(self, position: int) -> Prepared:
        self._make_room(position)
        arm = self.arm(position)
        place = Prepared(arm=arm, number=position if position != ANCHOR else 1)
        for line in self.session.launcher.make_build(arm, place.number):
            self.session.observer.say(line)
        self.ready[position] = place
        return place

    def arm(self, position: int) -> Arm:
        """The side at a position, carried patch and foreign benchmark on it. Raises RevisionError, BuildError."""
        base, head = self.campaign.arms
        if position == ANCHOR:
            return base
        if position == len(self.search.candidates):
            return head
        plain = self.search.candidates[position - 1].revision
        return replace(
            head, revision=furnished(plain, self.search, self.repository, self.session.launcher.workspace.folder)
        )

    def _first_run(self, position: int, place: Prepared) -> Trial:
        for attempt in range(STARTS):
            trial = self.session.run(partial(self.session.launcher.first_run, place.arm, place.number), attempt=attempt)
            if trial.status == "ok":
                self.first_runs[position] = trial
                break
        return trial

    def _judged(self, position: int, trial: Trial) -> CandidateBuild:
        if trial.status != "ok":
            is_ours = any(reason.code in NOT_THE_COMMIT for reason in trial.reasons)
            return CandidateBuild(
                position=position, status="invalid" if is_ours else "unbuildable", reasons=_short(trial.reasons)
            )
        if position == ANCHOR:
            return CandidateBuild(position=position, status="ok")
        return self._proved(position, trial)

    def _proved(self, position: int, trial: Trial) -> CandidateBuild:
        """Did it run its own commit's code, other code than GOOD's where the two differ?"""
        base, head = self.ready[ANCHOR].arm.revision, self.ready[position].arm.revision
        trials = {"base": self.first_runs[ANCHOR], "head": trial}
        found = judge_origin(
            changed_files=self.repository.changed_files(base, head),
            repo_modules=self._modules(head),
            repo_root=self.campaign.repository,
            checkouts={side: str(run.record["checkout"]) for side, run in trials.items()},  # type: ignore[misc]
            loaded_by_arm={side: run.record.get("origin") for side, run in trials.items()},  # type: ignore[misc]
            command=self.campaign.workload.command,
        )
        return CandidateBuild(
            position=position,
            status="invalid" if found.reasons else "ok",
            reasons=found.reasons,
            note=found.note,
            is_proven=found.is_proven,
        )

    def _modules(self, head: Revision) -> Mapping[str, str]:
        both: Mapping[str, str] = self.campaign.method["repo_modules"]
        return {**both, **self.repository.python_modules(head)}

    def _make_room(self, position: int) -> None:
        """Disks are small: the build farthest from the one that is needed goes first, GOOD's never."""
        others = [place for place in self.ready if place != ANCHOR]
        while len(others) >= self.policy.kept_builds:
            farthest = max(others, key=lambda place: abs(place - position))
            others.remove(farthest)
            self._remove(farthest)

    def _remove(self, position: int) -> None:
        place = self.ready.pop(position, None)
        if place is not None:
            self.session.launcher.drop_build(place.arm, place.number)

    def _name(self, position: int) -> str:
        if position == ANCHOR:
            return f"GOOD {self.campaign.arms[0].revision.name}"
        return f"commit {self.search.candidates[position - 1].revision.commit[:12]}"


def furnished(revision: Revision, search: Bisect, repository: Repository, scratch: Path) -> Revision:
    """A commit with what the search puts on top of every commit. Raises RevisionError where the patch does not fit."""
    if search.carried:
        file = scratch / "carried.patch"
        file.write_bytes(search.carried)
        revision = repository.with_patch(revision, file)
    for source in search.bench:
        revision = repository.with_files(revision, source, search.bench_path)
    return revision


def _failed(position: int, text: str) -> CandidateBuild:
    reason = Reason(code="unbuildable", text=text[-MAX_TEXT:])
    return CandidateBuild(position=position, status="unbuildable", reasons=(reason,))


def _short(reasons: tuple[Reason, ...]) -> tuple[Reason, ...]:
    return tuple(replace(reason, text=reason.text[-MAX_TEXT:]) for reason in reasons)


def _first_line(build: CandidateBuild) -> str:
    return build.reasons[0].text.splitlines()[0] if build.reasons else ""
