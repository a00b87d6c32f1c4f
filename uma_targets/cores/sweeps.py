"""What the vector units of a mesh of cores take: element-wise operators, normalizations, softmax, reductions."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np

from archloom.mapper import workload as wl
from archloom.mapper.options import OptionValue
from archloom.mapper.spatial.machines.machine import Machine
from archloom.mapper.spatial.sweeps.elementwise import Elementwise, Operation
from archloom.mapper.spatial.sweeps.reduction import Columns, Rows
from archloom.mapper.spatial.sweeps.sweep import Sweep, nothing_fits
from archloom.oracle.errors import MappingError
from archloom.tvm_backend.ir.match import QTensor, QuantizedOp
from archloom.tvm_backend.ir.sweeps import ELEMENTWISE, Applied
from archloom.tvm_backend.targets.backend import InTiles, Lowered, Verdict
from archloom.tvm_backend.targets.layouts import DTYPE, PIXELS, ROW, SIDE, TILES, Layout, Matrices, Shape

LARGEST = float(np.finfo(np.float16).max)
NEEDS = ("one tensor that has the result's shape; others of that shape, or one number for each column (of images: for "
         "each channel)")


class Unfit(Exception):
    """A match that no sweep is; the message says what was seen."""


def taken(machine: "Callable[[Mapping[str, OptionValue]], Machine]") -> "Callable[..., Verdict]":
    """The predicate of all matches without a product, on the machine that follows from options."""
    def predicate(op: QuantizedOp, options: Mapping[str, OptionValue]) -> Verdict:
        try:
            work = lowered(op).workload.sweep
        except (Unfit, MappingError) as error:
            return Verdict(False, str(error), NEEDS)
        assert work is not None
        seen = _misfit(work, machine(options))
        return Verdict(seen is None, seen or "all rules hold", "what fits into a core")

    return predicate


def _misfit(work: Sweep, machine: "Machine") -> str | None:
    """What does not fit into a core, if anything."""
    m, n, slots = (np.array([size]) for size in (work.fixed[0] or 1, work.fixed[1] or 1, work.slots[0]))
    needs = work.room(m, n, slots)
    room = (machine.tiles, machine.sums, machine.stats)
    return nothing_fits(work, machine) if any(int(n[0]) > h for n, h in zip(needs, room)) else None


def lowered(op: QuantizedOp) -> Lowered:
    """The match as a workload; Unfit for one that has another form."""
    if op.anchor == ELEMENTWISE:
        return _elementwise(op)
    return _norm(op) if op.anchor in ("nn.layer_norm", "nn.rms_norm", "nn.softmax") else _reduction(op)


# element-wise ---------------------------------------------------------------------------------------------------------


def _elementwise(op: QuantizedOp) -> Lowered:
    applied: tuple[Applied, ...] = _merged(op.attrs["operations"])
    if not op.shape or 0 in op.shape or not applied:
        raise Unfit(f"it has {op.shape} numbers")
    rows = {a.operand: _row_axis(op.operands[a.operand], op.shape)
            for a in applied if a.operand is not None and _is_row(op.operands[a.operand], op.shape)}
    layout = _layout(op.shape, set(rows.values()))
    operations, inputs, constants = [], [("X", 0)], {}
    layouts: dict[str, Layout] = {}
    for number, a in enumerate(x for x in applied if x.operand is not None):
        assert a.operand is not None
        name, tensor = f"Y{number}", op.operands[a.operand]
        is_row = a.operand in rows
        layouts[name] = ROW if is_row else layout
        if tensor.array is None:
            inputs.append((name, a.operand))
        else:
            constants[name] = _constant(tensor.array, op.shape, is_row, layout)
    for a in applied:
        operand = "none" if a.operand is None else "row" if a.operand in rows else "tensor"
        operations.append(Operation(a.kind, operand, a.factor, a.shift))  # type: ignore[arg-type]
    made = tuple(operations)
    beyond = _at_zero(made)
    if beyond is None and layout.ragged(op.shape):
        raise Unfit(f"{op.shape} do not fill tiles of {SIDE} x {SIDE}, and it would divide by the zeros beyond")
    _, high, wide = layout.matrices(op.shape)

    def in_tiles(stored: Shape) -> wl.Workload:
        return wl.sweep(Elementwise(math.prod(stored[:-4]) * stored[-4] * SIDE, stored[-3] * SIDE, made), name=op.name)

    plain = not any(a.operand is not None and op.operands[a.operand].is_constant for a in applied) and not rows
    label = "+".join(_label(o) for o in made)
    return Lowered(
        wl.sweep(Elementwise(high, wide, made), name=op.name), label, tuple(inputs), constants, layout,
        tiles=InTiles(layouts, ("rows", "columns") if beyond else ("rows",), tuple(name for name, _ in inputs),
                      any_layout=in_tiles if plain else None))


def _label(operation: Operation) -> str:
    if operation.kind == "linear":
        return "scale" if operation.shift == 0 else "shift" if operation.factor == 1 else "scale+shift"
    return operation.kind


def _merged(applied: tuple[Applied, ...]) -> tuple[Applied, ...]:
    """Factors and shifts one after the other as one."""
    found: list[Applied] = []
    for a in applied:
        if a.kind == "linear" and found and found[-1].kind == "linear":
            last = found.pop()
            a = replace(a, factor=last.factor * a.factor, shift=last.shift * a.factor + a.shift)
        if a.kind == "linear" and not max(abs(a.factor), abs(a.shift)) < LARGEST:
            raise Unfit(f"it multiplies by {a.factor:g} and adds {a.shift:g}, beyond float16")
        found.append(a)
    return tuple(a for a in found if a.kind != "linear" or (a.factor, a.shift) != (1.0, 0.0))


def _layout(shape: Shape, axes: set[int]) -> Matrices:
    """The layout whose columns are what rows have numbers for, of images the channels; else that of fewer tiles."""
    if len(axes) > 1:
        raise Unfit("some operands have a number for each column, others for each channel")
    last = len(shape) - 1
    if not axes and len(shape) == 4:
        return min((TILES, PIXELS), key=lambda layout: math.prod(layout.stored_shape(shape)))
    axis = next(iter(axes), last)
    if axis == last:
        return TILES
    if len(shape) == 4 and axis == 1:
        return PIXELS
    raise Unfit(f"an operand has numbers along axis {axis} of {len(shape)}")


def _is_row(tensor: QTensor, shape: Shape) -> bool:
    """Whether an operand has to be a row: it is smaller than the result, and no constant that could be repeated."""
    given = (1,) * (len(shape) - len(tensor.shape)) + tensor.shape
    if given == shape:
        return False
    along = [i for i, n in enumerate(given) if n > 1]
    of_columns = (len(shape) - 1, 1) if len(shape) == 4 else (len(shape) - 1,)
    return not tensor.is_constant or not along or (len(along) == 1 and along[0] in of_columns)


def _row_axis(tensor: QTensor, shape: Shape) -> int:
    """The axis of the result along which an operand has its numbers; Unfit if it has others."""
    given = (1,) * (len(shape) - len(tensor.shape)) + tensor.shape
    along = [i for i, n in enumerate(given) if n > 1]
    if len(given) != len(shape) or len(along) > 1 or any(n not in (1, full) for n, full in zip(given, shape)):
        raise Unfit(f"an operand has {tensor.shape}, the result {shape}")
    if along:
        return along[0]
    axis = 1 if len(shape) == 4 else len(shape) - 1
    if not tensor.is_constant and shape[axis] > 1:
        raise Unfit("an operand is a single number that is not constant")
    return axis


def _constant(array: np.ndarray, shape: Shape, is_row: bool, layout: Matrices) -> np.ndarray:
    """A constant operand as it lies in memory."""
    wide, stored = ((layout.matrices(shape)[2],), ROW) if is_row else (shape, layout)
    if array.size > 1 and not any(array.strides):  # without its numbers
        return packed(np.broadcast_to(array.reshape(-1)[0], wide), stored)
    if array.size and not float(np.abs(array).max()) <= LARGEST:
        raise Unfit("a constant has numbers beyond float16")
    return packed(np.ascontiguousarray(np.broadcast_to(array.reshape(-1) if is_row else array, wide)), stored)


AT: Mapping[str, Callable[[float], float]] = {
    "relu": lambda x: max(x, 0.0), "relu6": lambda x: min(max(x, 0.0), 6.0),
    "gelu": lambda x: x / (1 + math.exp(-1.7 * x)),
    "silu": lambda x: x / (1 + math.exp(-x)), "sigmoid": lambda x: 1 / (1 + math.exp(-x)), "tanh": math.tanh,
    "exp": math.exp, "sqrt": math.sqrt, "reciprocal": lambda x: 1 / x, "negate": lambda x: -x, "abs": abs,
    "square": lambda x: x * x,
    "add": lambda x: x, "subtract": lambda x: x, "multiply": lambda x: 0 * x, "divide": lambda x: x / 0,
    "maximum": lambda x: max(x, 0.0), "minimum": lambda x: min(x, 0.0),
}
"""About what each operation makes of a number, with an operand that is zero."""


def keeps_zero(kind: str) -> bool:
    """Whether a function makes zero of zero."""
    try:
        return AT[kind](0.0) == 0.0
    except ZeroDivisionError:
        return False


def _at_zero(operations: tuple[Operation, ...]) -> float | None:
    """About what becomes of zeros, None where that is no number."""
    value = 0.0
    try:
        for op in operations:
            value = value * op.factor + op.shift if op.kind == "linear" else AT[op.kind](value)
    except (ZeroDivisionError, ValueError, OverflowError):
        return None
    return value


# rows and columns -----------------------------------------------------------------------------------------------------


def _norm(op: QuantizedOp) -> Lowered:
    last = len(op.shape) - 1
    if op.attrs["axes"] != (last,):
        raise Unfit(f"it goes along axes {op.attrs['axes']} of {len(op.shape)}")
    if op.operands[0].is_constant:
        raise Unfit("its operand is constant")
    kind = op.anchor.removeprefix("nn.")
    names = {"layer_norm": ("gamma", "beta"), "rms_norm": ("gamma",), "softmax": ()}[kind]
    constants = {}
    for name, tensor in zip(names, op.operands[1:], strict=True):
        if tensor.array is None or tensor.array.size != op.shape[-1]:
            raise Unfit(f"{name} is not constant, with a number for each column")
        constants[name] = _constant(tensor.array, op.shape, True, TILES)
    _, rows, columns = TILES.matrices(op.shape)
    work = Rows(rows, columns, kind, epsilon=op.attrs.get("epsilon", 1e-5))  # type: ignore[arg-type]
    return Lowered(
        wl.sweep(work, name=op.name), kind, (("X", 0),), constants, TILES,
        tiles=InTiles(nonzero_edges=("rows", "columns") if kind == "softmax" else ("rows",),
                      zero_edges={"X": ("columns",)}))


def _reduction(op: QuantizedOp) -> Lowered:
    """Sums, means and largest numbers of rows or of columns."""
    (x,), axes = op.operands, op.attrs["axes"]
    if x.is_constant:
        raise Unfit("its operand is constant")
    shape, kind = x.shape, op.anchor
    last = len(shape) - 1
    if axes == (last,):
        _, rows, columns = TILES.matrices(shape)
        if not op.attrs["keepdims"]:
            raise Unfit("it drops the axis that it reduces: its numbers would lie in another order")
        work: Sweep = Rows(rows, columns, kind)  # type: ignore[arg-type]
        return Lowered(wl.sweep(work, name=op.name), f"row_{kind}", (("X", 0),), {}, TILES,
                       tiles=InTiles(nonzero_edges=("rows", "columns"), zero_edges={"X": ("columns",)}))
    if len(shape) == 4 and axes == (2, 3):
        layout: Matrices = PIXELS
    elif axes == tuple(range(last)) or (axes and axes == tuple(range(axes[0], last))):
        layout = TILES
    else:
        raise Unfit(f"it goes along axes {axes} of {len(shape)}")
    if math.prod(shape[:axes[0]]) != (shape[1] if layout == PIXELS else 1) or (
            layout == PIXELS and shape[0] != 1):
        raise Unfit(f"it reduces parts of a batch of {shape[0]}")
    _, rows, columns = layout.matrices(shape)
    result = PIXELS if layout == PIXELS and op.attrs["keepdims"] else TILES
    work = Columns(rows, columns, kind)  # type: ignore[arg-type]
    return Lowered(wl.sweep(work, name=op.name), f"column_{kind}", (("X", 0),), {}, result,
                   tiles=InTiles({"X": layout}, ("rows",), ("X",), {"X": ("rows",)}))


# constants of operators as they lie in tiles


def made_in(array: np.ndarray, shape: tuple[int, ...], pack: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
    """A constant in tiles of ``shape``; one without numbers takes no room."""
    if array.size > 1 and not any(array.strides):
        return np.broadcast_to(array[(0,) * array.ndim].astype(DTYPE), shape)
    with np.errstate(over="ignore"):
        return np.ascontiguousarray(pack(array.astype(DTYPE)))


def packed(array: np.ndarray, layout: Layout) -> np.ndarray:
    """A constant in tiles; a weight without numbers, as estimates read it, takes no room here either."""
    return made_in(array, layout.stored_shape(array.shape), layout.pack)
