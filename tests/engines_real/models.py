"""A mixture-of-experts model, its tokenizer and an EAGLE-3 draft, as small as an engine takes them, from fixed seeds.

Run by an engine's own Python: `python models.py FOLDER TEXT…` writes FOLDER/target and FOLDER/draft; the vocabulary is
learnt from the texts. Random weights: what such a model says means nothing, but it says the same every time. It must
not import anything of this repository, as that is not installed there.
"""

import json
import sys
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import Qwen3MoeConfig, Qwen3MoeForCausalLM

SPECIAL = ("<unk>", "<s>", "</s>", "<pad>")
BOS, EOS, PAD = 1, 2, 3
# V: vocabulary, DV: that of the draft, D: width, F: width of a feed-forward, H: heads, K: heads of keys, C: one head.
V, DV, D, F, H, K, C = 1024, 512, 128, 256, 4, 2, 32
MAX_LENGTH = 2048
CHAT = "{% for message in messages %}{{ message.role }}: {{ message.content }}\n{% endfor %}assistant:"
# Which hidden states of the target feed the draft. It has three inputs, and two layers offer three states.
TAPS = [0, 1, 2]
SHARED: dict[str, Any] = {
    "num_attention_heads": H,
    "num_key_value_heads": K,
    "head_dim": C,
    "hidden_size": D,
    "intermediate_size": F,
    "vocab_size": V,
    "max_position_embeddings": MAX_LENGTH,
    "bos_token_id": BOS,
    "eos_token_id": EOS,
    "tie_word_embeddings": False,
}


def write_tokenizer(folder: Path, texts: list[str]) -> None:
    """Byte-level BPE, learnt from the lines of the texts. Raises ValueError where they are too short for V pieces."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=V, special_tokens=list(SPECIAL), initial_alphabet=alphabet, show_progress=False
    )
    tokenizer.train_from_iterator((line for text in texts for line in text.splitlines()), trainer)
    if tokenizer.get_vocab_size() != V:
        raise ValueError(f"the texts gave {tokenizer.get_vocab_size()} pieces, {V} are needed")
    tokenizer.save(str(folder / "tokenizer.json"))
    unk, bos, eos, pad = SPECIAL
    tokens = {"unk_token": unk, "bos_token": bos, "eos_token": eos, "pad_token": pad}
    about = {"tokenizer_class": "PreTrainedTokenizerFast", "model_max_length": MAX_LENGTH, "chat_template": CHAT}
    (folder / "tokenizer_config.json").write_text(json.dumps(about | tokens))


def write_target(folder: Path, seed: int = 1) -> None:
    """Two layers, eight experts of which a token takes two; bfloat16."""
    torch.manual_seed(seed)
    config = Qwen3MoeConfig(
        **SHARED, pad_token_id=PAD, num_hidden_layers=2, num_experts=8, num_experts_per_tok=2,
        moe_intermediate_size=64, decoder_sparse_step=1, norm_topk_prob=True,
    )  # fmt: skip
    Qwen3MoeForCausalLM(config).to(torch.bfloat16).save_pretrained(folder)


def write_draft(folder: Path, seed: int = 2) -> None:
    """One layer in the form in which EAGLE-3 heads are published; its vocabulary is the first half of the target's."""
    generator = torch.Generator().manual_seed(seed)

    def weight(*shape: int) -> torch.Tensor:
        return (0.02 * torch.randn(*shape, generator=generator)).to(torch.bfloat16)

    linear = {
        "fc": (D, 3 * D),
        "midlayer.self_attn.q_proj": (H * C, 2 * D),
        "midlayer.self_attn.k_proj": (K * C, 2 * D),
        "midlayer.self_attn.v_proj": (K * C, 2 * D),
        "midlayer.self_attn.o_proj": (D, H * C),
        "midlayer.mlp.gate_proj": (F, D),
        "midlayer.mlp.up_proj": (F, D),
        "midlayer.mlp.down_proj": (D, F),
        "lm_head": (DV, D),
    }
    norms = ("midlayer.input_layernorm", "midlayer.hidden_norm", "midlayer.post_attention_layernorm", "norm")
    weights = {f"{name}.weight": weight(*shape) for name, shape in linear.items()}
    weights |= {f"{name}.weight": torch.ones(D, dtype=torch.bfloat16) for name in norms}
    # d2t is added to a draft's id to get the target's: nothing here, as the halves begin at the same piece.
    weights |= {"d2t": torch.zeros(DV, dtype=torch.int64), "t2d": torch.arange(V) < DV}
    save_file(weights, str(folder / "model.safetensors"), metadata={"format": "pt"})
    config = SHARED | {
        "architectures": ["LlamaForCausalLMEagle3"],
        "model_type": "llama",
        "num_hidden_layers": 1,
        "draft_vocab_size": DV,
        "hidden_act": "silu",
        "rms_norm_eps": 1e-6,
        "rope_theta": 10000.0,
        "attention_bias": False,
        "torch_dtype": "bfloat16",
        "eagle_aux_hidden_state_layer_ids": TAPS,
        "eagle_config": {"eagle_aux_hidden_state_layer_ids": TAPS, "use_aux_hidden_state": True},
    }
    (folder / "config.json").write_text(json.dumps(config))


def main(arguments: list[str]) -> int:
    folder, *texts = map(Path, arguments)
    for name in ("target", "draft"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(1)
    write_target(folder / "target")
    write_tokenizer(folder / "target", [text.read_text(encoding="utf-8") for text in texts])
    write_draft(folder / "draft")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
