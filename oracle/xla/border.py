"""What crosses the border of a program otherwise than a stream has it.

Arguments and results of types that JAX's arrays have, but TAIDL's memory holds otherwise (truths, narrow integers and
floats) cross as their bytes in HBM, packed and unpacked by JAX.

Bit patterns in a stream are arguments, so that streams which differ in their scales alone share one program. The layers
of a network often have one shape and one mapping, but each its own output scale, which reaches the stream's tensors as
a scalar ``u32`` constant, the bits of a float. Taken out of the program, it costs nothing at run time, and such layers
are raised and compiled once.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from archloom.oracle import resolved
from archloom.oracle.affine import Affine
from archloom.oracle.errors import InputError
from archloom.oracle.late_jax import jnp, lax
from archloom.oracle.nests import instructions, rewritten
from archloom.oracle.resolved import Op, Read, ResolvedInstr, ResolvedRegion, ResolvedStream, Statement, Window
from archloom.oracle.stream import HbmTensor
from archloom.oracle.taidl.operators.carriers import is_wide
from archloom.oracle.taidl.operators.conversion import code, from_code
from archloom.oracle.taidl.types import TYPES, byte_count, element_type, of_numpy, storage_bits
from archloom.oracle.xla.lowering.ops import NUMPY
from archloom.oracle.xla.notation.variables import BIT_PATTERNS

_NATIVE = frozenset(NUMPY.values()) - {"bool"}

CROSSING = frozenset(t.numpy for t in TYPES.values() if t.bits < 64 and t.bits != 6)
"""The types of arguments and results; XLA's CPU backend has no arrays of 6-bit numbers."""


def check(stream: ResolvedStream) -> None:
    """InputError for an argument or a result of a type that cannot cross."""
    for tensor in (*stream.arguments, *stream.results):
        if tensor.dtype not in CROSSING:
            raise InputError(f"tensor {tensor.name} of {stream.name} is {tensor.dtype}, which JAX does not take and "
                             f"give in its default mode (it does with {', '.join(sorted(CROSSING))}); let the stream "
                             "have its bytes, as int8")


def as_bytes(stream: ResolvedStream) -> ResolvedStream:
    """The stream with bytes for the tensors that are not held in JAX as in HBM."""
    return replace(stream, arguments=tuple(map(_bytes, stream.arguments)), results=tuple(map(_bytes, stream.results)))


def _bytes(tensor: HbmTensor) -> HbmTensor:
    if tensor.dtype in _NATIVE:
        return tensor
    return replace(tensor, shape=(byte_count(tensor.shape, tensor.dtype),), dtype="int8")


def inwards(x: Any, tensor: HbmTensor) -> Any:
    """An argument as :func:`as_bytes` has it."""
    if tensor.dtype in _NATIVE:
        return x
    dtype = of_numpy(tensor.dtype)
    if dtype == "i1":
        return x.astype(jnp.int8).reshape(-1)
    bits = storage_bits(element_type(dtype).bits)
    if element_type(dtype).kind in ("int", "uint"):
        codes = code(x.astype(jnp.int8 if dtype[0] == "i" else jnp.uint8), dtype)
    else:
        plain = lax.bitcast_convert_type(x, jnp.dtype(f"uint{bits}"))
        codes = plain.astype(jnp.uint8)
    per, flat = 8 // bits, codes.reshape(-1)
    flat = jnp.pad(flat, (0, -flat.size % per)).reshape(-1, per) << (np.arange(per, dtype=np.uint8) * np.uint8(bits))
    return lax.bitcast_convert_type(flat.sum(axis=1, dtype=jnp.uint8), jnp.int8)


def outwards(x: Any, tensor: HbmTensor) -> Any:
    """A result from its bytes."""
    if tensor.dtype in _NATIVE:
        return x
    dtype = of_numpy(tensor.dtype)
    if dtype == "i1":
        return (x != 0).reshape(tensor.shape)
    bits = storage_bits(element_type(dtype).bits)
    shifts = np.arange(8 // bits, dtype=np.uint8) * np.uint8(bits)
    plain = lax.bitcast_convert_type(x, jnp.uint8)[:, None] >> shifts & np.uint8((1 << bits) - 1)
    codes = plain.reshape(-1)[:math.prod(tensor.shape)].reshape(tensor.shape)
    target = jnp.dtype(tensor.dtype)
    if element_type(dtype).kind in ("int", "uint"):
        return from_code(codes, dtype).astype(target)
    return lax.bitcast_convert_type(codes.astype(jnp.dtype(f"uint{bits}")), target)


def needs_wide(stream: ResolvedStream) -> bool:
    """Whether a tensor of the stream has elements of 64 bits."""
    return any(is_wide(b.dtype) for b in stream.buffers) or any(
        _is_wide(s) for instr in instructions(stream.body) for s in instr.statements)


def _is_wide(s: Statement) -> bool:
    regions = [v for _, v in s.attributes if isinstance(v, ResolvedRegion)] if isinstance(s, Op) else []
    return is_wide(s.type.dtype) or any(_is_wide(inner) for r in regions for inner in r.statements)


# --- bit patterns -------------------------------------------------------------------------------------------------

WIDTH = 4


def take_out(stream: ResolvedStream) -> tuple[ResolvedStream, np.ndarray]:
    """The stream without its name, attributes and bit patterns, and the patterns as ``uint32[n]``.

    Where there are patterns, the stream takes them as one more argument, behind its HBM. Equal patterns share a place:
    which places are equal is part of the program.
    """
    places: dict[int, int] = {}
    base = -(-stream.hbm_bytes // WIDTH) * WIDTH
    body = rewritten(stream.body, lambda i: [_instruction(i, places, base)] if i.statements else [])
    plain = replace(stream, name="", body=body)
    if places:
        patterns = HbmTensor(BIT_PATTERNS, base, (len(places),), "uint32")
        plain = replace(plain, arguments=(*stream.arguments, patterns), hbm_bytes=base + WIDTH * len(places),
                        buffers=tuple(replace(b, shape=(base + WIDTH * len(places),)) if b.name == "hbm" else b
                                      for b in stream.buffers))
    return plain, np.array(list(places), np.uint32)


def _instruction(instr: ResolvedInstr, places: dict[int, int], base: int) -> ResolvedInstr:
    statements: list[Statement] = []
    for s in instr.statements:
        pattern = _pattern(s)
        if pattern is None:
            statements.append(s)
            continue
        assert isinstance(s, Op)
        place = base + WIDTH * places.setdefault(pattern, len(places))
        window = Window("hbm", (Affine(place),), (resolved.WindowDim(0, WIDTH, 1),))
        bits = f"{s.dst}.bytes"
        statements.append(Read(bits, window, resolved.TensorType((WIDTH,), "i8")))
        statements.append(Op(s.dst, "bitcast_convert", (bits,), (), s.type))
    return replace(instr, attributes=(), registers=(), statements=tuple(statements))


def _pattern(s: Statement) -> int | None:
    """The bits of a scalar ``u32`` constant that does not depend on loops."""
    if not isinstance(s, Op) or s.opcode != "constant" or s.type != resolved.TensorType((), "u32"):
        return None
    value = s.attribute("value")
    if isinstance(value, Affine):
        if not value.is_constant:
            return None
        value = value.constant
    return int(value) & 0xFFFFFFFF if isinstance(value, int) else None
