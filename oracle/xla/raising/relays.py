"""Copies handed on from place to place, as copies of what the first place has.

``for h: place(h + 1) = place(h)`` sends a block down a line, as cores of a mesh do that pass tiles on. The value that
an iteration copies is that of the iteration before: a recurrence, although every place gets the block of the first.
Where all places are apart from each other, reading place 0 instead says the same, and no iteration depends on another.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from archloom.oracle.affine import Affine
from archloom.oracle.resolved import Read, ResolvedInstr, ResolvedLoop, ResolvedNode, ResolvedStream, Window, Write
from archloom.oracle.windows import sums
from archloom.oracle.xla.notation.limits import USUAL, Limits


def without_relays(stream: ResolvedStream, limits: Limits = USUAL) -> ResolvedStream:
    """The stream in which every place of a line gets a copy of the first; the same stream if it has no such lines."""
    body = _nodes(stream.body, limits.relay_words)
    return stream if body == stream.body else replace(stream, body=body)


def _nodes(nodes: tuple[ResolvedNode, ...], most: int) -> tuple[ResolvedNode, ...]:
    return tuple([_loop(node, most) if isinstance(node, ResolvedLoop) else node for node in nodes])


def _loop(loop: ResolvedLoop, most: int) -> ResolvedLoop:
    nest = [loop]
    while len(nest[-1].body) == 1 and isinstance(inner := nest[-1].body[0], ResolvedLoop):
        nest.append(inner)
    copy = nest[-1].body[0] if len(nest[-1].body) == 1 else None
    if not isinstance(copy, ResolvedInstr) or len(copy.statements) != 2:
        return replace(loop, body=_nodes(loop.body, most))
    for depth, line in enumerate(nest):
        first = _first_source(copy, line, nest[depth + 1:], most)
        if first is not None:
            read = copy.statements[0]
            assert isinstance(read, Read)
            made: ResolvedNode = replace(copy, statements=(replace(read, window=first), copy.statements[1]))
            for outer in reversed(nest):
                made = replace(outer, body=(made,))
            assert isinstance(made, ResolvedLoop)
            return made
    return loop


def _first_source(copy: ResolvedInstr, line: ResolvedLoop, inside: list[ResolvedLoop], most: int) -> Window | None:
    """What the first iteration of ``line`` reads, if each further one hands on what the one before it has written."""
    read, write = copy.statements
    if not isinstance(read, Read) or not isinstance(write, Write) or write.kind != "write" or write.src != read.dst:
        return None
    source, target, var = read.window, write.window, line.var
    if source.buffer != target.buffer or source.dims != target.dims or source.buffer == "hbm":
        return None
    after = {var: Affine.variable(var) + 1}
    if any(s.substitute(after) != t for s, t in zip(source.offsets, target.offsets, strict=True)):
        return None
    if not _are_disjoint(source, line, inside, most):
        return None
    return source.with_offsets(lambda o: o.substitute({var: 0}))


def _are_disjoint(source: Window, line: ResolvedLoop, inside: list[ResolvedLoop], most: int) -> bool:
    """Whether no word is in two of the places, those of all iterations of the loops inside among them."""
    own = {line.var: line.extent + 1, **{loop.var: loop.extent for loop in inside}}
    offset = source.offsets[0]
    moving = [t for t in offset.terms if not Affine(0, (t,)).variables().isdisjoint(own)]
    relative = sums((d.extent, d.stride) for d in source.dims if d.axis == 0)
    if any(not isinstance(atom, str) for atom, _ in moving) or not relative.size:
        return False
    if math.prod(own.values()) * relative.size > most:
        return False
    found = relative
    for name, extent in own.items():
        found = np.add.outer(found, np.arange(extent) * dict(moving).get(name, 0)).ravel()
    return bool(np.unique(found).size == found.size)
