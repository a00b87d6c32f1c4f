"""The element types of TAIDL: integers, floating-point numbers down to 4 bits, and quantized numbers.

Every type has a NumPy type that holds one element in the interpreter (:func:`numpy_dtype`). HBM is bytes: an element of
8 bits or more takes its bytes there, little-endian; narrower ones are packed, the first element in the lowest bits.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any, Literal, TypeAlias

import numpy as np

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]
Kind: TypeAlias = Literal["bool", "int", "uint", "float", "scale", "quant", "complex"]


@dataclass(frozen=True)
class ElementType:
    """``numpy`` names the type of NumPy or ml_dtypes; ``scale`` and ``zero_point`` are those of a quantized type.

    A type of kind ``"scale"`` is a power of two without zero and sign: it is moved, compared and converted only.
    """

    name: str
    kind: Kind
    bits: int
    numpy: str
    scale: float = 1.0
    zero_point: int = 0
    storage: str = ""
    """The integer type that holds a quantized number."""
    part: str = ""
    """The type of the real and of the imaginary part of a complex number."""


def _table() -> dict[str, ElementType]:
    made = [ElementType("i1", "bool", 1, "bool")]
    made += [ElementType(f"i{n}", "int", n, f"int{n}") for n in (2, 4, 8, 16, 32, 64)]
    made += [ElementType(f"u{n}", "uint", n, f"uint{n}") for n in (2, 4, 8, 16, 32, 64)]
    made += [ElementType(f"f{form}", "float", bits, f"float{bits}_{form[1:]}") for bits, form in (
        (4, "4e2m1fn"), (6, "6e2m3fn"), (6, "6e3m2fn"), (8, "8e3m4"), (8, "8e4m3"), (8, "8e4m3fn"),
        (8, "8e4m3fnuz"), (8, "8e4m3b11fnuz"), (8, "8e5m2"), (8, "8e5m2fnuz"))]
    made.append(ElementType("f8e8m0fnu", "scale", 8, "float8_e8m0fnu"))
    made += [ElementType("f16", "float", 16, "float16"), ElementType("bf16", "float", 16, "bfloat16"),
             ElementType("f32", "float", 32, "float32"), ElementType("f64", "float", 64, "float64")]
    made += [ElementType(f"c{n}", "complex", n, f"complex{n}", part=f"f{n // 2}") for n in (64, 128)]
    return {t.name: t for t in made}


TYPES = _table()
"""Every element type with a name of its own; quantized types are written out (:func:`element_type`)."""

SPELLED = {"pred": "i1", **{f"s{n}": f"i{n}" for n in (2, 4, 8, 16, 32, 64)}}
"""XLA's other names of element types."""

_QUANTIZED = re.compile(
    r"!quant\.uniform<\s*([iu](?:2|4|8|16|32))\s*:\s*f32\s*,\s*([0-9]+(?:\.[0-9]*)?(?:[eE][-+]?[0-9]+)?)"
    r"(?:\s*:\s*(-?[0-9]+))?\s*>")
PATTERN = "(?:" + "|".join(sorted((*TYPES, *SPELLED), key=len, reverse=True)) + r")\b|" + re.sub(
    r"\((?!\?)", "(?:", _QUANTIZED.pattern)
"""A regular expression for the text of an element type."""


@lru_cache(maxsize=1024)
def element_type(name: str) -> ElementType:
    """The type of that name or of the form ``!quant.uniform<i8:f32, scale:zero_point>``; ValueError says what is wrong.

    The scale is rounded to f32; the zero point is 0 where it is left out.
    """
    name = SPELLED.get(name, name)
    if name in TYPES:
        return TYPES[name]
    match = _QUANTIZED.fullmatch(name)
    if match is None:
        raise ValueError(f"{name!r} is no element type")
    storage, zero = TYPES[match[1]], int(match[3] or 0)
    with np.errstate(over="ignore"):
        scale = float(np.float32(match[2]))
    low, high = limits(storage.name)
    if not (math.isfinite(scale) and scale >= float(np.finfo(np.float32).tiny)):
        raise ValueError(f"the scale of {name} must be a normal f32, found {match[2]}")
    if not low <= zero <= high:
        raise ValueError(f"the zero point of {name} must be in {low}..{high}, found {zero}")
    text = f"!quant.uniform<{storage.name}:f32, {scale!r}" + (f":{zero}>" if zero else ">")
    return ElementType(text, "quant", storage.bits, storage.numpy, scale, zero, storage.name)


