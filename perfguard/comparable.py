"""May further trials join a stored comparison? Only on its machine, measured by the very same program."""

from collections.abc import Iterator, Mapping
from typing import Any

from perfguard import __version__
from perfguard.bundle import runner_fingerprint
from perfguard.campaign import machine_now
from perfguard.errors import NotComparableError
from perfguard.records import Campaign


def refuse_other_conditions(campaign: Campaign) -> None:
    """Raises NotComparableError naming the fields in which machine or method differ from those stored."""
    machine = differences(campaign.machine, machine_now())
    if machine:
        raise NotComparableError(f"{campaign.id} was measured on another machine ({machine})", "start a new comparison")
    method = method_now()
    changed = differences({name: campaign.method.get(name) for name in method}, method)
    if changed:
        text = f"{campaign.id} was measured with another version of the runner ({changed})"
        raise NotComparableError(text, "start a new comparison")


def method_now() -> dict[str, Any]:
    """Of the method what can change between two starts of one campaign: the measuring program."""
    return {"perfguard": __version__, "runner_sha256": runner_fingerprint()}


def differences(then: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    """ "host.kernel: '5.15' then, '6.1' now, …" for every field that differs; "" if none does."""
    return ", ".join(f"{path}: {before!r} then, {after!r} now" for path, before, after in _differing(then, now, ""))


def _differing(then: Any, now: Any, path: str) -> Iterator[tuple[str, Any, Any]]:
    """Down to the innermost field that differs, so that a lane lost in one of eight cards is named as that.

    A field that nobody recorded then is none: newer versions read more.
    """
    if isinstance(then, Mapping) and isinstance(now, Mapping):
        for key in sorted(then):
            yield from _differing(then.get(key), now.get(key), f"{path}.{key}" if path else str(key))
    elif isinstance(then, list) and isinstance(now, list) and len(then) == len(now):
        for number, (before, after) in enumerate(zip(then, now, strict=True)):
            yield from _differing(before, after, f"{path}.{number}")
    elif then != now:
        yield path, then, now
