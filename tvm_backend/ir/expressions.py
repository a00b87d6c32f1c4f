"""Expressions of networks as passes see them: Relax's, or plain ones (:mod:`archloom.tvm_backend.ir.nodes`).

What a kind of expressions must tell, and make, is :class:`Representation`: :mod:`archloom.tvm_backend.ir.plain` is that
of plain ones, :mod:`archloom.tvm_backend.ir.compat` that of Relax. The functions here ask the one that a value belongs
to; whatever can be said over those few is written once. TVM is only imported where a Relax expression is met.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, TypeAlias, TypeGuard

import numpy as np

from archloom.tvm_backend.ir import plain
from archloom.tvm_backend.ir.nodes import PLAIN, Kind, OpenType, ShapeType, TensorType, TupleType, Type


class Expr(Protocol):
    """An expression; its type ``ty``, printed, is in Relax's notation (see :func:`type_of`)."""

    @property
    def ty(self) -> Any: ...
    def same_as(self, other: Any, /) -> bool: ...


class Var(Expr, Protocol):
    """A variable or a parameter; its name is the network's, or one that an importer made up."""

    @property
    def name(self) -> str: ...


class Call(Expr, Protocol):
    """A call of an operator, or of a function.

    ``args`` are expressions, and also numbers (:func:`scalar_of`) and shapes (:func:`shape_values`); for ``attrs`` see
    :func:`attr`.
    """

    @property
    def args(self) -> Sequence[Any]: ...
    @property
    def attrs(self) -> Any: ...


class Binding(Protocol):
    """``var = value``: a :class:`Var` and an :class:`Expr`."""

    @property
    def var(self) -> Any: ...
    @property
    def value(self) -> Any: ...


class Function(Protocol):
    """A function without control flow; ``params`` are variables."""

    @property
    def params(self) -> Sequence[Any]: ...
    @property
    def attrs(self) -> Any: ...


class IRModule(Protocol):
    """Functions by name, ``module["main"]`` is the network; ``functions`` by what has the name as ``name_hint``."""

    def __getitem__(self, name: str) -> Any: ...
    @property
    def functions(self) -> Mapping[Any, Any]: ...


Lookup: TypeAlias = Callable[[Any], Any]
"""The value of a variable, None for one that is not known."""


class Representation(Protocol):
    """A kind of expressions: what this module asks it by functions of the same names, where these are described, and
    some that are asked by :func:`of`."""

    def kind(self, expr: Any, /) -> Kind: ...
    def type_of(self, expr: Any, /) -> Type: ...
    def op_name(self, expr: Any, /) -> str | None: ...
    def const_value(self, expr: Any, /) -> np.ndarray: ...
    def scalar_of(self, value: Any, /) -> Any: ...
    def variables(self, expr: Any, /) -> Sequence[Any]: ...
    def constant(self, array: np.ndarray, /) -> Any: ...
    def call_of(self, op: str, args: Sequence[Any], attributes: Mapping[str, Any], /) -> Any: ...
    def on_arguments(self, call: Any, args: Sequence[Any], like: Any, /) -> Any: ...
    def substitute(self, expr: Any, replacements: Mapping[Any, Any], /) -> Any: ...
    def new_var(self, name: str, like: Any, /) -> Any: ...
    def bind(self, var: Any, value: Any, /) -> Any: ...
    def bindings(self, function: Any, /) -> Sequence[Any]: ...
    def result_of(self, function: Any, /) -> Any: ...
    # a function of one dataflow block that returns ``results`` (a tuple when there are several)
    def make_function(self, params: Sequence[Any], body: Sequence[Any], results: Sequence[Any],
                      attrs: Mapping[str, Any] | None = None, /) -> Any: ...
    def callee(self, module: Any, expr: Any, /) -> Any: ...  # the function of the module that ``expr`` calls, or None

    # a call with its type; field ``index`` of a tuple; a function parameter of the name and type of ``var``
    def normalized(self, call: Any, /) -> Any: ...
    def tuple_get(self, expr: Any, index: int, /) -> Any: ...
    def parameter_like(self, var: Any, /) -> Any: ...
    # all attributes of a call by name
    def attributes_of(self, call: Any, /) -> dict[str, Any]: ...
    # a call of the packed function ``symbol`` that returns tensors like ``results`` (several: a tuple), and symbol and
    # arguments of such a call, None for any other expression
    def call_external(self, symbol: str, args: Sequence[Any], results: Sequence[Any], /) -> Any: ...
    def external_call(self, expr: Any, /) -> tuple[str, list[Any]] | None: ...
    # the module without the functions that are not wanted, which the others must not call; with another ``main`` and
    # further functions by name; with another ``main``, checked for form, without the functions that it no longer needs
    def keep_functions(self, module: Any, wanted: Callable[[Any], bool], /) -> Any: ...
    def with_functions(self, main: Any, others: Mapping[str, Any], module: Any, /) -> Any: ...
    def replace_main(self, module: Any, main: Any, /) -> Any: ...
    # the module in the form in which patterns match: ``main`` is one dataflow block
    def ensure_dataflow(self, module: Any, /) -> Any: ...


