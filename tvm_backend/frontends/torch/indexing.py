"""Converters of ATen's indexing, which TVM 0.27 gets wrong: indices below zero, and several that belong together."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from archloom.oracle.errors import ModelError
from archloom.tvm_backend.frontends.torch.site import Site, constant, dtype_name
from archloom.tvm_backend.ir import expressions as ir


def _select(site: Site) -> Any:
    """torch counts negative indices from the end; TVM 0.27 takes what lies before the tensor."""
    x, axis, index = site.first("self", "dim", "index")
    place = constant(int(index) % ir.shape_of(x)[int(axis)], "int64")
    return site.emit("take", x, place, axis=int(axis), mode="clip")


def _index(site: Site) -> Any:
    """``x[i, :, j]``: indices are broadcast to one another and belong together, those below zero count from the end.

    What they choose stands where they stood, or first if an axis without an index is between them. TVM 0.27 takes what
    lies before the tensor for negative indices, and every combination of some pairs of indices.
    """
    x, node = site.at(0, "self"), site.node
    shape, rank = ir.shape_of(x), len(ir.shape_of(x))
    given = {axis: site.importer.env[index] for axis, index in enumerate(node.args[1]) if index is not None}
    for index in given.values():
        if ir.dtype_of(index) == "bool":
            raise ModelError(f"node {node.name!r} (index): expected integers as indices, found a mask: the shape of "
                             "the result depends on its numbers")
    axes = list(given)
    others = [axis for axis in range(rank) if axis not in given]
    places = _places([_from_start(index, shape[axis], site) for axis, index in given.items()],
                     [shape[axis] for axis in axes], site)
    together = axes == list(range(axes[0], axes[0] + len(axes)))
    if len(axes) == 1:
        return site.emit("take", x, places, axis=axes[0], mode="clip")
    if axes + others != list(range(rank)):
        x = site.emit("permute_dims", x, [*axes, *others])
    kept = [shape[axis] for axis in others]
    x = site.emit("reshape", x, (math.prod(shape[axis] for axis in axes), *kept))
    chosen = site.emit("take", x, places, axis=0, mode="clip")
    if not together or axes[0] == 0:
        return chosen
    made, before = len(ir.shape_of(places)), axes[0]
    order = [*range(made, made + before), *range(made), *range(made + before, made + len(others))]
    return site.emit("permute_dims", chosen, order)


def _from_start(index: Any, extent: int, site: Site) -> Any:
    """Indices, int64, with those below zero counted from the end."""
    zero, size = (constant(n, "int64") for n in (0, extent))
    index = site.cast(index, "int64")
    return site.emit("where", site.emit("less", index, zero), site.emit("add", index, size), index)


def _places(indices: Sequence[Any], extents: Sequence[int], site: Site) -> Any:
    """Places in the indexed axes taken together, the last counting fastest."""
    place = indices[0]
    for index, extent in zip(indices[1:], extents[1:], strict=True):
        place = site.emit("add", site.emit("multiply", place, constant(extent, "int64")), index)
    return place


def _scatter_add(site: Site) -> Any:
    """TVM 0.27 has the operator, but no converter."""
    x, axis, index, source = site.first("self", "dim", "index", "src")
    return site.emit("scatter_elements", x, index, source, axis=int(axis), reduction="add")


def _arange(site: Site) -> Any:
    """Numbers in equal steps; TVM 0.27 counts wrong where they go down."""
    result, args = site.node.meta["val"], site.node.args
    numbers = (0, *args) if len(args) == 1 else args
    start, _, step = (*numbers, 1)[:3]
    return constant(start + step * np.arange(result.shape[0]), dtype_name(result.dtype))


def _triangle(name: str) -> Callable[[Site], Any]:
    """``tril_indices`` and ``triu_indices``, which TVM 0.27 lacks: NumPy lists them in the same order."""
    def convert(site: Site) -> Any:
        rows, columns, offset = (site.at(i, n, 0) for i, n in enumerate(("row", "col", "offset")))
        return constant(np.stack(getattr(np, name)(rows, offset, columns)), dtype_name(site.node.meta["val"].dtype))

    return convert


CONVERTERS: Mapping[str, Callable[[Site], Any]] = {
    "select.int": _select,
    "index.Tensor": _index,
    "scatter_add.default": _scatter_add,
    "tril_indices.default": _triangle("tril_indices"),
    "triu_indices.default": _triangle("triu_indices"),
    **dict.fromkeys(("arange.default", "arange.start", "arange.start_step"), _arange),
}
