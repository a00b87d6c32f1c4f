"""Variables of expressions replaced by forms, in normal form.

A node is put together anew by the constructor of its kind, which the modules of the constructors enter in
:data:`NORMAL`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from archloom.oracle.affine import Affine
from archloom.oracle.xla.notation.constraints import inside, narrow, reach
from archloom.oracle.xla.notation.expr import Carry, Const, Expr, Ranges, Switch, free
from archloom.oracle.xla.notation.work import Work, remembered, shared_work, spend

NORMAL: dict[type[Expr], Callable[[Any, Ranges], Expr]] = {}
"""The normal form of each kind of node with sub-expressions, of a node whose sub-expressions have theirs."""


def substitute(e: Expr, mapping: Mapping[str, Affine], ranges: Ranges) -> Expr:
    """``e`` with variables replaced by forms, normalized under ``ranges`` (of the variables of the result)."""
    if isinstance(e, (Const, Carry)):
        return e
    done = remembered()
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
    spend()
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
