"""One trial of an engine: start its server, make sure who it is, warm up, measure, read its counters, end it.

The story only. The runner process is the client; it is the same Python for both arms and loads none of their code.
"""

import shutil
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from runners.contract import Launch, Measurement, ParamsError, announce_ready
from runners.engines import loads
from runners.engines import server as servers
from runners.engines.counters import Acceptance, by_counter, by_request, foreign_traffic, off_synthetic
from runners.engines.crosscheck import cross_check
from runners.engines.dialect import Dialect
from runners.engines.identity import binaries, identify
from runners.engines.keeping import run_keeper
from runners.engines.known import dialect_of
from runners.engines.measuring import measure
from runners.engines.params import EngineParams, read_params
from runners.engines.probe import Found, package_files
from runners.engines.profile import profile, refuse_short
from runners.engines.records import OTHER_CLIENTS, Endpoint, Load, Observation, Reason
from runners.engines.residence import Stay, Visit, stay_of
from runners.engines.running import ONLY, PLAIN, Running, left_behind, running, starting, trace_folder
from runners.engines.scraping import scrape, settled
from runners.engines.server import Server
from runners.engines.state import state_of


@dataclass(frozen=True, kw_only=True)
class Job:
    """What one mode is asked to do."""

    launch: Launch
    params: EngineParams
    dialect: Dialect
    mode: str
    load: Load
    stay: Stay | None = None

    @property
    def wire(self) -> str:
        return self.params.wire or self.dialect.wire

    @property
    def cache(self) -> str:
        # A resident that can be put to sleep can be told to forget, and remembers prompts from trial to trial.
        usual = self.dialect.prefix_cache if self.stay is None else "flush"
        return self.params.prefix_cache or usual


@dataclass(frozen=True, kw_only=True)
class Part:
    """What came of one mode: one server from start to end. Without `observation` nothing was measured."""

    mode: str
    engine: dict[str, Any]
    reasons: tuple[Reason, ...] = ()
    observation: Observation | None = None
    acceptance: Acceptance | None = None
    warmup: dict[str, Any] = field(default_factory=dict)
    origin: dict[str, dict[str, str]] = field(default_factory=dict)
    software: dict[str, Any] = field(default_factory=dict)
    load_s: float = 0.0


def run(launch: Launch) -> Measurement:
    """Raises EngineError if a server does not come up, ParamsError for parameters that cannot be."""
    stay, given = stay_of(launch.spec.params)
    params = read_params(given)
    dialect = dialect_of(params.engine)
    # Before a server takes minutes to load: a file of prompts may be wrong.
    if (params.prefix_cache or dialect.prefix_cache) == "flush" and dialect.flush is None:
        raise ParamsError(f"params: prefix_cache is flush, and a server of kind {dialect.name} cannot be told to")
    refuse_short(params)
    load = loads.load_of(params, dialect, seed_of(launch, params, stay))
    modes = launch.spec.modes or ("",)
    for mode in () if params.url else modes:
        starting(params, dialect, mode, python="", port=0)  # before the first one is started: the second may be wrong
    if stay is not None and stay.keeps:
        return run_keeper(launch, params, dialect, stay)
    parts: list[Part] = []
    for mode in modes:
        parts.append(run_mode(Job(launch=launch, params=params, dialect=dialect, mode=mode, load=load, stay=stay)))
        if parts[-1].reasons:
            break  # the trial counts for nothing: the other server is not worth its minutes
    return merged(parts)


def seed_of(launch: Launch, params: EngineParams, stay: Stay | None = None) -> int:
    """A server that outlives a trial remembers prompts from trial to trial: each trial has its own, unless it is told
    to forget them.
    """
    remembers = params.url or (stay is not None and params.prefix_cache == "unique")
    return zlib.crc32(launch.spec.trial.encode()) if remembers else launch.spec.seed


