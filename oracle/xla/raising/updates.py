"""Writes that make an element's new value of its old one: accumulations of every kind.

``new = f(old, others)`` element by element, or, in a buffer of bytes, word by word: the tiles of a matrix unit are
bytes, and its sums are words in them. Such a write in a loop is a chain
(:class:`archloom.oracle.xla.notation.expr.Fold`), or, where ``f`` adds integers, a sum.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass, replace

from archloom.oracle.affine import Affine
from archloom.oracle.resolved import Read, Window
from archloom.oracle.windows import linear
from archloom.oracle.xla.notation import expr, traits
from archloom.oracle.xla.notation.build import map_of
from archloom.oracle.xla.notation.expr import Carry, Expr, Fold, Leaf, Map, Ranges
from archloom.oracle.xla.notation.limits import WRITTEN_OPERATIONS
from archloom.oracle.xla.notation.substitution import substitute
from archloom.oracle.xla.notation.sums import plug, terms
from archloom.oracle.xla.notation.variables import OLD_CONTENTS, fresh
from archloom.oracle.xla.raising.tree import WriteItem


@dataclass(frozen=True)
class Update:
    """How a write makes new elements of old ones.

    ``body`` is over ``axes``, one for each dim of the write's window, with :class:`Carry` for the old element. With
    ``word`` above 1, elements are ``word`` bytes along the last axis, and the last of ``axes`` counts words.
    """

    axes: tuple[str, ...]
    word: int
    body: Expr

    @property
    def addend(self) -> Expr | None:
        """What is added, where the update only adds integers."""
        parts = terms(self.body)
        if not expr.is_integer(self.body.dtype) or parts.count(Carry(self.body.dtype)) != 1:
            return None
        rest = [p for p in parts if not isinstance(p, Carry)]
        if not rest or any(traits.carries(p) for p in rest):
            return None
        total = rest[0]
        for part in rest[1:]:
            total = map_of("add", (total, part), (), total.dtype)
        return total


def old_contents(item: WriteItem) -> int | None:
    """The number of the statement of the write's instruction that reads what the write replaces, if there is just one.
    """
    found = [number for number, s in enumerate(item.owner.instr.statements[:item.statement])
             if isinstance(s, Read) and s.window == item.write.window]
    return found[0] if len(found) == 1 else None


def update(axes: tuple[str, ...], e: Expr, window: Window, ranges: Ranges) -> Update | None:
    """The update that the value ``e`` over ``axes`` is, with ``OLD_CONTENTS`` in it for the old contents; or None."""
    at = linear(tuple(Affine.variable(a) for a in axes), window.shape).simplify(ranges)
    if not isinstance(e, expr.ByteOf):
        body = carried(e, lambda x: x == Leaf(OLD_CONTENTS, at, e.dtype), _mentions, ranges)
        return None if body is None else Update(axes, 1, body)
    size, last, extent = expr.width(e.body.dtype), axes[-1], window.shape[-1]
    dim = window.dims[-1]
    byte = (Affine.variable(last) % size).simplify(ranges)
    if extent % size or dim.stride != 1 or e.byte != byte:
        return None
    word = fresh()
    inner = {**ranges, word: (0, extent // size - 1)}
    body = substitute(e.body, {last: Affine.variable(word) * size}, inner)
    if substitute(body, {word: Affine.variable(last) // size}, ranges) != e.body:
        return None
    first = (at - Affine.variable(last) + Affine.variable(word) * size).simplify(inner)
    made = carried(body, lambda e: _is_word(e, first, size, inner), _mentions, inner)
    return None if made is None else Update((*axes[:-1], word), size, made)


def carried(
    e: Expr, is_old: Callable[[Expr], bool], mentions: Callable[[Expr], bool], ranges: Ranges, *, is_all: bool = True
) -> Expr | None:
    """``e`` with :class:`Carry` for what is the old element; None where the old contents occur in any other way.

    A chain that begins with the old element, and is all of a step, is many steps. Any other is written out where it is
    short: no step of a chain is lowered as one.
    """
    if is_old(e):
        return Carry(e.dtype)
    if not mentions(e):
        return e
    if isinstance(e, Fold) and not mentions(e.body):
        start = carried(e.start, is_old, mentions, ranges, is_all=False)
        if start is None or (is_all and _is_carry(start)):
            return start and replace(e, start=start)
        return _written(e, start, ranges) if _operations(e) <= WRITTEN_OPERATIONS else None
    if not isinstance(e, Map):
        return None
    is_all = is_all and e.opcode == "bitcast_convert"
    parts = [carried(o, is_old, mentions, ranges, is_all=is_all) for o in e.operands]
    return None if None in parts else map_of(e.opcode, tuple(p for p in parts if p), e.attributes, e.dtype)


def _is_carry(e: Expr) -> bool:
    """Whether it is the carried value, or its bits as another number."""
    return isinstance(e, Carry) or (
        isinstance(e, Map) and e.opcode == "bitcast_convert" and isinstance(e.operands[0], Carry))


def _operations(e: Fold) -> int:
    """Operations of all steps of a chain on the carried value."""
    return math.prod(extent for _, extent in e.variables) * _depth(e.body)


def _depth(e: Expr) -> int:
    return 1 + sum(_depth(o) for o in e.operands if traits.carries(o)) if isinstance(e, Map) else 0


def _written(e: Fold, start: Expr, ranges: Ranges) -> Expr:
    """The steps of a chain from ``start``, one after the other."""
    names = [name for name, _ in e.variables]
    for step in itertools.product(*(range(extent) for _, extent in e.variables)):
        start = plug(substitute(e.body, dict(zip(names, map(Affine, step))), ranges), start, ranges)
    return start


def _is_word(e: Expr, first: Affine, size: int, ranges: Ranges) -> bool:
    """Whether ``e`` is the word of the old contents whose first byte is number ``first``."""
    if not isinstance(e, expr.FromBytes) or expr.width(e.dtype) != size:
        return False
    byte = Affine.variable(e.variable)
    index = (first + byte).simplify({**ranges, e.variable: (0, size - 1)})
    return e.body == Leaf(OLD_CONTENTS, index, e.body.dtype)


@expr.once
def _mentions(e: Expr) -> bool:
    """Whether the old contents occur."""
    if isinstance(e, expr.Element):
        return any(_mentions(o.body) for o in e.whole.operands)
    return (isinstance(e, Leaf) and e.name == OLD_CONTENTS) or any(_mentions(c) for c in e.children)
