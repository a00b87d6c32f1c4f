"""Chains of products and sums as functions of JAX, by machine code.

An element of the result is ``((c + a0 * b0) + a1 * b1) + ...``, each product and each sum rounded to f32, or each
product and sum at once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, Literal, TypeAlias

from archloom.oracle.late_jax import jax, jnp
from archloom.oracle.native import library
from archloom.oracle.native.tracing import is_portable

Rounding: TypeAlias = Literal["each", "fused_flush", "fused_keep"]
"""Products and sums are rounded each, subnormal numbers being zeros; or at once, with subnormal numbers as zeros or
kept."""


def possible() -> bool:
    """Whether :func:`chain` may be called: by the processor, JAX's default device, and what the trace is for."""
    return not is_portable() and "fma" in library.features()


def chain(a: Any, b: Any, c: Any, rounding: Rounding, *, parts: float | None = None) -> Any:
    """``c`` [..., m, n] with the products of ``a`` [..., m, k] and ``b`` [..., k, n] added in the order of k; all f32.

    ``c`` may be one number for all elements. With ``parts``, 0 or -0, ``a`` [..., p, m, k] and ``b`` [..., p, k, n]
    give a chain for each p from that on (to -0 the first product is added as it is), and these are added to ``c`` in
    the order of p, with subnormal numbers as in the chains.
    """
    shape = _result(a, b, parts is not None)
    if math.prod(shape) == 0 or a.size == 0:
        return jnp.broadcast_to(c, shape)
    name = library.chains(rounding) if parts is None else library.chains(rounding, parts)
    library.register(name)
    return _batchable(name, parts is not None)(a, b, c)


def _result(a: Any, b: Any, parts: bool) -> tuple[int, ...]:
    lead = a.shape[:-3] if parts else a.shape[:-2]
    return (*lead, a.shape[-2], b.shape[-1])


@cache
def _batchable(name: str, parts: bool) -> Callable[[Any, Any, Any], Any]:
    """A handler as a function of JAX; a batch by ``jax.vmap`` is one more leading axis."""
    batchable = jax.custom_batching.custom_vmap(lambda a, b, c: _call(name, a, b, c, parts))

    @batchable.def_vmap
    def _(size: int, batched: Sequence[bool], *operands: Any) -> tuple[Any, bool]:
        a, b, c = (x if has or not x.ndim else jnp.broadcast_to(x, (size, *x.shape))
                   for x, has in zip(operands, batched, strict=True))
        if c.ndim == 1:  # a number for each product of the batch
            shape = _result(a, b, parts)
            c = jnp.broadcast_to(c.reshape(size, *(1,) * (len(shape) - 1)), shape)
        return batchable(a, b, c), True

    return batchable  # type: ignore[no-any-return]


def _call(name: str, a: Any, b: Any, c: Any, parts: bool) -> Any:
    sums = jax.ShapeDtypeStruct(_result(a, b, parts), jnp.float32)
    return jax.ffi.ffi_call(name, sums, input_output_aliases={2: 0} if c.ndim else None)(a, b, c)
