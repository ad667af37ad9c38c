"""How steps end: the likeliest token, and what a step or cycle does to the sequences. One launch each.

All sequences are lanes of one warp: what it reads, the clock too, it has read before it goes on to write.

Legend: ops.py, sequences.py; P programs that share a row.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from model.kernels.parts import launch_options, wait_for_others
from model.kernels.tuning import power_of_two
from model.sampling import GOLDEN, PLASTIC, PREFILL
from model.sequences import Sequences

BLOCK, NUM_WARPS = 1024, 4
MOST_PROGRAMS = 64  # of one row


@triton.jit
def best_kernel(
    logits_ptr, ids_ptr, values_ptr, places_ptr, arrived_ptr, out_ptr, out_stride, V,
    P: tl.constexpr, BLOCK: tl.constexpr, HAS_IDS: tl.constexpr, EARLY: tl.constexpr,
):  # fmt: skip
    """Of equals the first. Not-a-number is never the best; where there is nothing else the first id is taken."""
    wait_for_others(EARLY)
    p, r = tl.program_id(0), tl.program_id(1)
    best, place = tl.full([BLOCK], float("-inf"), tl.float32), tl.zeros([BLOCK], tl.int32)
    for v0 in range(p * BLOCK, V, P * BLOCK):
        v = v0 + tl.arange(0, BLOCK)
        logits = tl.load(logits_ptr + r.to(tl.int64) * V + v, mask=v < V, other=float("-inf")).to(tl.float32)
        place = tl.where(logits > best, v, place)
        best = tl.where(logits > best, logits, best)
    most = tl.max(best, axis=0)
    tl.store(values_ptr + r * P + p, most)
    tl.store(places_ptr + r * P + p, tl.min(tl.where(best == most, place, V - 1), axis=0))
    tl.debug_barrier()  # all threads have stored before one of them says so
    if tl.atomic_add(arrived_ptr + r, 1, sem="acq_rel") == P - 1:
        # .cg: other programs wrote these, and this one's first-level cache does not know of it.
        all_best = tl.load(values_ptr + r * P + tl.arange(0, P), cache_modifier=".cg")
        all_places = tl.load(places_ptr + r * P + tl.arange(0, P), cache_modifier=".cg")
        found = tl.min(tl.where(all_best == tl.max(all_best, axis=0), all_places, V - 1), axis=0)
        tl.store(out_ptr + r * out_stride, tl.load(ids_ptr + found) if HAS_IDS else found)
        tl.store(arrived_ptr + r, 0)


@triton.jit
def append_kernel(
    choice_ptr, length_ptr, asked_ptr, outcome_ptr, clock_ptr, max_len,
    B: tl.constexpr, BLOCK_B: tl.constexpr, T: tl.constexpr, EARLY: tl.constexpr,
):  # fmt: skip
    wait_for_others(EARLY)
    b = tl.arange(0, BLOCK_B)
    is_one = b < B
    length, choice = tl.load(length_ptr + b, mask=is_one), tl.load(choice_ptr + b, mask=is_one)
    has_room = is_one & (length < max_len)
    tl.store(outcome_ptr + b * (T + 1), choice, mask=is_one)
    tl.store(outcome_ptr + b * (T + 1) + T, has_room.to(tl.int64), mask=is_one)
    tl.store(asked_ptr + b * T, choice, mask=has_room)
    tl.store(length_ptr + b, length + 1, mask=has_room)
    tl.store(clock_ptr, tl.load(clock_ptr) + 1)


@triton.jit
def agreed_by_coins(
    rates_ptr, clock, b, B: tl.constexpr, T: tl.constexpr, PREFILL: tl.constexpr, GOLDEN: tl.constexpr,
    PLASTIC: tl.constexpr,
):  # fmt: skip
    """sampling.accept_synthetic of sampling.even_coins."""
    coin = (clock % PREFILL * B + b).to(tl.float64) * tl.full([], GOLDEN, tl.float64)
    coin = coin + (clock // PREFILL).to(tl.float64) * tl.full([], PLASTIC, tl.float64)
    coin = coin - tl.floor(coin)
    agreed = b.to(tl.int64) * 0
    for j in tl.static_range(T - 1):
        agreed += (coin < tl.load(rates_ptr + j)).to(tl.int64)
    return agreed


@triton.jit
def agreed_by_target(asked_ptr, verified_ptr, b, is_one, T: tl.constexpr):
    """sequences.num_agreed."""
    agreed = b.to(tl.int64) * 0
    for j in tl.static_range(T - 1):
        drafted = tl.load(asked_ptr + b * T + 1 + j, mask=is_one, other=0)
        verified = tl.load(verified_ptr + b * T + j, mask=is_one, other=0)
        agreed += ((agreed == j) & (drafted == verified)).to(tl.int64)
    return agreed


@triton.jit
def accept_kernel(
    given_ptr, length_ptr, asked_ptr, verified_ptr, next_ptr, ext_start_ptr, read_row_ptr, draft_slot_ptr,
    outcome_ptr, clock_ptr, max_len,
    B: tl.constexpr, BLOCK_B: tl.constexpr, T: tl.constexpr, RULE: tl.constexpr, PREFILL: tl.constexpr,
    GOLDEN: tl.constexpr, PLASTIC: tl.constexpr, EARLY: tl.constexpr,
):  # fmt: skip
    """`given`: rates_K where RULE is "coins", agreed_B where it is "given"; else the target's tokens decide."""
    wait_for_others(EARLY)
    b = tl.arange(0, BLOCK_B)
    is_one = b < B
    clock = tl.load(clock_ptr)
    if RULE == "given":
        agreed = tl.load(given_ptr + b, mask=is_one, other=0)
    elif RULE == "coins":
        agreed = agreed_by_coins(given_ptr, clock, b, B, T, PREFILL, GOLDEN, PLASTIC)
    else:
        agreed = agreed_by_target(asked_ptr, verified_ptr, b, is_one, T)
    length = tl.load(length_ptr + b, mask=is_one, other=0)
    has_room = is_one & (length + T <= max_len)
    newest = tl.zeros([BLOCK_B], tl.int64)
    for j in tl.static_range(T):
        token = tl.load(verified_ptr + b * T + j, mask=is_one, other=0)
        if j < T - 1:
            token = tl.where(j < agreed, tl.load(asked_ptr + b * T + 1 + j, mask=is_one, other=0), token)
        newest = tl.where(j == agreed, token, newest)
        tl.store(outcome_ptr + b * (T + 1) + j, token, mask=is_one)
        tl.store(next_ptr + b * T + j, token, mask=is_one)
    tl.store(outcome_ptr + b * (T + 1) + T, tl.where(has_room, agreed + 1, 0), mask=is_one)
    tl.store(ext_start_ptr + b, length, mask=has_room)
    tl.store(read_row_ptr + b, agreed, mask=has_room)
    for j in tl.static_range(T - 1):
        tl.store(draft_slot_ptr + j * B + b, length + agreed + j, mask=has_room)
    tl.store(asked_ptr + b * T, newest, mask=has_room)
    tl.store(length_ptr + b, length + agreed + 1, mask=has_room)
    tl.store(clock_ptr, clock + 1)