_PLAIN: Representation = plain
_OURS = PLAIN | {type(None), bool, int, float, str, tuple}
"""Plain expressions, and the arguments of plain calls that are none."""


def _relax() -> Representation:
    from archloom.tvm_backend.ir import compat

    return compat


def of(value: Any) -> Representation:
    """The representation of an expression, a function or a module."""
    return _PLAIN if type(value) in _OURS else _relax()


# what an expression is ----------------------------------------------------------------------------------------------


def kind(expr: Any) -> Kind:
    """Which sort of expression it is; ``field`` is an access to a tuple's, ``branch`` a choice by a value that
    is computed, ``other`` a number."""
    return plain.kind(expr) if type(expr) in _OURS else _relax().kind(expr)


def is_constant(expr: Any) -> bool:
    """Whether ``expr`` is a tensor constant."""
    return kind(expr) == "constant"


def is_var(expr: Any) -> TypeGuard[Var]:
    """Whether ``expr`` is a variable or a parameter."""
    return kind(expr) == "var"


def op_name(expr: Any) -> str | None:
    """``nn.conv2d`` for a call of that operator; None for anything that calls no operator."""
    return of(expr).op_name(expr)


def tuple_fields(expr: Any) -> list[Any] | None:
    """Fields of a tuple literal, else None."""
    return list(expr.fields) if kind(expr) == "tuple" else None


def permutation(call: Call) -> tuple[int, ...]:
    """The axis of the operand that each axis of a ``permute_dims`` is, counted from the first."""
    rank, axes = len(shape_of(call.args[0])), attr(call, "axes")
    return tuple(reversed(range(rank))) if axes is None else tuple(int(axis) % rank for axis in axes)


def is_tuple_get(expr: Any) -> tuple[Any, int] | None:
    """``(tuple, index)`` of an access to a field, else None."""
    return (expr.tuple_value, int(expr.index)) if kind(expr) == "field" else None


def shape_values(expr: Any) -> tuple[int, ...] | None:
    """Numbers of a shape literal, or of a variable that holds a static shape, else None."""
    ty = type_of(expr) if kind(expr) in ("shape", "var") else None
    return ty.values if isinstance(ty, ShapeType) else None


def same(one: Any, other: Any) -> bool:
    """Whether two expressions are one and the same; Relax gives a new handle of it each time that it is asked."""
    return one is other or bool(hasattr(one, "same_as") and one.same_as(other))


def variables(expr: Any) -> Sequence[Any]:
    """Variables that an expression reads, in order, without repetition."""
    return of(expr).variables(expr)


# types --------------------------------------------------------------------------------------------------------------


def type_of(expr: Any) -> Type:
    """The type; None for what is neither a tensor nor a tuple nor a shape."""
    return expr.ty if type(expr) in PLAIN else of(expr).type_of(expr)


def is_single(expr: Any) -> bool:
    """Whether an expression is one tensor, not a tuple or a shape."""
    ty = type_of(expr)
    return isinstance(ty, TensorType) or (isinstance(ty, OpenType) and ty.tensor)


def is_tensor(expr: Any) -> bool:
    """Whether ``expr`` is a single tensor of static shape."""
    return isinstance(type_of(expr), TensorType)


def has_static_type(expr: Any) -> bool:
    """Whether a tensor, or every tensor of a tuple, has a static shape; shapes and scalars have."""
    def static(ty: Type) -> bool:
        return all(map(static, ty.fields)) if isinstance(ty, TupleType) else not isinstance(ty, OpenType)

    return static(type_of(expr))


def _tensor(expr: Any) -> TensorType:
    ty = type_of(expr)
    if not isinstance(ty, TensorType):
        raise TypeError(f"expected a tensor of static shape, found {ty}")
    return ty


def shape_of(expr: Any) -> tuple[int, ...]:
    """Static shape of a tensor expression."""
    return _tensor(expr).shape


def dtype_of(expr: Any) -> str:
    """NumPy name of a tensor expression's dtype."""
    ty = type_of(expr)
    return ty.dtype if isinstance(ty, OpenType) else _tensor(expr).dtype


