"""The syntax tree of TAIDL (sections 3 and 4 of the TAIDL paper, and the extensions of docs/taidl.md).

Nodes are immutable and compare by structure: a node's ``position`` in its text takes no part in equality or hashing,
so printing a tree and parsing the text gives an equal tree. Names of tensors are stored without ``%``, names of
buffers without ``$``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, fields, replace
from typing import Any, TypeAlias, TypeVar, Union

from archloom.oracle.errors import Position

NOWHERE = Position("<built>", 0, 0)
"""The position of nodes that no text produced."""


@dataclass(frozen=True)
class Node:
    """What every node has: where it stands in its text."""

    position: Position = field(default=NOWHERE, compare=False, repr=False, kw_only=True)


# --- integer expressions ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Number(Node):
    """An integer literal; a float literal is allowed only as the value of ``constant`` and ``pad``."""

    value: int | float


@dataclass(frozen=True)
class Name(Node):
    """An attribute, control register, parameter, constant, ``let`` name or loop variable."""

    name: str


@dataclass(frozen=True)
class Element(Node):
    """``name[index]``: an element of an array of control registers."""

    name: str
    index: Expr


@dataclass(frozen=True)
class Unary(Node):
    """``-x`` or ``!x``."""

    operator: str
    operand: Expr


@dataclass(frozen=True)
class Binary(Node):
    """``left operator right``; ``/`` is the floor division, as ``//`` (the parser gives ``//`` for both)."""

    operator: str
    left: Expr
    right: Expr


@dataclass(frozen=True)
class Call(Node):
    """``function(arguments)`` with function ``min``, ``max``, ``cdiv`` or ``select`` (condition, then, else)."""

    function: str
    arguments: tuple[Expr, ...]


Expr: TypeAlias = Union[Number, Name, Element, Unary, Binary, Call]


# --- types, slices and windows ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Type(Node):
    """``dims x dtype``; no dims for a scalar."""

    dims: tuple[Expr, ...]
    dtype: str


@dataclass(frozen=True)
class At(Node):
    """``$buf[i]``: one index; the tensor has an axis of extent 1 there."""

    index: Expr


@dataclass(frozen=True)
class Range(Node):
    """``$buf[start:stop:step]`` as in Python; a missing part is None (0, the axis' extent, 1)."""

    start: Expr | None
    stop: Expr | None
    step: Expr | None


@dataclass(frozen=True)
class Walk(Node):
    """``$buf[base + {extent : stride, ...}]``: one axis of the tensor for each (extent, stride)."""

    base: Expr
    entries: tuple[tuple[Expr, Expr], ...]


Axis: TypeAlias = Union[At, Range, Walk]


@dataclass(frozen=True)
class Slice(Node):
    """``$buffer[axes]``; without axes (``$pe``, ``$pe[]``) the whole buffer."""

    buffer: str
    axes: tuple[Axis, ...]


# --- statements ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Tensor(Node):
    """``%name`` as an operand."""

    name: str


@dataclass(frozen=True)
class Group(Node):
    """``{a, b, c}``: a list as the value of an operator's attribute."""

    items: tuple[Expr, ...]


@dataclass(frozen=True)
class Region(Node):
    """The ``def`` that an operator's attribute names, after inlining: it takes the first ``parameters`` it is given.

    Those behind them are what it defines. ``body`` has no calls, and is free of reads, writes and registers' updates.
    """

    name: str
    parameters: tuple[str, ...]
    body: tuple[Statement, ...]


Attribute: TypeAlias = Union[Expr, Group, Region]


@dataclass(frozen=True)
class Read(Node):
    """``%dst:type <- $slice``."""

    dst: str
    type: Type
    source: Slice


@dataclass(frozen=True)
class Write(Node):
    """``%src[:type] -> $slice``."""

    src: str
    type: Type | None
    target: Slice


@dataclass(frozen=True)
class Op(Node):
    """``%dst:type = opcode(operands, name=value, ...)``, an XLA-HLO operator."""

    dst: str
    type: Type
    opcode: str
    operands: tuple[Tensor | Expr, ...]
    attributes: tuple[tuple[str, Attribute], ...]


