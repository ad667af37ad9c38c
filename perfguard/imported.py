"""Results that other benchmark clients wrote -> what a run measured, and what it cannot promise. Pure.

Must not open a file. Shapes: `vllm bench serve` and `vllm bench latency` of 0.32, SGLang's `bench_serving` and
`bench_one_batch` of 0.5.23. Times become seconds, percentages shares. A number that is not there is unknown and is
left out; one that is there and is no number is an error.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import isfinite
from typing import Any

from perfguard.errors import UsageError
from perfguard.records import Metric, Reason

NEXT_STEP = "a file of vllm bench serve --save-result, vllm bench latency --output-json, bench_serving, bench_one_batch"


@dataclass(frozen=True, kw_only=True)
class Column:
    """One number of a result file: its key there, the metric here, and what it is multiplied with on the way."""

    key: str
    metric: Metric
    factor: float = 1.0


@dataclass(frozen=True, kw_only=True)
class Shape:
    """How a tool's result looks. `marks`: keys that no result of it lacks and that tell it from others.

    `settings`: keys that say what was measured, so that numbers with other settings are not compared. `series`: lists
    of seconds by the name that they get here. `limits`: what its numbers do not say, beyond what no import can.
    """

    tool: str
    marks: tuple[str, ...]
    columns: tuple[Column, ...]
    settings: tuple[str, ...]
    series: Mapping[str, str] = field(default_factory=dict)
    limits: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class ImportedRun:
    """One run of a client. `measured_s`: 0 where the file does not say. `started_at`: ISO 8601, "" where unknown."""

    shape: Shape
    values: Mapping[str, float]
    settings: Mapping[str, Any]
    samples: Mapping[str, list[float]]
    started_at: str
    measured_s: float
    reasons: tuple[Reason, ...]

    @property
    def metrics(self) -> tuple[Metric, ...]:
        return tuple(column.metric for column in self.shape.columns if column.metric.name in self.values)


def _higher(name: str, unit: str, *, primary: bool = False) -> Metric:
    return Metric(name=name, unit=unit, better="higher", primary=primary)


def _seconds(name: str, *, primary: bool = False) -> Metric:
    return Metric(name=name, unit="s", better="lower", primary=primary)


def _rates(total: str) -> tuple[Column, ...]:
    return (
        Column(key="output_throughput", metric=_higher("output_throughput", "token/s", primary=True)),
        Column(key=total, metric=_higher("total_throughput", "token/s")),
        Column(key="request_throughput", metric=_higher("request_throughput", "request/s")),
    )


def _medians(end_to_end: str) -> tuple[Column, ...]:
    named = {"ttft": "ttft", "tpot": "tpot", "itl": "itl", end_to_end: "e2e"}
    return tuple(
        Column(key=f"median_{theirs}_ms", metric=_seconds(f"median_{ours}_s"), factor=1e-3)
        for theirs, ours in named.items()
    )


SERVED = "times are the client's own: one that waits for a processor reads first tokens late and gaps short"
SHAPES = (
    Shape(
        tool="vllm bench serve",
        marks=("completed", "total_token_throughput"),
        columns=(
            *_rates("total_token_throughput"),
            *_medians("e2el"),
            Column(key="spec_decode_acceptance_length", metric=_higher("accept_length", "token")),
            Column(key="spec_decode_acceptance_rate", metric=_higher("accept_rate", ""), factor=1e-2),
        ),
        settings=(
            "backend", "endpoint_type", "model_id", "tokenizer_id", "num_prompts", "request_rate", "burstiness",
            "max_concurrency",
        ),
        series={"ttfts": "ttft_s", "itls": "itl_s", "latencies": "e2e_s"},
        limits=(SERVED, "accept length is of drafts that were made: steps without a proposal are not counted"),
    ),
    Shape(
        tool="SGLang bench_serving",
        marks=("completed", "total_throughput"),
        columns=(
            *_rates("total_throughput"),
            *_medians("e2e_latency"),
            # Its own name: it is the server's mean since boot or since its cache was flushed, not this run's.
            Column(key="accept_length", metric=_higher("accept_length_since_boot", "token")),
        ),
        settings=("backend", "dataset_name", "request_rate", "max_concurrency"),
        series={"ttfts": "ttft_s", "itls": "itl_s"},
        limits=(
            SERVED,
            "accept length is the server's own mean since it began, warm-up and earlier runs included",
            "the duration ends after the server was asked for its state",
        ),
    ),
    Shape(
        tool="SGLang bench_one_batch",
        marks=("prefill_latency", "overall_throughput", "batch_size"),
        columns=(
            Column(key="overall_throughput", metric=_higher("overall_throughput", "token/s", primary=True)),
            Column(key="median_decode_throughput", metric=_higher("median_decode_throughput", "token/s")),
            Column(key="median_decode_latency", metric=_seconds("median_decode_s")),
            Column(key="prefill_latency", metric=_seconds("prefill_s")),
            Column(key="total_latency", metric=_seconds("total_s")),
        ),
        settings=("run_name", "batch_size", "input_len", "output_len"),
        limits=("no server, no scheduler and no speculation: one batch, the device waited for after every step",),
    ),
    Shape(
        tool="vllm bench latency",
        marks=("avg_latency", "latencies"),
        columns=(Column(key="avg_latency", metric=_seconds("avg_latency_s", primary=True)),),
        settings=("model_id",),
        series={"latencies": "latency_s"},
        limits=(
            "the file says neither batch size nor lengths: whether two files measured the same is not known",
            "a latency is of a whole batch, drawn at temperature 1 unless told otherwise, prefix cache off",
        ),
    ),
)  # fmt: skip
# What no file of another client can promise.
COMMON_LIMITS = (
    "nothing is known of the machine, the environment or the code: the file does not say",
    "no order was drawn, and runs of both sides may have shared one server: a run is no launch of fresh processes",
    "tokens are as the client counted them",
)


def imported_run(document: Any) -> ImportedRun:
    """One result of a client. Raises UsageError for what is none, and for a number that is not one."""
    shape = _shape(document)
    values = {c.metric.name: v for c in shape.columns if (v := _value(document, c)) is not None}
    lacking = [column.key for column in shape.columns if column.metric.primary and column.metric.name not in values]
    reasons = _failures(document)
    if lacking and not reasons:
        raise UsageError(f"a result of {shape.tool} without {', '.join(lacking)}", NEXT_STEP)
    return ImportedRun(
        shape=shape,
        values=values,
        settings={key: document[key] for key in shape.settings if key in document},
        samples={ours: found for theirs, ours in shape.series.items() if (found := _series(document, theirs))},
        started_at=_started_at(document.get("date")),
        measured_s=_number(document, "duration") or _number(document, "total_latency") or 0.0,
        reasons=reasons,
    )


def _shape(document: Any) -> Shape:
    if not isinstance(document, Mapping):
        raise UsageError(f"a JSON object is expected, this is a {type(document).__name__}", NEXT_STEP)
    for shape in SHAPES:
        if all(mark in document for mark in shape.marks):
            return shape
    keys = ", ".join(sorted(map(str, document))[:8]) or "none"
    raise UsageError(f"no result of a client that is known; its keys begin with {keys}", NEXT_STEP)


def _value(document: Mapping[str, Any], column: Column) -> float | None:
    """0 is what these tools write where there was nothing to average."""
    number = _number(document, column.key)
    return None if not number else number * column.factor


def _number(document: Mapping[str, Any], key: str) -> float | None:
    value = document.get(key)
    return None if value is None else _finite(value, key)


def _finite(value: Any, key: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not isfinite(value) or value < 0:
        raise UsageError(f"{key} is {value!r}, not a finite number of at least 0", NEXT_STEP)
    return float(value)


def _series(document: Mapping[str, Any], key: str) -> list[float]:
    """A list of seconds, or of lists of them."""
    rows = document.get(key) or []
    if not isinstance(rows, list):
        raise UsageError(f"{key} is {type(rows).__name__}, not a list", NEXT_STEP)
    nested = [row if isinstance(row, list) else [row] for row in rows]
    return [_finite(value, key) for row in nested for value in row]


def _failures(document: Mapping[str, Any]) -> tuple[Reason, ...]:
    """Requests that failed make a run fast, so one with any is not valid."""
    named = document.get("errors") or []
    of_errors = [text for text in named if text] if isinstance(named, list) else []
    failed = max(int(_number(document, "failed") or 0), len(of_errors))
    reasons = []
    if failed:
        said = f", the first: {str(of_errors[0])[:200]}" if of_errors else ""
        reasons.append(Reason(code="requests_failed", text=f"{failed} requests failed{said}"))
    if document.get("completed") == 0:
        reasons.append(Reason(code="requests_failed", text="no request was completed"))
    return tuple(reasons)


def _started_at(date: Any) -> str:
    """ "20261130-021500" as vLLM writes it -> "2026-11-30T02:15:00"; "" for anything else. The zone is the client's."""
    if not isinstance(date, str) or len(date) != len("20261130-021500"):
        return ""
    digits = date.replace("-", "", 1)
    if len(digits) != 14 or not digits.isdecimal():
        return ""
    year, month, day, hour, minute, second = (digits[a:b] for a, b in _PARTS)
    return f"{year}-{month}-{day}T{hour}:{minute}:{second}"


