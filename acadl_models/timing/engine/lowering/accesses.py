"""Lowering accesses: where in which storages those of a program lie, as columns of all of them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np

from archloom.acadl_models.timing.engine.fields import NONE
from archloom.acadl_models.timing.engine.lowering.expressions import Expressions
from archloom.acadl_models.timing.engine.lowering.forms import Form
from archloom.acadl_models.timing.engine.lowering.tables import Array
from archloom.oracle.affine import Affine, Bounds

Offsets = tuple[Affine, ...]

_ZERO = Affine(0)


class Accesses:
    """The accesses of a program that the engine must know, in the order of its text; their numbers are that order.

    Columns are int64 [access], those of axes int64 [access, axis]: axes that a buffer does not have are the same for
    all. An array of units has thousands of accesses, of which few differ in more than where they lie.

    ``form``: number among ``forms``; ``static``: the number of the instruction, ``place`` that among its accesses.
    ``kind``, ``holds``, ``banks`` (how many), ``requests`` (at most) are those of the form; ``buffer``: number of the
    buffer whose elements decide about conflicts, or NONE. ``offsets``: number among ``expressions`` of the smallest
    element that is touched along each axis; ``word``: of the first word address, NONE where it is not needed.
    ``low``, ``high``: the smallest and the largest element that is touched along each axis, over all iterations.
    """

    def __init__(
        self, forms: Sequence[Form], offsets: Sequence[Offsets], counts: Sequence[int], bounds: Bounds
    ) -> None:
        """``counts``: how many accesses each instruction has; ``bounds``: of the variables of all loops."""
        self.counts = np.array(counts, np.int64)
        self.static = np.repeat(np.arange(len(counts)), self.counts)
        self.place = np.arange(len(forms)) - (np.cumsum(self.counts) - self.counts)[self.static]
        distinct = {id(form): form for form in forms}
        self.forms = list(distinct.values())
        numbers = {key: number for number, key in enumerate(distinct)}
        self.form = np.array([numbers[id(form)] for form in forms], np.int64)
        facts = np.array([form.facts for form in self.forms], np.int64).reshape(-1, len(Form.FACTS))
        self.kind, self.holds, self.banks, self.requests, axes, moved, worded = facts[self.form].T
        buffers: dict[str, int] = {}
        tracked = [buffers.setdefault(form.place.buffer, len(buffers)) if form.place.tracked else NONE
                   for form in self.forms]
        self.buffer = np.array(tracked, np.int64)[self.form]
        self.buffers = len(buffers)
        offsets = _from_smallest(forms, offsets, moved)
        self._number(offsets, axes)
        self.word = self._words(forms, offsets, worded)
        self._limit(bounds)

    def __len__(self) -> int:
        return len(self.form)

    @cached_property
    def varying(self) -> Array:
        """Of each expression whether it depends on loops."""
        return np.array([bool(e.terms) for e in self.expressions], bool)

    def _number(self, offsets: Sequence[Offsets], axes: Array) -> None:
        """Number the expressions by their identity: comparing is slow, and a repetition costs a few words."""
        flat = [_ZERO, *[o for each in offsets for o in each]]
        _, first, number = np.unique(np.array(list(map(id, flat)), np.int64), return_index=True, return_inverse=True)
        self.expressions = [flat[k] for k in first.tolist()]
        width = int(axes.max(initial=1))
        self.present = np.arange(width) < axes[:, None]
        """Which axes the buffer of each access has."""
        self.offsets = np.full((len(axes), width), number[0])
        self.offsets[self.present] = number[1:]

    def _words(self, forms: Sequence[Form], offsets: Sequence[Offsets], worded: Array) -> Array:
        """The first word address of each access for which it is needed, among the expressions."""
        word, known = np.full(len(forms), NONE), dict[tuple[object, ...], int]()
        for k in np.flatnonzero(worded).tolist():
            strides = forms[k].strides
            if strides == (1,):
                word[k] = self.offsets[k, 0]
                continue
            key = strides, *self.offsets[k, : len(strides)].tolist()
            number = known.get(key)
            if number is None:
                number = known[key] = len(self.expressions)
                self.expressions.append(sum((o * s for o, s in zip(offsets[k], strides)), _ZERO))
            word[k] = number
        return word

    def _limit(self, bounds: Bounds) -> None:
        """Find the elements that are touched."""
        used = np.unique(self.offsets)
        found = [(e.constant, e.constant) if not e.terms else e.range(bounds)
                 for e in map(self.expressions.__getitem__, used.tolist())]
        ranges = np.zeros((len(self.expressions), 2), np.int64)
        ranges[used] = np.array(found, np.int64).reshape(-1, 2)
        self.low, self.high = ranges[self.offsets, 0], ranges[self.offsets, 1]
        spans = np.zeros((len(self.forms), self.low.shape[1]), np.int64)
        for row, form in enumerate(self.forms):
            spans[row, : len(form.spans)] = form.spans
        self.high += spans[self.form]


def _from_smallest(forms: Sequence[Form], offsets: Sequence[Offsets], moved: Array) -> Sequence[Offsets]:
    """The offsets of the smallest elements: windows may walk backwards."""
    if not moved.any():
        return offsets
    found, known = list(offsets), dict[tuple[int, int], Offsets]()
    for k in np.flatnonzero(moved).tolist():
        key = id(offsets[k]), id(forms[k])
        if key not in known:
            known[key] = tuple([o + s.origin for o, s in zip(offsets[k], forms[k].patterns)])
        found[k] = known[key]
    return found


class Placed:
    """Where the expressions of accesses lie in the tables; they are put when they are first asked for."""

    def __init__(self, accesses: Accesses, expressions: Expressions) -> None:
        self.accesses, self.expressions = accesses, expressions
        self._at = np.full(len(accesses.expressions), NONE)

    def __call__(self, numbers: Array) -> Array:
        """The positions of expressions by their numbers."""
        for number in np.unique(numbers[self._at[numbers] == NONE]).tolist():
            self._at[number] = self.expressions.place(self.accesses.expressions[number])
        return self._at[numbers]
