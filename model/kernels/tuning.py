"""Tiles of the kernels by number of rows.

To be chosen inside a whole step, not alone: a tile that wins when a kernel is timed by itself need not be the one that
wins in the step. Must not import triton, so that the table can be read anywhere.
"""

from dataclasses import dataclass

# Up to here the router's threads hold the sums of all rows in registers; above, and elsewhere, several rows go through
# tensor cores.
FEW = 4


@dataclass(frozen=True, kw_only=True)
class Tile:
    """Rows of weights a program owns, warps it has, parts that K is cut into; see parts.py."""

    rows: int
    warps: int
    split: int = 1


@dataclass(frozen=True, kw_only=True)
class DotTile:
    """Rows of weights x columns (rows of x), `depth` at a time, `stages` loads in flight.

    `split`: programs that share a tile (dots.py).
    """

    rows: int
    columns: int
    depth: int
    warps: int = 4
    stages: int = 3
    split: int = 1


def linear_tile(num_rows: int, num_outputs: int, size: int) -> Tile | DotTile:
    """qkv and lm_head have more outputs than inputs; o_proj has fewer, so that programs share them."""
    is_head, is_shared = num_outputs > 8 * size, num_outputs <= size
    if 1 < num_rows <= FEW and not is_head:
        return dot_tile(num_rows, size, depth=256, split=4 if is_shared else 1)
    if num_rows > 1:
        return dot_tile(num_rows, size, stages=5, split=8 if is_shared else 1)
    if is_shared:
        return fitting(Tile(rows=4, warps=8, split=4), num_outputs, size)
    return fitting(Tile(rows=4, warps=4) if is_head else Tile(rows=16, warps=8), num_outputs, size)


def router_tile(num_rows: int, num_experts: int, size: int) -> Tile:
    tile = Tile(rows=1, warps=8, split=8) if num_rows == 1 else Tile(rows=2, warps=4, split=4)
    return fitting(tile, num_experts, size)


def gate_up_tile(num_rows: int, inner_size: int, size: int) -> Tile | DotTile:
    if num_rows == 1:
        return fitting(Tile(rows=16, warps=4), inner_size, size)
    return dot_tile(num_rows, size, depth=64, narrowest=8)


def down_tile(num_rows: int, num_outputs: int, size: int) -> Tile | DotTile:
    """Here `split` is over experts, not over K."""
    if num_rows == 1:
        return fitting(Tile(rows=8, warps=8, split=4), num_outputs)
    if num_rows <= FEW:
        return dot_tile(num_rows, size, split=16)
    return dot_tile(num_rows, size, stages=5, split=8)


def fitting(tile: Tile, num_outputs: int, size: int = 0) -> Tile:
    """Smaller where the matrix is: K is cut only where the parts still fill the lanes of a warp."""
    rows = min(tile.rows, num_outputs & -num_outputs)
    split = tile.split if not size or size % (64 * tile.split) == 0 else 1
    return Tile(rows=rows, warps=min(tile.warps, max(1, rows * split)), split=split)


def dot_tile(
    num_rows: int, size: int, *, depth: int = 128, stages: int = 3, split: int = 1, narrowest: int = 16
) -> DotTile:
    """All rows of x in one tile up to 64, so that weights are read once. `narrowest`: columns at least, 8 or more."""
    columns = min(64, max(narrowest, power_of_two(num_rows)))
    depth = min(depth if columns <= 32 else 64, size & -size)  # check_widths sees to at least 16
    return DotTile(rows=64, columns=columns, depth=depth, stages=stages if columns <= 32 else 3, split=split)


def power_of_two(size: int) -> int:
    """The next one that is not smaller."""
    return 1 << (size - 1).bit_length()
