"""How operators become workloads of a mesh of cores: matrices in tiles of float16, constants packed once."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from archloom.mapper import workload as wl
from archloom.mapper.accelerator import Accelerator
from archloom.mapper.options import OptionValue
from archloom.mapper.search import search
from archloom.mapper.spatial import epilogue as epilogues
from archloom.mapper.spatial.chain.space import Chain
from archloom.mapper.spatial.layers import convolution, product_of
from archloom.mapper.spatial.products.convolution import MOST_PLACES, Convolution
from archloom.mapper.workload import Workload
from archloom.oracle.errors import MappingError
from archloom.tvm_backend.ir import expressions
from archloom.tvm_backend.ir.match import QuantizedOp
from archloom.tvm_backend.ir.operators import ACTIVATIONS
from archloom.tvm_backend.targets.backend import Gridded, InTiles, Joined, Lowered
from archloom.tvm_backend.targets.grids import common
from archloom.tvm_backend.targets.layouts import BATCH, DTYPE, PIXELS, SIDE, TILES, Layout, PixelGrid, Places, Windows
from archloom.uma_targets.cores.patterns import SIX
from archloom.uma_targets.cores.sweeps import keeps_zero, made_in, packed
from archloom.uma_targets.kit.rules import has_relu
from archloom.uma_targets.kit.strategies import label, residual


def matmul(op: QuantizedOp) -> Lowered:
    """[..., m, k] x [k, n], where all leading dimensions are rows, or a batch of [m, k] x [k, n]."""
    a, b = op.operands[:2]
    *lead, m, k = a.read_shape
    n = b.read_shape[-1]
    batch = math.prod(lead)
    swapped = a.permutation is not None, b.permutation is not None and not b.is_constant
    one_b = math.prod(b.read_shape[:-2]) == 1
    if one_b and not swapped[0]:
        batch, m = 1, batch * m
    side: Layout = TILES if batch == 1 and not swapped[0] else BATCH
    work = _gemm(op, (batch, m, n, k), one_b, swapped)
    b_layout: Layout = TILES if one_b else BATCH
    constants = _bias(op)
    inputs: tuple[tuple[str, int], ...] = (("A", 0), ("B", 1))
    if b.array is not None:
        array = b.array.transpose(b.permutation) if b.permutation else b.array
        constants = {"B": packed(array, b_layout), **constants}
        inputs = (("A", 0),)
    zeros = {"A": ("rows",) if swapped[0] else ("columns",), "B": ("columns",) if swapped[1] else ("rows",)}
    return Lowered(work, _label("dense" if one_b else "batch_matmul", op), (*inputs, *residual(op)), constants, side,
                   tiles=replace(_edges(op), layouts={"B": b_layout}, zero_edges=zeros))


def is_image(call: Any) -> bool:
    """Whether a convolution operator is one of images by a constant kernel of few places: such are taken as they are,
    others as products."""
    layouts = [str(expressions.attr(call, f"{what}_layout")) for what in ("data", "kernel", "out")]
    return layouts == ["NCHW", "OIHW", "NCHW"] and expressions.is_constant(call.args[1]) and (
        math.prod(expressions.shape_of(call.args[1])[2:]) <= MOST_PLACES)


def conv2d(op: QuantizedOp) -> Lowered:
    """A convolution: of 1 x 1 pixels a product, else windows are gathered from the image on the way into cores."""
    attrs, plain = op.attrs, (1, 1)
    if op.operands[1].shape[2:] == plain == tuple(attrs["strides"]) and attrs["groups"] == 1 and not any(
            attrs["padding"]):
        return _pointwise(op)
    data, kernel = op.operands[:2]
    (n, _, h, w), (o, inside, kh, kw), groups = data.shape, kernel.shape, int(attrs["groups"])
    assert kernel.array is not None
    work = convolution(
        n, h, w, inside, o // groups, kh, kw, stride=tuple(attrs["strides"]), padding=tuple(attrs["padding"]),
        dilation=tuple(attrs["dilation"]), groups=groups, epilogue=_epilogue(op), name=op.name)
    laid, shapes = _convolution(op), {t.name: t.shape for t in work.inputs}
    constants = {"B": made_in(kernel.array, shapes["B"], lambda a: laid.filter_tiles(a.transpose(2, 3, 1, 0)))}
    if op.bias is not None and op.bias.array is not None:
        constants["bias"] = made_in(op.bias.array, shapes["bias"], lambda a: laid.bias_rows(a.reshape(-1)))
    return Lowered(work, _label("conv2d", op), (("A", 0), *residual(op)), constants, Places(laid),
                   tiles=InTiles({"A": Windows(laid)}, gridded=_gridded(op, constants, plain=False)))


def _convolution(op: QuantizedOp) -> Convolution:
    """A convolution without what is fused to it."""
    attrs, (n, c, h, w), (o, _, kh, kw) = op.attrs, op.operands[0].shape, op.operands[1].shape
    return Convolution(n, h, w, c, o, (kh, kw), tuple(attrs["strides"]), tuple(attrs["padding"]),
                       tuple(attrs["dilation"]), int(attrs["groups"]))


def _gridded(op: QuantizedOp, constants: Mapping[str, np.ndarray], plain: bool) -> Gridded | None:
    """A convolution with images on a grid; None where its channels cannot lie on one."""
    made = _convolution(op)
    (kh, kw), (dy, dx), (top, left, *_), groups = made.kernel, made.dilation, made.padding, made.groups
    rows, line = (-(-extent // step) for extent, step in zip(made.pitch, made.stride))
    reads = made.stride == (1, 1)
    behind = (max(0, (kh - 1) * dy - top), max(0, (kw - 1) * dx - left))
    margins = ((top, left), behind) if reads else ((0, 0), (0, 0))

    def on(grid: PixelGrid) -> Lowered:
        work = convolution(
            made.batch, made.height, made.width, made.channels // groups, made.outputs // groups, kh, kw,
            stride=made.stride, padding=made.padding, dilation=made.dilation, groups=groups, epilogue=_epilogue(op),
            name=op.name, grid=grid.numbers)
        layouts = {} if reads else {"A": Windows(replace(made, grid=grid.numbers))}
        return Lowered(work, _label("conv2d", op), (("A", 0), *residual(op)), constants, grid, tiles=InTiles(layouts))

    found = Gridded(on, (rows, line), margins, reads, plain)
    try:
        replace(made, grid=common([found]).numbers)
    except MappingError:
        return None
    return found


def _pointwise(op: QuantizedOp) -> Lowered:
    """A 1 x 1 convolution: pixels are the rows of A."""
    data, kernel = op.operands[:2]
    n, c, h, w = data.shape
    o = kernel.shape[0]
    assert kernel.array is not None
    constants = {"B": packed(kernel.array.reshape(o, c).T, TILES), **_bias(op)}
    work = _gemm(op, (1, n * h * w, o, c), True, (False, False))
    return Lowered(work, _label("conv2d", op), (("A", 0), *residual(op)), constants, PIXELS,
                   tiles=replace(_edges(op), zero_edges={"A": ("columns",)},
                                 gridded=_gridded(op, constants, plain=True)))


def _edges(op: QuantizedOp) -> InTiles:
    """Beyond which edges of a product's result there may be other numbers than zeros: a bias is added to all rows."""
    activation = _activation(op)
    beyond = ("rows", "columns") if activation and not keeps_zero(activation) else ("rows",)
    return InTiles(nonzero_edges=beyond, passed_edges=("residual",))


