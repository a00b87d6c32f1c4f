"""Variables of expressions replaced by forms, in normal form.

A node is put together anew by the constructor of its kind, which the modules of the constructors enter in
:data:`NORMAL`. The work is bounded, and done once; of each thread its own.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from typing import Any

from archloom.oracle.affine import Affine
from archloom.oracle.xla.notation.constraints import inside, narrow, reach
from archloom.oracle.xla.notation.expr import Carry, Const, Expr, Ranges, Switch, free
from archloom.oracle.xla.notation.limits import Exhausted

NORMAL: dict[type[Expr], Callable[[Any, Ranges], Expr]] = {}
"""The normal form of each kind of node with sub-expressions, of a node whose sub-expressions have theirs."""


_state = threading.local()
Work = tuple[Expr, tuple[object, ...]]
"""An expression, and what becomes of its variables."""


@contextmanager
def bounded_work(nodes: int) -> Iterator[None]:
    """Within, :func:`substitute` raises Exhausted after so many nodes; equal work is done once.

    Inside of another bound, what is left of that is a bound, too.
    """
    before = getattr(_state, "left", None)
    _state.left = nodes if before is None else min(nodes, before)
    if before is None:
        _state.done = {}
    try:
        yield
    finally:
        if before is None:
            _state.done = None
        _state.left = before if before is None else before - (min(nodes, before) - _state.left)


def shared_work() -> AbstractContextManager[None]:
    """Within, equal work is done once; there is no other bound than that around it."""
    return bounded_work(sys.maxsize)


def substitute(e: Expr, mapping: Mapping[str, Affine], ranges: Ranges) -> Expr:
    """``e`` with variables replaced by forms, normalized under ``ranges`` (of the variables of the result)."""
    if isinstance(e, (Const, Carry)):
        return e
    done: dict[Work, Expr] | None = getattr(_state, "done", None)
    if done is None:
        with shared_work():
            return substitute(e, mapping, ranges)
    key = _key(e, mapping, ranges)
    found = done.get(key)
    if found is None:
        found = done[key] = _substituted(e, mapping, ranges)
    return found


def _key(e: Expr, mapping: Mapping[str, Affine], ranges: Ranges) -> Work:
    """All that the result of :func:`substitute` depends on."""
    parts: list[object] = []
    for name in free(e):
        form = mapping.get(name)
        if form is None:
            parts.append((name, ranges.get(name)))
        else:
            parts.append((name, form, *((v, ranges.get(v)) for v in form.variables())))
    return e, tuple(parts)


def _substituted(e: Expr, mapping: Mapping[str, Affine], ranges: Ranges) -> Expr:
    if not _state.left:
        raise Exhausted("its values have too many pieces")
    _state.left -= 1
    if isinstance(e, Switch):
        return NORMAL[Switch](_in_cases(e, mapping, ranges), ranges)
    own = [_form(form, mapping, ranges) for form in e.forms]
    made = e if own == list(e.forms) else e.rebuilt(own, e.children)
    if not e.children:
        return made
    inner = inside(made, ranges)
    children = [substitute(c, mapping, inner) for c in e.children]
    if any(new is not old for new, old in zip(children, e.children, strict=True)):
        made = made.rebuilt(own, children)
    return NORMAL[type(made)](made, ranges)


def _form(form: Affine, mapping: Mapping[str, Affine], ranges: Ranges) -> Affine:
    return form.substitute(mapping).simplify(ranges)


def _in_cases(e: Switch, mapping: Mapping[str, Affine], ranges: Ranges) -> Switch:
    """The cases that are reached, each substituted where its form is."""
    form = _form(e.form, mapping, ranges)
    cases = []
    for first, last, body in reach(e.cases, *form.range(ranges)):
        cases.append((first, last, substitute(body, mapping, narrow(form, first, last, ranges))))
    return replace(e, form=form, cases=tuple(cases))
