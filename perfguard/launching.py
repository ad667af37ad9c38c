"""Arms -> trials: the builds of a campaign and every launch in them. Joins git, processes and the plan.

Must not judge: what a trial is worth is for judging.py.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from typing import Any

from perfguard.building import Builder
from perfguard.bundle import bundle_root
from perfguard.campaign import arm_workload
from perfguard.engine_facts import lacks_trace
from perfguard.holding import InHand
from perfguard.judging import WARM_STAGE
from perfguard.modes import are_compared, shared
from perfguard.pinned_args import pins_of_first_runs
from perfguard.protocol import TRACE_LIMIT_S
from perfguard.records import Arm, BlockPlan, Campaign, Side, Trial, Workload
from perfguard.scopes import RESIDENT
from perfguard.stats.plan import builds_of, order_of_modes
from perfguard.subject.buildcache import Provided
from perfguard.subject.repository import Repository
from perfguard.subject.workspace import Build, Workspace
from perfguard.trial.caches import state_of
from perfguard.trial.command import run_command
from perfguard.trial.quads import run_quad
from perfguard.trial.ranks import run_ranks
from perfguard.trial.request import TrialRequest, place_of
from perfguard.trial.resident import Resident, end_residents, start_resident, visited, wait_up
from perfguard.trial.secrets import taken_from


@dataclass(frozen=True, kw_only=True)
class Launcher:
    """Starts trials of one campaign. `builds` grows as builds are asked for: (side, number) -> folder.

    `pinned` grows when head's engine is told to run with base's arguments: words of its command line, by mode.
    `untraced`: sides of which a launch brought no trace. `residents`: servers that are kept, in scope resident; they
    end with `launching`. `machine` watches each launch; without one nothing is recorded of the machine.
    """

    campaign: Campaign
    repository: Repository
    workspace: Workspace
    machine: InHand = field(default_factory=InHand)
    builds: dict[tuple[Side, int], Build] = field(default_factory=dict)
    provided: dict[tuple[Side, int], Provided] = field(default_factory=dict)
    pinned: dict[str, str] = field(default_factory=dict)
    untraced: set[Side] = field(default_factory=set)
    residents: dict[Side, Resident] = field(default_factory=dict)

    def temperatures(self) -> dict[str, float]:
        """uuid -> degrees C now, of the cards that trials may use; what cannot be read is left out."""
        seen = self.machine.look({**os.environ, **self.campaign.arms[0].env}, ("temperature_c",))
        found = {uuid: fields.get("temperature_c") for uuid, fields in seen.items()}
        return {uuid: float(degrees) for uuid, degrees in found.items() if isinstance(degrees, int | float)}

    def make_build(self, arm: Arm, number: int) -> tuple[str, ...]:
        """Check an arm out and run its setup there, or take build 1 from the cache of builds. Raises BuildError.

        Modes of one commit share its builds. Returns what a person should hear about the cache.
        """
        twin = next((key for key in self.builds if key[1] == number and are_compared(self.campaign)), None)
        if twin is not None:
            self.builds[arm.side, number], self.provided[arm.side, number] = self.builds[twin], self.provided[twin]
            return ()
        builder = Builder(campaign=self.campaign, repository=self.repository, workspace=self.workspace)
        provided = builder.build(arm, number)
        self.builds[arm.side, number] = provided.build
        self.provided[arm.side, number] = provided
        return tuple(f"{arm.side}: {note}" for note in provided.notes)

    def drop_build(self, arm: Arm, number: int) -> None:
        """Remove a build that is needed no more; its kept copy stays in the cache."""
        del self.provided[arm.side, number]
        self.workspace.release(self.builds.pop((arm.side, number)))

    def drop_done(self, plan: BlockPlan, plans: Sequence[BlockPlan]) -> None:
        """Remove the fresh builds of a block that ran and that no later block of `plans` uses: disks are small."""
        later = (p for p in plans if (p.stage, p.index) > (plan.stage, plan.index))
        still_needed = {1, *(number for p in later for number in builds_of(p.builds))}
        for number in set(builds_of(plan.builds)) - still_needed:
            for arm in self.campaign.arms:
                if (arm.side, number) in self.builds:
                    self.drop_build(arm, number)

    def first_run(self, arm: Arm, number: int, attempt: int) -> Trial:
        """The unmeasured run that fills a build's own caches and lists what was loaded: stage 0."""
        slot = 0 if arm.side == "base" else 1
        failed = self._keep(arm, number, slot, attempt) if self.campaign.scope == RESIDENT else None
        trial = failed or self._launch(arm, number, stage=WARM_STAGE, block=number, slot=slot, attempt=attempt)
        record = {**trial.record, "checkout": str(self.builds[arm.side, number].checkout)}
        if self.campaign.workload.setup:
            record["built"] = _built(self.provided[arm.side, number])
        return replace(trial, record=record)

    def _keep(self, arm: Arm, number: int, slot: int, attempt: int) -> Trial | None:
        """Start the server of a side that is kept. None once it is there; else the trial of its failed start."""
        if arm.side in self.residents and self.residents[arm.side].thread.is_alive():
            return None  # a visitor that failed is no reason for another server
        request = self._request(arm, number, stage=WARM_STAGE, block=number, slot=slot, attempt=attempt)
        kept = self.residents[arm.side] = start_resident(request, self.workspace.folder / "kept", bundle=bundle_root())
        return wait_up(kept)

    def pin_arguments(self, trials: Sequence[Trial]) -> bool:
        """Whether head has to run with other arguments from now on: those that base's engine resolved in its first run.

        Raises NotComparableError where one side did not tell.
        """
        if not self.campaign.method.get("pinned_args") or self.pinned:
            return False
        self.pinned.update(pins_of_first_runs(trials))
        return any(self.pinned.values())

    def measure(self, plan: BlockPlan, slot: int, attempt: int) -> Trial:
        """The trial of one slot, in the build that the plan names."""
        arm = self.campaign.arms["AB".index(plan.order[slot])]
        number = builds_of(plan.builds)[slot]
        return self._launch(arm, number, stage=plan.stage, block=plan.index, slot=slot, attempt=attempt)

    def measure_in(self, arm: Arm, number: int, *, block: int, slot: int, attempt: int) -> Trial:
        """A trial of stage 1 outside of blocks of four, in the build `number` of an arm that may be no side of the
        campaign: a candidate of a bisect.
        """
        return self._launch(arm, number, stage=1, block=block, slot=slot, attempt=attempt)

    def measure_setting(self, arm: Arm, *, stage: int, block: int, slot: int, attempt: int) -> Trial:
        """A trial of one setting of a sweep, in build 1 of the one checkout that all settings share."""
        return self._launch(arm, 1, stage=stage, block=block, slot=slot, attempt=attempt)

    def measure_quad(self, plan: BlockPlan, attempt: int) -> tuple[Trial, ...]:
        """All four trials of a block from one launch, in caches that belong to neither arm (or to both, as modes)."""
        place = f"s{plan.stage}b{plan.index}qa{attempt}"
        launch_id = f"{self.campaign.id}-{place}"
        modes = order_of_modes(self.campaign.seed, place, self.campaign.workload.modes)
        folder = self.workspace.folder / "shared"
        requests = []
        for slot, side in enumerate(plan.order):
            arm = self.campaign.arms["AB".index(side)]
            number = builds_of(plan.builds)[slot]
            own = self._request(arm, number, stage=plan.stage, block=plan.index, slot=slot, attempt=attempt)
            caches = own.caches if arm.mode else folder / "caches"
            together = replace(own, caches=caches, folder=folder / launch_id, cache_state=state_of(caches))
            together_modes = own.workload.modes if arm.mode else modes
            requests.append(replace(together, workload=replace(own.workload, modes=together_modes)))
        return self._watched(requests[0], lambda: run_quad(launch_id, requests, bundle=bundle_root()))

    def _launch(self, arm: Arm, number: int, *, stage: int, block: int, slot: int, attempt: int) -> Trial:
        request = self._request(arm, number, stage=stage, block=block, slot=slot, attempt=attempt)
        if arm.side in self.residents:
            request = visited(request, self.residents[arm.side])
        if request.workload.runner == "command":
            run = partial(run_command, request, probe=stage == WARM_STAGE)
        else:
            run = partial(run_ranks, request, bundle=bundle_root())
        trial = self._watched(request, lambda: (run(),))[0]
        if lacks_trace(trial):
            self.untraced.add(arm.side)
        return trial

    def _watched(self, request: TrialRequest, launch: Callable[[], Sequence[Trial]]) -> tuple[Trial, ...]:
        trials = self.machine.watched({**os.environ, **request.arm.env}, launch)
        modes = {arm.side: arm.mode for arm in self.campaign.arms}
        return tuple(shared(t, mode, request.workload) if (mode := modes[t.side]) else t for t in trials)

    def _request(self, arm: Arm, number: int, *, stage: int, block: int, slot: int, attempt: int) -> TrialRequest:
        build = self.builds[arm.side, number]
        # Resuming prepares builds again: the time keeps ids of stage 0 apart.
        again = f"-{datetime.now(UTC):%H%M%S%f}" if stage == WARM_STAGE else ""
        place = place_of(stage, block, slot, attempt)
        trial_id = f"{self.campaign.id}-{place}{again}"
        workload = arm_workload(self.campaign, arm)
        if workload.params.get("trace"):
            workload = self._traced(workload, is_measured=stage != WARM_STAGE)
        if self.pinned and arm.side == "head":
            workload = replace(workload, params={**workload.params, "pinned_args": dict(self.pinned)})
        modes = order_of_modes(self.campaign.seed, place, workload.modes)
        return TrialRequest(
            id=trial_id,
            stage=stage,
            block=block,
            slot=slot,
            side=arm.side,
            build=number,
            attempt=attempt,
            arm=replace(arm, env=taken_from(os.environ, arm.env)),
            workload=replace(workload, modes=modes),
            checkout=build.checkout,
            caches=build.caches,
            folder=build.logs / trial_id,
            strays=self.workspace.strays,
            owner=self.workspace.owner,
            seed=self.campaign.seed,
            cache_state=state_of(build.caches),
        )


    def _traced(self, workload: Workload, *, is_measured: bool) -> Workload:
        """With as much time as a trace may take, which is no part of what a trial may take; or without a trace.

        Waiting in each launch for what does not come takes minutes. Neither side then has a profiler behind its window:
        what one launch leaves to the next must not tell the sides apart.
        """
        if is_measured and self.untraced:
            return replace(workload, params={**workload.params, "trace": False})
        return replace(workload, timeout_s=workload.timeout_s + TRACE_LIMIT_S * max(1, len(workload.modes)))


@contextmanager
def launching(campaign: Campaign, repository: Repository, workspace: Workspace, machine: InHand) -> Iterator[Launcher]:
    """A launcher for the `with` block; then servers that it keeps are ended."""
    launcher = Launcher(campaign=campaign, repository=repository, workspace=workspace, machine=machine)
    try:
        yield launcher
    finally:
        end_residents(launcher.residents)


def _built(provided: Provided) -> dict[str, Any]:
    """Where a build comes from, as the record of its first run keeps it."""
    return {
        "at": provided.built_at,
        "setup_s": provided.setup_s,
        "from_cache": provided.is_cached,
        "key": provided.key,
    }