def _gemm(op: QuantizedOp, sizes: tuple[int, int, int, int], shared: bool, swapped: tuple[bool, bool]) -> Workload:
    batch, m, n, k = sizes
    return wl.gemm(m, n, k, batch=batch, epilogue=_epilogue(op), shared_b=shared, name=op.name, dtype=DTYPE, tile=SIDE,
                   transposed=swapped)


def _epilogue(op: QuantizedOp) -> wl.Epilogue:
    activation = _activation(op)
    return wl.Epilogue(op.bias is not None, 1.0, has_relu(op) and not activation, DTYPE, activation=activation,
                       residual=op.residual)


def _activation(op: QuantizedOp) -> str:
    """The vector unit's activation, if there is one, or that of the store which also clips at six."""
    if any(stage.kind == "clip" and stage.high == SIX for stage in op.stages):
        return "relu6"
    return next((stage.kind for stage in op.stages if stage.kind in ACTIVATIONS.values()), "")


def _label(base: str, op: QuantizedOp) -> str:
    """``base`` with what is fused to it."""
    return "+".join(part for part in (label(base, op), _activation(op)) if part).replace("+relu+relu6", "+relu6")


def _bias(op: QuantizedOp) -> dict[str, np.ndarray]:
    """The constant ``bias``, in rows of as many numbers as tiles have."""
    if op.bias is None or op.bias.array is None:
        return {}
    return {"bias": packed(op.bias.array.reshape(1, -1), TILES)[0, :, :, 0]}


