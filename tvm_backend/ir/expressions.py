"""Expressions of networks as the passes see them: Relax's, or plain ones (:mod:`archloom.tvm_backend.ir.plain`).

The functions are those of :mod:`archloom.tvm_backend.ir.compat`, where each is described; what they are applied to
decides whose they are. TVM is only imported where a Relax expression is met. A function that plain expressions do not
have raises :class:`~archloom.tvm_backend.ir.nodes.Unsupported` for them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from archloom.tvm_backend.ir import access, matcher
from archloom.tvm_backend.ir.nodes import PLAIN, Unsupported, is_plain

if TYPE_CHECKING:
    from archloom.tvm_backend.ir import compat

    IRModule: TypeAlias = compat.IRModule
    Function: TypeAlias = compat.Function
    Binding: TypeAlias = compat.Binding
    Call: TypeAlias = compat.Call
    Expr: TypeAlias = compat.Expr
    Var: TypeAlias = compat.Var


NO_TENSOR = (bool, int, float, str, tuple)
"""Types of the arguments of plain calls that are no tensors."""


def scalar_of(value: Any) -> Any:
    """A Python number, string or None from an immediate; plain calls have them as they are."""
    if value is None or isinstance(value, NO_TENSOR) or is_plain(value):
        return value
    return _relax().scalar_of(value)


def number_of(expr: Any) -> float | None:
    """The number of a constant that has one, None for anything else."""
    if expr is None or isinstance(expr, NO_TENSOR) or not _of(expr).is_constant(expr):
        return None
    array = np.asarray(_of(expr).const_value(expr))
    return float(array.reshape(())) if array.size == 1 else None


def same(one: Any, other: Any) -> bool:
    """Whether two expressions are one and the same; Relax gives a new handle of it each time that it is asked."""
    return one is other or bool(hasattr(one, "same_as") and one.same_as(other))


def fuse_by_pattern(module: Any, patterns: "Sequence[tuple[str, Any, Callable[[Any], bool]]]") -> Any:
    """See :func:`tvm_backend.ir.compat.fuse_by_pattern`; patterns may be of :mod:`archloom.tvm_backend.ir.patterns`."""
    if is_plain(module):
        return matcher.fuse_by_pattern(module, patterns)
    from archloom.tvm_backend.ir.patterns import to_relax

    return _relax().fuse_by_pattern(module, [(name, to_relax(p), check) for name, p, check in patterns])


def call_external(symbol: str, args: Sequence[Any], results: Sequence[Any]) -> Any:
    """See :func:`archloom.tvm_backend.ir.compat.call_external`."""
    return _of(results[0]).call_external(symbol, args, results)


def new_var(name: str, like: Any) -> Any:
    """See :func:`archloom.tvm_backend.ir.compat.new_var`."""
    return _of(like).new_var(name, like)


def constant_like(array: Any, like: Any) -> Any:
    """A tensor constant of the kind of ``like``."""
    return access.constant_like(array, like) if is_plain(like) else _relax().constant(array)


def call_of(op: str, args: Sequence[Any], attributes: Mapping[str, Any]) -> Any:
    """A call of an operator by its name and the arguments of its function in Relax; the first is an expression."""
    if is_plain(args[0]):
        return access.call_of(op, args, attributes)
    return _relax().relax_op(op)(*args, **attributes)


def reshape(source: Any, shape: Sequence[int]) -> Any:
    """A reshape of a tensor expression."""
    return access.reshape(source, shape) if is_plain(source) else _relax().relax_op("reshape")(source, shape)


def make_function(params: Sequence[Any], body: Sequence[Any], results: Sequence[Any], attrs: Any = None) -> Any:
    """See :func:`archloom.tvm_backend.ir.compat.make_function`."""
    return _of(results[0]).make_function(params, body, results, attrs)


def _relax() -> Any:
    from archloom.tvm_backend.ir import compat

    return compat


def _of(value: Any) -> Any:
    return access if is_plain(value) else _relax()


_OF_ONE = frozenset({
    "is_constant", "const_value", "is_var", "is_tensor", "shape_of", "dtype_of", "op_name", "tuple_fields", "variables",
    "is_single", "bindings",
})
"""Functions of an expression alone: what is asked most often, by a shorter way."""


def _of_one(name: str, ours: Any) -> Callable[[Any], Any]:
    def call(expr: Any) -> Any:
        if type(expr) in PLAIN or expr is None or isinstance(expr, NO_TENSOR):
            return ours(expr)
        return getattr(_relax(), name)(expr)

    call.__name__ = name
    return call


def __getattr__(name: str) -> Any:
    """Any other function of ``compat``, for the first argument's kind of expression."""
    if name.startswith("__"):
        raise AttributeError(name)
    ours = getattr(access, name, None)
    if name in _OF_ONE:
        made = _of_one(name, ours)
        globals()[name] = made
        return made

    def call(first: Any, *rest: Any, **named: Any) -> Any:
        if type(first) not in PLAIN:
            if first is None or isinstance(first, NO_TENSOR):
                return ours(first, *rest, **named) if ours is not None else getattr(_relax(), name)(
                    first, *rest, **named)
            return getattr(_relax(), name)(first, *rest, **named)
        if ours is None:
            raise Unsupported(f"{name} of a plain expression")
        return ours(first, *rest, **named)

    call.__name__ = name
    globals()[name] = call
    return call
