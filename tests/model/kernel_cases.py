"""What a kernel computes against what PyTorch computes, on the same inputs: CASES, attention, and the ends of steps.

Each gives the largest difference as a part of the largest value, or a count of what is wrong. Runs where triton can be
imported; kernels_worker.py says how.
"""

from dataclasses import fields, replace

import torch

from model.attention import KVCache
from model.kernels.ops import DraftNorms, Heads, Residual
from model.kernels.plain import build_plain_ops
from model.kernels.triton_ops import build_triton_ops
from model.layers import build_rope
from model.sampling import PREFILL
from model.sequences import new_sequences

# No powers of two, so that every tile has an end that is masked.
HIDDEN, EXPERTS, TOP_K, INNER, HEAD, EPS = 80, 6, 2, 48, 16, 1e-6


class Inputs:
    """Of one number of rows: a residual stream, its twin, weights, and a routing."""

    def __init__(self, num_rows, dtype, device):
        random = torch.Generator().manual_seed(num_rows)

        def draw(*shape, dtype=dtype):
            return torch.randn(shape, generator=random).to(device, dtype)

        self.plain, self.kernels = build_plain_ops(), build_triton_ops(device)
        self.dtype = dtype
        self.h_RH, self.gamma_H = draw(num_rows, HIDDEN, dtype=torch.float32), draw(HIDDEN)
        self.x_RH = (self.h_RH * self.gamma_H).to(dtype)
        self.w_NH, self.o_HN = draw(96, HIDDEN), draw(HIDDEN, 128)
        self.x_RN = draw(num_rows, 128)
        self.router_EH, self.gate_up_EXIH = draw(EXPERTS, HIDDEN), draw(EXPERTS, 2, INNER, HIDDEN) / 8
        self.tokens_R = (torch.arange(3 * num_rows, device=device) * 7 % 96)[::3]  # as the newest of several rows
        self.down_HEI = draw(EXPERTS, HIDDEN, INNER).transpose(0, 1)
        self.routing = self.plain.route(self.x_RH, self.h_RH, self.router_EH, EPS, TOP_K)
        self.a_SRI = self.plain.gate_up(self.x_RH, self.gate_up_EXIH, self.routing)

    def residual(self):
        """With a tap among other numbers, as one of several side by side."""
        tap_RH = self.x_RH.new_zeros(len(self.h_RH), 3 * HIDDEN)[:, HIDDEN : 2 * HIDDEN]
        return Residual(h_RH=self.h_RH.clone(), gamma_H=self.gamma_H, tap_RH=tap_RH)


def difference(ours, theirs):
    ours, theirs = ours.double(), theirs.double()
    return ((ours - theirs).abs().max() / theirs.abs().max()).item()


def compare_norm_linear(i):
    """With more outputs than inputs, and with fewer, so that programs share a tile."""
    products = ((i.x_RH, i.h_RH, i.w_NH), (i.x_RN, i.x_RN.float() * 3, i.o_HN))
    ours, theirs = ([o.norm_linear(*p, EPS, torch.float32) for p in products] for o in (i.kernels, i.plain))
    return compare_both(ours, theirs)


def compare_norm_by_squares(i):
    """In 5 parts, as no kernel leaves them."""
    squares_RP = i.h_RH.square().unflatten(1, (5, 16)).sum(-1)
    theirs = i.plain.norm_linear(i.x_RH, i.h_RH, i.w_NH, EPS, torch.float32)
    return difference(i.kernels.norm_linear(i.x_RH, i.h_RH, i.w_NH, EPS, torch.float32, squares_RP), theirs)


def compare_linear(i):
    """Cut into as many slices as a program may share, and into fewer."""
    short, w_NK = i.x_RN[:, :80].contiguous(), i.o_HN[:16, :80].contiguous()
    few = difference(*(o.norm_linear(short, None, w_NK, 0.0, i.dtype) for o in (i.kernels, i.plain)))
    ours, theirs = (o.norm_linear(i.x_RN, None, i.o_HN, 0.0, i.dtype) for o in (i.kernels, i.plain))
    return max(few, difference(ours, theirs))


def compare_add_linear(i):
    a, b = i.residual(), i.residual()
    i.kernels.add_linear(i.x_RN, i.o_HN, i.residual())  # twice, for the same reason as `route`
    ours, squares_RP = i.kernels.add_linear(i.x_RN, i.o_HN, a)
    theirs, _ = i.plain.add_linear(i.x_RN, i.o_HN, b)
    return max(difference(ours, theirs), of_residuals(a, b), of_squares(squares_RP, b.h_RH))


