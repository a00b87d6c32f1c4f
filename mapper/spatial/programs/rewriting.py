"""Loops over rows, and programs with their loops in another order."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, replace

import numpy as np

from archloom.mapper.spatial.machines.queues import Numbers
from archloom.oracle.affine import Affine
from archloom.oracle.nests import with_attributes
from archloom.oracle.stream import Loop, Node

Path = tuple[int, ...]
"""Where a node stands: its number in each body, from the outermost on."""


@dataclass(frozen=True)
class Box:
    """Rows ``first + sum of i_d * step_d`` for all ``i_d`` below ``count_d``, the last dimension the fastest."""

    first: Numbers
    dims: tuple[tuple[int, Numbers], ...]


def boxes(rows: Numbers) -> Iterator[Box]:
    """The rows of a matrix, in their order, as few boxes."""
    while len(rows):
        dims: list[tuple[int, Numbers]] = []
        size = 1
        while True:
            block = rows[:size]
            whole = rows[: len(rows) // size * size].reshape(-1, size, rows.shape[1])
            heads = whole[:, 0]
            if len(heads) < 2:
                break
            alike = (whole - heads[:, None] == block - block[0]).all(axis=(1, 2))
            alike[1:] &= (np.diff(heads, axis=0) == heads[1] - heads[0]).all(axis=1)
            count = int(np.argmin(alike)) if not alike.all() else len(alike)
            if count < 2:
                break
            dims.insert(0, (count, heads[1] - heads[0]))
            size *= count
        yield Box(rows[0], tuple(dims))
        rows = rows[size:]


def looped(box: Box, body: Callable[[list[Affine]], Node]) -> Node:
    """``body`` for all rows of a box, as loops."""
    row = [Affine(int(v)) for v in box.first]
    for number, (_, step) in enumerate(box.dims):
        variable = Affine.variable(f"to{number}")
        row = [value + variable * int(by) for value, by in zip(row, step, strict=True)]
    node = body(row)
    for number, (count, _) in reversed(list(enumerate(box.dims))):
        node = Loop(f"to{number}", 0, count, 1, (node,))
    return node


def distributed(nodes: tuple[Node, ...], over: Collection[Path]) -> tuple[Node, ...]:
    """A program in which each of the loops ``over`` cores goes over one instruction at a time."""
    return rewritten(nodes, lambda here, node: [
        replace(node, body=(inner,)) for inner in node.body] if here in over and isinstance(node, Loop) else [node])


def unrolled(nodes: tuple[Node, ...], these: Collection[Path]) -> tuple[Node, ...]:
    """A program in which ``these`` loops are written out."""
    def apart(here: Path, node: Node) -> list[Node]:
        if here not in these or not isinstance(node, Loop):
            return [node]
        values = [{node.var: Affine(value)} for value in range(node.start, node.stop, node.step)]
        return [with_attributes(inner, lambda form, value=value: form.substitute(value))  # type: ignore[misc]
                for value in values for inner in node.body]

    return rewritten(nodes, apart)


def rewritten(nodes: tuple[Node, ...], become: Callable[[Path, Node], list[Node]], at: Path = ()) -> tuple[Node, ...]:
    """A program in which nodes ``become`` others, the innermost first."""
    found: list[Node] = []
    for number, node in enumerate(nodes):
        here = (*at, number)
        if isinstance(node, Loop):
            node = replace(node, body=rewritten(node.body, become, here))
        found += become(here, node)
    return tuple(found)
