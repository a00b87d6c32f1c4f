"""Variables of which only quotient and remainder by a constant matter."""

from __future__ import annotations

from collections.abc import Iterator

from archloom.oracle.affine import Affine
from archloom.oracle.xla.notation.expr import Expr, Map, Ranges, Sum, free, once

Digits = tuple[str, int]
"""A variable and the divisor."""


def digits(e: Expr, ranges: Ranges) -> Digits | None:
    """A free variable of ``e`` that occurs divided (``//`` or ``%``) alone, by one divisor that its range is cut by.

    In a product it is enough that it does so in one of the factors: of that, a digit is left, and the other digit is no
    axis that both share. (A head's rows times a head's columns: the columns' number is that of the head and one in it.)
    """
    factors = e.body.operands if isinstance(e, Sum) and isinstance(e.body, Map) and e.body.opcode == "multiply" else ()
    for name in sorted(free(e)):
        low, high = ranges[name]
        for part in (e, *factors):
            found = {d for form in _forms(part) if name in form.variables() for d in _divisors(form, name)}
            if len(found) == 1:
                (divisor,) = found
                if divisor and low % divisor == 0 and (high + 1) % divisor == 0 and high + 1 - low > divisor:
                    return name, divisor
    return None


@once
def _forms(e: Expr) -> frozenset[Affine]:
    """All forms in an expression; operations share operands, and so do sets."""
    made = frozenset(e.forms)
    for child in e.children:
        made |= _forms(child)
    return made


def _divisors(form: Affine, name: str) -> Iterator[int]:
    """By what the variable is divided where it occurs; 0 where it is not, or not by itself."""
    for atom, _ in form.terms:
        if isinstance(atom, str):
            if atom == name:
                yield 0
        elif name in atom.numerator.variables():
            yield atom.divisor if atom.numerator == Affine.variable(name) else 0