@dataclass(frozen=True)
class Assign(Node):
    """``register = value`` or ``register[index] = value``; later statements see the new value."""

    register: str
    index: Expr | None
    value: Expr


@dataclass(frozen=True)
class Let(Node):
    """``let name = value``: a local integer, bound once."""

    name: str
    value: Expr


@dataclass(frozen=True)
class Assert(Node):
    """``assert(condition)``: a rule that a valid use of the instruction keeps."""

    condition: Expr


@dataclass(frozen=True)
class If(Node):
    """``IF (condition) { then } ELSE { otherwise }``; ``otherwise`` is empty without an ELSE."""

    condition: Expr
    then: tuple[Statement, ...]
    otherwise: tuple[Statement, ...]


@dataclass(frozen=True)
class Repeat(Node):
    """``REPEAT (variable, count) { body }`` with variable = 0 .. count-1."""

    variable: str
    count: Expr
    body: tuple[Statement, ...]


@dataclass(frozen=True)
class Invoke(Node):
    """``name(arguments)``: the block of a ``def``, in place. Gone after inlining."""

    name: str
    arguments: tuple[Tensor | Expr, ...]


Statement: TypeAlias = Union[Read, Write, Op, Assign, Let, Assert, If, Repeat, Invoke]


# --- declarations -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Parameter(Node):
    """``param name = default in low..high``."""

    name: str
    default: int
    low: int
    high: int


@dataclass(frozen=True)
class Constant(Node):
    """``const name = value``: an expression over parameters and earlier constants."""

    name: str
    value: Expr


@dataclass(frozen=True)
class BufferDecl(Node):
    """``[name] (rows) (base)``: rows may be several dims or none."""

    name: str
    rows: tuple[Expr, ...]
    base: Type


@dataclass(frozen=True)
class RegisterDecl(Node):
    """``name = initial`` or ``name[size] = initial`` (every element starts as ``initial``)."""

    name: str
    size: Expr | None
    initial: Expr


@dataclass(frozen=True)
class Definition(Node):
    """``def name(parameters) { body }``; a ``%parameter`` is a tensor that the body reads or defines."""

    name: str
    parameters: tuple[str, ...]
    body: tuple[Statement, ...]


@dataclass(frozen=True)
class InstructionDecl(Node):
    """``[name](attributes) { body }``."""

    name: str
    attributes: tuple[str, ...]
    body: tuple[Statement, ...]


@dataclass(frozen=True)
class IsaDef(Node):
    """A whole description; ``source`` is its text, kept for the carets of errors."""

    name: str
    parameters: tuple[Parameter, ...] = ()
    constants: tuple[Constant, ...] = ()
    buffers: tuple[BufferDecl, ...] = ()
    registers: tuple[RegisterDecl, ...] = ()
    definitions: tuple[Definition, ...] = ()
    instructions: tuple[InstructionDecl, ...] = ()
    source: str = field(default="", compare=False, repr=False)


# --- the expressions in nodes -------------------------------------------------------------------------------------

N = TypeVar("N", bound=Node)
_EXPRESSIONS = (Number, Name, Element, Unary, Binary, Call)
_AROUND = (Type, At, Range, Walk, Slice)
"""Nodes that are parts of others and have expressions in their fields."""


def parts(value: object) -> Iterator[Expr]:
    """The expressions in the value of a field, from left to right, but for those within expressions and statements."""
    if isinstance(value, _EXPRESSIONS):
        yield value
    elif isinstance(value, tuple):
        for part in value:
            yield from parts(part)
    elif isinstance(value, _AROUND):
        for f in fields(value):
            yield from parts(getattr(value, f.name))


def with_parts(node: N, form: Callable[[Expr], Expr]) -> N:
    """The node with ``form`` of each of the :func:`parts` of its fields."""
    return replace(node, **{f.name: _with_parts(getattr(node, f.name), form) for f in fields(node)})


def _with_parts(value: Any, form: Callable[[Expr], Expr]) -> Any:
    if isinstance(value, tuple):
        return tuple(_with_parts(part, form) for part in value)
    if isinstance(value, _EXPRESSIONS):
        return form(value)
    return with_parts(value, form) if isinstance(value, _AROUND) else value
