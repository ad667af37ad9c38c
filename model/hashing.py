"""Random numbers that are a function of (key, index) alone: weights and the coins of sampling.

No state, so a rank makes exactly its share of a tensor, all ranks throw the same coins without talking, and a
graph that counts on replays new numbers. Integers only up to the last multiplication, hence equal to the bit
on CPU and CUDA. Not for secrets.
"""

import hashlib

import torch
from torch import Tensor

MASK = 0xFFFFFFFF
UNIT = 2.0**-24  # 24 bits: every value is exact in fp32


def key_of(*parts: object) -> int:
    """A 32-bit key from text and numbers."""
    text = "/".join(map(str, parts))
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4], "little")


def uniforms(index_X: Tensor, key: int) -> Tensor:
    """fp32 in [0, 1), one for each index (int64, 0 <= index < 2^32)."""
    return (_bits(index_X, key) >> 8).to(torch.float32) * UNIT


def _bits(index_X: Tensor, key: int) -> Tensor:
    """32 random bits. Mixed twice with the key between, so that tensors of two keys share no run of values."""
    return _mix(_mix(index_X.clone()).bitwise_xor_(key))


def _mix(x_X: Tensor) -> Tensor:
    """In place, a bijection of 32-bit numbers: C. Wellons' hash-prospector, "lowbias32" with better constants.

    Both multipliers are below 2^31: products of 32-bit numbers fit into int64.
    """
    for shift, multiplier in ((16, 0x21F0AAAD), (15, 0x735A2D97)):
        x_X.bitwise_xor_(x_X >> shift).mul_(multiplier).bitwise_and_(MASK)
    return x_X.bitwise_xor_(x_X >> 15)