def fields_of(ty: Type) -> tuple[Type, ...]:
    """The types of a tuple's fields, or the one of anything else."""
    return ty.fields if isinstance(ty, TupleType) else (ty,)


# constants, numbers, attributes -------------------------------------------------------------------------------------


def const_value(expr: Any) -> np.ndarray:
    """A constant's tensor (shares memory where it can)."""
    return of(expr).const_value(expr)


def number_of(expr: Any) -> float | None:
    """The number of a constant that has one, None for anything else."""
    if not is_constant(expr) or (array := const_value(expr)).size != 1:
        return None
    return float(array.reshape(()))


def scalar_of(value: Any) -> Any:
    """An argument or attribute that is no expression, in Python: a number, a string, None, or a tuple of those."""
    return of(value).scalar_of(value)


def attr(call: Call, name: str, *default: Any) -> Any:
    """Attribute ``name`` of a call: a number, a string, None, or a tuple of those."""
    return scalar_of(getattr(call.attrs, name, *default))


def attr_ints(call: Call, name: str) -> tuple[int, ...]:
    """Attribute ``name`` of a call, which is a list of integers."""
    return tuple(int(v) for v in attr(call, name))


# new expressions ----------------------------------------------------------------------------------------------------


def constant_like(array: np.ndarray, like: Any) -> Any:
    """A tensor constant of the representation of ``like``."""
    return of(like).constant(array)


def call_of(op: str, args: Sequence[Any], attributes: Mapping[str, Any] | None = None) -> Any:
    """A call of an operator by its name and the arguments of its function in Relax; the first is an expression."""
    return of(args[0]).call_of(op, args, attributes or {})


def reshape(source: Any, shape: Sequence[int]) -> Any:
    """A reshape of a tensor."""
    return call_of("reshape", (source, tuple(shape)))


def make_call(call: Any, args: Sequence[Any], like: Any = None) -> Any:
    """A new call of the same operator and attributes on other arguments, of the type of ``like`` (else its own)."""
    return of(call).on_arguments(call, args, call if like is None else like)


def make_like(call: Any, args: Sequence[Any]) -> Any:
    """A new call of the same operator and attributes on arguments of other shapes; its type is not yet known."""
    return of(call).on_arguments(call, args, None)


def new_var(name: str, like: Any) -> Any:
    """A variable of the type of ``like``."""
    return of(like).new_var(name, like)


def substitute(expr: Any, replacements: Mapping[Any, Any]) -> Any:
    """The expression with variables replaced, in calls, tuples and accesses to tuples."""
    return of(expr).substitute(expr, replacements)


# functions and modules ----------------------------------------------------------------------------------------------


def bind(var: Any, value: Any) -> Binding:
    """``var = value``."""
    return of(var).bind(var, value)


def bindings(function: Function) -> Sequence[Binding]:
    """All bindings of a function without control flow, in order."""
    return of(function).bindings(function)


def bound_in(function: Function) -> dict[Any, Any]:
    """The value of each variable that a function binds, in order."""
    return {b.var: b.value for b in bindings(function)}


def outputs_of(function: Function) -> list[Any]:
    """What the function returns: the fields of a tuple, or the one value."""
    result = of(function).result_of(function)
    bound = (b.value for b in reversed(bindings(function)) if same(b.var, result))
    fields = tuple_fields(next(bound, None) if is_var(result) else result)
    return [result] if fields is None else fields


def use_counts(function: Function) -> Counter[Any]:
    """How often each variable is read: once by each value, and each result, that has it."""
    read = (*(b.value for b in bindings(function)), *outputs_of(function))
    return Counter(var for expr in read for var in variables(expr))


def rebuild(function: Function, body: Sequence[Any], results: Sequence[Any]) -> Any:
    """The function with another body, of one dataflow block, and other results; parameters and attributes stay."""
    return of(function).make_function(function.params, body, results, function.attrs)


def with_attributes(function: Function, attributes: Mapping[str, Any]) -> Any:
    """The function with these attributes and no others."""
    return of(function).make_function(function.params, bindings(function), outputs_of(function), attributes)


def is_composite(module: IRModule, expr: Any) -> tuple[str, Any] | None:
    """``(name, function)`` where ``expr`` calls a composite function of ``module``, else None."""
    function = of(module).callee(module, expr)
    attrs = getattr(function, "attrs", None) or {}
    return (str(attrs["Composite"]), function) if "Composite" in attrs else None


def codegen_of(function: Function) -> str | None:
    """Who runs a function (its attribute ``Codegen``): None for ``main`` and TIR, ``""`` for composite functions."""
    attrs = getattr(function, "attrs", None) or {}
    return str(attrs["Codegen"]) if "Codegen" in attrs else "" if "Composite" in attrs else None