# two products with an activation between them as one program, where that is faster than two


def weighed(
    first: QuantizedOp, second: QuantizedOp, accelerator: Accelerator, options: Mapping[str, OptionValue]
) -> Joined | None:
    """Both as a chain, if its plan takes fewer cycles than those of the two products; None where they make no chain.

    All three are searched for as layers of a network are, and kept: what is taken is not searched for again.
    """
    if first.anchor != "matmul" or second.anchor != "matmul" or first.shape != second.operands[0].shape:
        return None
    parts = matmul(first), matmul(second)
    chain = chain_of(*parts)
    if chain is None:
        return None
    op = replace(second, anchor="chain", operands=(*first.operands, *second.operands[1:]))
    lowered = _chained(chain, op, parts)
    apart = sum(_cycles(part.workload, accelerator, options) for part in parts)
    both = " and ".join(part.op for part in parts)
    try:
        joined = _cycles(lowered.workload, accelerator, options)
    except MappingError as error:
        return Joined(op, None, f"two layers ({both}) of {apart:,} cycles: as one they do not fit, {error}")
    if joined >= apart:
        return Joined(op, None, f"two layers ({both}) of {apart:,} cycles; as one they would take {joined:,}")
    return Joined(op, lowered, f"one layer of {joined:,} cycles; as two ({both}) it would take {apart:,}")


def chain_of(first: Lowered, second: Lowered) -> Chain | None:
    """Products of rows with a constant matrix each, the second of which ends with a bias and a residual at most; None
    for anything else."""
    if "B" not in first.constants or "B" not in second.constants:
        return None
    up, down = product_of(first.workload), product_of(second.workload)
    if any(p.batch > 1 or not p.shared or p.transposed_a or p.transposed_b for p in (up, down)):
        return None
    activation = up.epilogue.activation
    if up.epilogue.residual or down.epilogue.activation or (activation and activation not in epilogues.ACTIVATIONS):
        return None
    return Chain(up.m, up.k, up.n, down.n, activation, (up.epilogue.bias, down.epilogue.bias), down.epilogue.residual)


def _chained(chain: Chain, op: QuantizedOp, parts: tuple[Lowered, Lowered]) -> Lowered:
    """The chain with the constants of both products, which are one matrix and one row of tiles each."""
    names = {f"{name}{number}": (part, own) for number, part in enumerate(parts, start=1)
             for name, own in (("W", "B"), ("bias", "bias")) if own in part.constants}
    residual = (("residual", len(op.operands) - 1),) if chain.residual else ()
    return Lowered(
        wl.chain(chain, name=op.name), "+".join(part.op for part in parts), (("A", 0), *residual),
        {name: part.constants[own][0] for name, (part, own) in names.items()}, TILES,
        tiles=replace(parts[1].tiles, layouts={}, zero_edges={"A": parts[0].tiles.zero_edges["A"]}))


def _cycles(workload: Workload, accelerator: Accelerator, options: Mapping[str, OptionValue]) -> int:
    return search(workload, accelerator, options).timing.cycles
