"""The meaning of HLO's element-wise operations as JAX functions: one table for raised code and for loops.

TAIDL's integers wrap; a conversion from floating point to integers truncates, saturates, and takes NaN to 0.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from oracle.xla.fused import fma
from oracle.xla.match import Unraisable

NUMPY = {"i1": "bool", "i8": "int8", "u8": "uint8", "i16": "int16", "u16": "uint16", "i32": "int32", "u32": "uint32",
         "f16": "float16", "bf16": "bfloat16", "f32": "float32"}
"""NumPy's (JAX's) names of the element types that JAX computes without 64-bit mode."""


def jax_dtype(dtype: str) -> Any:
    """The JAX dtype of a TAIDL type; Unraisable for 64-bit types."""
    import jax.numpy as jnp

    if dtype not in NUMPY:
        raise Unraisable(f"JAX does not compute with {dtype} in its default mode")
    return jnp.dtype(NUMPY[dtype])


def convert(x: Any, dtype: str) -> Any:
    """``x`` in another type, as TAIDL's ``convert``."""
    import jax.numpy as jnp

    target = jax_dtype(dtype)
    if not (jnp.issubdtype(x.dtype, jnp.floating) and jnp.issubdtype(target, jnp.integer)):
        return x.astype(target)
    info = jnp.iinfo(target)
    # the largest float not above the bound: 2^31 - 1 itself is no f32
    high = np.nextafter(np.float32(2.0) ** (info.bits - (info.min < 0)), np.float32(0))
    wide = x.astype(jnp.float32)
    inside = jnp.clip(wide, np.float32(info.min), high).astype(target)
    above = jnp.where(wide > high, jnp.asarray(info.max, target), inside)
    return jnp.where(jnp.isnan(wide), jnp.zeros((), target), above)


def uncontracted(x: Any) -> Any:
    """``x``, whatever it is, through a selection that XLA's CPU backend cannot see through.

    Its code generator fuses the product in ``a * b + c`` into the addition, without rounding it (an FMA), and has no
    option against that. Behind a selection the product stands alone.
    """
    import jax.numpy as jnp

    return jnp.where(jnp.abs(x) <= np.finfo(np.float32).max, x, x + x)


def bitcast(x: Any, dtype: str) -> Any:
    """The bits of ``x`` as another type; wider types join the last axis, narrower ones add one."""
    from jax import lax

    return lax.bitcast_convert_type(x, jax_dtype(dtype))


def _compare(a: Any, b: Any, direction: str) -> Any:
    import operator

    return {"eq": operator.eq, "ne": operator.ne, "lt": operator.lt, "le": operator.le, "gt": operator.gt,
            "ge": operator.ge}[direction](a, b)


def _lax(name: str) -> Callable[..., Any]:
    def call(*operands: Any) -> Any:
        from jax import lax

        return getattr(lax, name)(*operands)

    return call


def _numpy(name: str) -> Callable[..., Any]:
    def call(*operands: Any) -> Any:
        import jax.numpy as jnp

        return getattr(jnp, name)(*operands)

    return call


def _round_afz(x: Any) -> Any:
    from jax import lax

    return lax.round(x, lax.RoundingMethod.AWAY_FROM_ZERO)


def _round_even(x: Any) -> Any:
    from jax import lax

    return lax.round(x, lax.RoundingMethod.TO_NEAREST_EVEN)


ELEMENTWISE: dict[str, Callable[..., Any] | None] = {
    "convert": None,
    "bitcast_convert": None,
    "compare": None,
    "fma": None,
    "add": _numpy("add"), "subtract": _numpy("subtract"), "multiply": _numpy("multiply"),
    "maximum": _numpy("maximum"), "minimum": _numpy("minimum"),
    "and": _numpy("bitwise_and"), "or": _numpy("bitwise_or"), "xor": _numpy("bitwise_xor"),
    "not": _numpy("bitwise_not"), "negate": _numpy("negative"), "abs": _numpy("abs"),
    "floor": _lax("floor"), "ceil": _lax("ceil"),
    "round_nearest_even": _round_even, "round_nearest_afz": _round_afz,
    "clamp": lambda low, x, high: _numpy("minimum")(_numpy("maximum")(x, low), high),
    "select": _numpy("where"),
    "shift_left": _lax("shift_left"), "shift_right_logical": _lax("shift_right_logical"),
    "shift_right_arithmetic": _lax("shift_right_arithmetic"),
}
"""Functions of arrays that broadcast against each other; those without one need the result's type or attributes."""


def elementwise(opcode: str, operands: list[Any], attributes: tuple[tuple[str, object], ...], dtype: str) -> Any:
    """Apply an operation to arrays that broadcast against each other."""
    import jax.numpy as jnp

    if opcode == "convert":
        return convert(operands[0], dtype)
    if opcode == "bitcast_convert":
        return bitcast(operands[0], dtype)
    if opcode == "fma":
        return fma(*operands, flush=dict(attributes)["subnormals"] == "flush")
    if opcode == "compare":
        return _compare(operands[0], operands[1], str(dict(attributes)["direction"]))
    if opcode in ("add", "subtract") and dtype == "f32":
        operands = [uncontracted(x) for x in operands]
    function = ELEMENTWISE[opcode]
    assert function is not None
    return function(*(jnp.broadcast_arrays(*operands) if opcode.startswith("shift") else operands))
