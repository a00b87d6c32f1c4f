"""What the host does where tensors of a region lie otherwise than the network has them: tiles from arrays and back.

A target that keeps its tensors in tiles (:mod:`archloom.tvm_backend.targets.tiles`) gets each input of a region laid
out by the host, and the host makes arrays of the results; within a region a tensor is laid out anew only for a step
that reads it in another layout. Each of these is an operator of the host, listed and timed as such.
"""

from __future__ import annotations

from collections.abc import Iterator

from archloom.tvm_backend.compiled import HostOp, Partition, Region, Step, Value
from archloom.tvm_backend.targets import tiles

TO_TILES, FROM_TILES, RETILED = "to_tiles", "from_tiles", "retile"
TO_WINDOWS, FROM_PLACES = "to_windows", "from_places"
"""Of images, as convolutions read and store them."""


def conversions(partition: Partition) -> tuple[HostOp, ...]:
    """All conversions of a network, in the order of its regions; regions of which only steps are known have none."""
    return tuple(op for region in partition.regions if region.values for op in _of_region(region))


def _of_region(region: Region) -> Iterator[HostOp]:
    first = region.steps[0].position if region.steps else 0
    for name in region.inputs:
        value = region.value(name)
        if value.in_tiles:
            yield _op(name, _entering(value), value, first)
    for step in region.steps:
        yield from _of_step(region, step)
    last = region.steps[-1].position if region.steps else 0
    for name in region.outputs:
        value = region.value(name)
        if value.in_tiles:
            yield _op(name, _leaving(value), value, last)


def _of_step(region: Region, step: Step) -> Iterator[HostOp]:
    """Of what a step reads otherwise than the region keeps it."""
    for argument, name in step.inputs:
        view, value = step.views.get(argument), region.value(name)
        if view is None:
            continue
        if not value.in_tiles:
            yield _op(name, _entering(view), view, step.position)
        elif view.anew(value) or not tiles.lies_alike(value.held, view.held):
            yield _op(name, RETILED, view, step.position)


def _entering(value: Value) -> str:
    return TO_WINDOWS if value.layout in tiles.IMAGES else TO_TILES


def _leaving(value: Value) -> str:
    return FROM_PLACES if value.layout in tiles.IMAGES else FROM_TILES


def _op(name: str, kind: str, value: Value, position: int) -> HostOp:
    return HostOp(f"{name} ({kind})", kind, value.shape, 0, "xla", f"a layout of tiles ({value.layout})", (), position)
