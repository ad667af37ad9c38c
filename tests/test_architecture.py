"""The import rules of the project, held with `ast`. The tables below are their documentation."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]

# Room -> what it may import of this repository. A name covers the module and everything below it.
NOUNS = {
    "perfguard.records",
    "perfguard.errors",
    "perfguard.policy",
    "perfguard.gate_policy",
    "perfguard.changes",
    "perfguard.__version__",
}
MAY_IMPORT = {
    "perfguard.errors": set(),
    "perfguard.records": set(),
    "perfguard.policy": {"perfguard.gate_policy"},
    "perfguard.gate_policy": set(),
    "perfguard.protocol": set(),
    "perfguard.strays": set(),
    "perfguard.bundle": set(),
    "perfguard.stats": NOUNS,
    "perfguard.origin": NOUNS,
    "perfguard.engine_workloads": {"perfguard.records"},
    "perfguard.workloads": NOUNS | {"perfguard.engine_workloads"},
    "perfguard.config": NOUNS | {"perfguard.workloads"},
    "perfguard.comparison": NOUNS,
    "perfguard.calibration": NOUNS | {"perfguard.stats", "perfguard.comparison", "perfguard.commands"},
    "perfguard.changes": set(),
    "perfguard.claims": set(),
    "perfguard.commands": set(),
    "perfguard.scopes": NOUNS | {"perfguard.stats"},
    "perfguard.full_size": NOUNS,
    "perfguard.conclusions": NOUNS | {"perfguard.full_size", "perfguard.scopes"},
    "perfguard.demo_history": NOUNS,
    "perfguard.modes": NOUNS,
    "perfguard.cycles": NOUNS | {"perfguard.modes", "perfguard.stats"},
    "perfguard.reading_costs": NOUNS | {"perfguard.modes", "perfguard.cycles", "perfguard.stats"},
    "perfguard.payoff_gate": NOUNS | {"perfguard.modes", "perfguard.cycles", "perfguard.stats"},
    "perfguard.payoff": NOUNS
    | {
        "perfguard.commands",
        "perfguard.comparison",
        "perfguard.modes",
        "perfguard.cycles",
        "perfguard.payoff_gate",
        "perfguard.reading_costs",
        "perfguard.stats",
    },
    "perfguard.speculation": NOUNS | {"perfguard.stats"},
    "perfguard.step_times": NOUNS | {"perfguard.cycles"},
    "perfguard.withheld": NOUNS | {"perfguard.stats"},
    "perfguard.hooks": set(),
    "perfguard.history_file": NOUNS | {"perfguard.history"},
    "perfguard.imported": NOUNS,
    "perfguard.engine_facts": NOUNS,
    "perfguard.pinned_args": NOUNS,
    "perfguard.conditions": NOUNS | {"perfguard.stats", "perfguard.machine.event_reasons"},
    "perfguard.history": NOUNS | {"perfguard.stats", "perfguard.conditions"},
    "perfguard.diagnosis": NOUNS | {"perfguard.machine", "perfguard.conditions.leftovers"},
    "perfguard.explaining": NOUNS | {"perfguard.stats", "perfguard.protocol"},
    "perfguard.factors": NOUNS,
    "perfguard.settings": NOUNS | {"perfguard.config", "perfguard.stats"},
    "perfguard.search_judging": NOUNS | {"perfguard.comparison", "perfguard.factors", "perfguard.stats"},
    "perfguard.sweep_judging": NOUNS
    | {"perfguard.comparison", "perfguard.judging", "perfguard.settings", "perfguard.stats"},
    "perfguard.judging": NOUNS
    | {
        "perfguard.stats",
        "perfguard.origin",
        "perfguard.conditions",
        "perfguard.modes",
        "perfguard.payoff",
        "perfguard.scopes",
        "perfguard.speculation",
        "perfguard.step_times",
        "perfguard.comparison",
        "perfguard.conclusions",
        "perfguard.engine_facts",
        "perfguard.full_size",
        "perfguard.withheld",
    },
    "perfguard.bisection.machine": NOUNS | {"perfguard.conditions"},
    "perfguard.bisection.state": NOUNS
    | {"perfguard.stats", "perfguard.judging", "perfguard.conditions", "perfguard.bisection.machine"},
    "perfguard.bisection.listing": NOUNS | {"perfguard.bisection.state"},
    "perfguard.bisection.verdict": NOUNS
    | {
        "perfguard.stats",
        "perfguard.comparison",
        "perfguard.judging",
        "perfguard.bisection.machine",
        "perfguard.bisection.state",
        "perfguard.bisection.listing",
        "perfguard.bisection.words",
    },
    "perfguard.bisection.words": {"perfguard.changes", "perfguard.commands"},
    "perfguard.bisection.seeding": {"perfguard.records"},
    "perfguard.subject": NOUNS | {"perfguard.strays"},
    "perfguard.trial": NOUNS | {"perfguard.protocol", "perfguard.strays"},
    "perfguard.machine": NOUNS,
    "perfguard.store": NOUNS,
    "perfguard.report": NOUNS | {"perfguard.trial.secrets", "perfguard.commands"},
    "runners": {"perfguard.protocol", "model"},
    "model": set(),
}  # stories and cli: anything of perfguard

# Package -> the only rooms that may import it.
ONLY_IN = {
    "git": {"perfguard.subject"},
    "pynvml": {"perfguard.machine"},
    "sqlite_utils": {"perfguard.store"},
    "sqlite3": {"perfguard.store"},
    "rich": {"perfguard.report"},
    "pandas": {"perfguard.report"},
    "numpy": {"perfguard.stats"},
    "scipy": {"perfguard.stats"},
    "typer": {"perfguard.cli"},
    "click": {"perfguard.cli"},
    "torch": {"model", "runners.machine_bench"},
    "triton": {"model"},
    "h11": {"runners.engines"},
    "prometheus_client": {"runners.engines"},
    "safetensors": {"model"},
    "psutil": {"perfguard.machine", "perfguard.trial", "perfguard.subject"},
}

SOURCES = sorted(p for room in ("perfguard", "runners", "model") for p in (ROOT / room).rglob("*.py"))


def module_name(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imported(path: Path) -> set[str]:
    """Dotted names of everything a file imports, at its top or inside a function."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return names