def run_mode(job: Job) -> Part:
    with running(job.launch, job.params, job.dialect, job.mode, job.stay) as run_:
        record, reasons, model = identify(run_.server, job.dialect, job.params, run_.found)
        reasons = (*(run_.visit.before if run_.visit else ()), *reasons)
        part = Part(
            mode=job.mode,
            engine={**record, **about(run_)},
            reasons=reasons,
            origin={
                **package_files(run_.found, job.launch.subject_root),
                **binaries(run_.server, (*job.dialect.modules, *job.dialect.kernels), run_.found),
            },
        )
        part = replace(part, software=software(run_.found))
        if not reasons:
            part = measured(job, run_.server, Endpoint(host=run_.server.host, port=run_.server.port, model=model), part)
            part = told_by(run_.server, job.dialect, part)
            part = traced(job, run_.server, model, part) if job.params.trace and not part.reasons else part
    if run_.visit is not None:
        return after_visit(part, run_.visit)
    # Known only now: the processes are gone.
    return replace(part, engine={**part.engine, "stop": run_.ending}, reasons=(*part.reasons, *left_behind(run_)))


def after_visit(part: Part, visit: Visit) -> Part:
    """With what came of putting a resident to sleep again; what was measured on a server that had died is one cause."""
    known = {reason.code for reason in part.reasons}
    after = [reason for reason in visit.after if reason.code not in known]
    return replace(part, engine={**part.engine, "resident": visit.record}, reasons=(*part.reasons, *after))


def told_by(server: Server, dialect: Dialect, part: Part) -> Part:
    """With what the server says of itself: after the measured window, when its log holds what it ran under."""
    record, lost = state_of(server, dialect, str(part.engine.get("version", "")))
    return replace(part, engine={**record, **part.engine}, reasons=(*part.reasons, *lost))


def traced(job: Job, server: Server, model: str, part: Part) -> Part:
    """With some cycles under the engine's profiler; nothing is measured on this server afterwards."""
    short = replace(job.load, num_requests=job.load.concurrency, rate_per_s=0.0)
    endpoint = Endpoint(host=server.host, port=server.port, model=model)
    folder = trace_folder(job.launch, job.mode)
    seen = profile(server, job.dialect, folder, short.concurrency, lambda: measure(endpoint, job.wire, short))
    shutil.rmtree(folder, ignore_errors=True)  # a large server's is hundreds of megabytes, and each launch has one
    return replace(part, engine={**part.engine, "trace": seen})


def measured(job: Job, server: Server, endpoint: Endpoint, part: Part) -> Part:
    """From the first request to the last counter."""
    load = job.load
    warmup, failed = loads.warm_up(endpoint, job.wire, load, job.params, is_unique=job.cache == "unique")
    failed = failed or loads.age(endpoint, job.wire, load, job.params.age_s, is_unique=job.cache == "unique")
    if failed is not None:
        error = next(answer.error for answer in failed.answers if answer.error)
        text = f"every request of the warm-up failed: {error}{loads.hint_of(error)}{servers.last_words(server)}"
        raise servers.EngineError(text)
    alive = servers.names(server)
    load_s = announce_ready(job.launch)
    unflushed = job.dialect.flush(server.ask) if job.cache == "flush" and job.dialect.flush else ""
    load = loads.unique(load, load.seed) if job.cache == "unique" else load
    before = scrape(server.ask)
    seen = measure(endpoint, job.wire, load)
    after = settled(server.ask, before, job.dialect.generated_tokens, tokens_of(seen))
    seen = cross_check(seen, before, after)
    acceptance = acceptance_of(job.dialect, seen, before, after)
    reasons = (
        *died(server, alive, seen),
        *seen.reasons,
        *([Reason(code="cache_not_flushed", text=unflushed)] if unflushed else []),
        *speculated(job, acceptance),
        *others(job.dialect, seen, before, after),
    )
    return replace(
        part,
        engine={**part.engine, "prefix_cache": said_of_cache(job.cache, unflushed)},
        reasons=reasons,
        observation=seen,
        acceptance=acceptance,
        warmup=warmup,
        load_s=load_s,
    )


def tokens_of(seen: Observation) -> int | None:
    """All tokens that the server made for us; None if one answer could not be counted."""
    counted = [answer.num_tokens for answer in seen.answers]
    return None if None in counted else sum(num for num in counted if num is not None)


def acceptance_of(dialect: Dialect, seen: Observation, before: str, after: str) -> Acceptance | None:
    if dialect.by_request is not None:
        return by_request(seen.answers, dialect.by_request)
    return by_counter(before, after, dialect.by_counter) if dialect.by_counter is not None else None


def speculated(job: Job, found: Acceptance | None) -> Iterator[Reason]:
    """A mode that speculates has to tell how well."""
    wanted = job.params.synthetic_accept_length if job.mode != PLAIN else 0.0
    if found is None:
        if job.mode not in ("", PLAIN) or wanted:
            text = "the server did not tell how many of the drafted tokens it accepted"
            yield Reason(code="accept_length_unread", text=text)
    elif wanted and (off := off_synthetic(found, wanted, job.params.requests)) is not None:
        yield off


