"""What is measured of each workload tonight: planned and priced, or found begun, or unchanged. Measures nothing."""

from dataclasses import dataclass

from perfguard.campaign import Request
from perfguard.errors import UsageError
from perfguard.nightly.night import Night
from perfguard.nightly.plan import current_pin, is_unchanged, linking_pin
from perfguard.nightly.tasks import Task, begun_run, code_of, machine_of, plan_task, price_s
from perfguard.records import Workload
from perfguard.store import NightRun, Pin


@dataclass(frozen=True, kw_only=True)
class Chosen:
    """What is measured of one workload: head against `pin`, and against the one before it while they overlap."""

    workload: Workload
    pin: Pin
    tasks: tuple[Task, ...]
    is_unchanged: bool


def choose(night: Night, workload: Workload) -> Chosen:
    """Plans and prices of one workload. Raises UsageError where no reference is pinned."""
    pins, runs = night.store.nights.pins(), night.store.nights.runs_of_workload(workload.name)
    pin = current_pin(pins, workload.name)
    if pin is None:
        raise UsageError(f"no reference is pinned for {workload.name}", "perfguard pin v1.0")
    before = linking_pin(pins, runs, workload.name)
    tasks = [_task(night, workload, pin, is_link=False)]
    if before is not None:
        tasks.append(_task(night, workload, before, is_link=True))
    tonight = tasks[0].run
    earlier = [run for run in runs if run.night != night.stored.id]
    unchanged = night.wishes.only_changed and before is None and not tasks[0].begun
    return Chosen(
        workload=workload,
        pin=pin,
        tasks=tuple(tasks),
        is_unchanged=unchanged and is_unchanged(earlier, pin.commit_sha, tonight.code, tonight.machine),
    )


def _task(night: Night, workload: Workload, pin: Pin, *, is_link: bool) -> Task:
    runs = night.store.nights.runs_of_night(night.stored.id)
    begun = begun_run(runs, workload.name, pin.commit_sha, night.store)
    if begun is not None:
        campaign = night.store.campaign(begun.campaign)
        return Task(campaign=campaign, run=begun, need_s=price_s(campaign, night.store), begun=True)
    request = Request(wishes=(), workload=workload, policy=night.wishes.policy)
    campaign = plan_task(workload, pin.commit_sha, night.head, request, night.repository, is_link=is_link)
    run = NightRun(
        campaign=campaign.id,
        night=night.stored.id,
        started_at=night.stored.started_at,
        workload=workload.name,
        commit_sha=night.head.commit,
        pin=pin.commit_sha,
        is_link=is_link,
        code=code_of(workload, night.head, night.repository),
        machine=machine_of(campaign),
    )
    return Task(campaign=campaign, run=run, need_s=price_s(campaign, night.store))
