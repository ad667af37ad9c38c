"""Environments of a server's processes: what is kept, what the engine changed, what did not arrive."""

import os
import subprocess
import sys

from runners.engines.workers import Process, overwritten, read_processes, undelivered, workers_json


def process(pid=1, name="VLLM::Worker_TP0", **environment):
    return Process(pid=pid, name=name, environment=environment)


def faked(proc, pid, command, environment):
    folder = proc / str(pid)
    folder.mkdir()
    (folder / "cmdline").write_bytes(b"\0".join(word.encode() for word in command))
    (folder / "environ").write_bytes(b"\0".join(f"{k}={v}".encode() for k, v in environment.items()))


def test_only_variables_that_matter_or_were_asked_for_are_kept(tmp_path):
    faked(tmp_path, 7, ["python", "-m", "sglang"], {"NCCL_ALGO": "Ring", "VLLM_API_KEY": "t", "MINE": "1", "HOME": "/"})
    (found,) = read_processes([7, 8], asked=["MINE", "VLLM_API_KEY"], proc=tmp_path)  # 8 is gone
    assert (found.pid, found.name) == (7, "python -m sglang")
    assert found.environment == {"NCCL_ALGO": "Ring", "MINE": "1"}
    assert workers_json([found]) == [
        {"pid": 7, "name": "python -m sglang", "environment": {"NCCL_ALGO": "Ring", "MINE": "1"}}
    ]


def test_helpers_of_python_are_no_workers(tmp_path):
    faked(tmp_path, 7, ["python", "-c", "from multiprocessing.resource_tracker import main; main(30)"], {"NCCL_A": "1"})
    assert read_processes([7], proc=tmp_path) == []


def test_a_process_whose_environment_is_gone_is_no_worker_without_variables(tmp_path):
    faked(tmp_path, 7, ["VLLM::Worker"], {})
    assert read_processes([7], asked=["NCCL_ALGO"], proc=tmp_path) == []


def test_a_real_process_shows_what_it_began_with():
    code = "import os, sys; os.environ['NCCL_PROTO'] = 'Simple'; print('up', flush=True); sys.stdin.read()"
    environment = {**os.environ, "NCCL_PROTO": "LL"}
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", code], env=environment, stdin=pipe, stdout=pipe) as child:
        child.stdout.readline()
        (found,) = read_processes([child.pid])
        child.stdin.close()
    assert found.environment["NCCL_PROTO"] == "LL"


def test_what_the_engine_sets_anew_for_its_workers_is_told_and_what_differs_by_rank_is_not():
    server = process(NCCL_CUMEM_ENABLE="1", SGLANG_X="a")
    one = process(NCCL_CUMEM_ENABLE="0", SGLANG_X="a", CUDA_DEVICE_MAX_CONNECTIONS="8", NCCL_RANK="0")
    two = process(NCCL_CUMEM_ENABLE="0", SGLANG_X="a", CUDA_DEVICE_MAX_CONNECTIONS="8", NCCL_RANK="1")
    assert overwritten([server, one, two]) == {
        "CUDA_DEVICE_MAX_CONNECTIONS": {"server": "", "worker": "8"},
        "NCCL_CUMEM_ENABLE": {"server": "1", "worker": "0"},
    }
    assert overwritten([server]) == {}


def test_a_variable_that_reached_every_process_is_no_finding():
    assert undelivered({"NCCL_ALGO": "Ring"}, [process(NCCL_ALGO="Ring"), process(NCCL_ALGO="Ring")]) == []


def test_a_lost_variable_is_told_with_worker_and_place():
    asked = {"NCCL_ALGO": "Ring", "NCCL_CUMEM_ENABLE": "1"}
    server = process(**asked)
    worker = process(pid=42, NCCL_CUMEM_ENABLE="0")
    assert undelivered(asked, [server, process(pid=41, **asked), worker]) == [
        "worker 42 (VLLM::Worker_TP0) does not see NCCL_ALGO, asked for 'Ring': lost between the server's start and "
        "the worker's, by the engine or what starts its workers",
        "worker 42 (VLLM::Worker_TP0) sees NCCL_CUMEM_ENABLE='0', asked for '1': lost between the server's start and "
        "the worker's, by the engine or what starts its workers",
    ]


def test_a_variable_that_never_reached_the_server_was_lost_before_it():
    texts = undelivered({"NCCL_ALGO": "Ring"}, [process(), process(pid=9)])
    assert [text.split(":")[-1].strip() for text in texts] == [
        "it had not arrived when the server began (a wrapper in front of it)"
    ] * 2
    assert texts[0].startswith("the server does not see NCCL_ALGO")


def test_a_worker_may_have_its_share_of_the_cards_that_were_asked_for():
    asked = {"CUDA_VISIBLE_DEVICES": "0,1"}
    server = process(CUDA_VISIBLE_DEVICES="0,1")
    assert undelivered(asked, [server, process(CUDA_VISIBLE_DEVICES="1")]) == []
    assert len(undelivered(asked, [server, process(CUDA_VISIBLE_DEVICES="2")])) == 1
