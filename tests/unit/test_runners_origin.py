"""Path swap, origin proof, environment and parameters: the pure parts of the launcher."""

import hashlib
import sys
import types

import pytest

from perfguard.protocol import Spec
from runners import contract, launch, observe, origin


def spec(**changes):
    fields = {"trial": "t", "runner": "fake", "modes": ("plain",), "params": {}, "subject_root": "/s"}
    return Spec(**{**fields, "seed": 1, "result": "r", "ready": "q", **changes})


def loaded(monkeypatch, name, file=None, path=None):
    module = types.ModuleType(name)
    if file is not None:
        module.__file__ = str(file)
    if path is not None:
        module.__path__ = [str(path)]
    monkeypatch.setitem(sys.modules, name, module)


@pytest.fixture
def no_model(monkeypatch):
    for name in [name for name in sys.modules if name == "model" or name.startswith("model.")]:
        monkeypatch.delitem(sys.modules, name)


def test_subject_takes_the_first_place_and_the_harness_leaves(tmp_path):
    harness, subject, other = (tmp_path / name for name in ("harness", "subject", "other"))
    path = origin.swap_roots(
        [str(harness / "runners"), "/usr/lib/x", str(harness), str(other), str(subject)],
        harness=[harness / "runners", harness],
        subject_root=subject,
    )
    assert path == [str(subject), "/usr/lib/x", str(other)]


def test_a_harness_installed_in_site_packages_keeps_them_behind_the_subject(tmp_path):
    site = tmp_path / "site-packages"
    (site / "torch-2.11.dist-info").mkdir(parents=True)
    path = origin.swap_roots([str(site)], harness=[site], subject_root=tmp_path / "s")
    assert path == [str(tmp_path / "s"), str(site)]


