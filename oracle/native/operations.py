"""The operations that programs of machine code are made of: TAIDL's, on numbers of 32 bits, truth values and f64.

Each has TAIDL's meaning (docs/taidl.md) for all operands; ``divide`` and ``sqrt`` in f64 have it for numbers that f32
holds, with which no result is subnormal. Which of the NaNs a NaN is, is open.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

Operation: TypeAlias = str
"""An opcode, the value of its attribute if it has one, the types of its operands, and that of its result."""

SCALARS: Mapping[str, str] = {"f32": "float", "i32": "i32", "u32": "i32", "i1": "i1", "f64": "double"}
"""LLVM's types of elements."""


def operation(opcode: str, attributes: Sequence[tuple[str, object]], types: Sequence[str], dtype: str) -> Operation:
    """The name of an operation, whether it is in :data:`CODES` or not."""
    return " ".join((opcode, *(str(value) for _, value in attributes), *types, dtype))


def fma(*, flush: bool) -> Operation:
    """``a * b + c``, rounded once; ``flush``: subnormal numbers are zeros, as in the whole program."""
    return operation("fma", (("subnormals", "flush" if flush else "keep"),), ("f32",) * 3, "f32")


@dataclass(frozen=True)
class Vector:
    """LLVM's type of vectors; with ``v`` behind a colon as functions name it, with a number a vector of that."""

    dtype: str
    lanes: int

    def __format__(self, spec: str) -> str:
        scalar = SCALARS[self.dtype]
        if spec == "v":
            return f"v{self.lanes}{'f' if self.dtype[0] == 'f' else 'i'}{self.dtype[1:]}"
        if not spec:
            return f"<{self.lanes} x {scalar}>"
        number = str(int(spec)) if self.dtype[0] != "f" else f"0x{struct.pack('>d', float.fromhex(spec)).hex()}"
        return f"<{', '.join([f'{scalar} {number}'] * self.lanes)}>"


def vectors(lanes: int) -> dict[str, Vector]:
    """The types by TAIDL's names."""
    return {dtype: Vector(dtype, lanes) for dtype in SCALARS}


def code(name: Operation, result: str, operands: Sequence[str], lanes: int) -> str:
    """LLVM's lines for ``result`` of vectors, as they are named with their percent signs."""
    lines = CODES[name].format(*operands, r=result, **vectors(lanes)).split(";")
    return "\n".join(f"  {line.strip()}" for line in lines)


def declarations(lanes: int) -> str:
    """Of the functions of LLVM in what :func:`code` gives."""
    return "\n".join(f"declare {line}" for line in _FUNCTIONS.format(**vectors(lanes)).strip().split("\n"))


_FUNCTIONS = """
{f32} @llvm.fma.{f32:v}({f32}, {f32}, {f32})
{f32} @llvm.fabs.{f32:v}({f32})
{f64} @llvm.fabs.{f64:v}({f64})
{f64} @llvm.copysign.{f64:v}({f64}, {f64})
{f64} @llvm.roundeven.{f64:v}({f64})
{f64} @llvm.sqrt.{f64:v}({f64})
"""

_PLAIN = {"add": "add", "subtract": "sub", "multiply": "mul", "and": "and", "or": "or", "xor": "xor"}
_PREDICATES = ("eq", "ne", "lt", "le", "gt", "ge")
_OF_32_BITS = ("f32", "i32", "u32")
_LEAST = {"f32": "0x1p-126", "f64": "0x1p-1022"}


def _of_integers(t: str) -> Iterator[tuple[Operation, str]]:
    """Those of one type of 32 bits, which wrap; shifts by 32 and more give zeros or signs."""
    sign = "s" if t == "i32" else "u"
    for name, plain in _PLAIN.items():
        yield f"{name} {t} {t} {t}", f"{{r}} = {plain} {{i32}} {{0}}, {{1}}"
    yield f"not {t} {t}", "{r} = xor {i32} {0}, {i32:-1}"
    yield f"negate {t} {t}", "{r} = sub {i32} {i32:0}, {0}"
    for name, way in (("maximum", "gt"), ("minimum", "lt")):
        yield f"{name} {t} {t} {t}", (f"{{r}}.first = icmp {sign}{way} {{i32}} {{0}}, {{1}};"
                                      "{r} = select {i1} {r}.first, {i32} {0}, {i32} {1}")
    for name, shift in (("shift_left", "shl"), ("shift_right_logical", "lshr")):
        yield f"{name} {t} {t} {t}", (
            "{r}.within = icmp ult {i32} {1}, {i32:32};{r}.amount = and {i32} {1}, {i32:31};"
            f"{{r}}.moved = {shift} {{i32}} {{0}}, {{r}}.amount;"
            "{r} = select {i1} {r}.within, {i32} {r}.moved, {i32} {i32:0}")
    yield f"shift_right_arithmetic {t} {t} {t}", (
        "{r}.within = icmp ult {i32} {1}, {i32:32};{r}.amount = select {i1} {r}.within, {i32} {1}, {i32} {i32:31};"
        "{r} = ashr {i32} {0}, {r}.amount")
    for way in _PREDICATES:
        predicate = way if way in ("eq", "ne") else sign + way
        yield f"compare {way} {t} {t} i1", f"{{r}} = icmp {predicate} {{i32}} {{0}}, {{1}}"


def _of_truths() -> Iterator[tuple[Operation, str]]:
    for name in ("and", "or", "xor"):
        yield f"{name} i1 i1 i1", f"{{r}} = {name} {{i1}} {{0}}, {{1}}"
    yield "not i1 i1", "{r} = xor {i1} {0}, {i1:1}"
    for t in SCALARS:
        yield f"select i1 {t} {t} {t}", f"{{r}} = select {{i1}} {{0}}, {{{t}}} {{1}}, {{{t}}} {{2}}"


