"""Weights and sessions the model tests share. Random weights are seeded; trained ones come with the project."""

import json
from pathlib import Path

import pytest
import torch

from model.config import DraftConfig, TargetConfig
from model.decoder import Decoder
from model.eagle3 import Draft
from model.entry import build
from model.train import initialise
from model.weights import save

TRAINED = Path(__file__).resolve().parents[2] / "runners" / "assets" / "tiny"

# Small, and with every option switched on: a shared expert, norms on q and k.
SMALL_TARGET = TargetConfig(
    vocab_size=97,
    num_layers=7,
    hidden_size=48,
    num_heads=4,
    num_kv_heads=2,
    head_dim=16,
    num_experts=4,
    top_k=2,
    expert_size=24,
    shared_size=32,
    qk_norm=True,
)
SMALL_DRAFT = DraftConfig(
    vocab_size=97,
    target_hidden_size=48,
    hidden_size=48,
    num_heads=4,
    num_kv_heads=2,
    head_dim=16,
    inner_size=80,
)


@pytest.fixture(scope="session", autouse=True)
def one_thread():
    torch.set_num_threads(1)


@pytest.fixture(scope="session")
def random_folder(tmp_path_factory):
    """Random weights: the draft knows nothing of the target."""
    folder = tmp_path_factory.mktemp("random")
    save(initialise(Decoder(SMALL_TARGET), 3), folder / "target.safetensors", torch.float32)
    save(initialise(Draft(SMALL_DRAFT), 4), folder / "draft.safetensors", torch.float32)
    return folder


@pytest.fixture(scope="session")
def trained_folder():
    return TRAINED


@pytest.fixture(scope="session")
def trained_prompts(trained_folder):
    return json.loads((trained_folder / "prompts.json").read_text())["prompts"][:3]


@pytest.fixture(scope="session")
def small_target():
    return initialise(Decoder(SMALL_TARGET), 3).double().requires_grad_(False)


@pytest.fixture(scope="session")
def small_draft():
    return initialise(Draft(SMALL_DRAFT), 4).double().requires_grad_(False)


@pytest.fixture
def open_session():
    """open_session(folder, dtype="float64", num_draft_tokens=3, ...)"""

    def open_(folder, **spec):
        files = {name: str(folder / f"{name}.safetensors") for name in ("target", "draft")}
        return build(files | {"dtype": "float64", "max_len": 256} | spec)

    return open_
