"""The XLA-HLO operators of TAIDL as one table: operands, attributes and the rule that relates the types.

A rule sees the declared result type and the operands' types and returns what is wrong, or None. A dimension is an
integer, or the text of an expression whose value is not known yet; what depends on an unknown one passes, and is
judged when the instruction is resolved or run, by the same rule. What the operators compute is in
:mod:`oracle.taidl.kernels`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias, Union

from oracle.errors import suggest
from oracle.taidl import ast

Dim: TypeAlias = Union[int, str]
AttributeValue: TypeAlias = Union[int, float, str, tuple[Dim, ...]]
Attributes: TypeAlias = Mapping[str, AttributeValue]


@dataclass(frozen=True)
class Shaped:
    """A tensor type whose dimensions may be unknown (:class:`oracle.resolved.TensorType` is one with none)."""

    shape: tuple[Dim, ...]
    dtype: str

    def __str__(self) -> str:
        return "".join(f"{d if isinstance(d, int) else '{' + d + '}'}x" for d in self.shape) + self.dtype


DTYPES: dict[str, tuple[Literal["int", "uint", "float", "bool"], int]] = {
    "i1": ("bool", 1),
    "i8": ("int", 8), "i16": ("int", 16), "i32": ("int", 32), "i64": ("int", 64),
    "u8": ("uint", 8), "u16": ("uint", 16), "u32": ("uint", 32), "u64": ("uint", 64),
    "f16": ("float", 16), "bf16": ("float", 16), "f32": ("float", 32), "f64": ("float", 64),
}
"""Kind and width in bits of each element type that can be computed with."""


def _is(dtype: str, *kinds: str) -> bool:
    return DTYPES[dtype][0] in kinds


def _differ(a: Dim, b: Dim) -> bool:
    return isinstance(a, int) and isinstance(b, int) and a != b


def _shapes_differ(a: Sequence[Dim], b: Sequence[Dim]) -> bool:
    return len(a) != len(b) or any(_differ(x, y) for x, y in zip(a, b, strict=True))


def _wrong(result: Shaped, shape: Sequence[Dim], dtype: str) -> str | None:
    """The complaint if the declared type is not the one computed."""
    if result.dtype == dtype and not _shapes_differ(result.shape, shape):
        return None
    return f"is declared {result} but {{}} gives {Shaped(tuple(shape), dtype)}"


Rule: TypeAlias = Callable[[Shaped, Sequence[Shaped], Attributes], Union[str, None]]


@dataclass(frozen=True)
class Attribute:
    """An attribute of an operator; ``default`` None makes it required."""

    name: str
    kind: Literal["integer", "integers", "number", "word"]
    words: tuple[str, ...] = ()
    default: AttributeValue | None = None


@dataclass(frozen=True)
class Opcode:
    """``operands`` counts the tensors (None: one or more); ``value`` marks an operator of a value, not of tensors."""

    name: str
    operands: int | None
    rule: Rule
    attributes: tuple[Attribute, ...] = ()
    value: bool = False


# --- rules --------------------------------------------------------------------------------------------------------


def _any(result: Shaped, operands: Sequence[Shaped], a: Attributes) -> str | None:
    return None


def _iota(result: Shaped, operands: Sequence[Shaped], a: Attributes) -> str | None:
    return _axis_fault(a["dim"], len(result.shape))


def _broadcast(result: Shaped, operands: Sequence[Shaped], a: Attributes) -> str | None:
    if operands[0].shape:
        return f"broadcast takes a scalar, found {operands[0]}; broadcast_in_dim takes the others"
    return _wrong(result, result.shape, operands[0].dtype)


def _broadcast_in_dim(result: Shaped, operands: Sequence[Shaped], a: Attributes) -> str | None:
    (x,), dims = operands, _integers(a, "dims")
    if len(dims) != len(x.shape):
        return f"dims has {len(dims)} entries for the {len(x.shape)} axes of {x}"
    for extent, axis in zip(x.shape, dims, strict=True):
        fault = _axis_fault(axis, len(result.shape))
        if fault:
            return fault
        if extent != 1 and _differ(extent, result.shape[int(axis)]):
            return f"cannot broadcast {x} to {result} along dims {_show(dims)}"
    return _wrong(result, result.shape, x.dtype)


def _reshape(result: Shaped, operands: Sequence[Shaped], a: Attributes) -> str | None:
    (x,) = operands
    known = all(isinstance(d, int) for d in x.shape + result.shape)
    if x.dtype != result.dtype or (known and math.prod(map(int, x.shape)) != math.prod(map(int, result.shape))):
        return f"is declared {result} but {{}} is given {x}: another number of elements or another type"
    return None


def _transpose(result: Shaped, operands: Sequence[Shaped], a: Attributes) -> str | None:
    (x,), dims = operands, _integers(a, "dim")
    if sorted(map(str, dims)) != sorted(map(str, range(len(x.shape)))):
        return f"dim={_show(dims)} is no permutation of the {len(x.shape)} axes of {x}"
    return _wrong(result, [x.shape[int(d)] for d in dims], x.dtype)


def _slice(result: Shaped, operands: Sequence[Shaped], a: Attributes) -> str | None:
    (x,) = operands
    start, limit, stride = (_integers(a, k) for k in ("start", "limit", "stride"))
    stride = stride or (1,) * len(x.shape)
    if not len(start) == len(limit) == len(stride) == len(x.shape):
        return f"start, limit and stride need one entry for each axis of {x}"
    shape: list[Dim] = []
    for extent, lo, hi, step in zip(x.shape, start, limit, stride, strict=True):
        if not (isinstance(lo, int) and isinstance(hi, int) and isinstance(step, int)):
            shape.append("?")
            continue
        if lo < 0 or step < 1 or hi <= lo or (isinstance(extent, int) and hi > extent):
            return f"slice {lo}:{hi}:{step} does not lie in an axis of extent {extent}"
        shape.append(-(-(hi - lo) // step))
    return _wrong(result, shape, x.dtype)


def _pad(result: Shaped, operands: Sequence[Shaped], a: Attributes) -> str | None:
    (x,), low, high = operands, _integers(a, "low"), _integers(a, "high")
    if not len(low) == len(high) == len(x.shape):
        return f"low and high need one entry for each axis of {x}"
    shape = [
        d + lo + hi if isinstance(d, int) and isinstance(lo, int) and isinstance(hi, int) else "?"
        for d, lo, hi in zip(x.shape, low, high, strict=True)
    ]
    return _wrong(result, shape, x.dtype)


def _convert(result: Shaped, operands: Sequence[Shaped], a: Attributes) -> str | None:
    return _wrong(result, operands[0].shape, result.dtype)


def _bitcast_convert(result: Shaped, operands: Sequence[Shaped], a: Attributes) -> str | None:
    (x,) = operands
    source, target = DTYPES[x.dtype][1], DTYPES[result.dtype][1]
    if "i1" in (x.dtype, result.dtype) and x.dtype != result.dtype:
        return "cannot reinterpret the bits of i1"
    if source == target:
        return _wrong(result, x.shape, result.dtype)
    if source > target:
        return _wrong(result, (*x.shape, source // target), result.dtype)
    if not x.shape or _differ(x.shape[-1], target // source):
        return f"cannot join the last axis of {x} to {result.dtype}: it must have {target // source} elements"
    return _wrong(result, x.shape[:-1], result.dtype)


def _elementwise(*kinds: str) -> Rule:
    def rule(result: Shaped, operands: Sequence[Shaped], a: Attributes) -> str | None:
        first = operands[0]
        for x in operands:
            if x.dtype != first.dtype or _shapes_differ(x.shape, first.shape):
                return f"{{}} needs operands of one type, found {' and '.join(map(str, operands))}"
        if not _is(first.dtype, *kinds):
            return f"{{}} is not defined for {first.dtype}"
        return _wrong(result, first.shape, first.dtype)

    return rule


def _clamp(result: Shaped, operands: Sequence[Shaped], a: Attributes) -> str | None:
    x = operands[1]
    for bound in (operands[0], operands[2]):
        if bound.dtype != x.dtype or (bound.shape and _shapes_differ(bound.shape, x.shape)):
            return f"the bounds of clamp must be scalars of {x.dtype} or of type {x}, found {bound}"
    return _wrong(result, x.shape, x.dtype)


def _compare(result: Shaped, operands: Sequence[Shaped], a: Attributes) -> str | None:
    x, y = operands
    if x.dtype != y.dtype or _shapes_differ(x.shape, y.shape):
        return f"compare needs operands of one type, found {x} and {y}"
    return _wrong(result, x.shape, "i1")


def _select(result: Shaped, operands: Sequence[Shaped], a: Attributes) -> str | None:
    which, x, y = operands
    if which.dtype != "i1" or (which.shape and _shapes_differ(which.shape, x.shape)):
        return f"the first operand of select must be of type i1 or {Shaped(x.shape, 'i1')}, found {which}"
    if x.dtype != y.dtype or _shapes_differ(x.shape, y.shape):
        return f"select needs alternatives of one type, found {x} and {y}"
    return _wrong(result, x.shape, x.dtype)


def _dot_general(result: Shaped, operands: Sequence[Shaped], a: Attributes) -> str | None:
    x, y = operands
    if x.dtype != y.dtype or DTYPES[x.dtype][0] != DTYPES[result.dtype][0] or _is(x.dtype, "bool"):
        return f"dot_general of {x.dtype} and {y.dtype} cannot accumulate in {result.dtype}"
    named = {k: _integers(a, k) for k in ("lhs_batch", "rhs_batch", "lhs_contracting", "rhs_contracting")}
    extents: dict[str, list[Dim]] = {}
    for side, tensor in (("lhs", x), ("rhs", y)):
        axes = (*named[side + "_batch"], *named[side + "_contracting"])
        complaint = next(filter(None, (_axis_fault(i, len(tensor.shape)) for i in axes)), None)
        if complaint or len(set(axes)) != len(axes):
            return complaint or "an axis is named twice in the batch and contracting axes"
        for part in ("_batch", "_contracting"):
            extents[side + part] = [tensor.shape[int(i)] for i in named[side + part]]
        extents[side] = [d for i, d in enumerate(tensor.shape) if i not in axes]
    for part in ("batch", "contracting"):
        left, right = extents["lhs_" + part], extents["rhs_" + part]
        if _shapes_differ(left, right):
            return f"the {part} axes of {x} and {y} have the extents {_show(left)} and {_show(right)}"
    if (a["rounding"], a["subnormals"]) != ("each", "keep") and result.dtype != "f32":
        return f"rounding and subnormals of {{}} are for sums in f32, not in {result.dtype}"
    if (a["rounding"], a["subnormals"]) == ("each", "flush"):
        return "subnormals=flush of {} goes with rounding=fused"
    return _wrong(result, extents["lhs_batch"] + extents["lhs"] + extents["rhs"], result.dtype)


def _fused(result: Shaped, operands: Sequence[Shaped], a: Attributes) -> str | None:
    if operands[0].dtype != "f32":
        return f"{{}} is not defined for {operands[0].dtype}"
    return _elementwise("float")(result, operands, a)


def _reduce(result: Shaped, operands: Sequence[Shaped], a: Attributes) -> str | None:
    (x,), dims = operands, _integers(a, "dim")
    for axis in dims:
        fault = _axis_fault(axis, len(x.shape))
        if fault:
            return fault
    return _wrong(result, [d for i, d in enumerate(x.shape) if i not in dims], x.dtype)


def _reduce_window(result: Shaped, operands: Sequence[Shaped], a: Attributes) -> str | None:
    (x,), size, stride = operands, _integers(a, "size"), _integers(a, "stride")
    if not len(size) == len(stride) == len(x.shape):
        return f"size and stride need one entry for each axis of {x}"
    shape: list[Dim] = []
    for extent, width, step in zip(x.shape, size, stride, strict=True):
        if not (isinstance(extent, int) and isinstance(width, int) and isinstance(step, int)):
            shape.append("?")
            continue
        if width < 1 or step < 1 or width > extent:
            return f"a window of {width} in steps of {step} does not fit an axis of extent {extent}"
        shape.append((extent - width) // step + 1)
    return _wrong(result, shape, x.dtype)


def _concatenate(result: Shaped, operands: Sequence[Shaped], a: Attributes) -> str | None:
    axis, first = a["dim"], operands[0]
    fault = _axis_fault(axis, len(first.shape))
    if fault or not isinstance(axis, int):
        return fault
    for x in operands:
        others = [_shapes_differ(x.shape[:axis], first.shape[:axis]),
                  _shapes_differ(x.shape[axis + 1:], first.shape[axis + 1:])]
        if x.dtype != first.dtype or len(x.shape) != len(first.shape) or any(others):
            return f"cannot concatenate {' and '.join(map(str, operands))} along axis {axis}"
    total: Dim = 0
    for x in operands:
        extent = x.shape[axis]
        total = total + extent if isinstance(total, int) and isinstance(extent, int) else "?"
    return _wrong(result, (*first.shape[:axis], total, *first.shape[axis + 1:]), first.dtype)


def _integers(a: Attributes, name: str) -> tuple[Dim, ...]:
    value = a[name]
    assert isinstance(value, tuple)
    return value


def _axis_fault(axis: object, rank: int) -> str | None:
    if isinstance(axis, int) and 0 <= axis < rank:
        return None
    return f"axis {axis} is not one of the {rank} axes 0..{rank - 1}"


def _show(dims: Sequence[Dim]) -> str:
    return "{" + ", ".join(map(str, dims)) + "}"


# --- the table ----------------------------------------------------------------------------------------------------

_KINDS = ("add", "max", "min")
_SUBNORMALS = Attribute("subnormals", "word", ("keep", "flush"), "keep")
_NUMBERS = ("int", "uint", "float")
_INTS = ("int", "uint")
_BITS = ("int", "uint", "bool")


def _ints(name: str, default: tuple[Dim, ...] | None = None) -> Attribute:
    return Attribute(name, "integers", default=default)


OPCODES: dict[str, Opcode] = {
    op.name: op
    for op in [
        Opcode("constant", 0, _any, value=True),
        Opcode("iota", 0, _iota, (Attribute("dim", "integer"),)),
        Opcode("broadcast", 1, _broadcast),
        Opcode("broadcast_in_dim", 1, _broadcast_in_dim, (_ints("dims"),)),
        Opcode("reshape", 1, _reshape),
        Opcode("transpose", 1, _transpose, (_ints("dim"),)),
        Opcode("slice", 1, _slice, (_ints("start"), _ints("limit"), _ints("stride", ()))),
        Opcode("pad", 1, _pad, (_ints("low"), _ints("high"), Attribute("value", "number", default=0))),
        Opcode("concatenate", None, _concatenate, (Attribute("dim", "integer"),)),
        Opcode("convert", 1, _convert),
        Opcode("bitcast_convert", 1, _bitcast_convert),
        *(Opcode(n, 2, _elementwise(*_NUMBERS)) for n in ("add", "subtract", "multiply", "maximum", "minimum")),
        *(Opcode(n, 2, _elementwise(*_BITS)) for n in ("and", "or", "xor")),
        *(Opcode(n, 2, _elementwise(*_INTS))
          for n in ("shift_left", "shift_right_logical", "shift_right_arithmetic")),
        Opcode("negate", 1, _elementwise(*_NUMBERS)),
        Opcode("abs", 1, _elementwise("int", "float")),
        *(Opcode(n, 1, _elementwise("float")) for n in ("floor", "ceil", "round_nearest_even", "round_nearest_afz")),
        Opcode("not", 1, _elementwise(*_BITS)),
        Opcode("clamp", 3, _clamp),
        Opcode("compare", 2, _compare, (Attribute("direction", "word", ("eq", "ne", "lt", "le", "gt", "ge")),)),
        Opcode("select", 3, _select),
        Opcode("fma", 3, _fused, (_SUBNORMALS,)),
        Opcode("dot_general", 2, _dot_general, (
            _ints("lhs_contracting"), _ints("rhs_contracting"), _ints("lhs_batch", ()), _ints("rhs_batch", ()),
            Attribute("rounding", "word", ("each", "fused"), "each"), _SUBNORMALS)),
        Opcode("reduce", 1, _reduce, (_ints("dim"), Attribute("kind", "word", _KINDS))),
        Opcode("reduce_window", 1, _reduce_window, (Attribute("kind", "word", _KINDS), _ints("size"), _ints("stride"))),
    ]
}
"""Every operator by name."""


def fault(opcode: str, result: Shaped, operands: Sequence[Shaped], attributes: Attributes) -> str | None:
    """What is wrong with the types of ``%x = opcode(operands, attributes)``, to be put after ``%x``, or None."""
    complaint = OPCODES[opcode].rule(result, operands, attributes)
    if complaint is None:
        return None
    return (f" {complaint}" if complaint.startswith("is ") else f": {complaint}").replace("{}", opcode)


def word(value: ast.Expr) -> str:
    """The word that an attribute such as ``kind=max`` names; the case does not matter."""
    return value.name.lower() if isinstance(value, ast.Name) else ""


def lookup(name: str) -> Opcode | str:
    """The operator, or what to say where there is none of that name."""
    return OPCODES.get(name) or f"unknown operator {name!r}{suggest(name, list(OPCODES))}"
