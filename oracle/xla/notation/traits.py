"""What expressions are like: of what and how deep and how dear they are, in which order they bind variables."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from archloom.oracle.affine import Affine, Div
from archloom.oracle.xla.notation.expr import (
    Carry,
    Element,
    Expr,
    Fold,
    Index,
    Leaf,
    Sum,
    Switch,
    Variables,
    Whole,
    from_children,
)
from archloom.oracle.xla.notation.variables import Bound


def same_kind(a: Expr, b: Expr) -> bool:
    """Whether two nodes differ in nothing but forms and sub-expressions (nor in the cases of a switch)."""
    if type(a) is not type(b) or a.dtype != b.dtype or len(a.children) != len(b.children):
        return False
    if len(a.forms) != len(b.forms):
        return False
    return a.rebuilt(b.forms, b.children) == b


def walk(e: Expr) -> Iterator[Expr]:
    """All nodes, parents first; what is an operand of many, once."""
    waiting, seen = [e], set[int]()
    while waiting:
        node = waiting.pop()
        if id(node) not in seen:
            seen.add(id(node))
            yield node
            waiting += reversed(node.children)


def wholes(roots: Iterable[Expr]) -> Iterator[Whole]:
    """All that is computed as whole tensors, each once, what others are made of included."""
    seen: set[int] = set()
    waiting = list(roots)
    while waiting:
        e = waiting.pop()
        if id(e) in seen:
            continue
        seen.add(id(e))
        waiting += e.children
        if isinstance(e, Element) and id(e.whole) not in seen:
            seen.add(id(e.whole))
            yield e.whole
            waiting += [operand.body for operand in e.whole.operands]


@from_children
def depth(e: Expr) -> int:
    """How many expressions lie within one another."""
    return 1 + max((depth(c) for c in e.children), default=0)


@from_children
def level(e: Expr) -> int:
    """One more than the highest level of a canonical name bound within; 0 if there is none."""
    return max((*(level(c) for c in e.children), *(v.level + 1 for v in e.bound if isinstance(v, Bound))), default=0)


@from_children
def is_heavy(e: Expr) -> bool:
    """Whether computing an element takes a sum or a chain."""
    return isinstance(e, (Sum, Fold)) or any(is_heavy(c) for c in e.children)


@from_children
def is_chained(e: Expr) -> bool:
    """Whether computing an element takes a chain."""
    return isinstance(e, Fold) or any(is_chained(c) for c in e.children)


@from_children
def carries(e: Expr) -> bool:
    """Whether the value depends on what a :class:`Fold` around has computed so far."""
    if isinstance(e, Fold):
        return carries(e.start)
    return isinstance(e, Carry) or any(carries(c) for c in e.children)


@from_children
def switched(e: Expr) -> frozenset[str]:
    """The free variables on which case distinctions are made."""
    names: set[str] = set()
    for child in e.children:
        names |= switched(child)
    names -= set(e.bound)
    if isinstance(e, Switch):
        names |= e.form.variables()
    return frozenset(names)


def canonical_order(names: Variables, body: Expr) -> Variables:
    """The bound variables sorted by how they occur in ``body``, in its leaves first, whatever their names."""
    nodes = sorted(walk(body), key=lambda node: not isinstance(node, (Leaf, Index)))
    every = [form for node in nodes for form in node.forms]
    return tuple(sorted(
        names, key=lambda item: (tuple(_weight(form, item[0]) for form in every), item[1]), reverse=True))


def _weight(form: Affine, name: str) -> int:
    total = 0
    for atom, coefficient in form.terms:
        if isinstance(atom, str):
            total += coefficient if atom == name else 0
        elif name in atom.numerator.variables():
            inner = _weight(atom.numerator, name)
            total += coefficient * (inner // atom.divisor if isinstance(atom, Div) else inner % atom.divisor)
    return total


def axis_of(form: Affine) -> str | None:
    """The variable that the form is, up to a constant; None of other forms."""
    if len(form.terms) != 1:
        return None
    ((atom, coefficient),) = form.terms
    return atom if isinstance(atom, str) and coefficient == 1 else None
