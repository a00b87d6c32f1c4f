"""Tensors in index notation: the form in which streams are raised.

A tensor is an expression over integer index variables. Loop variables of the stream and axes of tensors are alike
such variables, so that a copy through a scratchpad is a substitution and vanishes. The value of an expression is
one element; an array appears only when :mod:`archloom.oracle.xla.lowering.lower` spreads the free variables over axes.

Nodes are immutable and hashable. Variables bound by :class:`Sum`, :class:`Extreme` and :class:`Let` get canonical
names (``%level_number``), so that equal functions are equal objects however they came about.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Protocol, TypeVar, dataclass_transform

from archloom.oracle.affine import Affine
from archloom.oracle.taidl.types import element_type
from archloom.oracle.xla.notation.fallbacks import Record

T = TypeVar("T")
Range = tuple[int, int]
"""Smallest and largest value of a variable, both inclusive."""
Ranges = Mapping[str, Range]
Variables = tuple[tuple[str, int], ...]
"""Variables from 0 on, with their extents."""


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

    own: Any = made
    own._kinds = {f.name: Affine if re.search("Affine|Constraint", str(f.type)) else Expr if "Expr" in str(f.type)
                  else None for f in fields(own)}
    made.__hash__ = cached  # type: ignore[method-assign]
    made.__eq__ = equal  # type: ignore[method-assign]
    return made


def once(compute: Callable[[Any], T]) -> Callable[[Any], T]:
    """A property of nodes, computed once for each."""
    name = f"_{compute.__module__}.{compute.__name__}"

    def cached(e: Any) -> T:
        if name not in e.__dict__:
            e.__dict__[name] = compute(e)
        value: T = e.__dict__[name]
        return value

    return cached


def from_children(compute: Callable[[Any], T]) -> Callable[[Any], T]:
    """As :func:`once`, of a property that follows from that of the children. Theirs is computed first, in a loop:
    expressions may be deeper than calls may be."""
    name, known = f"_{compute.__module__}.{compute.__name__}", once(compute)

    def cached(e: Any) -> T:
        waiting = [e]
        while waiting and name not in e.__dict__:
            missing = [child for child in waiting[-1].children if name not in child.__dict__]
            if missing:
                waiting += missing
            else:
                known(waiting.pop())
        return known(e)

    return cached


@dataclass_transform(frozen_default=True)
class Expr:
    """Base of all nodes; ``dtype`` is a TAIDL element type (``"i8"``, ``"f32"``).

    A kind of node states here what walks and rewrites need of it; :mod:`archloom.oracle.xla.notation.build` has its
    constructor in normal form, and :mod:`archloom.oracle.xla.lowering.lower` what computes it.
    """

    dtype: str
    def __init_subclass__(cls) -> None:
        _node(cls)

    _kinds: ClassVar[dict[str, type | None]]
    """For each field whether it has forms or sub-expressions, by its type; None for neither."""

    @property
    @once
    def children(self) -> tuple["Expr", ...]:
        """The direct sub-expressions; the operands of an :class:`Element` share no variables with it and are none."""
        return tuple(_parts([getattr(self, name) for name, kind in self._kinds.items() if kind is Expr], Expr))

    @property
    @once
    def forms(self) -> tuple[Affine, ...]:
        """The integer expressions of this node itself."""
        return tuple(_parts([getattr(self, name) for name, kind in self._kinds.items() if kind is Affine], Affine))

    @property
    def bound(self) -> tuple[str, ...]:
        """The variables that this node binds in its body (no others of its sub-expressions have these names)."""
        return ()

    def bound_ranges(self, ranges: Ranges) -> dict[str, Range]:
        """The ranges of the bound variables, where the others have ``ranges``."""
        return {}

    def rebuilt(self, forms: Sequence[Affine], children: Sequence["Expr"]) -> "Expr":
        """The same node with other forms and sub-expressions, in the order of :attr:`forms` and :attr:`children`."""
        if not forms and not children:
            return self
        new: dict[type, Iterator[Any]] = {Affine: iter(forms), Expr: iter(children)}
        return type(self)(*[
            getattr(self, name) if kind is None else _replaced(getattr(self, name), kind, new[kind])
            for name, kind in self._kinds.items()])


def _parts(values: Iterable[Any], kind: type[T]) -> list[T]:
    """What is of a kind among values of fields, and in tuples there."""
    found: list[T] = []
    for value in values:
        if isinstance(value, kind):
            found.append(value)
        elif isinstance(value, tuple):
            found += _parts(value, kind)
    return found


def _replaced(value: Any, kind: type, new: Iterator[Any]) -> Any:
    """The value of a field with the next new one for each that is of the kind."""
    if isinstance(value, kind):
        return next(new)
    return tuple([_replaced(v, kind, new) for v in value]) if isinstance(value, tuple) else value


class Combining:
    """What nodes have that combine what ``body`` is for all values of ``variables`` (name, extent), each from 0."""

    variables: Variables

    @property
    def bound(self) -> tuple[str, ...]:
        return tuple([name for name, _ in self.variables])

    def bound_ranges(self, ranges: Ranges) -> dict[str, Range]:
        return over(self.variables, {})


class Leaf(Expr):
    """Element number ``index`` of the flattened argument ``name``."""

    name: str
    index: Affine
    dtype: str


class Const(Expr):
    """The same number everywhere."""

    value: int | float
    dtype: str


class Index(Expr):
    """The value of an integer expression over the variables."""

    index: Affine
    dtype: str


class Map(Expr):
    """An element-wise HLO operation."""

    opcode: str
    operands: tuple[Expr, ...]
    attributes: tuple[tuple[str, object], ...]
    dtype: str


class Sum(Combining, Expr):
    """Sum of ``body`` over ``variables`` (name, extent); each runs from 0."""

    variables: Variables
    body: Expr
    dtype: str


class Carry(Expr):
    """What the innermost :class:`Fold` around has computed so far."""

    dtype: str


class Fold(Combining, Expr):
    """A chain of operations in the order of ``variables`` (name, extent; the last runs fastest).

    It begins with ``start``; ``body``, in which :class:`Carry` occurs only under element-wise operations, makes the
    next value of the one before.
    """

    variables: Variables
    start: Expr
    body: Expr
    dtype: str


class Extreme(Combining, Expr):
    """Maximum (or minimum) of ``body`` over ``variables``."""

    kind: str
    variables: Variables
    body: Expr
    dtype: str


class Switch(Expr):
    """``body`` of the case ``(low, high, body)`` in which ``form`` falls; the cases ascend and leave no gap.

    The first case also holds below its bounds and the last one above.
    """

    form: Affine
    cases: tuple[tuple[int, int, Expr], ...]
    dtype: str


Constraint = tuple[Affine, "int | None", "int | None"]
"""A form and its bounds (inclusive; None is no bound)."""


class Guarded(Expr):
    """``body`` where all constraints hold, ``fill`` elsewhere: a padded tensor.

    The forms have no constant and begin with a positive coefficient; they are sorted by their text.
    """

    body: Expr
    constraints: tuple[Constraint, ...]
    fill: int | float
    dtype: str


class Let(Expr):
    """``body`` with each variable ``(name, form)`` standing for ``form``.

    Kept where substituting would compute a value again for each of many equal indices, or would turn a case
    distinction along an axis into one along a diagonal: the body becomes an array over its own variables.
    """

    variables: tuple[tuple[str, Affine], ...]
    body: Expr
    dtype: str

    @property
    def bound(self) -> tuple[str, ...]:
        return tuple([name for name, _ in self.variables])

    def bound_ranges(self, ranges: Ranges) -> dict[str, Range]:
        return {name: form.range(ranges) for name, form in self.variables}


class ByteOf(Expr):
    """Byte number ``byte`` (little-endian) of ``body``, as ``i8``."""

    body: Expr
    byte: Affine
    dtype: str = "i8"


class FromBytes(Expr):
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

    axes: Variables
    body: Expr


@_node
class Whole:
    """What ``function`` makes of whole tensors, for each point of ``parameters`` (name, extent).

    The operands have no other free variables than the parameters and their own axes.
    """

    function: TensorFunction
    parameters: Variables
    operands: tuple[Operand, ...]


class Element(Expr):
    """An element of result ``number`` of ``whole``: ``index`` has a form for each parameter, then for each axis."""

    whole: Whole
    number: int
    index: tuple[Affine, ...]
    dtype: str


def width(dtype: str) -> int:
    """Bytes of an element."""
    return max(1, element_type(dtype).bits // 8)


def is_integer(dtype: str) -> bool:
    """Whether sums of this type do not depend on their order."""
    return dtype[0] in "iu"


def is_number(dtype: str) -> bool:
    """Whether the type has a zero, of no bits."""
    return element_type(dtype).kind in ("bool", "int", "uint", "float")


@from_children
def free(e: Expr) -> frozenset[str]:
    """The variables that the value depends on."""
    names: set[str] = set()
    for child in e.children:
        names |= free(child)
    names -= set(e.bound)
    for form in e.forms:
        names |= form.variables()
    return frozenset(names)


def over(variables: Variables, ranges: Ranges) -> dict[str, Range]:
    """``ranges``, and those of the variables."""
    return {**ranges, **{name: (0, extent - 1) for name, extent in variables}}


