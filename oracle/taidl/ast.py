"""The syntax tree of TAIDL (sections 3 and 4 of the TAIDL paper, and the extensions of docs/taidl.md).

Nodes are immutable and compare by structure: a node's ``position`` in its text takes no part in equality or hashing,
so printing a tree and parsing the text gives an equal tree. Names of tensors are stored without ``%``, names of
buffers without ``$``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, fields, replace
from operator import is_
from typing import Any, ClassVar, TypeAlias, TypeVar, Union, dataclass_transform

from archloom.oracle.errors import Position

NOWHERE = Position("<built>", 0, 0)
"""The position of nodes that no text produced."""


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
class _Frozen:
    """Base of classes that are frozen dataclasses; ``field_names`` are looked up once for each, as large descriptions
    ask for them a hundred thousand times."""

    field_names: ClassVar[tuple[str, ...]]

    def __init_subclass__(cls) -> None:
        made: Any = dataclass(frozen=True)(cls)
        cls.field_names = tuple(f.name for f in fields(made))


class Node(_Frozen):
    """What every node has: where it stands in its text."""

    position: Position = field(default=NOWHERE, compare=False, repr=False, kw_only=True)


# --- integer expressions ------------------------------------------------------------------------------------------


class Number(Node):
    """An integer literal; a float literal is allowed only as the value of ``constant`` and ``pad``."""

    value: int | float


class Name(Node):
    """An attribute, control register, parameter, constant, ``let`` name or loop variable."""

    name: str


class Element(Node):
    """``name[index]``: an element of an array of control registers."""

    name: str
    index: Expr


class Unary(Node):
    """``-x`` or ``!x``."""

    operator: str
    operand: Expr


class Binary(Node):
    """``left operator right``; ``/`` is the floor division, as ``//`` (the parser gives ``//`` for both)."""

    operator: str
    left: Expr
    right: Expr


class Call(Node):
    """``function(arguments)`` with function ``min``, ``max``, ``cdiv`` or ``select`` (condition, then, else)."""

    function: str
    arguments: tuple[Expr, ...]


Expr: TypeAlias = Union[Number, Name, Element, Unary, Binary, Call]


# --- types, slices and windows ------------------------------------------------------------------------------------


class Type(Node):
    """``dims x dtype``; no dims for a scalar.

    With ``bits`` the element type is open: ``dtype`` is its letter (``i``, ``u`` or ``f``), ``bits`` how wide it is.
    """

    dims: tuple[Expr, ...]
    dtype: str
    bits: Expr | None = None


class At(Node):
    """``$buf[i]``: one index; the tensor has an axis of extent 1 there."""

    index: Expr


class Range(Node):
    """``$buf[start:stop:step]`` as in Python; a missing part is None (0, the axis' extent, 1)."""

    start: Expr | None
    stop: Expr | None
    step: Expr | None


class Walk(Node):
    """``$buf[base + {extent : stride, ...}]``: one axis of the tensor for each (extent, stride)."""

    base: Expr
    entries: tuple[tuple[Expr, Expr], ...]


Axis: TypeAlias = Union[At, Range, Walk]


class Slice(Node):
    """``$buffer[axes]``; without axes (``$pe``, ``$pe[]``) the whole buffer."""

    buffer: str
    axes: tuple[Axis, ...]

    def over(self, rank: int) -> tuple[Axis, ...]:
        """The axes for all ``rank`` of the buffer: those that are not named are whole."""
        whole = Range(None, None, None, position=self.position)
        return (*self.axes, *(whole,) * (rank - len(self.axes)))


# --- statements ---------------------------------------------------------------------------------------------------


class Tensor(Node):
    """``%name`` as an operand."""

    name: str


class Group(Node):
    """``{a, b, c}``: a list as the value of an operator's attribute."""

    items: tuple[Expr, ...]


class Region(Node):
    """The ``def`` that an operator's attribute names, after inlining: it takes the first ``parameters`` it is given.

    Those behind them are what it defines. ``body`` has no calls, and is free of reads, writes and registers' updates.
    """

    name: str
    parameters: tuple[str, ...]
    body: tuple[Statement, ...]


Attribute: TypeAlias = Union[Expr, Group, Region]


class Read(Node):
    """``%dst:type <- $slice``."""

    dst: str
    type: Type
    source: Slice


class Write(Node):
    """``%src[:type] -> $slice``."""

    src: str
    type: Type | None
    target: Slice


class Op(Node):
    """``%dst:type = opcode(operands, name=value, ...)``, an XLA-HLO operator."""

    dst: str
    type: Type
    opcode: str
    operands: tuple[Tensor | Expr, ...]
    attributes: tuple[tuple[str, Attribute], ...]


class Assign(Node):
    """``register = value`` or ``register[index] = value``; later statements see the new value."""

    register: str
    index: Expr | None
    value: Expr


class Let(Node):
    """``let name = value``: a local integer, bound once."""

    name: str
    value: Expr


class Assert(Node):
    """``assert(condition)``: a rule that a valid use of the instruction keeps."""

    condition: Expr


class If(Node):
    """``IF (condition) { then } ELSE { otherwise }``; ``otherwise`` is empty without an ELSE."""

    condition: Expr
    then: tuple[Statement, ...]
    otherwise: tuple[Statement, ...]


