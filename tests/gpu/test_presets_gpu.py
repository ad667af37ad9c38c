"""Presets on CUDA: the bits of the CPU, the memory that was stated, and coins inside graphs."""

import time

import pytest
import torch

from model.decoder import Decoder
from model.entry import build
from model.evaluate import generate
from model.parallel import SINGLE
from model.presets import generate as fill_random
from model.presets import preset_of

pytestmark = pytest.mark.gpu
PROMPTS = [[5, 9, 200, 31], [7, 7, 1]]


@pytest.fixture(autouse=True)
def device():
    if not torch.cuda.is_available():
        pytest.skip("no CUDA device is visible")
    return torch.device("cuda", 0)


def test_cuda_makes_the_weights_of_the_cpu(device):
    config = preset_of("tiny").target
    whole = Decoder(config)
    states = []
    for place in (torch.device("cpu"), device):
        module = Decoder(config).to(place).requires_grad_(False)
        fill_random(module, whole, config, 3, SINGLE)
        states.append(module.state_dict())
    assert all(torch.equal(x, states[1][name].cpu()) for name, x in states[0].items())


@pytest.mark.parametrize("name", ["qwen3-30b-a3b", "mixtral-8x7b"])
def test_twelve_layers_take_no_more_memory_than_stated(device, name):
    torch.cuda.reset_peak_memory_stats(device)
    before, begin = torch.cuda.memory_allocated(device), time.perf_counter()
    spec = {"target": f"preset:{name}?layers=12", "draft": f"preset:{name}", "dtype": "bfloat16", "device": "cuda"}
    session = build(spec | {"batch": 2, "max_len": 64, "num_draft_tokens": 2, "accept_rates": [1.0, 0.0]})
    session.synchronize()
    loaded_s = time.perf_counter() - begin
    _, emitted = generate(session, PROMPTS, 21, "eagle3")
    taken = torch.cuda.max_memory_allocated(device) - before
    print(f"{name}: loaded in {loaded_s:.1f} s, took {taken / 1e9:.2f} GB of {session.memory.total_bytes / 1e9:.2f}")
    assert session.memory.weights_bytes < taken < session.memory.total_bytes
    assert {count for row in emitted for count in row} == {2}
    session.close()


@pytest.mark.parametrize("mode", ["plain", "eagle3"])
def test_graphs_throw_the_coins_that_steps_without_graphs_throw(mode):
    spec = {"target": "preset:tiny", "draft": "preset:tiny", "device": "cuda", "kernels": "torch", "batch": 2}
    runs = []
    for graphs in ("on", "off"):
        session = build(spec | {"graphs": graphs, "temperature": 1.0, "sampling_seed": 3, "max_len": 64})
        runs.append(generate(session, PROMPTS, 20, mode)[0])
        session.close()
    assert runs[0] == runs[1]
