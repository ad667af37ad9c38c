"""Writes tiny random checkpoints with transformers, which is the independent model they are held against."""

import torch
import transformers

SIZES = {
    "vocab_size": 61,
    "hidden_size": 32,
    "num_hidden_layers": 8,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "num_experts_per_tok": 2,
    "rope_parameters": {"rope_type": "default", "rope_theta": 1e6},
    "bos_token_id": None,
    "eos_token_id": None,
}
QWEN3 = {"head_dim": 16, "moe_intermediate_size": 24, "num_experts": 6, "norm_topk_prob": True, "rms_norm_eps": 1e-6}
MIXTRAL = {"intermediate_size": 24, "num_local_experts": 6, "rms_norm_eps": 1e-5}


def random_model(family, **changes):
    """fp32, in eval mode. Weights large enough that a wrong one shows: transformers' own are nearly silent."""
    torch.manual_seed(11)
    if family == "qwen3":
        model = transformers.Qwen3MoeForCausalLM(transformers.Qwen3MoeConfig(**{**SIZES, **QWEN3, **changes}))
    else:
        model = transformers.MixtralForCausalLM(transformers.MixtralConfig(**{**SIZES, **MIXTRAL, **changes}))
    with torch.no_grad():
        for x in model.parameters():
            x.copy_(torch.rand_like(x) + 0.5 if x.dim() == 1 else torch.randn_like(x) * x.shape[-1] ** -0.5)
    return model.eval()