class Repeat(Node):
    """``REPEAT (variable, count) { body }`` with variable = 0 .. count-1."""

    variable: str
    count: Expr
    body: tuple[Statement, ...]


class Invoke(Node):
    """``name(arguments)``: the block of a ``def``, in place. Gone after inlining."""

    name: str
    arguments: tuple[Tensor | Expr, ...]


Statement: TypeAlias = Union[Read, Write, Op, Assign, Let, Assert, If, Repeat, Invoke]


# --- declarations -------------------------------------------------------------------------------------------------


class Include(Node):
    """``include name``: the declarations of ``name.taidl``, beside this file, come before those here."""

    name: str


class Parameter(Node):
    """``param name = default in low..high where condition``: a condition over it and the parameters before it."""

    name: str
    default: int
    low: int
    high: int
    condition: Expr | None = None


class Constant(Node):
    """``const name = value``: an expression over parameters and earlier constants."""

    name: str
    value: Expr


class BufferDecl(Node):
    """``[name] (rows) (base)``: rows may be several dims or none; ``[name] (rows) (base) = of``, a view of a buffer."""

    name: str
    rows: tuple[Expr, ...]
    base: Type
    of: str | None = None


class RegisterDecl(Node):
    """``name = initial`` or ``name[size] = initial`` (every element starts as ``initial``)."""

    name: str
    size: Expr | None
    initial: Expr


class Definition(Node):
    """``def name(parameters) { body }``; a ``%parameter`` is a tensor that the body reads or defines."""

    name: str
    parameters: tuple[str, ...]
    body: tuple[Statement, ...]


class InstructionDecl(Node):
    """``[name](attributes) { body }``."""

    name: str
    attributes: tuple[str, ...]
    body: tuple[Statement, ...]


class Alias(Node):
    """``alias name(attributes) = instruction``: another way to call an instruction, its attributes in their order."""

    name: str
    attributes: tuple[str, ...]
    instruction: str


class IsaDef(Node):
    """A whole description; ``source`` is its text, kept for the carets of errors.

    ``included`` has the files, each with its text, whose declarations are among these: ``includes`` are those that are
    still to be read.
    """

    name: str
    parameters: tuple[Parameter, ...] = ()
    constants: tuple[Constant, ...] = ()
    buffers: tuple[BufferDecl, ...] = ()
    registers: tuple[RegisterDecl, ...] = ()
    definitions: tuple[Definition, ...] = ()
    instructions: tuple[InstructionDecl, ...] = ()
    aliases: tuple[Alias, ...] = ()
    includes: tuple[Include, ...] = ()
    source: str = field(default="", compare=False, repr=False)
    included: tuple[tuple[str, str], ...] = field(default=(), compare=False, repr=False)

    @staticmethod
    def of(name: str, declarations: Sequence[Node], source: str = "", position: Position = NOWHERE) -> IsaDef:
        """The description of these declarations."""
        kinds = (Parameter, Constant, BufferDecl, RegisterDecl, Definition, InstructionDecl, Alias, Include)
        groups: list[Any] = [tuple(d for d in declarations if isinstance(d, kind)) for kind in kinds]
        return replace(IsaDef(name, *groups), source=source, position=position)

    def text(self, position: Position) -> str:
        """The text of the file of that place."""
        return dict(self.included).get(position.file, self.source)

    def after(self, first: IsaDef) -> IsaDef:
        """These declarations after those of a description that is included."""
        names = ("parameters", "constants", "buffers", "registers", "definitions", "instructions", "aliases")
        joined: dict[str, Any] = {name: getattr(first, name) + getattr(self, name) for name in names}
        return replace(self, includes=(), included=(*first.included, (first.position.file, first.source),
                                                    *self.included), **joined)


# --- the expressions in nodes -------------------------------------------------------------------------------------

N = TypeVar("N", bound=Node)
_EXPRESSIONS = frozenset({Number, Name, Element, Unary, Binary, Call})
_AROUND = frozenset({Type, At, Range, Walk, Slice})
"""Nodes that are parts of others and have expressions in their fields."""


def parts(value: Any) -> Iterator[Expr]:
    """The expressions in the value of a field, from left to right, but for those within expressions and statements."""
    kind = type(value)
    if kind in _EXPRESSIONS:
        yield value
    elif isinstance(value, tuple):
        for part in value:
            yield from parts(part)
    elif kind in _AROUND:
        for name in value.field_names:
            yield from parts(getattr(value, name))


def with_parts(node: N, form: Callable[[Expr], Expr]) -> N:
    """The node with ``form`` of each of the :func:`parts` of its fields; itself where that changes none."""
    changed = {}
    for name in node.field_names:
        value = getattr(node, name)
        if (made := _with_parts(value, form)) is not value:
            changed[name] = made
    return replace(node, **changed) if changed else node


def _with_parts(value: Any, form: Callable[[Expr], Expr]) -> Any:
    kind = type(value)
    if kind is tuple:
        made = tuple([_with_parts(part, form) for part in value])
        return value if all(map(is_, made, value)) else made
    if kind in _EXPRESSIONS:
        return form(value)
    return with_parts(value, form) if kind in _AROUND else value
