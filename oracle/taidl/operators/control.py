"""Operators that apply functions to tensors: while, conditional, call of a ``def``, custom_call of a registered one.

The ``def`` of such an operator takes tensors alone: as many as the operator gives it, and behind them those that it
defines.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from archloom.oracle.errors import TaidlError, suggest
from archloom.oracle.late_jax import jax, jnp, lax
from archloom.oracle.resolved import Shaped, TensorType
from archloom.oracle.taidl.operators import base, carriers
from archloom.oracle.taidl.operators.base import Attribute, Attributes, Opcode, Region, integer
from archloom.oracle.taidl.types import Array, element_type, numpy_dtype

Values = Mapping[str, Any]


def _region(a: Attributes, name: str) -> Region:
    return cast(Region, a[name])


def _unequal(found: Sequence[Shaped], wanted: Sequence[Shaped]) -> bool:
    return len(found) != len(wanted) or any(map(base.types_differ, found, wanted))


def _list(types: Sequence[Shaped]) -> str:
    return f"({', '.join(map(str, types))})"


def _chosen(result: Shaped, types: Sequence[Shaped], a: Attributes, name: str) -> str | None:
    """What is wrong with the declared type, if output number ``result`` is meant."""
    which = a["result"]
    if not isinstance(which, int):
        return None
    if not 0 <= which < len(types):
        return f"result must be in 0..{len(types) - 1}, the outputs of {name}, found {which}"
    return f"is declared {result} but {name} gives {types[which]}" if base.types_differ(result, types[which]) else None


# --- while --------------------------------------------------------------------------------------------------------


def _while_rule(result: Shaped, operands: Sequence[Shaped], a: Attributes) -> str | None:
    cond, body = _region(a, "cond"), _region(a, "body")
    found = cond.outputs(operands)
    if _unequal(found, [Shaped((), "i1")]):
        return f"the condition {cond.name} must give one scalar i1, found {_list(found)}"
    found = body.outputs(operands)
    if _unequal(found, operands):
        return f"the body {body.name} must give the types {_list(operands)} that it takes, found {_list(found)}"
    return _chosen(result, operands, a, "{}")


def _while(result: TensorType, x: Sequence[Any], a: Values, types: Sequence[str]) -> Any:
    state = tuple(x)
    while bool(a["cond"](*state)[0]):
        state = a["body"](*state)
    return state[a["result"]]


def _while_lowering(result: TensorType, x: Sequence[Any], a: Values, types: Sequence[str]) -> Any:
    final = lax.while_loop(lambda s: a["cond"](*s)[0], lambda s: tuple(a["body"](*s)), tuple(jnp.asarray(v) for v in x))
    return final[a["result"]]


# --- conditional and call -----------------------------------------------------------------------------------------


def _conditional_rule(result: Shaped, operands: Sequence[Shaped], a: Attributes) -> str | None:
    which, *rest = operands
    if _unequal([which], [Shaped((), "i1")]):
        return f"the first operand of {{}} is a scalar i1, found {which}"
    then, otherwise = _region(a, "then"), _region(a, "else")
    found = then.outputs(rest), otherwise.outputs(rest)
    if _unequal(*found):
        return f"{then.name} gives {_list(found[0])}, but {otherwise.name} {_list(found[1])}"
    return _chosen(result, found[0], a, then.name)


def _conditional_lowering(result: TensorType, x: Sequence[Any], a: Values, types: Sequence[str]) -> Any:
    which = a["result"]
    return lax.cond(x[0], lambda *s: a["then"](*s)[which], lambda *s: a["else"](*s)[which], *map(jnp.asarray, x[1:]))


def _call_rule(result: Shaped, operands: Sequence[Shaped], a: Attributes) -> str | None:
    function = _region(a, "function")
    return _chosen(result, function.outputs(operands), a, function.name)


# --- custom_call --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Registered:
    """A function from outside: ``numpy`` of NumPy arrays, ``jax`` of JAX arrays; either may be missing."""

    numpy: Callable[..., Any] | None
    jax: Callable[..., Any] | None


_registered: dict[str, Registered] = {}


def register_function(
    name: str, *, numpy: Callable[..., Any] | None = None, jax: Callable[..., Any] | None = None
) -> None:
    """Make a function known to ``custom_call(..., function=name)``; a name may be given anew.

    It takes the operands as arrays of their NumPy types (JAX's for ``jax``, which holds integers under 8 bits in 8
    and floats under 8 bits as their bits) and gives the result in the declared shape and type. The one that is missing
    is made of the other; that both give the same bits is on who registers them. TaidlError without any.
    """
    if numpy is None and jax is None:
        raise TaidlError(f"function {name!r} needs an implementation in NumPy or in JAX")
    _registered[name] = Registered(numpy, jax)


def registered(name: str) -> Registered:
    """The function of that name; TaidlError if none was registered."""
    if name not in _registered:
        raise TaidlError(f"no function {name!r} is registered{suggest(name, sorted(_registered))}; "
                         "archloom.oracle.taidl.register_function does it")
    return _registered[name]


def _checked(name: str, value: Any, shape: Sequence[Any], dtype: Any) -> Any:
    if tuple(value.shape) != tuple(shape) or value.dtype != dtype:
        raise TaidlError(f"function {name!r} gave {value.dtype}{list(value.shape)}, "
                         f"where {np.dtype(dtype)}{list(shape)} is declared")
    return value


def _custom(result: TensorType, x: Sequence[Any], a: Values, types: Sequence[str]) -> Any:
    function = registered(a["function"])
    if function.numpy is not None:
        made = np.asarray(function.numpy(*x))
        return _checked(a["function"], made, result.shape, numpy_dtype(result.dtype))
    assert function.jax is not None
    given = [natural(carriers.carried(v, t), t) for v, t in zip(x, types, strict=True)]
    made = np.asarray(as_carrier(function.jax(*given)))
    _checked(a["function"], made, result.shape, carriers.carrier_dtype(result.dtype))
    return carriers.elements(made, result.dtype)


def _custom_lowering(result: TensorType, x: Sequence[Any], a: Values, types: Sequence[str]) -> Any:
    function, dtype = registered(a["function"]), carriers.carrier_dtype(result.dtype)
    if function.jax is not None:
        made = as_carrier(function.jax(*(natural(jnp.asarray(v), t) for v, t in zip(x, types, strict=True))))
        return _checked(a["function"], made, result.shape, dtype)

    def outside(*arrays: Any) -> Array:
        given = [carriers.elements(np.asarray(v), t) for v, t in zip(arrays, types, strict=True)]
        made = np.asarray(function.numpy(*given))  # type: ignore[misc]
        return carriers.carried(made, result.dtype)

    return jax.pure_callback(outside, jax.ShapeDtypeStruct(result.shape, dtype), *x, vmap_method="sequential")


def natural(x: Any, dtype: str) -> Any:
    """A carrier as the JAX array of its type, for types of 8 bits and more."""
    kind = element_type(dtype)
    if kind.kind in ("float", "scale") and kind.bits == 8:
        return lax.bitcast_convert_type(x, jnp.dtype(kind.numpy))
    return jnp.asarray(x)


def as_carrier(x: Any) -> Any:
    """A JAX array of a type of 8 bits and more as its carrier."""
    x = jnp.asarray(x)
    return lax.bitcast_convert_type(x, jnp.uint8) if jnp.issubdtype(x.dtype, jnp.floating) and (
        x.dtype.itemsize == 1) else x


def _function(name: str) -> Attribute:
    return Attribute(name, "function")


ROWS: list[Opcode] = [
    Opcode("while", None, _while_rule, _while, _while_lowering, "opaque",
           "while `cond` of the state holds, the state becomes `body` of it; operand number `result` (0) at the end",
           (_function("cond"), _function("body"), integer("result", 0))),
    Opcode("conditional", None, _conditional_rule,
           lambda result, x, a, types: a["then" if bool(x[0]) else "else"](*x[1:])[a["result"]],
           _conditional_lowering, "opaque",
           "a scalar i1, then what the chosen function takes; its output number `result` (0)",
           (_function("then"), _function("else"), integer("result", 0))),
    Opcode("call", None, _call_rule, *base.in_both(
        lambda lib, result, x, a, types: a["function"](*x)[a["result"]]), "opaque",
           "the output number `result` (0) of a `def`", (_function("function"), integer("result", 0)), least=0),
    Opcode("custom_call", None, lambda result, operands, a: None, _custom, _custom_lowering, "opaque",
           "a function given to `archloom.oracle.taidl.register_function`", (Attribute("function", "name"),), least=0),
]
