"""Attention by hand on QKV: softmax(Q · Kᵀ / sqrt(d)) · V for several heads and any sizes.

``python examples/qkv_kernels.py`` prints the kernel as assembly, runs it and compares its result with NumPy's.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))  # works in a checkout that is not installed, too

from archloom.oracle.kernel import Kernel, KernelIsa, isa

BYTES = 4
"""Of an f32."""
SLOTS = 16
"""Tiles of K and V that are on their way or at hand."""


def bits(scale: float) -> int:
    """A factor as the bits of a float32, as attributes hold it."""
    return int(np.float32(scale).view(np.uint32))


def tiles(g: KernelIsa, name: str, extent: int, *, first_apart: bool = False) -> Iterator[tuple[Any, int]]:
    """Numbers of the tiles along an extent, within loops, and the size of each; the first one outside on demand."""
    start, (whole, rest) = 0, divmod(extent, g.dim)
    if first_apart:
        yield 0, min(g.dim, extent)
        start = 1
    if start < whole:
        with g.loop(name, start, whole) as number:
            yield number, g.dim
    if rest and whole >= start:
        yield whole, rest


def attention(
    queries: int, keys: int, depth: int, dim: int = 16, *, heads: int = 1, values: int | None = None
) -> Kernel:
    """O = softmax(Q · Kᵀ / sqrt(depth)) · V, all f32.

    Q [heads, queries, depth], K [heads, keys, depth], V [heads, keys, values], O [heads, queries, values]; ``values``
    is ``depth`` by default. One tile of queries at a time meets all keys; its scores lie side by side for softmax.
    Neighbouring products go to different sums, and tiles of queries take turns in two sets of rows, so that none waits.
    """
    values = depth if values is None else values
    deep, long, wide = (-(-extent // dim) * dim for extent in (depth, keys, values))
    ring = SLOTS * dim
    operand_rows, sum_rows = ring + 2 * (deep + long), 2 * (long + wide)
    g = isa("qkv", dim=dim, operand_rows=max(1 << 10, operand_rows), sum_rows=max(1 << 10, sum_rows))
    sizes = {"Q": (queries, depth), "K": (keys, depth), "V": (keys, values), "O": (queries, values)}
    at, end = {}, 0
    for name, (rows, cols) in sizes.items():
        at[name], end = end, end + heads * rows * cols * BYTES

    def place(name: str, head: Any, row: Any, col: Any) -> Any:
        rows, cols = sizes[name]
        return at[name] + (head * rows * cols + row * (dim * cols) + col * dim) * BYTES

    def load(name: str, to: Any, head: Any, row: tuple[Any, int], col: tuple[Any, int]) -> None:
        g.api.load(dram=place(name, head, row[0], col[0]), row=to, rows=row[1], cols=col[1],
                   stride=sizes[name][1] * BYTES)

    def block(head: Any, query: tuple[Any, int]) -> None:
        """A tile of queries: scores, shares, and the sums of values."""
        turn = query[0] % 2
        q, p = ring + turn * deep, ring + 2 * deep + turn * long  # rows of operands
        scores, out = turn * long, 2 * long + turn * wide  # rows of sums
        for e in tiles(g, "e", depth):
            load("Q", q + e[0] * dim, head, query, e)
        for e in tiles(g, "e", depth, first_apart=True):
            for j in tiles(g, "j", keys):
                slot = (e[0] * (long // dim) + j[0]) % SLOTS * dim
                load("K", slot, head, j, e)
                g.api.gemm(a=q + e[0] * dim, b=slot, c=scores + j[0] * dim, transpose=1,
                           accumulate=0 if isinstance(e[0], int) and e[0] == 0 else 1)
        g.api.softmax(row=scores, to=p, keys=keys, scale=bits(1 / math.sqrt(depth)))
        for j in tiles(g, "j", keys, first_apart=True):
            for c in tiles(g, "c", values):
                slot = (j[0] * (wide // dim) + c[0]) % SLOTS * dim
                load("V", slot, head, j, c)
                g.api.gemm(a=p + j[0] * dim, b=slot, c=out + c[0] * dim, transpose=0,
                           accumulate=0 if isinstance(j[0], int) and j[0] == 0 else 1)
        for c in tiles(g, "c", values):
            g.api.store(dram=place("O", head, query[0], c[0]), row=out + c[0] * dim, rows=query[1], cols=c[1],
                        stride=values * BYTES, relu=0)

    tensors: dict[str, dict[str, Any]] = {
        name: {"name": name, "addr": at[name], "shape": (heads, *size), "dtype": "float32"}
        for name, size in sizes.items()}

    @g.kernel(name=f"attention_{heads}x{queries}x{keys}x{depth}", arg=[tensors[name] for name in "QKV"],
              res=[tensors["O"]])
    def attended() -> None:
        with g.loop("h", heads) as head:
            for query in tiles(g, "i", queries):
                block(head, query)

    return attended


# --- the same mathematics in NumPy -------------------------------------------------------------------------------


def attention_reference(q: np.ndarray, k: np.ndarray, v: np.ndarray) -> np.ndarray:
    """O of :func:`attention` in double precision."""
    q, k, v = (x.astype(np.float64) for x in (q, k, v))
    scores = q @ k.swapaxes(-1, -2) / math.sqrt(q.shape[-1])
    powers = np.exp(scores - scores.max(axis=-1, keepdims=True))
    shares: np.ndarray = powers / powers.sum(axis=-1, keepdims=True)
    return shares @ v


def main() -> None:
    from archloom.oracle.assembly import to_text

    random = np.random.default_rng(0)
    kernel = attention(64, 80, 32, heads=2)
    given = [random.standard_normal(t.shape).astype(np.float32) for t in kernel.arguments]
    error = np.abs(kernel.run(*given) - attention_reference(*given)).max()
    print(f"{to_text(kernel.stream)}\n{kernel.report}\n{kernel.stream.count()} instructions; within {error:.1e} of "
          "NumPy's in double precision")


if __name__ == "__main__":
    main()
