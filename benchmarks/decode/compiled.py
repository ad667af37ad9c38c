"""What the compiler makes of every kernel at real widths: registers, spills, width of loads, barriers. Needs no GPU.

    PYTHONPATH=. python3 -m benchmarks.decode.compiled --rows 1,3 [--arch 90]

Kernels are called with tensors on the CPU, and each launch is compiled for the card instead of being run. So a change
that makes a kernel spill, or a load narrow, is seen before a card is asked for.
"""

import argparse
import re
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from benchmarks.decode.widths import WIDTHS, Inputs, Widths, random_inputs
from model.kernels.ops import Ops
from model.kernels.triton_ops import build_triton_ops
from model.sequences import new_sequences

TYPES = {
    torch.bfloat16: "*bf16", torch.float32: "*fp32", torch.float64: "*fp64", torch.int32: "*i32", torch.int64: "*i64",
}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", default="1,3", help="rows of a step, with commas between them")
    parser.add_argument("--arch", type=int, default=90)
    asked = parser.parse_args()
    print(f"{'kernel':22}{'rows':>5}{'warps':>6}{'registers':>10}{'spilled':>8}{'16-byte':>8}{'narrower':>9}{'barriers':>9}")
    for num_rows in map(int, asked.rows.split(",")):
        with launches(asked.arch) as found:
            call_all(WIDTHS["qwen3-30b-a3b"], num_rows)
        for name, facts in found:
            print(f"{name:22}{num_rows:5}" + "".join(f"{facts[key]:{width}}" for key, width in COLUMNS.items()))


COLUMNS = {"warps": 6, "registers": 10, "spilled": 8, "wide": 8, "narrow": 9, "barriers": 9}


def call_all(widths: Widths, num_rows: int) -> None:
    """Every operation once, with inputs of the right shapes; nothing is computed."""
    i = random_inputs(widths, num_rows, torch.device("cpu"), is_empty=True)
    ops = build_triton_ops(torch.device("cpu"))
    _, squares_RP, _ = ops.embed(i.tokens_R, i.lm_head_VH, i.residual.gamma_H)
    ops.norm_linear(i.x_RH, i.h_RH, i.qkv_XH, 1e-6, torch.bfloat16, squares_RP)
    ops.attend(i.qkv_RX, i.cache, i.length_B, i.rope, i.heads)
    _, squares_RP = ops.add_linear(i.o_RN, i.o_HN, i.residual)
    routing = ops.route(i.x_RH, i.h_RH, i.router_EH, 1e-6, widths.top_k, squares_RP)
    a_SRI = ops.gate_up(i.x_RH, i.gate_up_EXIH, routing)
    _, squares_RP = ops.add_down(a_SRI, i.down_HEI, routing, replace(i.residual, tap_RH=i.x_RH))
    ops.best(ops.norm_linear(i.x_RH, i.h_RH, i.lm_head_VH, 1e-6, torch.float32, squares_RP))
    ops.add(i.x_RH, i.residual)
    ops.gated_linear(i.x_RH, i.h_RH, i.qkv_XH, 1e-6, squares_RP)
    call_those_of_a_cycle(i, num_rows, ops)


def call_those_of_a_cycle(i: Inputs, num_rows: int, ops: Ops) -> None:
    sequences = new_sequences(
        batch=1, num_draft_tokens=max(1, num_rows - 1), taps_size=1, dtype=torch.bfloat16, device=torch.device("cpu")
    )
    ops.append(sequences, sequences.length_B, 256)
    if num_rows > 1:
        ops.join(i.tokens_R, i.lm_head_VH, i.h_RH, i.draft_norms, sequences.read_row_B)
        ops.attend(i.qkv_RX, i.cache, i.length_B, i.rope, i.heads, sequences.read_row_B)
        ops.accept(sequences, 256)
        ops.accept(sequences, 256, rates_K=torch.empty(num_rows - 1, dtype=torch.float64))


@contextmanager
def launches(arch: int) -> Iterator[list[tuple[str, dict[str, int]]]]:
    """Inside, launching compiles; the list holds what came of each."""
    found: list[tuple[str, dict[str, int]]] = []

    def compile_instead(self: Any, *args: Any, grid: Any, warmup: bool, **kwargs: Any) -> None:
        options: dict[str, int] = {key: kwargs.pop(key) for key in ("num_warps", "num_stages") if key in kwargs}
        # What launch_options would say of the card.
        options["launch_pdl"] = arch >= 90
        values = dict(zip(self.arg_names, args, strict=False)) | kwargs | {"EARLY": arch >= 90}
        found.append((self.fn.__name__, compile_for(self, values, options, arch)))

    kept = triton.runtime.JITFunction.run
    triton.runtime.JITFunction.run = compile_instead
    try:
        yield found
    finally:
        triton.runtime.JITFunction.run = kept


def compile_for(kernel: Any, values: dict[str, Any], options: dict[str, int], arch: int) -> dict[str, int]:
    """As the launcher would: pointers and multiples of 16 are marked as such."""
    signature, constants, attributes = {}, {}, {}
    for place, (name, parameter) in enumerate(zip(kernel.arg_names, kernel.params, strict=True)):
        value = values[name]
        if parameter.is_constexpr or (isinstance(value, int) and value == 1):
            signature[name], constants[name] = "constexpr", value
        elif isinstance(value, torch.Tensor):
            signature[name], attributes[(place,)] = TYPES[value.dtype], [["tt.divisibility", 16]]
        else:
            signature[name] = "fp32" if isinstance(value, float) else "i32"
            if isinstance(value, int) and value % 16 == 0:
                attributes[(place,)] = [["tt.divisibility", 16]]
    source = ASTSource(fn=kernel, signature=signature, constexprs=constants, attrs=attributes)
    compiled = triton.compile(source, target=GPUTarget("cuda", arch, 32), options=options)
    return facts_of(compiled.asm, arch) | {"warps": compiled.metadata.num_warps}


def facts_of(asm: dict[str, Any], arch: int) -> dict[str, int]:
    told = assembler_log(asm["ptx"], arch)
    loads = re.findall(r"ld\.global\S*", asm["ptx"])
    wide = sum(".v4.b32" in load or ".v8.b16" in load for load in loads)
    return {
        "registers": int(re.search(r"Used (\d+) registers", told)[1]),
        "spilled": sum(map(int, re.findall(r"(\d+) bytes spill", told))),
        "wide": wide + asm["ptx"].count("cp.async.cg"),
        "narrow": len(loads) - wide,
        "barriers": asm["ptx"].count("bar.sync"),
    }


def assembler_log(ptx: str, arch: int) -> str:
    tools = Path(triton.__file__).parent / "backends" / "nvidia" / "bin"
    ptxas = max(tools.glob("ptxas*"))  # ptxas-blackwell, where it is there, is the newer one and knows all cards
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "kernel.ptx"
        path.write_text(ptx)
        command = [str(ptxas), "-v", f"--gpu-name=sm_{arch}a", str(path), "-o", f"{folder}/kernel.cubin"]
        return subprocess.run(command, capture_output=True, text=True, check=True).stderr


if __name__ == "__main__":
    main()