OPEN = "[iuf]"
"""A regular expression for the letter of an element type whose width is an expression: ``i{sew}``."""


@cache
def of_width(letter: str, bits: int) -> str:
    """The element type of a letter of :data:`OPEN` and a width, ``i8`` of ``i`` and 8; ValueError if there is none."""
    name = f"{letter}{bits}"
    if name not in TYPES:
        widths = ", ".join(str(t.bits) for t in TYPES.values() if t.name == f"{letter}{t.bits}")
        raise ValueError(f"there is no element type {name}: expected one of {widths} bits")
    return name


def is_open(dtype: str) -> bool:
    """Whether the text of an element type has a width that is not known yet."""
    return dtype[1:2] == "{"


def limits(name: str) -> tuple[int, int]:
    """The smallest and the largest value of an integer type."""
    kind = TYPES[name]
    return (-(1 << kind.bits - 1), (1 << kind.bits - 1) - 1) if kind.kind == "int" else (0, (1 << kind.bits) - 1)


@lru_cache(maxsize=1024)
def numpy_dtype(name: str) -> np.dtype[Any]:
    """The NumPy type of an element in the interpreter (``"i8"`` → int8; i1 is bool; a quantized type's storage)."""
    return named_dtype(element_type(name).numpy)


@cache
def named_dtype(name: str) -> np.dtype[Any]:
    """The type of NumPy or ml_dtypes of that name; TypeError if there is none."""
    import ml_dtypes

    found = getattr(ml_dtypes, name, None)
    return np.dtype(found) if isinstance(found, type) and issubclass(found, np.generic) else np.dtype(name)


@cache
def of_numpy(dtype: str) -> str:
    """The TAIDL type of a NumPy name such as ``"int8"``; ValueError if there is none."""
    for kind in TYPES.values():
        if kind.numpy == dtype:
            return kind.name
    raise ValueError(f"{dtype!r} is the name of no element type")


# --- elements in memory -------------------------------------------------------------------------------------------


def byte_count(shape: tuple[int, ...], dtype: str) -> int:
    """Bytes of a dense tensor in HBM, for a NumPy name of its type; elements under 8 bits are packed."""
    count = math.prod(shape)
    try:
        bits = element_type(of_numpy(dtype)).bits
    except ValueError:
        bits = 8 * named_dtype(dtype).itemsize
    return -(-count * storage_bits(bits) // 8)


def storage_bits(bits: int) -> int:
    """Bits that an element takes in HBM: 6-bit types and i1 take a byte of their own, 2 and 4 bits are packed."""
    return 8 if bits in (1, 6) else bits


def to_bytes(value: np.ndarray[Any, Any]) -> np.ndarray[Any, np.dtype[np.int8]]:
    """A tensor as it lies in HBM."""
    raw = np.frombuffer(np.ascontiguousarray(value).tobytes(), np.uint8)
    bits = packed_bits(value.dtype)
    if bits:
        per = 8 // bits
        padded = np.zeros(-(-raw.size // per) * per, np.uint8)
        padded[:raw.size] = raw & ((1 << bits) - 1)
        shifts = np.arange(per, dtype=np.uint8) * bits
        raw = np.bitwise_or.reduce(padded.reshape(-1, per) << shifts, axis=1).astype(np.uint8)
    return raw.view(np.int8)


def from_bytes(raw: np.ndarray[Any, Any], shape: tuple[int, ...], dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    """The tensor that lies in HBM as ``raw``; the inverse of :func:`to_bytes`."""
    data = np.ascontiguousarray(raw).view(np.uint8)
    bits = packed_bits(dtype)
    if not bits:
        return data.copy().view(dtype).reshape(shape)
    shifts = np.arange(8 // bits, dtype=np.uint8) * bits
    codes = ((data[:, None] >> shifts) & ((1 << bits) - 1)).reshape(-1)[:math.prod(shape)].astype(np.uint8)
    return as_codes(codes, dtype).reshape(shape)


def packed_bits(dtype: np.dtype[Any]) -> int:
    """The bits of a type of which several elements share a byte of HBM, else 0."""
    if dtype.itemsize != 1 or dtype.kind in "bui":
        return 0
    bits = element_type(of_numpy(dtype.name)).bits
    return bits if bits < 6 else 0


def as_codes(codes: np.ndarray[Any, Any], dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    """Elements of a one-byte type from their bits (uint8, nothing above the type's width)."""
    return codes != 0 if dtype.kind == "b" else codes.view(dtype)
