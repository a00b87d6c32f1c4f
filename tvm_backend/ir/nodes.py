"""Expressions, functions and modules, in the form of Relax: calls of operators bound to variables."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from types import SimpleNamespace
from typing import Any, Literal, TypeAlias

import numpy as np

Kind: TypeAlias = Literal["var", "constant", "call", "tuple", "field", "shape", "branch", "other"]
"""Sorts of expressions (see :func:`archloom.tvm_backend.ir.expressions.kind`)."""


class Unsupported(Exception):
    """Something that plain expressions do not know; the message says what."""


@dataclass(frozen=True)
class TensorType:
    """A tensor of static ``shape``; ``dtype`` is a NumPy name."""

    shape: tuple[int, ...]
    dtype: str

    def __str__(self) -> str:
        return f'R.Tensor({self.shape}, dtype="{self.dtype}")'


@dataclass(frozen=True)
class TupleType:
    """A tuple of tensors."""

    fields: "tuple[Type, ...]"

    def __str__(self) -> str:
        return f"R.Tuple({', '.join(map(str, self.fields))})"


@dataclass(frozen=True)
class ShapeType:
    """A shape that is computed."""

    values: tuple[int, ...]


@dataclass(frozen=True)
class OpenType:
    """What has no static shape, in Relax's words; plain expressions have none such. ``tensor``: it is one tensor."""

    text: str
    tensor: bool
    dtype: str = ""

    def __str__(self) -> str:
        return self.text


Type: TypeAlias = TensorType | TupleType | ShapeType | OpenType | None
"""None: what is neither a tensor nor a tuple nor a shape."""


class Expr:
    """An expression; equal only to itself."""

    __slots__ = ("ty",)
    ty: Type

    def same_as(self, other: object) -> bool:
        return self is other


@dataclass(eq=False, repr=False, slots=True)
class Var(Expr):
    """A variable or a parameter."""

    name: str
    ty: Type


_dtype_name = cache(str)
"""``float32``; kept, since NumPy takes long to spell it."""


class Constant(Expr):
    """A tensor constant. Where weights were not read, ``value`` is a zero seen in the constant's shape."""

    __slots__ = ("value",)

    def __init__(self, value: np.ndarray) -> None:
        self.value = value
        self.ty: Type = TensorType(value.shape, _dtype_name(value.dtype))


@dataclass(eq=False, repr=False, slots=True)
class Call(Expr):
    """An operator (its name without ``relax.``) or a composite function (:class:`Target`) on arguments.

    Arguments that are no tensors are Python numbers; shapes are :class:`Shape`.
    """

    op: "str | Target"
    args: tuple[Any, ...]
    attrs: SimpleNamespace
    ty: Type


class Shape(Expr):
    """A shape as an argument."""

    __slots__ = ("values",)

    def __init__(self, values: tuple[int, ...]) -> None:
        self.values = values
        self.ty: Type = ShapeType(values)


class Tuple(Expr):
    """A tuple of expressions."""

    __slots__ = ("fields",)

    def __init__(self, fields: tuple[Any, ...]) -> None:
        self.fields = fields
        self.ty: Type = TupleType(tuple(f.ty for f in fields))


class TupleGet(Expr):
    """A field of a tuple."""

    __slots__ = ("index", "tuple_value")

    def __init__(self, value: Expr, index: int) -> None:
        assert isinstance(value.ty, TupleType)
        self.tuple_value = value
        self.index = index
        self.ty: Type = value.ty.fields[index]


@dataclass(frozen=True)
class Target:
    """What a call calls that is no operator: a function of the module or one from outside."""

    name: str
    external: bool = False


@dataclass(frozen=True, eq=False)
class Binding:
    """``var = value``."""

    var: Var
    value: Any


@dataclass(frozen=True, eq=False)
class Function:
    """A function without control flow; the last binding is that of its result."""

    params: tuple[Var, ...]
    body: tuple[Binding, ...]
    result: Var
    attrs: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class GlobalVar:
    """A function's name, with the attribute that Relax has."""

    name_hint: str


@dataclass(frozen=True, eq=False)
class Module:
    """Functions by name; ``module["main"]`` is the network."""

    named: Mapping[str, Function]

    def __getitem__(self, name: str) -> Function:
        return self.named[name]

    @property
    def functions(self) -> Mapping[GlobalVar, Function]:
        return {GlobalVar(name): function for name, function in self.named.items()}


PLAIN = frozenset({Var, Constant, Call, Shape, Tuple, TupleGet, Binding, Function, Module, GlobalVar})
"""The types of all objects of this package."""


def is_plain(value: object) -> bool:
    """Whether ``value`` is an object of this package."""
    return type(value) in PLAIN


def needed(body: Sequence[Any], live: set[Any], read: Callable[[Any], Iterable[Any]]) -> list[Any]:
    """The bindings that what is ``live`` needs, in order; ``read`` gives the variables of a value."""
    kept = []
    for binding in reversed(body):
        if binding.var in live:
            live.update(read(binding.value))
            kept.append(binding)
    return kept[::-1]


def variables_in(value: Any) -> list[Var]:
    """The variables in an expression, in order and as often as they stand there."""
    kind = type(value)
    if kind is Var:
        return [value]
    if kind is Call or kind is Tuple:
        found: list[Var] = []
        for part in value.args if kind is Call else value.fields:
            if type(part) is Var:
                found.append(part)
            elif type(part) in _NESTED:
                found += variables_in(part)
        return found
    return variables_in(value.tuple_value) if kind is TupleGet else []


_NESTED = frozenset({Call, Tuple, TupleGet})


attributes = SimpleNamespace
"""Attributes of a call, read as ``call.attrs.name``."""
