"""Asks the real code of other tools. Runs in THEIR environment, alone: standard input to standard output, both JSON.

    PEER_PYTHON peer_answers.py [--checkout NAME=FOLDER ...] < cases.json

In: {peer: {"base": [[...], ...], "head": ...}}. Out: {peer: {"version": ..., "answers": "0110..."}}, or {"missing":
why}. Imports nothing of this repository; `validate_peers.py` starts it.
"""

import argparse
import contextlib
import importlib
import importlib.metadata
import importlib.util
import io
import json
import runpy
import sys
import tempfile
import types
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

Cases = Sequence[Sequence[float]]
Answers = list[bool]
CLOCK_HZ = 1.98e9


def pyperf_answers(base: Cases, head: Cases) -> Answers:
    import pyperf
    from pyperf._compare import CompareData, CompareResult

    def benchmark(values: Sequence[float]) -> Any:
        processes = [values[i : i + 3] for i in range(0, len(values), 3)]
        return pyperf.Benchmark(
            [pyperf.Run(part, metadata={"name": "case"}, collect_metadata=False) for part in processes]
        )

    pairs = (
        (CompareData("base", benchmark(a)), CompareData("head", benchmark(b))) for a, b in zip(base, head, strict=True)
    )
    return [bool(CompareResult(a, b).significant) for a, b in pairs]


def asv_answers(base: Cases, head: Cases) -> Answers:
    from asv.commands.compare import _is_result_better
    from asv_runner.statistics import compute_stats

    found = []
    for a, b in zip(base, head, strict=True):
        (time_a, stats_a), (time_b, stats_b) = compute_stats(a, 1), compute_stats(b, 1)
        one, two = (stats_a, list(a)), (stats_b, list(b))
        is_worse = _is_result_better(time_a, time_b, one, two, 1.1)
        found.append(is_worse or _is_result_better(time_b, time_a, two, one, 1.1))
    return found


def otava_answers(base: Cases, head: Cases) -> Answers:
    from otava.analysis import compute_change_points

    return [bool(compute_change_points([*a, *b])[0]) for a, b in zip(base, head, strict=True)]


def nvbench_robust_answers(base: Cases, head: Cases) -> Answers:
    import numpy as np

    robust = importlib.import_module("cuda.bench.scripts.nvbench_compare_robust")
    robust.np = np  # its main() loads it late

    def timing(values: Sequence[float]) -> Any:
        source = types.SimpleNamespace(values=np.asarray(values), has_material_payload=lambda: True)
        return robust.GpuTimingData(*[None] * 10, sm_clock_rate_mean=CLOCK_HZ, sample_source=source)

    statuses = [robust.compare_gpu_timings(timing(a), timing(b)).status.name for a, b in zip(base, head, strict=True)]
    return [status in ("FAST", "SLOW") for status in statuses]


def nvbench_legacy_answers(base: Cases, head: Cases) -> Answers:
    """Through its command: two result files with one state a case, and the table it prints."""
    legacy = importlib.import_module("cuda.bench.scripts.nvbench_compare")
    with tempfile.TemporaryDirectory() as folder:
        paths = [_nvbench_file(Path(folder) / f"{n}.json", cases) for n, cases in enumerate((base, head))]
        table = _printed(legacy.main, ["nvbench-compare", "--no-color", *paths])
    words = [word for line in table.splitlines() for word in ("SAME", "FAST", "SLOW", "????") if word in line]
    return [word in ("FAST", "SLOW") for word in words]


def _nvbench_file(path: Path, cases: Cases) -> str:
    from statistics import fmean, stdev

    def summary(tag: str, value: float) -> dict[str, Any]:
        data = {"name": "value", "type": "float64", "value": repr(value)}
        return {"tag": f"nv/cold/time/gpu/{tag}", "data": [data]}

    states = [
        {
            "name": str(n),
            "device": 0,
            "axis_values": None,
            "summaries": [summary("mean", fmean(case)), summary("stdev/relative", stdev(case) / fmean(case))],
        }
        for n, case in enumerate(cases)
    ]
    version = {"major": 1, "minor": 0, "patch": 0, "string": "1.0.0"}
    bench = {"name": "case", "devices": [0], "axes": None, "states": states}
    content = {"meta": {"version": {"json": version}}, "devices": [{"id": 0, "name": "x"}], "benchmarks": [bench]}
    path.write_text(json.dumps(content))
    return str(path)


def conbench_answers(base: Cases, head: Cases) -> Answers:
    """Its statistics, without its web server and database, which are replaced by empty modules."""
    import pandas as pd

    history = _conbench_history()
    found = []
    for past, (new,) in zip(base, head, strict=True):
        rows = pd.DataFrame({"mean": past, "timestamp": pd.date_range("2026-01-01", periods=len(past))})
        rows["result_timestamp"] = rows["timestamp"]
        rows = rows.assign(case_id="c", context_id="c", hash="h", repository="r", change_annotations=None)
        rows = history._detect_shifts_with_trimmed_estimators(rows)
        rows = history._add_rolling_stats_columns_to_df(rows, include_current_commit_in_rolling_stats=True)
        last = rows.sort_values("timestamp").iloc[-1]
        z = history._calculate_z_score(new, "s", last.rolling_mean, last.rolling_stddev)
        found.append(bool(abs(z) > 5.0))
    return found


