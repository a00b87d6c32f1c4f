"""What the host does where tensors of a region lie otherwise than the network has them: tiles from arrays and back.

A target that keeps its tensors in tiles (:mod:`archloom.tvm_backend.targets.layouts`) gets each input of a region laid
out by the host, and the host makes arrays of the results; within a region a tensor is laid out anew only for a step
that reads it in another layout. Each of these is an operator of the host, listed and timed as such.
"""

from __future__ import annotations

from collections.abc import Iterator

from archloom.tvm_backend.compiled import HostOp, Partition, Region
from archloom.tvm_backend.targets.layouts import Layout

RETILED = "retile"


def conversions(partition: Partition) -> tuple[HostOp, ...]:
    """All conversions of a network, in the order of its regions; regions of which only steps are known have none."""
    return tuple(op for region in partition.regions if region.values for op in _of_region(region))


def _of_region(region: Region) -> Iterator[HostOp]:
    first, last = (region.steps[end].position if region.steps else 0 for end in (0, -1))
    for name in region.inputs:
        value = region.value(name)
        if value.layout.in_tiles:
            yield _packing(name, value.layout, value.shape, first)
    for step in region.steps:
        for argument, name in step.inputs:  # of what it reads otherwise than the region keeps it
            view, value = step.views.get(argument), region.value(name)
            if view is not None and not value.layout.in_tiles:
                yield _packing(name, view.layout, view.shape, step.position)
            elif view is not None and not view.is_met(value):
                yield _op(name, RETILED, view.shape, f"from {_tiles(view.layout)}", step.position)
    for name in region.outputs:
        value = region.value(name)
        if value.layout.in_tiles:
            yield _op(name, value.layout.unpacking, value.shape, f"from {_tiles(value.layout)}", last)


def _packing(name: str, layout: "Layout", shape: tuple[int, ...], position: int) -> HostOp:
    return _op(name, layout.packing, shape, f"it makes {_tiles(layout)}", position)


def _tiles(layout: "Layout") -> str:
    return f"a layout of tiles ({layout.name})"


def _op(name: str, kind: str, shape: tuple[int, ...], reason: str, position: int) -> HostOp:
    return HostOp(f"{name} ({kind})", kind, shape, 0, "xla", reason, position=position)
