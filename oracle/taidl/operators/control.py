"""Operators that apply functions to tensors: while, conditional, call of a ``def``, custom_call of a registered one.

The ``def`` of such an operator takes tensors alone: as many as the operator gives it, and behind them those that it
defines.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from archloom.oracle.errors import TaidlError, suggest
from archloom.oracle.late_jax import jax, jnp, lax
from archloom.oracle.resolved import Shaped, TensorType
from archloom.oracle.taidl.operators import base, carriers
from archloom.oracle.taidl.operators.base import Attribute, Attributes, Opcode, Region, Values, flag, integer
from archloom.oracle.taidl.types import Array, element_type, numpy_dtype


def _region(a: Attributes, name: str) -> Region:
    return cast(Region, a[name])


def _unequal(found: Sequence[Shaped], wanted: Sequence[Shaped]) -> bool:
    return len(found) != len(wanted) or any(map(base.types_differ, found, wanted))


def _list(types: Sequence[Shaped]) -> str:
    return f"({', '.join(map(str, types))})"


# --- while --------------------------------------------------------------------------------------------------------


def _while_rule(result: Shaped, operands: Sequence[Shaped], a: Attributes) -> str | None:
    cond, body = _region(a, "cond"), _region(a, "body")
    found = cond.outputs(operands)
    if _unequal(found, [Shaped((), "i1")]):
        return f"the condition {cond.name} must give one scalar i1, found {_list(found)}"
    found = body.outputs(operands)
    if _unequal(found, operands):
        return f"the body {body.name} must give the types {_list(operands)} that it takes, found {_list(found)}"
    return base.chosen(result, operands, a)


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
    return base.chosen(result, found[0], a, then.name)


def _conditional_lowering(result: TensorType, x: Sequence[Any], a: Values, types: Sequence[str]) -> Any:
    which = a["result"]
    return lax.cond(x[0], lambda *s: a["then"](*s)[which], lambda *s: a["else"](*s)[which], *map(jnp.asarray, x[1:]))


def _call_rule(result: Shaped, operands: Sequence[Shaped], a: Attributes) -> str | None:
    function = _region(a, "function")
    return base.chosen(result, function.outputs(operands), a, function.name)


# --- map and scan -------------------------------------------------------------------------------------------------


def _map_rule(result: Shaped, operands: Sequence[Shaped], a: Attributes) -> str | None:
    for x in operands:
        if base.shapes_differ(x.shape, operands[0].shape):
            return f"{{}} needs operands of one shape, found {_list(operands)}"
    found = _region(a, "function").outputs([Shaped((), x.dtype) for x in operands])
    if any(x.shape for x in found):
        return f"the function {_region(a, 'function').name} of {{}} must give scalars, found {_list(found)}"
    return base.chosen(result, [Shaped(operands[0].shape, x.dtype) for x in found], a)


def _map(result: TensorType, x: Sequence[Any], a: Values, types: Sequence[str]) -> Any:
    made = np.empty(result.shape, numpy_dtype(result.dtype))
    for place in np.ndindex(result.shape):
        made[place] = a["function"](*(np.asarray(v[place]) for v in x))[a["result"]]
    return made


def _map_lowering(result: TensorType, x: Sequence[Any], a: Values, types: Sequence[str]) -> Any:
    def one(*scalars: Any) -> Any:
        return jnp.asarray(a["function"](*scalars)[a["result"]])

    return jax.vmap(one)(*(jnp.asarray(v).reshape(-1) for v in x)).reshape(result.shape)


def _scan_rule(result: Shaped, operands: Sequence[Shaped], a: Attributes) -> str | None:
    count, axis = a["inputs"], a["dim"]
    if not isinstance(count, int) or not isinstance(axis, int):
        return None
    if not 1 <= count <= len(operands):
        return f"inputs must be in 1..{len(operands)}, found {count}"
    inputs, states = operands[:count], operands[count:]
    fault = base.axis_fault(axis, len(inputs[0].shape)) or base.flags_fault(a, "reverse")
    if fault or any(len(x.shape) <= axis or base.differ(x.shape[axis], inputs[0].shape[axis]) for x in inputs):
        return fault or f"the inputs of {{}} must be as long along axis {axis}, found {_list(inputs)}"
    extent = inputs[0].shape[axis]
    found = _region(a, "function").outputs(
        [*(Shaped(x.shape[:axis] + x.shape[axis + 1:], x.dtype) for x in inputs), *states])
    outputs, after = found[:len(found) - len(states)], found[len(found) - len(states):]
    if len(found) < len(states) or _unequal(after, states):
        return (f"the last outputs of {_region(a, 'function').name} must be a state of {_list(states)}, found "
                f"{_list(found)}")
    if any(len(x.shape) < axis for x in outputs):
        return f"an output of {{}} needs {axis} axes at least, found {_list(outputs)}"
    rows = [Shaped((*x.shape[:axis], extent, *x.shape[axis:]), x.dtype) for x in outputs]
    return base.chosen(result, [*rows, *states], a)


def _scan(lib: Any, result: TensorType, x: Sequence[Any], a: Values, types: Sequence[str]) -> Any:
    axis, which = a["dim"], a["result"]
    inputs = [lib.xp.moveaxis(lib.xp.asarray(v), axis, 0) for v in x[:a["inputs"]]]
    inputs = [lib.xp.flip(v, 0) for v in inputs] if a["reverse"] else inputs
    state = tuple(lib.xp.asarray(v) for v in x[a["inputs"]:])

    def step(before: tuple[Any, ...], slices: Sequence[Any]) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        found = tuple(lib.xp.asarray(v) for v in a["function"](*slices, *before))
        split = len(found) - len(before)
        return found[split:], found[:split]

    final, rows = lib.scan(step, state, inputs)
    if which >= len(rows):
        return final[which - len(rows)]
    made = lib.xp.flip(rows[which], 0) if a["reverse"] else rows[which]
    return lib.xp.moveaxis(made, 0, axis)


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


def registered_names() -> list[str]:
    """Those that are registered, in order."""
    return sorted(_registered)


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
           (_function("then"), _function("else"), integer("result", 0)), spelled=("if",)),
    Opcode("call", None, _call_rule, *base.in_both(
        lambda lib, result, x, a, types: a["function"](*x)[a["result"]]), "opaque",
           "the output number `result` (0) of a `def`", (_function("function"), integer("result", 0)), least=0),
    Opcode("map", None, _map_rule, _map, _map_lowering, "opaque",
           "a `def` from scalars to scalars, applied to the elements; its output number `result` (0)",
           (_function("function"), integer("result", 0))),
    Opcode("scan", None, _scan_rule, *base.in_both(_scan), "opaque",
           "`inputs` (1) tensors, then a state: from slice to slice along `dim`, from the last on with `reverse`, a "
           "`def` of the slices and the state gives a slice of each output, and the state; output number `result` (0), "
           "the last state behind the others",
           (integer("dim", None, "dimension"), _function("function"), integer("inputs", 1), flag("reverse", 0),
            integer("result", 0))),
    Opcode("custom_call", None, lambda result, operands, a: None, _custom, _custom_lowering, "opaque",
           "a function given to `archloom.oracle.taidl.register_function`", (Attribute("function", "name"),), least=0),
]
