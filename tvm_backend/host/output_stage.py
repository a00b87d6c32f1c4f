"""What the host makes of the int32 sums of a step, where the accelerator's own store cannot.

An accelerator that multiplies all sums of a store by one factor and knows no zero points still computes the products of
networks that have scales per channel, zero points, or float results: it stores the sums as they are. With operands
``a - za`` and ``b - zb`` a sum over k is ``Σab - za·Σb - zb·Σa + k·za·zb``. Where b is constant, the second term (and
the last) is part of the bias; what is left over is done here, exactly, in int32. Then the sums are scaled, rounded and
saturated as onnxruntime's integer kernels do.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from archloom.tvm_backend.host.program import HostProgram

FLIPPED = 128
"""What a uint8 number and its zero point lose to become int8: the highest bit is flipped."""
ARRAYS = ("scale", "border", "table", "bias")


@dataclass(frozen=True, eq=False)
class OutputStage:
    """From int32 sums to the result.

    ``scale`` (float32) has one value, or one for each channel, the last axis of the workload's output. ``border``
    (int32, of the shape of one image's output) is added to the sums of a convolution: what the zeros of the padding
    would be as zero points. ``first_zero`` and ``second_zero`` are zero points of A and B of a product for which
    sums over B's rows or A's are still to be subtracted. A float32 result is ``sums * scale``, an int32 one
    the sums. A ``bias`` (float32, one value for each channel) is added to what the scale gives. Bytes (``dtype`` int8
    or uint8) are ``clip(round(sums * scale) + zero_point, low, high)``, through a ``table`` of 256
    results by the byte's place in its range, if there is one.
    """

    scale: np.ndarray
    dtype: str
    zero_point: int = 0
    low: int = 0
    high: int = 0
    first_zero: int = 0
    second_zero: int = 0
    border: np.ndarray | None = None
    table: np.ndarray | None = None
    between: str = "int8"
    """Type of the byte that ``table`` takes."""
    bias: np.ndarray | None = None

    def apply(self, sums: Any, arguments: Mapping[str, Any]) -> Any:
        """The result for ``sums`` in the workload's shape; ``arguments`` are the step's tensors and constants."""
        return self._compiled(*self.constants, sums, *[arguments[name] for name in self.operands])[0]

    @property
    def operands(self) -> tuple[str, ...]:
        """The tensors of the step that are read beside the sums: those whose sums are subtracted."""
        return ("A",) * bool(self.second_zero) + ("B",) * bool(self.first_zero)

    @property
    def constants(self) -> list[np.ndarray]:
        """What :meth:`program` takes first: numbers and arrays, in which stages alike differ."""
        numbers = [self.zero_point, self.low, self.high, self.first_zero, self.second_zero]
        return [np.array(numbers, np.int32), *self.arrays.values()]

    def program(self, shapes: Mapping[str, tuple[tuple[int, ...], str]]) -> HostProgram:
        """A function of :attr:`constants`, sums and :attr:`operands` to the result; ``shapes`` has shape and type of
        ``sums`` and of the step's tensors."""
        arguments = (*((c.shape, str(c.dtype)) for c in self.constants), *(shapes[n] for n in ("sums", *self.operands)))
        content = ("output stage", *self.arrays, self.dtype, self.between, bool(self.first_zero),
                   bool(self.second_zero), *arguments)
        return HostProgram(hashlib.sha256(repr(content).encode()).hexdigest(), arguments, self._computed)

    @cached_property
    def _compiled(self) -> Any:
        import jax

        return jax.jit(self._computed)

    def _computed(self, numbers: Any, *rest: Any) -> tuple[Any]:
        import jax.numpy as jnp

        arrays = dict(zip(self.arrays, rest))
        sums, *operands = rest[len(arrays):]
        zero_point, low, high, first_zero, second_zero = numbers
        if "border" in arrays:
            sums = sums + arrays["border"]
        wide = {name: x.astype(jnp.int32) for name, x in zip(self.operands, operands)}
        if "A" in wide:
            sums = sums - second_zero * wide["A"].sum(-1, keepdims=True, dtype=jnp.int32)
        if "B" in wide:
            sums = sums - first_zero * wide["B"].sum(-2, keepdims=True, dtype=jnp.int32)
        if len(wide) == 2:
            sums = sums + first_zero * second_zero * np.int32(wide["A"].shape[-1])
        if self.dtype == "int32":
            return (sums,)
        real = sums.astype(jnp.float32) * arrays["scale"]
        if "bias" in arrays:
            real = real + arrays["bias"]
        if self.dtype == "float32":
            return (real,)
        rounded = saturated(real, *(x.astype(jnp.float32) for x in (zero_point, low, high)))
        if "table" not in arrays:
            return (rounded.astype(self.dtype),)
        place = rounded.astype(jnp.int32) - int(np.iinfo(self.between).min)
        return (arrays["table"][place],)

    def to_json(self) -> dict[str, Any]:
        """Its numbers; arrays are kept apart, under the names of :data:`ARRAYS`."""
        return {name: getattr(self, name) for name in (
            "dtype", "zero_point", "low", "high", "first_zero", "second_zero", "between")}

    @property
    def arrays(self) -> dict[str, np.ndarray]:
        return {name: getattr(self, name) for name in ARRAYS if getattr(self, name) is not None}


def as_int8(x: Any) -> Any:
    """A tensor of uint8 as int8, :data:`FLIPPED` less; others as they are."""
    if x.dtype != np.uint8:
        return x
    if isinstance(x, np.ndarray):
        return (x ^ np.uint8(FLIPPED)).view(np.int8)
    from jax import lax

    return lax.bitcast_convert_type(x ^ np.uint8(FLIPPED), np.int8)


def saturated(real: Any, zero_point: Any, low: Any, high: Any) -> Any:
    """``clip(round_half_even(real) + zero_point, low, high)``, which is what a scaled sum becomes as a byte."""
    import jax.numpy as jnp

    return jnp.clip(jnp.round(real) + zero_point, low, high)