_PARTS = ((0, 4), (4, 6), (6, 8), (8, 10), (10, 12), (12, 14))


def differing_settings(runs: Sequence[ImportedRun]) -> list[str]:
    """What makes runs incomparable, as "max_concurrency: 1, 4"; another tool is the first such thing."""
    tools = list(dict.fromkeys(run.shape.tool for run in runs))
    if len(tools) > 1:
        return [f"tool: {', '.join(tools)}"]
    names = dict.fromkeys(name for run in runs for name in run.settings)
    found = {name: list(dict.fromkeys(repr(run.settings.get(name)) for run in runs)) for name in names}
    return [f"{name}: {', '.join(values)}" for name, values in found.items() if len(values) > 1]


def limits_of(shape: Shape) -> tuple[str, ...]:
    return (*COMMON_LIMITS, *shape.limits)


def pairs_to_blocks(bases: Sequence[int], heads: Sequence[int]) -> list[list[tuple[str, int]]]:
    """Positions of runs of each side in the order they ran -> blocks of four slots, (arm, position) by slot.

    The first two of each side make the first block, in the order they ran; what is left over is not used.
    """
    num_blocks = min(len(bases), len(heads)) // 2
    blocks = []
    for index in range(num_blocks):
        own = slice(2 * index, 2 * index + 2)
        slots = [*(("base", one) for one in bases[own]), *(("head", one) for one in heads[own])]
        blocks.append(sorted(slots, key=lambda slot: slot[1]))
    return blocks
