"""Chains whose steps are alike, one operation a step.

A loop's body may hold several steps: ``((x + f(3*v)) + f(3*v + 1)) + f(3*v + 2)`` over ``v`` is ``x + f(3*v + w)`` over
``v`` and ``w``. What is computed for all steps at once is one array then (:mod:`archloom.oracle.xla.lowering.folds`).
"""

from __future__ import annotations

from dataclasses import replace

from archloom.oracle.affine import Affine
from archloom.oracle.xla.notation import expr, traits
from archloom.oracle.xla.notation.expr import Expr, Fold, Map, Variables
from archloom.oracle.xla.notation.variables import fresh


@expr.once
def one_by_one(e: Fold) -> Fold:
    """The chain with one operation a step; itself where its operations are not alike, or lie in no order."""
    operations = in_turn(e.body)
    if len(operations) < 2:
        return e
    first, place = operations[0]
    if any(at != place or not traits.same_kind(replace(op, operands=first.operands), first) for op, at in operations):
        return e
    found = _in_order([replace(op, operands=with_operand(op, place, expr.Carry(first.dtype))) for op, _ in operations])
    return e if found is None else replace(e, variables=(*e.variables, *found[0]), body=found[1])


def in_turn(body: Expr) -> list[tuple[Map, int]]:
    """The operations through which the carried value goes, and as which operand, in their order; none where it is used
    in other ways."""
    found: list[tuple[Map, int]] = []
    while not isinstance(body, expr.Carry):
        places = [k for k, o in enumerate(body.children) if traits.carries(o)]
        if not isinstance(body, Map) or len(places) != 1:
            return []
        found.append((body, places[0]))
        body = body.operands[places[0]]
    return found[::-1]


def with_operand(op: Map, place: int, operand: Expr) -> tuple[Expr, ...]:
    """The operands of an operation, with another one in a place."""
    return (*op.operands[:place], operand, *op.operands[place + 1:])


def _in_order(steps: list[Expr]) -> tuple[Variables, Expr] | None:
    """Variables over which one expression is all of the steps; None where there is none: their constants grow evenly,
    or do so in groups that are in such an order themselves."""
    count = next((n for n in range(len(steps), 1, -1) if len(steps) % n == 0 and _in_row(steps[:n])), 0)
    if not count:
        return None
    name = fresh()
    rows = [_in_row(steps[k:k + count], name) for k in range(0, len(steps), count)]
    made = [row for row in rows if row is not None]
    if len(made) < len(rows):
        return None
    if len(made) == 1:
        return ((name, count),), made[0]
    outer = _in_order(made)
    return None if outer is None else ((*outer[0], (name, count)), outer[1])


def _in_row(steps: list[Expr], name: str = "") -> Expr | None:
    """What the steps are for 0, 1, ... as the variable: they differ in constants of forms, which grow evenly."""
    first = steps[0]
    if all(step == first for step in steps):
        return first
    if isinstance(first, (expr.Switch, expr.Guarded)) or not all(traits.same_kind(first, step) for step in steps):
        return None
    forms = []
    for each in zip(*[step.forms for step in steps], strict=True):
        growth = each[1] - each[0]
        if not growth.is_constant or any(form != each[0] + growth * n for n, form in enumerate(each)):
            return None
        forms.append(each[0] + Affine.variable(name) * growth.constant)
    parts = [_in_row(list(each), name) for each in zip(*[step.children for step in steps], strict=True)]
    return None if None in parts else first.rebuilt(forms, [part for part in parts if part is not None])
