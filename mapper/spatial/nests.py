"""Loops over cores: rows of numbers as a few nests of loops, and nests taken apart so that each has one instruction."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from oracle.affine import Affine
from oracle.stream import Instr, Loop, Node

Numbers = NDArray[np.int64]
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


# --- nests that are in a program -----------------------------------------------------------------------------------


def distributed(nodes: tuple[Node, ...], over: Collection[Path], at: Path = ()) -> tuple[Node, ...]:
    """A program in which each of the loops ``over`` cores goes over one instruction at a time."""
    found: list[Node] = []
    for number, node in enumerate(nodes):
        if not isinstance(node, Loop):
            found.append(node)
            continue
        here = (*at, number)
        body = distributed(node.body, over, here)
        if here in over:
            found += [Loop(node.var, node.start, node.stop, node.step, (inner,)) for inner in body]
        else:
            found.append(Loop(node.var, node.start, node.stop, node.step, body))
    return tuple(found)


def unrolled(nodes: tuple[Node, ...], these: Collection[Path], at: Path = ()) -> tuple[Node, ...]:
    """A program in which ``these`` loops are written out."""
    found: list[Node] = []
    for number, node in enumerate(nodes):
        if not isinstance(node, Loop):
            found.append(node)
            continue
        here = (*at, number)
        body = unrolled(node.body, these, here)
        if here in these:
            for value in range(node.start, node.stop, node.step):
                found += [_replaced(inner, node.var, Affine(value)) for inner in body]
        else:
            found.append(Loop(node.var, node.start, node.stop, node.step, body))
    return tuple(found)


def _replaced(node: Node, var: str, value: Affine) -> Node:
    if isinstance(node, Instr):
        return Instr(node.mnemonic, tuple((name, form.substitute({var: value})) for name, form in node.attributes))
    assert isinstance(node, Loop)
    if node.var == var:
        return node
    return Loop(node.var, node.start, node.stop, node.step, tuple(_replaced(n, var, value) for n in node.body))
