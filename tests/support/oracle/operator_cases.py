"""Operands for every operator and element type, and how results are compared."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from archloom.oracle.resolved import Shaped, TensorType
from archloom.oracle.taidl.operators import OPCODES, fault
from archloom.oracle.taidl.operators.carriers import carried, elements, is_wide
from archloom.oracle.taidl.operators.complexes import WHOLE
from archloom.oracle.taidl.operators.numbers import pair
from archloom.oracle.taidl.types import TYPES, as_codes, element_type, numpy_dtype

QUANTIZED = "!quant.uniform<i8:f32, 0.25:-3>"
EVERY = (*TYPES, QUANTIZED)


def tensor(shape: tuple[int, ...], dtype: str, seed: int) -> np.ndarray:
    """Elements of every kind: all bit patterns alike, and among floats also plain numbers and the special ones."""
    rng, kind, target = np.random.default_rng(seed), element_type(dtype), numpy_dtype(dtype)
    if kind.part:
        return pair(*(tensor(shape, kind.part, 2 * seed + i) for i in range(2)))
    if kind.bits <= 8:
        return as_codes(rng.integers(0, 1 << kind.bits, shape).astype(np.uint8), target)
    bits = np.frombuffer(rng.bytes(int(np.prod(shape)) * target.itemsize), target).reshape(shape).copy()
    if kind.kind in ("int", "uint"):
        small = rng.integers(-3 if kind.kind == "int" else 0, 40, shape).astype(target)
        return np.where(rng.random(shape) < 0.3, small, bits)
    with np.errstate(all="ignore"):
        plain = (rng.standard_normal(shape) * 2.0 ** rng.integers(-9, 9, shape)).astype(target)
        special = rng.choice(np.array([0, -0.0, 1, -1, 0.5, 1.5, 2.5, np.inf, -np.inf, np.nan, 1e-40, -1e-310, 3e38,
                                       2.0**-126, 255.5, -2.0**31, 2.0**31, 2.0**63]), shape).astype(target)
    which = rng.random(shape)
    return np.where(which < 0.3, bits, np.where(which < 0.5, special, plain))


def equal(a: np.ndarray, b: np.ndarray, dtype: str) -> np.ndarray:
    """Where two tensors are the same bit for bit; a NaN is a NaN."""
    assert a.shape == b.shape and a.dtype == b.dtype == numpy_dtype(dtype), (a.dtype, b.dtype, dtype)
    if part := element_type(dtype).part:
        return equal(a.real, b.real, part) & equal(a.imag, b.imag, part)
    same = codes(a) == codes(b)
    if element_type(dtype).kind in ("float", "scale"):
        with np.errstate(all="ignore"):
            same |= np.isnan(a.astype(np.float64)) & np.isnan(b.astype(np.float64))
    return same


def codes(x: np.ndarray) -> np.ndarray:
    """The bits of elements."""
    return np.ascontiguousarray(x).view(f"u{x.dtype.itemsize}").reshape(x.shape)


@dataclass(frozen=True)
class Case:
    """An operator with operands of certain types."""

    opcode: str
    result: Shaped
    operands: tuple[Shaped, ...]
    attributes: Mapping[str, Any] = field(default_factory=dict)

    @property
    def values(self) -> dict[str, Any]:
        """All attributes, defaults included."""
        op = OPCODES[self.opcode]
        return {a.name: a.default for a in op.attributes} | dict(self.attributes)

    @property
    def complaint(self) -> str | None:
        return fault(self.opcode, self.result, self.operands, self.values)

    def tensors(self, seed: int) -> list[np.ndarray]:
        return [tensor(tuple(map(int, x.shape)), x.dtype, seed + i) for i, x in enumerate(self.operands)]

    def kernel(self, operands: Sequence[np.ndarray]) -> np.ndarray:
        """What the interpreter computes."""
        result = TensorType(tuple(map(int, self.result.shape)), self.result.dtype)
        types = [x.dtype for x in self.operands]
        with np.errstate(all="ignore"):
            return np.asarray(OPCODES[self.opcode].kernel(result, operands, self.values, types))

    def lowered(self, carriers: Sequence[Any]) -> Any:
        """What JAX computes, on carriers."""
        return OPCODES[self.opcode].lowering(self.result, carriers, self.values, [x.dtype for x in self.operands])

    def in_jax(self, operands: Sequence[np.ndarray]) -> np.ndarray:
        """What JAX computes, compiled by itself."""
        (made,) = compiled([self], [operands])
        return made


def compiled(cases: Sequence[Case], operands: Sequence[Sequence[np.ndarray]]) -> list[np.ndarray]:
    """What JAX computes for many cases in one program."""
    import jax

    held = [[carried(x, t.dtype) for x, t in zip(xs, c.operands, strict=True)]
            for c, xs in zip(cases, operands, strict=True)]
    wide = any(is_wide(t.dtype) for c in cases for t in (c.result, *c.operands))

    def program(arrays: Any) -> Any:
        return [c.lowered(xs) for c, xs in zip(cases, arrays, strict=True)]

    with jax.enable_x64(wide):
        made = [np.asarray(v) for v in jax.jit(program)(held)]
    return [elements(v, c.result.dtype) for v, c in zip(made, cases, strict=True)]


def elementwise(dtype: str, shape: tuple[int, ...] = (513,)) -> list[Case]:
    """Every element-wise operator that is defined for a type."""
    found = []
    for name, op in OPCODES.items():
        if op.family != "elementwise":
            continue
        x, truth = Shaped(shape, dtype), Shaped(shape, "i1")
        choices: list[Case] = []
        if name == "compare":
            choices = [Case(name, truth, (x, x), {"direction": d}) for d in ("eq", "ne", "lt", "le", "gt", "ge")]
        elif name == "select":
            choices = [Case(name, x, (truth, x, x))]
        elif name == "is_finite":
            choices = [Case(name, truth, (x,))]
        elif name == "complex":
            choices = [Case(name, Shaped(shape, WHOLE.get(dtype, dtype)), (x, x))]
        elif name == "stochastic_convert":
            choices = [Case(name, Shaped(shape, t), (x, Shaped(shape, f"u{element_type(dtype).bits}")))
                       for t in ("i4", "i8", "i32")]
        elif name in ("real", "imag", "abs"):
            choices = [Case(name, Shaped(shape, element_type(dtype).part or dtype), (x,))]
        elif name == "convert":
            choices = [Case(name, Shaped(shape, t), (x,)) for t in TYPES]
        elif name == "reduce_precision":
            choices = [Case(name, x, (x,), {"E": e, "M": m}) for e, m in ((8, 7), (5, 10), (4, 0), (8, 23),
                                                                                      (1, 3))]
        elif name == "uniform_quantize":
            choices = [Case(name, Shaped(shape, QUANTIZED), (x,)),
                       Case(name, Shaped(shape, "!quant.uniform<u4:f32, 1.7:5>"), (x,))]
        elif name == "uniform_dequantize":
            choices = [Case(name, Shaped(shape, "f32"), (x,))]
        elif name == "fma":
            choices = [Case(name, x, (x, x, x), {"subnormals": s}) for s in ("keep", "flush")]
        else:
            choices = [Case(name, x, (x,) * (op.operands or 0))]
        found += [c for c in choices if c.complaint is None]
    return found
