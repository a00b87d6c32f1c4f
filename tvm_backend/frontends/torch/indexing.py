"""Converters of ATen's indexing, which TVM 0.27 gets wrong: indices below zero, and several that belong together.

``importer`` is TVM's, ``node`` the fx node; what a converter gives is bound to a variable.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from archloom.oracle.errors import ModelError
from archloom.tvm_backend.ir import expressions as ir


def argument(node: Any, importer: Any, position: int, name: str, default: Any = None) -> Any:
    """An argument of a node by its place or its name; nodes are what they were converted to."""
    value = node.args[position] if len(node.args) > position else node.kwargs.get(name, default)
    return importer.env[value] if type(value).__name__ == "Node" else value


def _select(node: Any, importer: Any) -> Any:
    """torch counts negative indices from the end; TVM 0.27 takes what lies before the tensor."""
    from archloom.tvm_backend.ir import compat

    x, axis, index = (argument(node, importer, i, name) for i, name in enumerate(("self", "dim", "index")))
    place = compat.constant(np.asarray(int(index) % ir.shape_of(x)[int(axis)], np.int64))
    return importer.block_builder.emit(compat.relax_op("take")(x, place, axis=int(axis), mode="clip"))


def _index(node: Any, importer: Any) -> Any:
    """``x[i, :, j]``: indices are broadcast to one another and belong together, those below zero count from the end.

    What they choose stands where they stood, or first if an axis without an index is between them. TVM 0.27 takes what
    lies before the tensor for negative indices, and every combination of some pairs of indices.
    """
    from archloom.tvm_backend.ir import compat

    emit = importer.block_builder.emit
    x = argument(node, importer, 0, "self")
    shape, rank = ir.shape_of(x), len(ir.shape_of(x))
    given = {axis: importer.env[index] for axis, index in enumerate(node.args[1]) if index is not None}
    for index in given.values():
        if ir.dtype_of(index) == "bool":
            raise ModelError(f"node {node.name!r} (index): expected integers as indices, found a mask: the shape of "
                             "the result depends on its numbers")
    axes = list(given)
    others = [axis for axis in range(rank) if axis not in given]
    places = _places([_from_start(index, shape[axis], emit) for axis, index in given.items()],
                     [shape[axis] for axis in axes], emit)
    together = axes == list(range(axes[0], axes[0] + len(axes)))
    if len(axes) == 1:
        return emit(compat.relax_op("take")(x, places, axis=axes[0], mode="clip"))
    if axes + others != list(range(rank)):
        x = emit(compat.relax_op("permute_dims")(x, [*axes, *others]))
    kept = [shape[axis] for axis in others]
    x = emit(compat.relax_op("reshape")(x, (math.prod(shape[axis] for axis in axes), *kept)))
    chosen = emit(compat.relax_op("take")(x, places, axis=0, mode="clip"))
    if not together or axes[0] == 0:
        return chosen
    made, before = len(ir.shape_of(places)), axes[0]
    order = [*range(made, made + before), *range(made), *range(made + before, made + len(others))]
    return emit(compat.relax_op("permute_dims")(chosen, order))


def _from_start(index: Any, extent: int, emit: Callable[[Any], Any]) -> Any:
    """Indices, int64, with those below zero counted from the end."""
    from archloom.tvm_backend.ir import compat

    op, zero, size = compat.relax_op, *(compat.constant(np.asarray(n, np.int64)) for n in (0, extent))
    if ir.dtype_of(index) != "int64":
        index = emit(op("astype")(index, "int64"))
    return emit(op("where")(emit(op("less")(index, zero)), emit(op("add")(index, size)), index))


def _places(indices: Sequence[Any], extents: Sequence[int], emit: Callable[[Any], Any]) -> Any:
    """Places in the indexed axes taken together, the last counting fastest."""
    from archloom.tvm_backend.ir import compat

    place = indices[0]
    for index, extent in zip(indices[1:], extents[1:], strict=True):
        scaled = emit(compat.relax_op("multiply")(place, compat.constant(np.asarray(extent, np.int64))))
        place = emit(compat.relax_op("add")(scaled, index))
    return place


def _scatter_add(node: Any, importer: Any) -> Any:
    """TVM 0.27 has the operator, but no converter."""
    from archloom.tvm_backend.ir import compat

    x, axis, index, source = (argument(node, importer, i, name) for i, name in enumerate(
        ("self", "dim", "index", "src")))
    return importer.block_builder.emit(
        compat.relax_op("scatter_elements")(x, index, source, axis=int(axis), reduction="add"))


def _arange(node: Any, importer: Any) -> Any:
    """Numbers in equal steps; TVM 0.27 counts wrong where they go down."""
    from archloom.tvm_backend.ir import compat

    result = node.meta["val"]
    numbers = (0, *node.args) if len(node.args) == 1 else node.args
    start, _, step = (*numbers, 1)[:3]
    values = start + step * np.arange(result.shape[0])
    return compat.constant(np.asarray(values, str(result.dtype).removeprefix("torch.")))


def _triangle(name: str) -> Callable[[Any, Any], Any]:
    """``tril_indices`` and ``triu_indices``, which TVM 0.27 lacks: NumPy lists them in the same order."""
    def convert(node: Any, importer: Any) -> Any:
        from archloom.tvm_backend.ir import compat

        rows, columns, offset = (argument(node, importer, i, n, 0) for i, n in enumerate(("row", "col", "offset")))
        dtype = str(node.meta["val"].dtype).removeprefix("torch.")
        return compat.constant(np.stack(getattr(np, name)(rows, offset, columns)).astype(dtype))

    return convert


CONVERTERS: Mapping[str, Callable[[Any, Any], Any]] = {
    "select.int": _select,
    "index.Tensor": _index,
    "scatter_add.default": _scatter_add,
    "tril_indices.default": _triangle("tril_indices"),
    "triu_indices.default": _triangle("triu_indices"),
    "arange.default": _arange,
    "arange.start": _arange,
    "arange.start_step": _arange,
}
