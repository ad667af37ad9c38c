"""A request of a person -> what is searched: GOOD, BAD and the candidates between them. Nothing is measured yet."""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal

from perfguard.bisection.builds import furnished
from perfguard.bisection.seeding import counts_at_all, known_outcome
from perfguard.bisection.state import Stored
from perfguard.campaign import Request, bench_source, campaign_of
from perfguard.comparable import refuse_other_conditions
from perfguard.errors import RevisionError, UsageError
from perfguard.judging import survey_blocks
from perfguard.policy import stored_policy
from perfguard.pricing import launch_noise
from perfguard.records import Arm, Bisect, Campaign, LookFor, Metric, Revision, Workload
from perfguard.stats.culprit_links import NextSearch, confirm_policy, readings_of_blocks
from perfguard.stats.culprit_records import Reading, SearchSetup
from perfguard.store import Store
from perfguard.subject.history_line import Line
from perfguard.subject.patches import read_patch
from perfguard.subject.repository import Repository
from perfguard.workloads import built_in_paths

# A search that a search starts: what was known before belongs to the outer one.
UNSEEDED: Mapping[str, Any] = {"seeded_by": "", "seed_outcome": "", "seeds": ()}
# No machine is counted on to be calmer than this.
LEAST_NOISE = 0.001


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """What a person says of the search beyond the two ends and the workload; "" metric: the first primary one.

    `paths` from the root of the repository: only code there counts; none: all of it; None: what the workload loads.
    """

    metric: str = ""
    look_for: LookFor = "slower"
    paths: tuple[str, ...] | None = None
    all_parents: bool = False


@dataclass(frozen=True, kw_only=True)
class PlannedBisect:
    """What will be stored. `note`: what is special about this history, "" if nothing."""

    campaign: Campaign
    search: Bisect
    note: str = ""


def plan_bisect(request: Request, wanted: Wanted, repository: Repository, store: Store) -> PlannedBisect:
    """The search between the request's two sides. Raises RevisionError and UsageError.

    The request's wishes differ in nothing but their revision.
    """
    good, bad = (repository.resolve(wish.revision) for wish in request.wishes)
    search = _search(request, wanted, repository)
    return _planned(request, search, (good, bad), repository, store)


def plan_from_comparison(
    wanted_id: str, request_of: Callable[[Campaign], Request], wanted: Wanted, repository: Repository, store: Store
) -> PlannedBisect:
    """The search between the sides of a stored comparison, which is not measured again. Raises UsageError,
    NotComparableError on another machine.
    """
    stored, verdict = store.campaign(wanted_id), store.latest_verdict(wanted_id)
    base, head = _sides(stored)
    refuse_other_conditions(stored)
    if verdict is None:
        raise UsageError(f"{stored.id} has no verdict yet", f"perfguard compare --resume {stored.id}")
    request = request_of(stored)
    search = _search(request, wanted, repository)
    seeded = replace(search, seeded_by=stored.id, seed_outcome=known_outcome(verdict, search.metric))
    planned = _planned(request, seeded, (base.revision, head.revision), repository, store)
    if not counts_at_all(verdict) or not planned.search.candidates:
        return planned
    return replace(planned, search=_with_seeds(planned.search, stored, store))


def _sides(stored: Campaign) -> tuple[Arm, Arm]:
    """Raises UsageError unless the sides differ in their commit alone."""
    if stored.kind != "compare":
        raise UsageError(f"{stored.id} is a {stored.kind}, not a comparison", "perfguard runs")
    base, head = stored.arms
    alike = ("env", "params", "python", "mode")
    differing = [name for name in alike if getattr(base, name) != getattr(head, name)]
    if differing:
        text = f"the sides of {stored.id} differ in {' and '.join(differing)}: no commit need be to blame"
        raise UsageError(text, "perfguard bisect GOOD BAD, with --env or --set for both")
    if base.revision.is_dirty:
        raise UsageError(f"base of {stored.id} carries a patch", "perfguard bisect GOOD BAD --carry FILE.patch")
    return base, head


def _with_seeds(search: Bisect, stored: Campaign, store: Store) -> Bisect:
    """The blocks of the comparison as first readings of BAD."""
    blocks = survey_blocks(stored, store.blocks(stored.id), store.trials(stored.id, with_record=False)).blocks
    metric = next(m for m in stored.workload.metrics if m.name == search.metric)
    found = readings_of_blocks(SearchSetup(num_candidates=len(search.candidates)), metric, blocks)
    return replace(search, seeds=seeds_of(found))


def seeds_of(readings: Sequence[Reading]) -> tuple[tuple[int, float, float], ...]:
    return tuple((reading.position, reading.log_slowdown, reading.relative_sd) for reading in readings)


def _search(request: Request, wanted: Wanted, repository: Repository) -> Bisect:
    """All of the search but its candidates."""
    metric = searched_metric(request.workload, wanted.metric)
    bench, bench_path = bench_source(request.bench_from, repository) if request.bench_from else (None, "")
    carried = b"" if request.carry is None else read_patch(request.carry)
    return Bisect(
        candidates=(),
        num_commits=0,
        metric=metric.name,
        look_for=wanted.look_for,
        paths=_loaded(request.workload) if wanted.paths is None else wanted.paths,
        carried=carried,
        bench=() if bench is None else (bench,),
        bench_path=bench_path,
        all_parents=wanted.all_parents,
    )