def test_a_harness_reached_through_a_link_leaves_as_well(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    path = origin.swap_roots([str(tmp_path / "link")], harness=[tmp_path / "real"], subject_root=tmp_path / "s")
    assert path == [str(tmp_path / "s")]


def test_every_other_model_on_the_path_is_named_once(tmp_path):
    for name in ("package", "single", "data", "subject"):
        (tmp_path / name).mkdir()
    for file in ("package/model/__init__.py", "single/model.py", "data/model/weights.bin", "subject/model/entry.py"):
        (tmp_path / file).parent.mkdir(exist_ok=True)
        (tmp_path / file).touch()
    entries = [str(tmp_path / name) for name in ("subject", "package", "data", "single", "package", "missing")]
    found = origin.other_models(entries, subject_root=tmp_path / "subject")
    assert found == [str(tmp_path / "package/model/__init__.py"), str(tmp_path / "single/model.py")]


def test_origin_check_passes_for_modules_below_the_root(no_model, monkeypatch, tmp_path):
    loaded(monkeypatch, "model", tmp_path / "model/__init__.py")
    loaded(monkeypatch, "model.entry", tmp_path / "model/entry.py")
    loaded(monkeypatch, "model.made_at_run_time")
    loaded(monkeypatch, "modelling", "/elsewhere/modelling.py")
    origin.check(tmp_path)


def test_origin_check_names_module_file_and_expected_root(no_model, monkeypatch, tmp_path):
    loaded(monkeypatch, "model", tmp_path / "model/__init__.py")
    loaded(monkeypatch, "model.layers", "/elsewhere/model/layers.py")
    with pytest.raises(origin.OriginError) as caught:
        origin.check(tmp_path)
    text = str(caught.value)
    assert "model.layers was loaded from /elsewhere/model/layers.py" in text
    assert str(tmp_path) in text


def test_origin_check_sees_through_a_sibling_with_the_same_beginning(no_model, monkeypatch, tmp_path):
    loaded(monkeypatch, "model", f"{tmp_path}-copy/model/__init__.py")
    with pytest.raises(origin.OriginError):
        origin.check(tmp_path)


def test_origin_check_sees_a_namespace_package_from_elsewhere(no_model, monkeypatch, tmp_path):
    loaded(monkeypatch, "model", path="/elsewhere/model")
    with pytest.raises(origin.OriginError, match="/elsewhere/model"):
        origin.check(tmp_path)


def test_modules_and_shared_objects_are_listed_with_their_hashes(no_model, monkeypatch, tmp_path):
    (tmp_path / "model").mkdir()
    (tmp_path / "model/__init__.py").write_bytes(b"x = 1\n")
    (tmp_path / "lib my.so.1").write_bytes(b"\x7fELF")
    loaded(monkeypatch, "model", tmp_path / "model/__init__.py")
    maps = (
        f"7f00-7f01 r-xp 00000000 08:01 42   {tmp_path}/lib my.so.1\n"
        f"7f01-7f02 r--p 00001000 08:01 42   {tmp_path}/lib my.so.1\n"
        "7f02-7f03 r-xp 00000000 08:01 43   /usr/lib/libc.so.6\n"
        f"7f03-7f04 r--p 00000000 08:01 44   {tmp_path}/weights.bin\n"
        "7f04-7f05 rw-p 00000000 00:00 0    [stack]\n"
        "7f05-7f06 rw-p 00000000 00:00 0\n"
    )
    assert origin.collect(tmp_path, maps) == {
        "model": {
            "path": str(tmp_path / "model/__init__.py"),
            "sha256": hashlib.sha256(b"x = 1\n").hexdigest(),
        },
        "lib my.so.1": {
            "path": str(tmp_path / "lib my.so.1"),
            "sha256": hashlib.sha256(b"\x7fELF").hexdigest(),
        },
    }


def test_environment_keeps_what_matters_and_marks_what_changed_since_exec():
    now = {"NCCL_PROTO": "LL", "OMP_NUM_THREADS": "1", "CUDA_X": "1", "HF_TOKEN": "secret", "HOME": "/h"}
    now |= {"TORCHELASTIC_ERROR_FILE": "/tmp/0"}
    at_exec = {"NCCL_PROTO": "Simple", "OMP_NUM_THREADS": "1", "LD_PRELOAD": "/lost.so", "HOME": "/other"}
    assert observe.environment(now, at_exec) == {
        "CUDA_X": "1",
        "NCCL_PROTO": "LL",
        "OMP_NUM_THREADS": "1",
        "exec:CUDA_X": "",
        "exec:LD_PRELOAD": "/lost.so",
        "exec:NCCL_PROTO": "Simple",
    }


def test_environ_file_is_split_at_zero_bytes_and_first_equals_sign():
    assert observe.parse_environ(b"A=1\0B=x=y\nz\0C=\0junk\0") == {"A": "1", "B": "x=y\nz", "C": ""}


def test_rank_and_world_size_follow_the_torchrun_contract():
    alone = launch.read_launch(spec(), {}, started_s=0.0)
    assert (alone.rank, alone.world_size) == (0, 1)
    second = launch.read_launch(spec(), {"RANK": "1", "WORLD_SIZE": "2"}, started_s=0.0)
    assert (second.rank, second.world_size) == (1, 2)


@pytest.mark.parametrize("environ", [{"RANK": "2", "WORLD_SIZE": "2"}, {"RANK": "-1"}, {"RANK": "one"}])
def test_a_rank_outside_its_world_is_an_error(environ):
    with pytest.raises(ValueError, match=r"RANK=|invalid literal"):
        launch.read_launch(spec(), environ, started_s=0.0)


def test_an_unknown_parameter_names_the_nearest_known():
    from runners.tp_moe import TpMoeParams

    with pytest.raises(ValueError, match="unknown key 'tokns'; did you mean 'tokens'"):
        contract.parse_params(TpMoeParams, {"tokns": 5})


@pytest.mark.parametrize("wrong", [{"tokens": "8"}, {"tokens": 8.5}, {"tokens": True}, {"device": 1}])
def test_a_parameter_of_another_type_is_an_error(wrong):
    from runners.tp_moe import TpMoeParams

    with pytest.raises(ValueError, match="expected a value like"):
        contract.parse_params(TpMoeParams, wrong)


def test_an_error_text_begins_with_its_class_and_ends_with_the_end_of_the_traceback():
    about = launch.read_launch(spec(), {}, started_s=0.0)
    text = launch.failed(about, contract.UnbuildableError("no entry")).error
    assert text.startswith("unbuildable: UnbuildableError: no entry")
    assert launch.failed(about, origin.OriginError("from /x")).error.startswith("origin: OriginError: from /x")
    assert launch.failed(about, KeyError("k")).error.startswith("KeyError: 'k'")
