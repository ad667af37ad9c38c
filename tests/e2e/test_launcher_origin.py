"""Whose code a launch runs: the subject's model under the harness's runner, whatever lies on the path."""

import shutil

import pytest
from launcher_support import ROOT, STAND_IN, launch, workload_files, write_spec


def test_a_subject_with_its_own_perfguard_and_runners_is_measured_by_the_harness(tmp_path, subject):
    for package in ("perfguard", "runners"):
        (subject / package).mkdir()
        (subject / package / "__init__.py").write_text("raise SystemExit('the subject measures itself')")
    params = workload_files(tmp_path)
    spec = write_spec(tmp_path, subject, "tp_moe", tokens=9, **params)
    code, result, errors = launch(spec, PYTHONPATH=str(subject))
    assert code == 0, errors
    assert result.origin["model"]["path"].startswith(str(subject))


def test_another_model_on_pythonpath_loses_and_is_named(tmp_path, subject):
    other = tmp_path / "other"
    (other / "model").mkdir(parents=True)
    (other / "model" / "__init__.py").write_text("raise SystemExit('the other model')")
    spec = write_spec(tmp_path, subject, "tp_moe", **workload_files(tmp_path))
    code, result, errors = launch(spec, PYTHONPATH=str(other))
    assert code == 0, errors
    assert str(other / "model" / "__init__.py") in result.process["other_models"]


def test_a_subject_without_model_does_not_run_the_one_on_pythonpath(tmp_path, empty):
    other = tmp_path / "other"
    shutil.copytree(empty, other)
    (other / "model").mkdir()
    (other / "model" / "__init__.py").touch()
    (other / "model" / "entry.py").write_text(STAND_IN)
    spec = write_spec(tmp_path, empty, "tp_moe", **workload_files(tmp_path))
    code, result, _ = launch(spec, PYTHONPATH=str(other))
    assert (code, result.status, result.values) == (1, "failed", {})
    assert result.error.startswith("origin: ")
    assert str(other / "model") in result.error.splitlines()[0]
    assert str(empty) in result.error.splitlines()[0]


def test_a_model_that_sitecustomize_has_imported_is_found_out(tmp_path, subject):
    other = tmp_path / "other"
    shutil.copytree(subject, other)
    (other / "sitecustomize.py").write_text("import model")
    spec = write_spec(tmp_path, subject, "tp_moe", **workload_files(tmp_path))
    code, result, _ = launch(spec, PYTHONPATH=str(other))
    assert (code, result.status) == (1, "failed")
    assert result.error.startswith("origin: ")
    assert str(other / "model" / "__init__.py") in result.error


def test_another_model_without_an_entry_is_a_wrong_origin_and_not_an_unbuildable_commit(tmp_path, empty):
    other = tmp_path / "other"
    other.mkdir()
    (other / "model.py").touch()
    spec = write_spec(tmp_path, empty, "tp_moe", **workload_files(tmp_path))
    result = launch(spec, PYTHONPATH=str(other))[1]
    assert result.error.startswith("origin: ")
    assert str(other / "model.py") in result.error.splitlines()[0]


def test_another_perfguard_that_sitecustomize_has_imported_is_not_used(tmp_path, empty):
    other = tmp_path / "other"
    (other / "perfguard").mkdir(parents=True)
    (other / "perfguard" / "__init__.py").touch()
    (other / "perfguard" / "protocol.py").write_text("read_spec = write = None")
    (other / "sitecustomize.py").write_text("import perfguard.protocol")
    code, result, errors = launch(write_spec(tmp_path, empty, "fake"), PYTHONPATH=str(other))
    assert code == 0, errors
    assert result.status == "ok"


def test_a_module_imported_late_from_elsewhere_is_found_out(tmp_path, subject):
    other = tmp_path / "other"
    other.mkdir()
    (other / "late.py").write_text("")
    entry = subject / "model" / "entry.py"
    lines = ("import model", f"model.__path__.append({str(other)!r})", "import model.late")
    late = "".join(f"\n        {line}" for line in lines)
    entry.write_text(STAND_IN.replace("def close(self): pass", f"def close(self):{late}"))
    code, result, _ = launch(write_spec(tmp_path, subject, "tp_moe", **workload_files(tmp_path)))
    assert code == 1
    assert result.error.startswith("origin: ")
    assert "model.late" in result.error


def test_the_harness_measures_from_the_layout_of_a_wheel_too(tmp_path, subject):
    site = tmp_path / "site-packages"
    shutil.copytree(ROOT / "perfguard", site / "perfguard", ignore=shutil.ignore_patterns("__pycache__", "_bundle"))
    bundle = site / "perfguard" / "_bundle"
    skipped = shutil.ignore_patterns("__pycache__", "assets")
    shutil.copytree(ROOT / "runners", bundle / "runners", ignore=skipped)
    (bundle / "model").mkdir()
    (bundle / "model" / "__init__.py").write_text("raise SystemExit('the bundled model')")
    spec = write_spec(tmp_path, subject, "tp_moe", **workload_files(tmp_path))
    code, result, errors = launch(spec, launcher=bundle / "runners" / "__main__.py")
    assert code == 0, errors
    assert result.origin["model"]["path"].startswith(str(subject))
    assert not [entry for entry in result.process["sys_path"] if entry.startswith(str(site))]


def test_without_dash_p_the_folder_of_the_script_leaves_the_path(tmp_path, subject):
    # torchrun starts a script without -P, which puts runners/ first: `import timing` would find ours.
    spec = write_spec(tmp_path, subject, "tp_moe", **workload_files(tmp_path))
    code, result, errors = launch(spec, options=())
    assert code == 0, errors
    assert result.process["sys_path"][0] == str(subject)
    assert str(ROOT / "runners") not in result.process["sys_path"]


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("import no_such_package", "no_such_package"),
        ("def build(spec:", "SyntaxError"),
        ("raise SystemExit('no')", "SystemExit"),
        ("API_VERSION = 99", "API_VERSION is 99, supported: 1"),
        ("", "API_VERSION is None"),
    ],
)
def test_a_subject_that_does_not_import_or_speaks_another_version_is_unbuildable(tmp_path, subject, source, said):
    (subject / "model" / "entry.py").write_text(source)
    code, result, _ = launch(write_spec(tmp_path, subject, "tp_moe", **workload_files(tmp_path)))
    assert (code, result.status) == (1, "failed")
    assert result.error.startswith("unbuildable: ")
    assert said in result.error
    assert not (tmp_path / "ready-0").exists()


def test_a_subject_without_model_is_unbuildable(tmp_path, empty):
    result = launch(write_spec(tmp_path, empty, "tp_moe", **workload_files(tmp_path)))[1]
    assert result.error.startswith("unbuildable: ")
    assert "No module named 'model'" in result.error


def test_a_subject_that_breaks_while_measured_fails_with_the_place(tmp_path, subject):
    entry = subject / "model" / "entry.py"
    entry.write_text(STAND_IN.replace("assert token == self.ids[-1]", "raise MemoryError('planted')"))
    code, result, errors = launch(write_spec(tmp_path, subject, "tp_moe", **workload_files(tmp_path)))
    assert (code, result.status) == (1, "failed")
    assert result.error.startswith("MemoryError: planted")
    assert str(entry) in result.error
    assert "planted" in errors
