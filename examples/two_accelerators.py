"""One function over two accelerators, as Figure 18 of the TAIDL paper: AMX, then Gemmini, with NumPy between.

Both kernels are the same layer ``saturate(relu(A . B))`` of a 16 x 64 by a 64 x 16 matrix, int8 in and out: on AMX one
tile product, with activation and saturation on the host; on Gemmini four products, with both in the accelerator.

``python examples/two_accelerators.py`` runs them in NumPy, inside of a JAX function, and on PyTorch tensors.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))  # works in a checkout that is not installed, too

import archloom

M, K, N = 16, 64, 16

amx = archloom.isa("amx")
gemmini = archloom.isa("gemmini", dim=16)


@amx.kernel(
    size=3072,  # addresses are in 0..3071
    arg=[{"start": 0, "shape": (M, K, np.int8), "name": "A"},
         {"start": 1024, "shape": (K // 4, 4 * N, np.int8), "name": "B4"}],
    res=[{"start": 2048, "shape": (M, N, np.int32), "name": "C"}],
)
def matmul_amx() -> None:
    """``C = A . B``; B4 holds B with four rows of a column side by side, see :func:`four_rows`."""
    amx.api.tilezero(dst=0)
    amx.api.tileloadd(dst=4, dram=0, stride=64)
    amx.api.tileloadd(dst=6, dram=1024, stride=64)
    amx.api.tdpbssd(dst=0, src1=4, src2=6)
    amx.api.tilestored(src=0, dram=2048, stride=64)


@gemmini.kernel(
    arg=[{"start": 64, "shape": (M, K, np.int8), "name": "A"}, {"start": 1088, "shape": (K, N, np.int8), "name": "B"}],
    res=[{"start": 2112, "shape": (M, N, np.int8), "name": "X"}],
)
def nn_gemmini() -> None:
    """``X = saturate(relu(A . B))``, weight-stationary: one 16 x 16 tile of B after the other in the array."""
    dim, api = gemmini.dim, gemmini.api
    accumulator, add = 1 << 31, 1 << 30
    api.config_ex(gemmini.WS, act=0, sys_shift=0, a_transpose=0, b_transpose=0, a_stride=1, c_stride=1,
                  set_only_strides=0)
    api.config_st(stride=N, act=gemmini.RELU, scale=gemmini.ONE, pool_size=0, pool_stride=0, pool_upad=0, pool_lpad=0,
                  pool_out_dim=0, porows=0, pocols=0, orows=0, ocols=0)
    for k in range(K // dim):  # unrolled: the first product begins the sum, the others add to it
        api.config_ld(channel=0, stride=K, scale=gemmini.ONE, shrunk=0, block_stride=dim)
        api.mvin(dram=64 + dim * k, local=0, cols=dim, rows=M)
        api.config_ld(channel=0, stride=N, scale=gemmini.ONE, shrunk=0, block_stride=dim)
        api.mvin(dram=1088 + dim * N * k, local=dim, cols=N, rows=dim)
        api.preload(bd=dim, c=accumulator + (add if k else 0), bd_cols=N, bd_rows=dim, c_cols=N, c_rows=M)
        api.compute_preloaded(a=0, bd=gemmini.NONE, a_cols=dim, a_rows=M, bd_cols=N, bd_rows=M)
    api.mvout(dram=2112, local=accumulator, cols=N, rows=M)


def four_rows(b: np.ndarray) -> np.ndarray:
    """B as AMX wants it: row k of the result holds, for each column, rows 4k to 4k + 3."""
    return b.reshape(K // 4, 4, N).swapaxes(1, 2).reshape(K // 4, 4 * N)


def forward(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The layer on AMX and on Gemmini, compared."""
    c = matmul_amx.run(a, four_rows(b))  # AMX
    d = np.clip(c, 0, 127).astype(np.int8)  # the host
    x = nn_gemmini.run(a, b)  # Gemmini
    assert (d == x).all()
    return x


def main() -> None:
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-8, 8, shape).astype(np.int8) for shape in ((M, K), (K, N)))
    x = forward(a, b)
    print(f"NumPy: AMX and Gemmini agree on {x.size} elements")

    import jax
    import jax.numpy as jnp

    @jax.jit
    def both(a: jax.Array, b: jax.Array) -> tuple[jax.Array, jax.Array]:
        on_amx = jnp.clip(matmul_amx(a, four_rows(b)), 0, 127).astype(jnp.int8)
        return on_amx, nn_gemmini(a, b)

    assert all((y == x).all() for y in both(jnp.asarray(a), jnp.asarray(b)))
    print("JAX: both in one compiled function")

    import torch

    y = nn_gemmini(torch.from_numpy(a), torch.from_numpy(b))
    assert (y.numpy() == x).all()
    print(f"PyTorch: {type(y).__name__} in, {type(y).__name__} out")
    for kernel in (matmul_amx, nn_gemmini):
        print(kernel.report)


if __name__ == "__main__":
    main()