def lies_in(name: str, rooms: set[str]) -> bool:
    return any(name == room or name.startswith(room + ".") for room in rooms)


@pytest.mark.parametrize("path", SOURCES, ids=module_name)
def test_a_room_imports_only_what_the_table_allows(path):
    module = module_name(path)
    room = next((r for r in MAY_IMPORT if lies_in(module, {r})), None)
    if room is None:
        return
    ours = {n for n in imported(path) if lies_in(n, {"perfguard", "runners", "model", "tests", "benchmarks"})}
    strangers = {n for n in ours if not lies_in(n, MAY_IMPORT[room] | {room})}
    assert strangers == set()


@pytest.mark.parametrize("path", SOURCES, ids=module_name)
def test_a_library_is_imported_only_in_its_room(path):
    module = module_name(path)
    strangers = [lib for lib, rooms in ONLY_IN.items() if not lies_in(module, rooms)]
    wrong = {name for name in imported(path) if lies_in(name, set(strangers))}
    assert wrong == set()


@pytest.mark.parametrize("path", SOURCES, ids=module_name)
def test_files_and_functions_stay_short(path):
    source = path.read_text(encoding="utf-8")
    assert len(source.splitlines()) <= 300
    functions = [n for n in ast.walk(ast.parse(source)) if isinstance(n, (ast.FunctionDef, ast.AsyncFunctionDef))]
    assert [f.name for f in functions if f.end_lineno - f.lineno >= 60] == []


@pytest.mark.parametrize("path", SOURCES, ids=module_name)
def test_every_module_says_what_it_is_for(path):
    assert ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or path.stat().st_size == 0


def test_starting_the_command_line_imports_nothing_heavy():
    heavy = "('torch', 'numpy', 'pandas', 'scipy', 'git', 'sqlite_utils', 'pynvml', 'psutil', 'pydantic')"
    code = f"import sys, perfguard.cli; print([m for m in {heavy} if m in sys.modules])"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"


def test_scipy_is_imported_by_what_takes_a_quantile_and_not_by_what_measures():
    """It takes a fifth of a second, and scipy.stats a whole one: longer than a launch of a small program."""
    code = "import sys, perfguard.experiment, perfguard.single, perfguard.explain; print('scipy' in sys.modules)"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "False"


def test_the_runner_protocol_needs_the_standard_library_only():
    code = (
        "import sys; before = set(sys.modules); import perfguard.protocol;"
        "print([m for m in set(sys.modules) - before if m.split('.')[0] not in sys.stdlib_module_names])"
    )
    command = [sys.executable, "-S", "-c", code]  # without site-packages
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert sorted(ast.literal_eval(result.stdout)) == ["perfguard", "perfguard.protocol"]