def compare_route(i):
    """Twice, since the second launch finds what the first left of its counter; the first reads squares in two parts."""
    squares_RP = i.h_RH.square().unflatten(1, (2, -1)).sum(-1)
    by_squares = i.kernels.route(i.x_RH, i.h_RH, i.router_EH, EPS, TOP_K, squares_RP)
    ours = i.kernels.route(i.x_RH, i.h_RH, i.router_EH, EPS, TOP_K)
    count = i.routing.count_1.item()
    same_list = ours.count_1.item() == count and torch.equal(ours.ids_S[:count], i.routing.ids_S[:count])
    if not same_list:
        return float("inf")
    found = [(one, name) for one in (ours, by_squares) for name in ("weights_RE", "scale_R")]
    return max(difference(getattr(one, name), getattr(i.routing, name)) for one, name in found)


def compare_gate_up(i):
    ours = i.kernels.gate_up(i.x_RH, i.gate_up_EXIH, i.routing)
    count = i.routing.count_1.item()
    return difference(ours[:count], i.a_SRI[:count])


def poisoned(i):
    """What slots hold that are not in use must not matter."""
    a_SRI = i.a_SRI.clone()
    a_SRI[i.routing.count_1.item() :] = float("nan")
    ids_S = i.routing.ids_S.clone()
    ids_S[i.routing.count_1.item() :] = 2**30
    return a_SRI, replace(i.routing, ids_S=ids_S)


def compare_down(i):
    """Twice, for the same reason."""
    a_SRI, routing = poisoned(i)
    i.kernels.down(a_SRI, i.down_HEI, routing)
    return difference(i.kernels.down(a_SRI, i.down_HEI, routing), i.plain.down(i.a_SRI, i.down_HEI, i.routing))


def compare_add_down(i):
    a, b = i.residual(), i.residual()
    a_SRI, routing = poisoned(i)
    ours, squares_RP = i.kernels.add_down(a_SRI, i.down_HEI, routing, a)
    theirs, _ = i.plain.add_down(i.a_SRI, i.down_HEI, i.routing, b)
    return max(difference(ours, theirs), of_residuals(a, b), of_squares(squares_RP, b.h_RH))


def of_residuals(a, b):
    """The streams, and the taps with what lies beside them."""
    return max(difference(a.h_RH, b.h_RH), difference(a.tap_RH._base, b.tap_RH._base))


def of_squares(squares_RP, h_RH):
    """How far sums of squares are off, if there are any."""
    return 0.0 if squares_RP is None else difference(squares_RP.sum(-1), h_RH.square().sum(-1))


def compare_both(ours, theirs):
    return max(difference(*pair) for pair in zip(ours, theirs, strict=True))


def compare_embed(i):
    (x_RH, squares_RP, h_RH), (plain_RH, _, wide_RH) = (
        o.embed(i.tokens_R, i.w_NH, i.gamma_H) for o in (i.kernels, i.plain)
    )
    return max(compare_both((x_RH, h_RH), (plain_RH, wide_RH)), of_squares(squares_RP, wide_RH))


def compare_add(i):
    """As ranks do that have added up their sums."""
    a, b = i.residual(), i.residual()
    (ours, squares_RP), (theirs, _) = i.kernels.add(i.x_RH, a), i.plain.add(i.x_RH, b)
    return max(difference(ours, theirs), of_residuals(a, b), of_squares(squares_RP, b.h_RH))