def searched_metric(workload: Workload, name: str) -> Metric:
    """The metric called `name`, else the first primary one. Raises UsageError for one that is unknown or exact."""
    known = [metric for metric in workload.metrics if not metric.exact]
    if name and name not in {metric.name for metric in known}:
        text = f"--metric {name!r}: {workload.name} has {', '.join(m.name for m in known)}"
        raise UsageError(text, "perfguard workloads")
    found = next((m for m in known if (m.name == name if name else m.primary)), None)
    if found is None:
        raise UsageError(f"{workload.name} has no primary metric with noise to search", "perfguard workloads")
    return found


def _loaded(workload: Workload) -> tuple[str, ...]:
    """What the workload loads of a commit, as far as it is known: a setup or a command may use any file."""
    return () if workload.setup else built_in_paths(workload)


def with_one_primary(workload: Workload, name: str) -> Workload:
    """A confirmation is about the metric that was searched, and no other."""
    return replace(workload, metrics=tuple(replace(m, primary=m.name == name) for m in workload.metrics))


def _planned(
    request: Request, search: Bisect, ends: tuple[Revision, Revision], repository: Repository, store: Store
) -> PlannedBisect:
    line = repository.line_between(*ends, paths=search.paths, all_parents=search.all_parents)
    if line.absent:
        text = f"--paths: none of these commits holds {' or '.join(line.absent)}"
        raise RevisionError(text, "git ls-tree -r --name-only HEAD")
    request = replace(request, kind="bisect", workload=with_one_primary(request.workload, search.metric))
    whole = replace(search, candidates=line.candidates, num_commits=line.num_commits)
    campaign = _campaign(request, whole, ends, repository)
    noise = launch_noise(campaign, search.metric, store)
    known = whole if noise is None else replace(whole, launch_sd=max(noise, LEAST_NOISE))
    return PlannedBisect(campaign=campaign, search=known, note=_note(line, known))


def _campaign(request: Request, search: Bisect, ends: Sequence[Revision], repository: Repository) -> Campaign:
    with TemporaryDirectory(prefix="perfguard-") as folder:
        revisions = [furnished(revision, search, repository, Path(folder)) for revision in ends]
    arms = tuple(
        Arm(side=wish.side, revision=revision, env=wish.env, params=wish.params, python=wish.python)
        for wish, revision in zip(request.wishes, revisions, strict=True)
    )
    return campaign_of(request, arms, repository)


def _note(line: Line, search: Bisect) -> str:
    beside = sum(not candidate.is_whole for candidate in line.candidates)
    parts = [line.note] if line.note else []
    if beside:
        lie = "1 commit lies on a branch" if beside == 1 else f"{beside} commits lie on branches"
        parts.append(f"{lie} beside others and can only be named in a range")
    return "; ".join(parts)


def sides_of_merge(outer: Stored, before: int, after: int, repository: Repository) -> list[tuple[str, str]]:
    """(main line, branch) for each branch that a blamed merge brought, `before` the position before it; [] for none."""
    commit = outer.search.candidates[after - 1]
    known = outer.campaign.arms[0].revision if before == 0 else outer.search.candidates[before - 1].revision
    main = next((one for one in commit.parents if repository.is_ancestor(known.commit, one)), None)
    return [] if main is None else [(main, one) for one in commit.parents if one != main]


def plan_inside(outer: Stored, side: tuple[str, str], merge: str, repository: Repository) -> PlannedBisect | None:
    """The search on one branch of a blamed merge: GOOD is where it left the main line, BAD its last commit.

    None where the code at the two is the same, or they share no history: then this branch is not to blame.
    """
    main, branch = side
    tip, fork = repository.resolve(branch), repository.fork_point(main, branch)
    if fork is None or fork.commit == tip.commit:
        return None
    line = repository.line_between(fork, tip, paths=outer.search.paths)
    if not line.candidates:
        return None
    search = replace(
        outer.search,
        candidates=line.candidates,
        num_commits=line.num_commits,
        merge=merge,
        **UNSEEDED,
    )
    campaign = inner_campaign(outer.campaign, search, (fork, tip), repository, kind="bisect")
    return PlannedBisect(campaign=campaign, search=search, note=_note(line, search))


def plan_further(
    outer: Stored, part: NextSearch, ends: tuple[Revision, Revision], repository: Repository
) -> PlannedBisect:
    """The search for a further culprit in a part of the line: what was read there still counts."""
    candidates = outer.search.candidates[part.start : part.start + part.setup.num_candidates]
    search = replace(
        outer.search,
        candidates=candidates,
        num_commits=len(candidates),
        look_for="any",
        **{**UNSEEDED, "seeds": seeds_of(part.readings)},
    )
    campaign = inner_campaign(outer.campaign, search, ends, repository, kind="bisect")
    return PlannedBisect(campaign=campaign, search=search)


def inner_campaign(
    outer: Campaign,
    search: Bisect,
    ends: Sequence[Revision],
    repository: Repository,
    *,
    kind: Literal["compare", "bisect"],
) -> Campaign:
    """A campaign of two other revisions, measured as the outer one: a confirmation, or the search inside a merge."""
    base, head = outer.arms
    with TemporaryDirectory(prefix="perfguard-") as folder:
        good, bad = (furnished(revision, search, repository, Path(folder)) for revision in ends)
    policy = replace(stored_policy(outer.policy), budget_s=0.0)
    if kind == "compare":
        policy = confirm_policy(policy)
    request = Request(wishes=(), workload=outer.workload, policy=policy, kind=kind, seed=_seed(outer, good, bad))
    arms = (replace(base, revision=good), replace(head, revision=bad))
    return campaign_of(request, arms, repository)


def _seed(outer: Campaign, good: Revision, bad: Revision) -> int:
    """Orders of its own, from the seed that a person may have given: 31 bits."""
    text = f"bisect {outer.seed} {good.commit} {bad.commit} {bad.tree}"
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4], "big") >> 1