def died(server: Server, alive: dict[int, str], seen: Observation) -> Iterator[Reason]:
    """The server ended, or one of its processes did and requests failed: it answers for a while without an engine."""
    failed = any(answer.error for answer in seen.answers)
    code = servers.exit_code_soon(server) if failed else servers.exit_code(server)
    gone = sorted(set(alive.items()) - set(servers.names(server).items())) if failed else []
    if code is None and not gone:
        return
    who = f"its process {gone[0][0]} ({gone[0][1]}) is gone" if code is None else "it is gone"
    who = f"it ended with code {code}" if code not in (None, servers.GONE) else who
    yield Reason(code="engine_died", text=f"the engine died in mid-run: {who}{servers.last_words(server)}")


def others(dialect: Dialect, seen: Observation, before: str, after: str) -> Iterator[Reason]:
    """Whether somebody else was served: only where all of ours was answered can that be told. Said once."""
    if any(reason.code == OTHER_CLIENTS for reason in seen.reasons):
        return
    found = foreign_traffic(before, after, dialect.generated_tokens, tokens_of(seen))
    if found is not None and not any(answer.error for answer in seen.answers):
        yield found


def said_of_cache(cache: str, unflushed: str) -> str:
    if cache == "flush":
        return f"not flushed: {unflushed}" if unflushed else "flushed before the measured window"
    return "every prompt unique" if cache == "unique" else "left as it was: prompts may have been cached"


def about(run_: Running) -> dict[str, Any]:
    """What was started. Its log is kept by the harness: it is ours."""
    return {
        "command": list(run_.server.argv),
        "is_attached": not run_.server.is_ours,
        "environment": servers.shown_environment(run_.server.env),
    }


def software(found: Found) -> dict[str, Any]:
    """What is installed for the server, in the form in which a rank reports its own; nothing where nobody was asked."""
    packages = dict(found.packages)
    return {"python": found.python, "packages": packages, "startup": {}, "torch": {}} if packages else {}


def merged(parts: Sequence[Part]) -> Measurement:
    """The measurement of all modes; names of metrics begin with their mode where there is one."""
    values: dict[str, float] = {}
    samples: dict[str, list[float]] = {}
    seen = {part.mode: part.observation for part in parts if part.observation is not None}
    for part in parts:
        head = f"{part.mode}_" if part.mode else ""
        if part.mode in seen:
            own = {**seen[part.mode].values, **accept_values(part.acceptance)}
            values |= {f"{head}{name}": value for name, value in own.items()}
            samples |= {f"{head}{name}": series for name, series in seen[part.mode].samples.items()}
    named = {part.mode or ONLY: part for part in parts}
    return Measurement(
        values=values,
        samples=samples,
        counts={name: counts(part) for name, part in named.items() if part.mode in seen},
        digests={name: seen[part.mode].digest for name, part in named.items() if has_digest(part)},
        warmup={name: part.warmup for name, part in named.items() if part.mode in seen},
        origin={name: file for part in parts for name, file in part.origin.items()},
        load_s=parts[0].load_s,
        measured_s=sum(one.measured_s for one in seen.values()),
        reasons=[told(part.mode, reason) for part in parts for reason in part.reasons],
        engine={name: part.engine for name, part in named.items()},
        software=parts[0].software,
    )


def has_digest(part: Part) -> bool:
    """Prompts that differ from trial to trial have answers that differ."""
    if part.observation is None or not part.observation.digest:
        return False
    outlives = part.engine["is_attached"] or "resident" in part.engine
    return not (outlives and part.engine["prefix_cache"] == said_of_cache("unique", ""))


def accept_values(found: Acceptance | None) -> dict[str, float]:
    if found is None:
        return {}
    return {"accept_length": found.length} | ({} if found.rate is None else {"accept_rate": found.rate})


def counts(part: Part) -> dict[str, Any]:
    seen = part.observation
    return {**(seen.counts if seen else {}), **(part.acceptance.counts() if part.acceptance else {})}


def told(mode: str, reason: Reason) -> dict[str, str]:
    one = asdict(reason)
    return {**one, "text": f"{mode}: {one['text']}"} if mode else one
