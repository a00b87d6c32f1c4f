"""Accesses of a program in the form of the engine's tables: words in storages, axes that decide about conflicts."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from acadl_models.timing.engine.layout import ACCUMULATE, NONE, READ, WRITE
from acadl_models.timing.engine.windows import NOTHING, Pattern, pattern, patterns
from acadl_models.timing.machine import AccessPlan, word_axes
from oracle.affine import Affine, Bounds
from oracle.resolved import Buffer

KINDS = {"read": READ, "write": WRITE, "accumulate": ACCUMULATE}


@dataclass
class Entry:
    """One access of one instruction of the program text.

    ``offsets`` and ``shapes`` have one entry for each axis; ``word`` and ``word_shape`` are those of word addresses.
    ``conflict_class`` and ``axes`` (those that decide) are found by :func:`classify`.
    """

    order: int
    static: int
    kind: int
    plan: AccessPlan
    loops: tuple[str, ...]
    offsets: tuple[Affine, ...]
    shapes: tuple[Pattern, ...]
    word: Affine
    word_shape: Pattern
    low: list[int] = field(default_factory=list)
    high: list[int] = field(default_factory=list)
    conflict_class: int = NONE
    axes: tuple[int, ...] = ()


def entry(plan: AccessPlan, static: int, loops: tuple[str, ...], order: int) -> Entry:
    """The access of a bound instruction in the engine's form."""
    window = plan.access.window
    shapes = patterns(window.dims, len(window.offsets))
    offsets = tuple(o + s.origin if s.origin else o for o, s in zip(window.offsets, shapes))
    word, word_shape = Affine(0), NOTHING
    if plan.banks:
        word, word_shape = _words(_word_strides(plan.buffer.shape, plan.buffer.dtype, plan.data_width), offsets, shapes)
    return Entry(order, static, KINDS[plan.access.kind], plan, loops, offsets, shapes, word, word_shape)


@lru_cache(maxsize=1024)
def _word_strides(shape: tuple[int, ...], dtype: str, data_width: int) -> tuple[int, ...]:
    """How many words a step along each leading axis of a buffer is; the axes after them make up one word."""
    axes = word_axes(Buffer("", shape, dtype), data_width)
    assert axes is not None
    return tuple(math.prod(shape[axis + 1 : axes]) for axis in range(axes))


def _words(
    strides: tuple[int, ...], offsets: tuple[Affine, ...], shapes: tuple[Pattern, ...]
) -> tuple[Affine, Pattern]:
    """First word address and the pattern of words, over the leading axes."""
    if strides == (1,):
        return offsets[0], shapes[0]
    word = Affine(0)
    for stride, offset in zip(strides, offsets):
        word = word + offset * stride
    return word, pattern(tuple((stride * s, n) for stride, shape in zip(strides, shapes) for s, n in shape.dims))


def find_ranges(entries: list[Entry], bounds: Bounds) -> None:
    """Smallest and largest element that each access touches along each axis, over all iterations."""
    for e in entries:
        for offset, shape in zip(e.offsets, e.shapes):
            low, high = (offset.constant, offset.constant) if offset.is_constant else offset.range(bounds)
            e.low.append(low)
            e.high.append(high + shape.span)


def classify(entries: list[Entry]) -> tuple[NDArray[np.int64], int]:
    """Which pairs of accesses may meet; accesses that meet nothing get no class, the others connected classes."""
    n = len(entries)
    met = np.zeros((n, n), np.int64)
    groups: dict[str, list[Entry]] = {}
    for e in entries:
        if e.plan.tracked:
            groups.setdefault(e.plan.buffer.name, []).append(e)
    classes = 0
    for group in groups.values():
        numbers = np.array([e.order for e in group])
        kinds = np.array([e.kind for e in group])
        low, high = np.array([e.low for e in group]), np.array([e.high for e in group])
        meets = (kinds[:, None] != kinds[None, :]) | (kinds == WRITE)[:, None]
        meets &= ((low[:, None] <= high[None, :]) & (low[None, :] <= high[:, None])).all(axis=2)
        met[np.ix_(numbers, numbers)] = meets
        classes = _connect(group, meets, classes)
    return met, classes


def _connect(group: list[Entry], meets: NDArray[np.bool_], classes: int) -> int:
    """Number the connected parts of the relation, and drop the axes along which a part always meets."""
    for k, e in enumerate(group):
        if e.conflict_class != NONE or not meets[k].any():
            continue
        members, work = {k}, [k]
        while work:
            fresh = [int(j) for j in np.flatnonzero(meets[work.pop()]) if int(j) not in members]
            members.update(fresh)
            work += fresh
        part = [group[j] for j in sorted(members)]
        axes = tuple(a for a in range(len(e.offsets)) if not _same_place(part, a))
        for member in part:
            member.conflict_class, member.axes = classes, axes
        classes += 1
    return classes


def _same_place(part: list[Entry], axis: int) -> bool:
    """All accesses start at one fixed place along the axis, so that any two of them have it in common."""
    first = part[0].offsets[axis]
    return first.is_constant and all(e.offsets[axis] == first for e in part)

