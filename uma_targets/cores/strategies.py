"""How operators become workloads of a mesh of cores: matrices in tiles of float16, constants packed once."""

from __future__ import annotations

import math

import numpy as np

from mapper import workload as wl
from mapper.workload import Workload
from tvm_backend.compiled import Layout
from tvm_backend.tiles import DTYPE, SIDE, tiled_shape, to_tiles
from tvm_backend.uma.backend import Lowered
from tvm_backend.uma.match import QuantizedOp
from uma_targets.kit.rules import has_relu
from uma_targets.kit.strategies import label


def matmul(op: QuantizedOp) -> Lowered:
    """[..., m, k] x [k, n], where all leading dimensions are rows, or a batch of [m, k] x [k, n]."""
    a, b = op.operands
    *lead, m, k = a.read_shape
    n = b.read_shape[-1]
    batch = math.prod(lead)
    swapped = a.permutation is not None, b.permutation is not None and not b.is_constant
    one_b = len(b.read_shape) == 2
    if one_b and not swapped[0]:
        batch, m = 1, batch * m
    side: Layout = "tiles" if batch == 1 and not swapped[0] else "tile-batch"
    work = _gemm(op, (batch, m, n, k), one_b, swapped)
    layouts: dict[str, Layout] = {"B": "tiles" if one_b else "tile-batch"}
    constants = _bias(op)
    inputs: tuple[tuple[str, int], ...] = (("A", 0), ("B", 1))
    if b.array is not None:
        array = b.array.transpose(b.permutation) if b.permutation else b.array
        constants = {"B": packed(array, layouts["B"]), **constants}
        inputs = (("A", 0),)
    return Lowered(work, label("dense" if one_b else "batch_matmul", op), inputs, constants, side, layouts=layouts)


def pointwise(op: QuantizedOp) -> Lowered:
    """A 1 x 1 convolution: pixels are the rows of A."""
    data, kernel = op.operands
    n, c, h, w = data.shape
    o = kernel.shape[0]
    assert kernel.array is not None
    constants = {"B": packed(kernel.array.reshape(o, c).T, "tiles"), **_bias(op)}
    work = _gemm(op, (1, n * h * w, o, c), True, (False, False))
    return Lowered(work, label("conv2d", op), (("A", 0),), constants, "tile-pixels")


def _gemm(op: QuantizedOp, sizes: tuple[int, int, int, int], shared: bool, swapped: tuple[bool, bool]) -> Workload:
    batch, m, n, k = sizes
    epilogue = wl.Epilogue(op.bias is not None, 1.0, has_relu(op), DTYPE)
    return wl.gemm(m, n, k, batch=batch, epilogue=epilogue, shared_b=shared, name=op.name, dtype=DTYPE, tile=SIDE,
                   transposed=swapped)


def _bias(op: QuantizedOp) -> dict[str, np.ndarray]:
    """The constant ``bias``, in rows of as many numbers as tiles have."""
    if op.bias is None or op.bias.array is None:
        return {}
    return {"bias": packed(op.bias.array.reshape(1, -1), "tiles")[0, :, :, 0]}


def packed(array: np.ndarray, layout: Layout) -> np.ndarray:
    """A constant in tiles; a weight without numbers, as estimates read it, takes no room here either."""
    if array.size > 1 and not any(array.strides):
        return np.broadcast_to(array[(0,) * array.ndim].astype(DTYPE), tiled_shape(array.shape, layout))
    with np.errstate(over="ignore"):
        return np.ascontiguousarray(to_tiles(array, layout))
