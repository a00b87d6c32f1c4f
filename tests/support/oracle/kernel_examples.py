"""Kernels for the tests, written by hand for Gemmini and for a small ISA with floats."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from archloom.oracle.kernel import Kernel, KernelIsa, isa

FLOATS = """
isa floats;

param width = 4 in 1..64;
[vec] (8) (width x f32);
[mask] (8) (width x i1);
mode = 0;
count[2] = 3;

[set](value) { mode = value; }
[tick](which) { count[which] = count[which] + 1; }
[ld](dram, row) {
    %B:1x{width}x4xi8 <- $hbm[dram + {1 : 0, width : 4, 4 : 1}];
    %V:1x{width}xf32 = bitcast_convert(%B);
    %V -> $vec[row, 0:width];
}
[st](dram, row) {
    %V:1x{width}xf32 <- $vec[row, 0:width];
    %B:1x{width}x4xi8 = bitcast_convert(%V);
    %B -> $hbm[dram + {1 : 0, width : 4, 4 : 1}];
}
[fma](dst, a, b) {
    %A:1x{width}xf32 <- $vec[a, 0:width];
    %B:1x{width}xf32 <- $vec[b, 0:width];
    %D:1x{width}xf32 <- $vec[dst, 0:width];
    %P:1x{width}xf32 = multiply(%A, %B);
    %S:1x{width}xf32 = add(%D, %P);
    %S -> $vec[dst, 0:width];
}
[less](dst, a, b) {
    %A:1x{width}xf32 <- $vec[a, 0:width];
    %B:1x{width}xf32 <- $vec[b, 0:width];
    %M:1x{width}xi1 = compare(%A, %B, direction=lt);
    %M -> $mask[dst, 0:width];
}
"""


def floats(tmp_path: Path, **parameters: int) -> KernelIsa:
    """A small ISA of float vectors, from a file."""
    path = tmp_path / "floats.taidl"
    path.write_text(FLOATS)
    return isa(path, **parameters)


def tiled_matmul(dim: int, tiles: int, *, loops: bool = True) -> Kernel:
    """``C = saturate(A . B + D)``: A, C, D of tiles*dim x dim, B of dim x dim, all int8."""
    gemmini = isa("gemmini", dim=dim)
    api, square, rows = gemmini.api, dim * dim, tiles * dim
    a, b = 64, 64 + rows * dim
    d = b + square
    c = d + rows * dim
    tall = {"shape": (rows, dim, np.int8)}

    def tile(at: object) -> None:
        api.mvin(a + at, 0, dim, dim)
        api.mvin(d + at, dim, dim, dim)
        api.preload(2 * dim, 1 << 31, dim, dim, dim, dim)
        api.compute_preloaded(0, dim, dim, dim, dim, dim)
        api.mvout(at + c, 1 << 31, dim, dim)

    @gemmini.kernel(
        size=c + rows * dim,
        arg=[{"start": a, "name": "A", **tall}, {"start": b, "shape": (dim, dim), "dtype": "int8", "name": "B"},
             {"addr": d, "name": "D", **tall}],
        res=[{"start": c, "name": "C", **tall}],
    )
    def matmul() -> None:
        api.config_ex(dataflow=gemmini.WS, act=0, sys_shift=0, a_transpose=0, b_transpose=0, a_stride=1, c_stride=1,
                      set_only_strides=0)
        api.config_ld(0, dim, gemmini.ONE, 0, dim)
        api.config_st(dim, 0, gemmini.ONE, *[0] * 9)
        api.mvin(dram=b, local=2 * dim, cols=dim, rows=dim)
        if loops:
            with gemmini.loop(tiles) as i:
                tile(i * square)
        else:
            for n in range(tiles):
                tile(n * square)

    return matmul


def matmul_reference(a: np.ndarray, b: np.ndarray, d: np.ndarray) -> np.ndarray:
    """What :func:`tiled_matmul` computes."""
    return np.clip(a.astype(np.int64) @ b.astype(np.int64) + d, -128, 127).astype(np.int8)


def arguments(kernel: Kernel, seed: int = 0, batch: int | None = None) -> list[np.ndarray]:
    """Random arguments over the whole range of their types (floats: normal), with a first axis for a batch."""
    rng = np.random.default_rng(seed)
    made = []
    for t in kernel.arguments:
        shape = t.shape if batch is None else (batch, *t.shape)
        dtype = np.dtype(t.dtype)
        if dtype.kind in "iu":
            info = np.iinfo(dtype)
            made.append(rng.integers(info.min, info.max, shape, dtype, endpoint=True))
        else:
            made.append(rng.standard_normal(shape).astype(dtype))
    return made
