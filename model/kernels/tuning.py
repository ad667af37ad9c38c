"""Tiles of the kernels by number of rows.

To be chosen inside a whole step, not alone: a tile that wins when a kernel is timed by itself need not be the one that
wins in the step. Must not import triton, so that the table can be read anywhere.
"""

from dataclasses import dataclass

# Up to here the sums of all rows fit into the registers of the threads that read the weights.
FEW = 4


@dataclass(frozen=True, kw_only=True)
class Tile:
    """Rows of weights a program owns, warps it has, parts that K is cut into; see parts.py."""

    rows: int
    warps: int
    split: int = 1


@dataclass(frozen=True, kw_only=True)
class DotTile:
    """Rows of weights x columns (rows of x), `depth` at a time, `stages` loads in flight."""

    rows: int
    columns: int
    depth: int
    warps: int = 4
    stages: int = 3


def linear_tile(num_rows: int, num_outputs: int, size: int) -> Tile:
    """qkv and lm_head have more outputs than inputs, o_proj has fewer."""
    is_wide = num_outputs > size
    if num_rows == 1:
        tile = Tile(rows=16, warps=8) if num_outputs > 16 * size else Tile(rows=8, warps=4)
        tile = tile if is_wide else Tile(rows=8, warps=8, split=2)
    else:
        tile = Tile(rows=16, warps=8 if is_wide else 16)
    return fitting(tile, num_outputs, size)


def router_tile(num_experts: int, size: int) -> Tile:
    return fitting(Tile(rows=4, warps=8, split=2), num_experts, size)


def gate_up_tile(inner_size: int, size: int) -> Tile:
    return fitting(Tile(rows=4, warps=4), inner_size, size)


def down_tile(num_rows: int, num_outputs: int) -> Tile:
    """Here `split` is over experts, not over K."""
    return fitting(Tile(rows=1, warps=4, split=4) if num_rows == 1 else Tile(rows=4, warps=4, split=4), num_outputs)


def fitting(tile: Tile, num_outputs: int, size: int = 0) -> Tile:
    """Smaller where the matrix is: K is cut only where the parts still fill the lanes of a warp."""
    rows = min(tile.rows, num_outputs & -num_outputs)
    split = tile.split if not size or size % (64 * tile.split) == 0 else 1
    return Tile(rows=rows, warps=min(tile.warps, max(1, rows * split)), split=split)


def dot_tile(num_rows: int, size: int, *, rows: int = 64) -> DotTile:
    """All rows of x in one tile up to 64, so that weights are read once."""
    columns = min(64, max(16, 1 << (num_rows - 1).bit_length()))
    depth = min(128 if columns <= 32 else 64, size & -size)  # check_widths sees to at least 16
    return DotTile(rows=rows, columns=columns, depth=depth)
