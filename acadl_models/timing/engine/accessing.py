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


@dataclass(frozen=True)
class Classes:
    """Which accesses may meet, as pairs of their orders (the smaller first), and how they fall into classes.

    Accesses that meet nothing have no class. ``members`` are the orders of each class; ``first`` and ``second``:
    int64 [pairs], ascending in ``first``.
    """

    members: tuple[NDArray[np.int64], ...]
    first: NDArray[np.int64]
    second: NDArray[np.int64]


def classify(entries: list[Entry]) -> Classes:
    """Find the pairs of accesses that may meet, and give each connected part of them a conflict class."""
    groups: dict[str, list[Entry]] = {}
    for e in entries:
        if e.plan.tracked:
            groups.setdefault(e.plan.buffer.name, []).append(e)
    members: list[NDArray[np.int64]] = []
    firsts: list[NDArray[np.int64]] = [np.zeros(0, np.int64)]
    seconds: list[NDArray[np.int64]] = [np.zeros(0, np.int64)]
    for group in groups.values():
        kinds = np.array([e.kind for e in group])
        if (kinds == kinds[0]).all() and kinds[0] != WRITE:
            continue
        orders = np.array([e.order for e in group])
        a, b = _meeting(kinds, np.array([e.low for e in group]), np.array([e.high for e in group]))
        firsts.append(orders[a])
        seconds.append(orders[b])
        members += [orders[part] for part in _connected(kinds == WRITE, a, b)]
    for number, part in enumerate(members):
        _name_class([entries[k] for k in part.tolist()], number)
    first, second = np.concatenate(firsts), np.concatenate(seconds)
    ascending = np.argsort(first, kind="stable")
    return Classes(tuple(members), first[ascending], second[ascending])


def _meeting(
    kinds: NDArray[np.int64], low: NDArray[np.int64], high: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Pairs ``a < b`` of accesses of one buffer, given as [access] and [access, axis], whose boxes overlap."""
    sweep = int(np.argmax([len(np.unique(low[:, axis])) for axis in range(low.shape[1])]))
    by_low = np.argsort(low[:, sweep], kind="stable")
    last = np.searchsorted(low[by_low, sweep], high[by_low, sweep], side="right")
    place = np.arange(len(kinds))
    count = last - place - 1
    left = np.repeat(place, count)
    right = np.arange(len(left)) - np.repeat(np.cumsum(count) - count, count) + left + 1
    a, b = by_low[left], by_low[right]
    meets = (kinds[a] != kinds[b]) | (kinds[a] == WRITE)
    for axis in range(low.shape[1]):
        if axis != sweep:
            meets &= (low[a, axis] <= high[b, axis]) & (low[b, axis] <= high[a, axis])
    a, b = a[meets], b[meets]
    return np.minimum(a, b), np.maximum(a, b)


def _connected(
    alone: NDArray[np.bool_], a: NDArray[np.int64], b: NDArray[np.int64]
) -> list[NDArray[np.int64]]:
    """The connected parts of a relation, in ascending order; ``alone``: what is related to itself counts as a part."""
    label = np.arange(len(alone))
    while True:
        lower = np.minimum(label[a], label[b])
        found = label.copy()
        np.minimum.at(found, a, lower)
        np.minimum.at(found, b, lower)
        found = found[found]
        if (found == label).all():
            break
        label = found
    related = alone.copy()
    related[a] = related[b] = True
    inside = np.flatnonzero(related)
    by_label = inside[np.argsort(label[inside], kind="stable")]
    borders = np.flatnonzero(np.diff(label[by_label])) + 1
    return [part for part in np.split(by_label, borders) if len(part)]


def _name_class(part: list[Entry], number: int) -> None:
    """Give the accesses of a class its number, and drop the axes along which all of them always meet."""
    axes = tuple(a for a in range(len(part[0].offsets)) if not _same_place(part, a))
    for member in part:
        member.conflict_class, member.axes = number, axes


def _same_place(part: list[Entry], axis: int) -> bool:
    """All accesses start at one fixed place along the axis, so that any two of them have it in common."""
    first = part[0].offsets[axis]
    return first.is_constant and all(e.offsets[axis] == first for e in part)