def _flushed(t: str, operand: str) -> str:
    """``{r}.z<operand>``: a number, or 0 in place of a subnormal one."""
    size, small = f"{{r}}.size{operand}", f"{{r}}.small{operand}"
    return (f"{size} = call {{{t}}} @llvm.fabs.{{{t}:v}}({{{t}}} {{{operand}}});"
            f"{small} = fcmp olt {{{t}}} {size}, {{{t}:{_LEAST[t]}}};"
            f"{{r}}.z{operand} = select {{i1}} {small}, {{{t}}} {{{t}:0}}, {{{t}}} {{{operand}}};")


def _of_floats() -> Iterator[tuple[Operation, str]]:
    """Those that take subnormal numbers for zeros but the moves of signs and ``fma``, which states what it does."""
    for flush in (False, True):
        yield fma(flush=flush), "{r} = call {f32} @llvm.fma.{f32:v}({f32} {0}, {f32} {1}, {f32} {2})"
    for t in ("f32", "f64"):
        yield f"negate {t} {t}", f"{{r}} = fneg {{{t}}} {{0}}"
        yield f"abs {t} {t}", f"{{r}} = call {{{t}}} @llvm.fabs.{{{t}:v}}({{{t}}} {{0}})"
        for way in _PREDICATES:
            yield f"compare {way} {t} {t} i1", (
                _flushed(t, "0") + _flushed(t, "1")
                + f"{{r}} = fcmp {'une' if way == 'ne' else f'o{way}'} {{{t}}} {{r}}.z0, {{r}}.z1")
    yield "round_nearest_even f64 f64", "{r} = call {f64} @llvm.roundeven.{f64:v}({f64} {0})"
    yield "divide f64 f64 f64", "{r} = fdiv {f64} {0}, {1}"
    yield "sqrt f64 f64", "{r} = call {f64} @llvm.sqrt.{f64:v}({f64} {0})"


def _cut_off(t: str) -> str:
    """``{r}.given``, of f64, as integers: NaN as 0, what is too large as the largest one."""
    low, high = (-(2.0**31), 2.0**31 - 1) if t == "i32" else (0.0, 2.0**32 - 1)
    return (f"{{r}}.number = fcmp ord {{f64}} {{r}}.given, {{f64:0}};"
            "{r}.some = select {i1} {r}.number, {f64} {r}.given, {f64} {f64:0};"
            f"{{r}}.above = fcmp ogt {{f64}} {{r}}.some, {{f64:{low.hex()}}};"
            f"{{r}}.up = select {{i1}} {{r}}.above, {{f64}} {{r}}.some, {{f64}} {{f64:{low.hex()}}};"
            f"{{r}}.below = fcmp olt {{f64}} {{r}}.up, {{f64:{high.hex()}}};"
            f"{{r}}.within = select {{i1}} {{r}}.below, {{f64}} {{r}}.up, {{f64}} {{f64:{high.hex()}}};"
            f"{{r}} = fpto{'s' if t == 'i32' else 'u'}i {{f64}} {{r}}.within to {{i32}}")


def _conversions() -> Iterator[tuple[Operation, str]]:
    """To f32 rounded once, to integers cut off, where numbers of more than f32 holds are too large or too small."""
    for source in _OF_32_BITS:
        for target in _OF_32_BITS:
            yield f"bitcast_convert {source} {target}", f"{{r}} = bitcast {{{source}}} {{0}} to {{{target}}}"
    for t, sign in (("i32", "s"), ("u32", "u")):
        yield f"convert {t} {'u32' if t == 'i32' else 'i32'}", "{r} = bitcast {i32} {0} to {i32}"
        yield f"convert i1 {t}", "{r} = zext {i1} {0} to {i32}"
        yield f"convert {t} i1", "{r} = icmp ne {i32} {0}, {i32:0}"
        for real in ("f32", "f64"):
            yield f"convert {t} {real}", f"{{r}} = {sign}itofp {{i32}} {{0}} to {{{real}}}"
        yield f"convert f64 {t}", _cut_off(t).replace("{r}.given", "{0}")
        yield f"convert f32 {t}", "{r}.given = fpext {f32} {0} to {f64};" + _cut_off(t)
    # a subnormal number keeps its sign as a zero
    yield "convert f32 f64", (
        "{r}.size = call {f32} @llvm.fabs.{f32:v}({f32} {0});{r}.small = fcmp olt {f32} {r}.size, {f32:0x1p-126};"
        "{r}.bits = bitcast {f32} {0} to {i32};{r}.sign = and {i32} {r}.bits, {i32:-2147483648};"
        "{r}.zero = bitcast {i32} {r}.sign to {f32};"
        "{r}.same = select {i1} {r}.small, {f32} {r}.zero, {f32} {0};{r} = fpext {f32} {r}.same to {f64}")
    # what is less than half of a last place below the least normal number is rounded up to it
    yield "convert f64 f32", (
        "{r}.size = call {f64} @llvm.fabs.{f64:v}({f64} {0});"
        "{r}.small = fcmp olt {f64} {r}.size, {f64:0x1.ffffffp-127};"
        "{r}.zero = call {f64} @llvm.copysign.{f64:v}({f64} {f64:0}, {f64} {0});"
        "{r}.same = select {i1} {r}.small, {f64} {r}.zero, {f64} {0};{r} = fptrunc {f64} {r}.same to {f32}")


CODES: Mapping[Operation, str] = dict((
    *_of_integers("i32"), *_of_integers("u32"), *_of_truths(), *_of_floats(), *_conversions()))
"""LLVM's lines for vectors of operands ``{0}``, ``{1}`` and ``{2}``, and their result ``{r}``."""
