"""What a mapping keeps on chip and how often it loads it: rows of scratchpad and accumulator, reload factors.

All functions take plain integers or NumPy arrays of candidates alike; sizes are in elements, rows are rows of ``dim``
elements of the scratchpad or the accumulator.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias, overload

import numpy as np

Int: TypeAlias = "int | np.ndarray"


@overload
def ceil_div(a: int, b: int) -> int: ...
@overload
def ceil_div(a: Int, b: Int) -> Int: ...
def ceil_div(a: Int, b: Int) -> Int:
    """``ceil(a / b)``."""
    return -(-a // b)


@dataclass(frozen=True)
class GemmResidency:
    """Blocks and rows that one slot of each operand of a GEMM takes.

    ``a_width`` (``b_width``): row blocks of A (column blocks of B) side by side for one block of the reduction;
    ``a_rows``, ``b_rows``, ``c_rows``: rows of one slot; a slot of C lies in the accumulator.
    """

    a_width: Int
    b_width: Int
    a_rows: Int
    b_rows: Int
    c_rows: Int


def gemm_residency(
    m: int, n: int, k: int, tm: Int, tn: Int, tk: Int, m_outer: Int, a_streamed: Int, b_streamed: Int, dim: int
) -> GemmResidency:
    """Residency of C[m, n] = A[m, k] · B[k, n] in tiles of tm × tn × tk.

    A streamed operand holds one chunk of the reduction. One that is not holds the whole reduction: of its tile if its
    own loop is the outer one (``m_outer`` for A), of all tiles if it is the inner one.
    """
    tmb, tnb, tkb = ceil_div(tm, dim), ceil_div(tn, dim), ceil_div(tk, dim)
    kb = ceil_div(k, dim)
    # whole tiles, so that every tile of the inner loop keeps its own place
    mb = ceil_div(m, tm) * tmb * (tm < m) + ceil_div(m, dim) * (tm >= m)
    nb = ceil_div(n, tn) * tnb * (tn < n) + ceil_div(n, dim) * (tn >= n)
    a_width = np.where(np.logical_or(a_streamed, m_outer), tmb, mb)
    b_width = np.where(np.logical_or(b_streamed, np.logical_not(m_outer)), tnb, nb)
    a_rows = a_width * np.where(a_streamed, tkb, kb) * dim
    b_rows = b_width * np.where(b_streamed, tkb, kb) * dim
    return GemmResidency(a_width, b_width, a_rows, b_rows, tmb * tnb * dim)


def conv_residency(
    x_chunk: Int, w_tile: Int, sums: Int, chunks: Int, steps: Int, o_tiles: Int, o_blocks: Int,
    x_streamed: Int, w_streamed: Int, o_outer: Int, os: Int,
) -> tuple[Int, Int, Int]:
    """Rows of one slot of X, W and C of a convolution (C lies in the accumulator): ``x_chunk`` rows hold a chunk of
    the input, ``w_tile`` a block of weights.

    A streamed input holds one chunk, otherwise all chunks. Streamed weights hold one step (with the sums in place: one
    chunk) of a tile's output channels; otherwise all steps, of all output channels if the pixels are the outer loop.
    """
    x = x_chunk * np.where(x_streamed, 1, chunks)
    step = w_tile * o_blocks
    resident = step * steps * chunks * np.where(o_outer, 1, o_tiles)
    w = np.where(w_streamed, step * np.where(os, steps, 1), resident)
    return x, w, o_blocks * sums
