"""Tensors in index notation: the form in which streams are raised.

A tensor is an expression over integer index variables. Loop variables of the stream and axes of tensors are alike
such variables, so that a copy through a scratchpad is a substitution and vanishes. The value of an expression is
one element; an array appears only when :mod:`archloom.oracle.xla.lowering.lower` spreads the free variables over axes.

Nodes are immutable and hashable. Variables bound by :class:`Sum`, :class:`Extreme` and :class:`Let` get canonical
names (``%level_number``), so that equal functions are equal objects however they came about.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from archloom.oracle.affine import Affine, Div
from archloom.oracle.taidl.types import element_type
from archloom.oracle.xla.notation.fallbacks import Record
from archloom.oracle.xla.notation.variables import Bound

if TYPE_CHECKING:
    from typing import dataclass_transform
else:

    def dataclass_transform(**_: object) -> Any:
        return lambda f: f


T = TypeVar("T")
Range = tuple[int, int]
"""Smallest and largest value of a variable, both inclusive."""
Ranges = Mapping[str, Range]


_comparing = threading.local()


@dataclass_transform(frozen_default=True)
def _node(cls: type[T]) -> type[T]:
    """A frozen dataclass that computes its hash once, and looks at it before it compares."""
    made = dataclass(frozen=True)(cls)
    compute, compare = made.__hash__, made.__eq__

    def equal(self: Any, other: Any) -> bool:
        if self is other:
            return True
        if other.__class__ is not self.__class__:
            return NotImplemented
        if hash(self) != hash(other):
            return False
        # operations share operands: what was found equal within a comparison is not compared again
        known: set[tuple[int, int]] | None = getattr(_comparing, "known", None)
        if known is None:
            _comparing.known = set()
            try:
                return bool(compare(self, other))
            finally:
                _comparing.known = None
        pair = (id(self), id(other))
        if pair not in known:
            if not compare(self, other):
                return False
            known.add(pair)
        return True

    def cached(self: Any) -> int:
        value: int | None = self.__dict__.get("_hash")
        if value is None:
            value = compute(self)
            object.__setattr__(self, "_hash", value)
        return value

    made.__hash__ = cached  # type: ignore[method-assign]
    made.__eq__ = equal  # type: ignore[method-assign]
    return made


class Expr:
    """Base of all nodes; ``dtype`` is a TAIDL element type (``"i8"``, ``"f32"``).

    A kind of node states here what walks and rewrites need of it; :mod:`archloom.oracle.xla.notation.build` has its
    constructor in normal form, and :mod:`archloom.oracle.xla.lowering.lower` what computes it.
    """

    dtype: str

    @property
    def children(self) -> tuple["Expr", ...]:
        """The direct sub-expressions; the operands of an :class:`Element` share no variables with it and are none."""
        return ()

    @property
    def forms(self) -> tuple[Affine, ...]:
        """The integer expressions of this node itself."""
        return ()

    @property
    def bound(self) -> tuple[str, ...]:
        """The variables that this node binds in its body (no others of its sub-expressions have these names)."""
        return ()

    def bound_ranges(self, ranges: Ranges) -> dict[str, Range]:
        """The ranges of the bound variables, where the others have ``ranges``."""
        return {}

    def rebuilt(self, forms: Sequence[Affine], children: Sequence["Expr"]) -> "Expr":
        """The same node with other forms and sub-expressions, in the order of :attr:`forms` and :attr:`children`."""
        return self


class Indexed(Expr):
    """Base of nodes that are the value at a form."""

    index: Affine

    @property
    def forms(self) -> tuple[Affine, ...]:
        return (self.index,)

    def rebuilt(self, forms: Sequence[Affine], children: Sequence[Expr]) -> Expr:
        return replace(self, index=forms[0])  # type: ignore[type-var]


class Wrapping(Expr):
    """Base of nodes around one ``body``."""

    body: Expr

    @property
    def children(self) -> tuple[Expr, ...]:
        return (self.body,)

    def rebuilt(self, forms: Sequence[Affine], children: Sequence[Expr]) -> Expr:
        return replace(self, body=children[0])  # type: ignore[type-var]


class Combining(Wrapping):
    """Base of nodes that combine what ``body`` is for all values of ``variables`` (name, extent), each from 0."""

    variables: tuple[tuple[str, int], ...]

    @property
    def bound(self) -> tuple[str, ...]:
        return tuple([name for name, _ in self.variables])

    def bound_ranges(self, ranges: Ranges) -> dict[str, Range]:
        return {name: (0, extent - 1) for name, extent in self.variables}


def once(compute: Callable[[Expr], T]) -> Callable[[Expr], T]:
    """A property of nodes, computed once for each."""
    name = f"_{compute.__module__}.{compute.__name__}"

    def cached(e: Expr) -> T:
        if name not in e.__dict__:
            e.__dict__[name] = compute(e)
        value: T = e.__dict__[name]
        return value

    return cached


@_node
class Leaf(Indexed):
    """Element number ``index`` of the flattened argument ``name``."""

    name: str
    index: Affine
    dtype: str


@_node
class Const(Expr):
    """The same number everywhere."""

    value: int | float
    dtype: str


@_node
class Index(Indexed):
    """The value of an integer expression over the variables."""

    index: Affine
    dtype: str


@_node
class Map(Expr):
    """An element-wise HLO operation."""

    opcode: str
    operands: tuple[Expr, ...]
    attributes: tuple[tuple[str, object], ...]
    dtype: str

    @property
    def children(self) -> tuple[Expr, ...]:
        return self.operands

    def rebuilt(self, forms: Sequence[Affine], children: Sequence[Expr]) -> Expr:
        return replace(self, operands=tuple(children))


@_node
class Sum(Combining):
    """Sum of ``body`` over ``variables`` (name, extent); each runs from 0."""

    variables: tuple[tuple[str, int], ...]
    body: Expr
    dtype: str


@_node
class Carry(Expr):
    """What the innermost :class:`Fold` around has computed so far."""

    dtype: str


@_node
class Fold(Combining):
    """A chain of operations in the order of ``variables`` (name, extent; the last runs fastest).

    It begins with ``start``; ``body``, in which :class:`Carry` occurs only under element-wise operations, makes the
    next value of the one before.
    """

    variables: tuple[tuple[str, int], ...]
    start: Expr
    body: Expr
    dtype: str

    @property
    def children(self) -> tuple[Expr, ...]:
        return self.start, self.body

    def rebuilt(self, forms: Sequence[Affine], children: Sequence[Expr]) -> Expr:
        return replace(self, start=children[0], body=children[1])


@_node
class Extreme(Combining):
    """Maximum (or minimum) of ``body`` over ``variables``."""

    kind: str
    variables: tuple[tuple[str, int], ...]
    body: Expr
    dtype: str


@_node
class Switch(Expr):
    """``body`` of the case ``(low, high, body)`` in which ``form`` falls; the cases ascend and leave no gap.

    The first case also holds below its bounds and the last one above.
    """

    form: Affine
    cases: tuple[tuple[int, int, Expr], ...]
    dtype: str

    @property
    def children(self) -> tuple[Expr, ...]:
        return tuple([body for _, _, body in self.cases])

    @property
    def forms(self) -> tuple[Affine, ...]:
        return (self.form,)

    def rebuilt(self, forms: Sequence[Affine], children: Sequence[Expr]) -> Expr:
        cases = tuple((*case[:2], body) for case, body in zip(self.cases, children, strict=True))
        return replace(self, form=forms[0], cases=cases)


Constraint = tuple[Affine, "int | None", "int | None"]
"""A form and its bounds (inclusive; None is no bound)."""


@_node
class Guarded(Wrapping):
    """``body`` where all constraints hold, ``fill`` elsewhere: a padded tensor.

    The forms have no constant and begin with a positive coefficient; they are sorted by their text.
    """

    body: Expr
    constraints: tuple[Constraint, ...]
    fill: int | float
    dtype: str

    @property
    def forms(self) -> tuple[Affine, ...]:
        return tuple([form for form, _, _ in self.constraints])

    def rebuilt(self, forms: Sequence[Affine], children: Sequence[Expr]) -> Expr:
        constraints = tuple((form, *c[1:]) for form, c in zip(forms, self.constraints, strict=True))
        return replace(self, body=children[0], constraints=constraints)


@_node
class Let(Wrapping):
    """``body`` with each variable ``(name, form)`` standing for ``form``.

    Kept where substituting would compute a value again for each of many equal indices, or would turn a case
    distinction along an axis into one along a diagonal: the body becomes an array over its own variables.
    """

    variables: tuple[tuple[str, Affine], ...]
    body: Expr
    dtype: str

    @property
    def forms(self) -> tuple[Affine, ...]:
        return tuple([form for _, form in self.variables])

    @property
    def bound(self) -> tuple[str, ...]:
        return tuple([name for name, _ in self.variables])

    def bound_ranges(self, ranges: Ranges) -> dict[str, Range]:
        return {name: form.range(ranges) for name, form in self.variables}

    def rebuilt(self, forms: Sequence[Affine], children: Sequence[Expr]) -> Expr:
        variables = tuple((v[0], form) for v, form in zip(self.variables, forms, strict=True))
        return replace(self, body=children[0], variables=variables)


@_node
class ByteOf(Wrapping):
    """Byte number ``byte`` (little-endian) of ``body``, as ``i8``."""

    body: Expr
    byte: Affine
    dtype: str = "i8"

    @property
    def forms(self) -> tuple[Affine, ...]:
        return (self.byte,)

    def rebuilt(self, forms: Sequence[Affine], children: Sequence[Expr]) -> Expr:
        return replace(self, body=children[0], byte=forms[0])


@_node
class FromBytes(Wrapping):
    """The element of type ``dtype`` whose bytes are ``body`` for ``variable`` in 0 .. width-1."""

    variable: str
    body: Expr
    dtype: str

    @property
    def bound(self) -> tuple[str, ...]:
        return (self.variable,)

    def bound_ranges(self, ranges: Ranges) -> dict[str, Range]:
        return {self.variable: (0, width(self.dtype) - 1)}


class TensorFunction(Protocol):
    """What computes whole tensors: hashable, and equal ones compute the same."""

    @property
    def variables(self) -> tuple[str, ...]:
        """The parameters whose values it takes."""

    @property
    def in_turn(self) -> str:
        """Why its points are computed one after the other; empty where all may be at once, by ``jax.vmap``."""

    @property
    def title(self) -> str:
        """A name for reports."""

    def __call__(self, operands: Sequence[Any], values: Mapping[str, Any], record: Record) -> tuple[Any, ...]:
        """The results for arrays of the operands and the values of ``variables``; fallbacks are recorded."""


@_node
class Operand:
    """A whole tensor: ``body`` over ``axes`` (name, extent)."""

    axes: tuple[tuple[str, int], ...]
    body: Expr


@_node
class Whole:
    """What ``function`` makes of whole tensors, for each point of ``parameters`` (name, extent).

    The operands have no other free variables than the parameters and their own axes.
    """

    function: TensorFunction
    parameters: tuple[tuple[str, int], ...]
    operands: tuple[Operand, ...]


@_node
class Element(Expr):
    """An element of result ``number`` of ``whole``: ``index`` has a form for each parameter, then for each axis."""

    whole: Whole
    number: int
    index: tuple[Affine, ...]
    dtype: str

    @property
    def forms(self) -> tuple[Affine, ...]:
        return self.index

    def rebuilt(self, forms: Sequence[Affine], children: Sequence[Expr]) -> Expr:
        return replace(self, index=tuple(forms))


def width(dtype: str) -> int:
    """Bytes of an element."""
    return max(1, element_type(dtype).bits // 8)


def is_integer(dtype: str) -> bool:
    """Whether sums of this type do not depend on their order."""
    return dtype[0] in "iu"


def is_number(dtype: str) -> bool:
    """Whether the type has a zero, of no bits."""
    return element_type(dtype).kind in ("bool", "int", "uint", "float")


def same_kind(a: Expr, b: Expr) -> bool:
    """Whether two nodes differ in nothing but forms and sub-expressions (nor in the cases of a switch)."""
    if type(a) is not type(b) or a.dtype != b.dtype or len(a.children) != len(b.children):
        return False
    if len(a.forms) != len(b.forms):
        return False
    return a.rebuilt(b.forms, b.children) == b


def walk(e: Expr) -> Iterator[Expr]:
    """All nodes, parents first."""
    yield e
    for child in e.children:
        yield from walk(child)


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


@once
def free(e: Expr) -> frozenset[str]:
    """The variables that the value depends on."""
    names: set[str] = set()
    for child in e.children:
        names |= free(child)
    names -= set(e.bound)
    for form in e.forms:
        names |= form.variables()
    return frozenset(names)


@once
def level(e: Expr) -> int:
    """One more than the highest level of a canonical name bound within; 0 if there is none."""
    return max((*(level(c) for c in e.children), *(v.level + 1 for v in e.bound if isinstance(v, Bound))), default=0)


@once
def is_heavy(e: Expr) -> bool:
    """Whether computing an element takes a sum or a chain."""
    return isinstance(e, (Sum, Fold)) or any(is_heavy(c) for c in e.children)


@once
def is_chained(e: Expr) -> bool:
    """Whether computing an element takes a chain."""
    return isinstance(e, Fold) or any(is_chained(c) for c in e.children)


@once
def carries(e: Expr) -> bool:
    """Whether the value depends on what a :class:`Fold` around has computed so far."""
    if isinstance(e, Fold):
        return carries(e.start)
    return isinstance(e, Carry) or any(carries(c) for c in e.children)


@once
def switched(e: Expr) -> frozenset[str]:
    """The free variables on which case distinctions are made."""
    names: set[str] = set()
    for child in e.children:
        names |= switched(child)
    names -= set(e.bound)
    if isinstance(e, Switch):
        names |= e.form.variables()
    return frozenset(names)


def canonical_order(names: list[tuple[str, int]], body: Expr) -> list[tuple[str, int]]:
    """The bound variables sorted by how they occur in ``body``, in its leaves first, whatever their names."""
    nodes = sorted(walk(body), key=lambda node: not isinstance(node, (Leaf, Index)))
    every = [form for node in nodes for form in node.forms]
    return sorted(names, key=lambda item: (tuple(_weight(form, item[0]) for form in every), item[1]), reverse=True)


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
