"""Equations of ``einsum``: which index stands for which axis of an operand, and how far it runs."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain


def indices_of(equation: str, ranks: Sequence[int]) -> tuple[list[tuple[str, ...]], tuple[str, ...]]:
    """The indices of each operand and of the result; those of an ellipsis are called by their place from the right."""
    given, arrow, result = equation.replace(" ", "").partition("->")
    terms, widest = list[tuple[str, ...]](), 0
    for term, rank in zip(given.split(","), ranks):
        before, dots, after = term.partition("...")
        open_axes = rank - len(before) - len(after) if dots else 0
        terms.append((*before, *(f"...{i}" for i in reversed(range(open_axes))), *after))
        widest = max(widest, open_axes)
    every = tuple(f"...{i}" for i in reversed(range(widest)))
    if arrow:
        before, dots, after = result.partition("...")
        return terms, (*before, *(every if dots else ()), *after)
    letters = [index for term in terms for index in term if index not in every]
    return terms, (*every, *sorted(index for index in letters if letters.count(index) == 1))


def extents_of(terms: Sequence[tuple[str, ...]], shapes: Sequence[Sequence[int]]) -> dict[str, int] | None:
    """The extent of each index, where operands may have 1 in its place; None where an equation does not fit shapes."""
    if [*map(len, terms)] != [*map(len, shapes)]:
        return None
    seen: dict[str, set[int]] = {}
    for index, extent in zip(chain(*terms), chain(*shapes), strict=True):
        seen.setdefault(index, set()).add(extent)
    return None if any(len(found - {1}) > 1 for found in seen.values()) else {i: max(seen[i]) for i in seen}
