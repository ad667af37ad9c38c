"""`--find-good`: walk back from GOOD, doubling, to a commit that still reaches a claimed number. One launch a step.

Accuses nobody: it only says where a search can begin.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from math import log1p

from perfguard import single
from perfguard.bisection.plan import searched_metric
from perfguard.campaign import Request, machine_now
from perfguard.errors import BuildError, StorageError
from perfguard.experiment import Observer
from perfguard.records import Metric
from perfguard.stats.effects import log_ratio
from perfguard.store import Store
from perfguard.subject.repository import Repository

SIGMAS = 3.0


def find_good(
    request: Request, metric_name: str, most_back: int, repository: Repository, store: Store, observer: Observer
) -> str:
    """The commit nearest to GOOD on the walk that reaches `request.claimed`, GOOD itself included; "" if none does.

    `request` is of a bisect: its first side is GOOD.
    """
    metric = searched_metric(request.workload, metric_name)
    tolerance = max(log1p(request.policy.margin), SIGMAS * (known_noise(request, metric, store) or 0.0))

    def reaches(commit: str) -> bool:
        value = _one_launch(request, commit, metric, repository, store, observer)
        if value is None:
            return False
        is_there = log_ratio(metric, request.claimed or value, value) <= tolerance
        word = "reaches" if is_there else "does not reach"
        observer.say(f"{commit[:12]} gives {value:.4g} {metric.unit}, {word} {request.claimed:g}")
        return is_there

    return first_that(reaches, steps_back(repository, request.wishes[0].revision, most_back))


def first_that(reaches: Callable[[str], bool], commits: Iterator[str]) -> str:
    return next((commit for commit in commits if reaches(commit)), "")


def steps_back(repository: Repository, good: str, most_back: int) -> Iterator[str]:
    """GOOD, then 1, 2, 4, 8 … commits before it on its main line, and `most_back` or the root at last."""
    line = repository.ancestors(repository.resolve(good).commit, most_back)
    back = 0
    while back < len(line) - 1:
        yield line[back]
        back = max(1, 2 * back)
    yield line[-1]


def known_noise(request: Request, metric: Metric, store: Store) -> float | None:
    """Launch noise of this workload on this machine, the largest of what is stored."""
    history = store.trial_costs(request.workload.name, machine_now())
    return max((found.noise.get(metric.name, 0.0) for found in history), default=None)


def _one_launch(
    request: Request, commit: str, metric: Metric, repository: Repository, store: Store, observer: Observer
) -> float | None:
    """None where the commit cannot be measured; that is said."""
    wish = replace(request.wishes[0], revision=commit)
    try:
        ran = single.run(replace(request, wishes=(wish,), kind="run"), 1, repository, store, observer)
    except StorageError:
        raise
    except BuildError as error:
        observer.say(f"{commit[:12]} cannot be measured: {str(error).splitlines()[0]}")
        return None
    found = [values for known in ran["metrics"] if known["name"] == metric.name for values in known["values"]]
    return float(found[0]) if found else None