def compare_join(i):
    """With features as fc gives them, and wide ones as the step before does; with both kinds of residual."""
    found = []
    for feature_RH, is_normed in ((i.x_RH, True), (i.h_RH, False)):
        norms = DraftNorms(token_H=i.gamma_H, feature_H=i.gamma_H * 2, eps=EPS, is_residual_normed=is_normed)
        for row_B in (None, last_rows(len(i.x_RN) // 5 or 1, i.x_RN)):
            both = [o.join(i.tokens_R, i.w_NH, feature_RH, norms, row_B) for o in (i.kernels, i.plain)]
            found.append(compare_both(*both))
    return max(found)


def last_rows(batch, x_RX):
    """Of as many sequences: the last row, of the next one the one before, and so on."""
    num_rows = len(x_RX) // batch
    return num_rows - 1 - torch.arange(batch, device=x_RX.device) % num_rows


def compare_gated_linear(i):
    """As a draft's MLP and a shared expert: with squares and without."""
    weight_XH = i.gate_up_EXIH[1].flatten(0, 1)
    squares_RP = i.h_RH.square().unflatten(1, (5, 16)).sum(-1)
    theirs = i.plain.gated_linear(i.x_RH, i.h_RH, weight_XH, EPS)
    both = [i.kernels.gated_linear(i.x_RH, i.h_RH, weight_XH, EPS, squares) for squares in (None, squares_RP)]
    return max(difference(ours, theirs) for ours in both)


def compare_best(i):
    """Twice, for the same reason as `route`. Some rows have their largest twice: the first counts."""
    logits_RV = torch.randn(len(i.x_RH), 3000, generator=torch.Generator().manual_seed(1)).to(i.h_RH.device)
    logits_RV[::2, [7, 2999, 1500]] = 9.0
    logits_RV[1::2, 40] = float("nan")
    sound_RV = logits_RV.nan_to_num(-1.0)
    ids_D = torch.arange(3000, device=i.h_RH.device) * 3 + 1
    wrong = 0
    for ids in (None, ids_D):
        found_RK = torch.zeros(len(i.x_RH), 2, dtype=torch.int64, device=i.h_RH.device)
        i.kernels.best(logits_RV, ids, found_RK[:, 1])
        wrong += int((found_RK[:, 1] != i.plain.best(sound_RV, ids)).sum()) + int(found_RK[:, 0].sum())
    nothing_RV = torch.full_like(logits_RV, float("nan"))
    wrong += int(i.kernels.best(nothing_RV).sum())  # the first id
    return float(wrong)


CASES = {
    "embed": compare_embed,
    "add": compare_add,
    "join": compare_join,
    "gated_linear": compare_gated_linear,
    "best": compare_best,
    "norm_linear": compare_norm_linear,
    "norm_by_squares": compare_norm_by_squares,
    "linear": compare_linear,
    "add_linear": compare_add_linear,
    "route": compare_route,
    "gate_up": compare_gate_up,
    "down": compare_down,
    "add_down": compare_add_down,
}


def compare_attention(batch, num_rows, dtype, device, *, has_norm):
    """4 query heads on 2 KV heads; lengths 0, 37 and 50 of 64 slots; those behind are NaN. All rows, then one each."""
    random = torch.Generator().manual_seed(10 * batch + num_rows)

    def draw(*shape):
        return torch.randn(shape, generator=random).to(device, dtype)

    length_B = torch.tensor([37, 0, 50][:batch], device=device)
    norms = {"q_norm_D": draw(HEAD), "k_norm_D": draw(HEAD)} if has_norm else {"q_norm_D": None, "k_norm_D": None}
    heads = Heads(num_heads=4, num_kv_heads=2, head_dim=HEAD, norm_eps=EPS, **norms)
    rope = build_rope(num_positions=64, head_dim=HEAD, theta=100.0, dtype=dtype, device=device)
    qkv_RX, k_BGPD, v_BGPD = draw(batch * num_rows, 8 * HEAD), draw(batch, 2, 64, HEAD), draw(batch, 2, 64, HEAD)

    def attended(ops, stale, row_B):
        """What comes out, and what is stored."""
        both = (k_BGPD.clone(), v_BGPD.clone())
        for x in both:
            for b, length in enumerate(length_B.tolist()):
                x[b, :, length:] = stale
        out = ops.attend(qkv_RX, KVCache(k_BGPD=both[0], v_BGPD=both[1]), length_B, rope, heads, row_B)
        return [out, *(x[b, :, : n + num_rows] for x in both for b, n in enumerate(length_B))]

    kinds = ((build_triton_ops(device), float("nan")), (build_plain_ops(), 0.0))
    return max(
        compare_both(*(attended(ops, stale, row_B) for ops, stale in kinds))
        for row_B in (None, last_rows(batch, qkv_RX))
    )


def compare_ends(batch, num_drafted, device):
    """How many numbers of the sequences differ after the ends of some steps; every third sequence is full."""
    max_len, random = 60, torch.Generator().manual_seed(batch)
    rates_K = torch.tensor([0.8, 0.5, 0.3, 0.1][:num_drafted], dtype=torch.float64, device=device)
    ends = (
        lambda ops, s: ops.accept(s, max_len),
        lambda ops, s: ops.accept(s, max_len, rates_K=rates_K),
        lambda ops, s: ops.accept(s, max_len, agreed_B=s.verified_BT[:, 0] % (num_drafted + 1)),
        lambda ops, s: ops.append(s, s.verified_BT[:, -1].contiguous(), max_len),
    )
    wrong = 0
    for step in range(40):
        both = [
            new_sequences(batch=batch, num_draft_tokens=num_drafted, taps_size=1, dtype=torch.float32, device=device)
            for _ in range(2)
        ]
        shapes = {field.name: getattr(both[0], field.name).shape for field in fields(both[0])}
        values = {name: torch.randint(0, 4, shape, generator=random) for name, shape in shapes.items()}
        values["length_B"] += torch.where(torch.arange(batch) % 3 == 2, max_len - 3, 0)
        values["clock"] += step * (PREFILL + 17)
        for s, ops in zip(both, (build_triton_ops(device), build_plain_ops()), strict=True):
            for name, value in values.items():
                getattr(s, name).copy_(value)
            ends[step % len(ends)](ops, s)
        wrong += sum(int((getattr(both[0], name) != getattr(both[1], name)).sum()) for name in values)
    return float(wrong)