def _conbench_history() -> Any:
    spec = importlib.util.find_spec("conbench")
    if spec is None or not spec.submodule_search_locations:
        raise ImportError("conbench is not installed")
    places = {"conbench": Path(spec.submodule_search_locations[0])}
    places["conbench.entities"] = places["conbench"] / "entities"
    for name, place in places.items():
        sys.modules[name] = types.ModuleType(name)
        sys.modules[name].__path__ = [str(place)]
    names = {
        "config": ["Config"],
        "db": ["Session"],
        "entities._entity": ["EntitySerializer", "to_float"],
        "entities.benchmark_result": ["BenchmarkResult"],
        "entities.commit": ["CantFindAncestorCommitsError", "Commit"],
        "entities.hardware": ["Hardware"],
        "entities.run": ["Run"],
    }
    for name, members in names.items():
        module = sys.modules[f"conbench.{name}"] = types.ModuleType(f"conbench.{name}")
        for member in members:
            setattr(module, member, type(member, (), {"__init__": _ignore, "DISTRIBUTION_COMMITS": 100}))
    return importlib.import_module("conbench.entities.history")


def _ignore(self: Any, **_: Any) -> None:
    """Of a stand-in for a class that the statistics never use."""


def google_benchmark_answers(base: Cases, head: Cases, checkout: Path) -> Answers:
    sys.path.insert(0, str(checkout / "tools"))
    report = importlib.import_module("gbench.report")
    return [bool(report.calc_utest((a, b), (a, b))[2] < 0.05) for a, b in zip(base, head, strict=True)]


def hyperfine_answers(base: Cases, head: Cases, checkout: Path) -> Answers:
    """Through the script that comes with it, on files as hyperfine exports them."""
    script, found = str(checkout / "scripts" / "welch_ttest.py"), []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "export.json"
        for a, b in zip(base, head, strict=True):
            path.write_text(json.dumps({"results": [{"command": "a", "times": a}, {"command": "b", "times": b}]}))
            text = _printed(lambda: runpy.run_path(script, run_name="__main__"), [script, str(path)])
            found.append("There is a difference" in text)
    return found


def _printed(command: Callable[[], Any], arguments: list[str]) -> str:
    before, sys.argv = sys.argv, arguments
    try:
        with contextlib.redirect_stdout(io.StringIO()) as text:
            command()
    finally:
        sys.argv = before
    return text.getvalue()


# Peer -> its distribution, and who answers. Those of CHECKOUTS are scripts in a repository, named with --checkout.
INSTALLED: dict[str, tuple[str, Callable[[Cases, Cases], Answers]]] = {
    "pyperf compare_to": ("pyperf", pyperf_answers),
    "asv continuous": ("asv", asv_answers),
    "otava": ("apache-otava", otava_answers),
    "nvbench-compare": ("cuda-bench", nvbench_legacy_answers),
    "nvbench-compare-robust": ("cuda-bench", nvbench_robust_answers),
    "conbench z": ("conbench", conbench_answers),
}
CHECKOUTS: dict[str, tuple[str, Callable[[Cases, Cases, Path], Answers]]] = {
    "google/benchmark U test": ("google-benchmark", google_benchmark_answers),
    "Welch's t, 10 a side": ("hyperfine", hyperfine_answers),
}


def answer(peer: str, base: Cases, head: Cases, checkouts: dict[str, Path]) -> dict[str, str]:
    try:
        if peer in INSTALLED:
            package, ask = INSTALLED[peer]
            version, answers = f"{package} {importlib.metadata.version(package)}", ask(base, head)
        else:
            repository, ask_checkout = CHECKOUTS[peer]
            folder = checkouts[repository]
            version, answers = folder.name, ask_checkout(base, head, folder)
    except (ImportError, KeyError) as missing:
        return {"missing": repr(missing)}
    return {"version": version, "answers": "".join("01"[is_changed] for is_changed in answers)}


def main() -> None:
    parser = argparse.ArgumentParser(description="Answers of other tools' real code.")
    parser.add_argument("--checkout", action="append", default=[], metavar="NAME=FOLDER")
    pairs = (item.split("=", 1) for item in parser.parse_args().checkout)
    checkouts = {name: Path(folder) for name, folder in pairs}
    cases = json.load(sys.stdin)
    asked = [peer for peer in (*INSTALLED, *CHECKOUTS) if peer in cases]
    json.dump({peer: answer(peer, cases[peer]["base"], cases[peer]["head"], checkouts) for peer in asked}, sys.stdout)


if __name__ == "__main__":
    main()