def best(
    arrived_X: Tensor, logits_RV: Tensor, ids_D: Tensor | None = None, out_R: Tensor | None = None
) -> Tensor:
    """`arrived_X`: an int32 zero a row, that stays zero between launches; kernels of one stream may share them."""
    num_rows, size = logits_RV.shape
    out_R = torch.empty(num_rows, dtype=torch.int64, device=logits_RV.device) if out_R is None else out_R
    num_programs = min(MOST_PROGRAMS, power_of_two(triton.cdiv(size, BLOCK)))
    values_RP = torch.empty(num_rows, num_programs, dtype=torch.float32, device=logits_RV.device)
    best_kernel[(num_programs, num_rows)](
        logits_RV, arrived_X if ids_D is None else ids_D, values_RP, torch.empty_like(values_RP, dtype=torch.int32),
        arrived_X, out_R, out_R.stride(0), size,
        P=num_programs, BLOCK=BLOCK, HAS_IDS=ids_D is not None, num_warps=NUM_WARPS, **launch_options(logits_RV),
    )  # fmt: skip
    return out_R


def append(sequences: Sequences, choice_B: Tensor, max_len: int) -> None:
    s, batch = sequences, len(sequences.length_B)
    append_kernel[(1,)](
        choice_B, s.length_B, s.asked_BT, s.outcome_BX, s.clock, max_len,
        B=batch, BLOCK_B=power_of_two(batch), T=s.num_rows, num_warps=1, **launch_options(choice_B),
    )  # fmt: skip


def accept(
    sequences: Sequences, max_len: int, *, rates_K: Tensor | None = None, agreed_B: Tensor | None = None
) -> None:
    s, batch = sequences, len(sequences.length_B)
    given, rule = (s.length_B, "agreed") if rates_K is None else (rates_K, "coins")
    given, rule = (given, rule) if agreed_B is None else (agreed_B, "given")
    accept_kernel[(1,)](
        given, s.length_B, s.asked_BT, s.verified_BT, s.next_tokens_BT, s.ext_start_B, s.read_row_B, s.draft_slot_KB,
        s.outcome_BX, s.clock, max_len,
        B=batch, BLOCK_B=power_of_two(batch), T=s.num_rows, RULE=rule, PREFILL=PREFILL, GOLDEN=GOLDEN,
        PLASTIC=PLASTIC, num_warps=1, **launch_options(s.length_B),
    )  # fmt: skip
