"""Producers of TAIDL's operators: shapes, attributes and element types are drawn within the rule of each."""

from __future__ import annotations

import math
from functools import cache

from archloom.oracle.resolved import Dim, Shaped
from archloom.oracle.taidl.operators import OPCODES
from archloom.oracle.taidl.types import element_type
from tests.support.oracle.operator_cases import Case
from tests.support.oracle.random_programs.functions import call, custom, loop, rng
from tests.support.oracle.random_programs.making import FLOATS, Producer, kinds_of, make
from tests.support.oracle.random_programs.places import dynamic_slice, dynamic_update, gather, scatter, sort
from tests.support.oracle.random_programs.scope import MOST_ELEMENTS, Scope, fixed
from tests.support.oracle.random_programs.storage import without_nan

QUANTIZED = "!quant.uniform<i8:f32, 0.25:-3>"

_SPECIAL = frozenset({"compare", "select", "clamp", "convert", "reduce_precision", "is_finite", "fma",
                      "uniform_quantize", "uniform_dequantize", "stochastic_convert", "complex", "real", "imag"})


@cache
def same_type(dtype: str) -> tuple[tuple[str, int], ...]:
    """The element-wise operators from tensors of a type to one of the same."""
    x = Shaped((2,), dtype)
    found = [(name, op.operands or 0) for name, op in OPCODES.items() if op.family == "elementwise"
             and name not in _SPECIAL and Case(name, x, (x,) * (op.operands or 0)).complaint is None]
    return tuple(found)


# --- element by element -------------------------------------------------------------------------------------------


def _elementwise(b: Scope, kind: Shaped, depth: int) -> str | None:
    choices = same_type(kind.dtype)
    if not choices:
        return None
    simple = [c for c in choices if c[0] not in _SLOW]
    opcode, count = b.r.choice(simple if simple and b.chance(0.8) else choices)
    operands = [make(b, kind, depth if i == 0 else depth - 1) for i in range(count)]
    if b.chance(0.5):
        operands.reverse()
    return b.op(kind, opcode, *operands)


_SLOW = frozenset({"power", "atan2", "rsqrt", "cbrt", "exp", "expm1", "log", "log1p", "logistic", "tanh", "sine",
                   "cosine", "remainder", "tan", "asin", "acos", "atan", "sinh", "cosh", "asinh", "acosh", "atanh",
                   "erf"})
"""Operators that XLA takes long to compile: they are drawn less often."""


def _compare(b: Scope, kind: Shaped, depth: int) -> str | None:
    if kind.dtype != "i1":
        return None
    x = Shaped(kind.shape, b.isa.dtype(b.r, "int", "uint", "float", "bool", "scale"))
    if element_type(x.dtype).kind == "float" and b.chance(0.2):
        return b.op(kind, "is_finite", make(b, x, depth))
    direction = b.r.choice(["eq", "ne", "lt", "le", "gt", "ge"])
    return b.op(kind, "compare", make(b, x, depth), make(b, x, depth - 1), direction=direction)


def _select(b: Scope, kind: Shaped, depth: int) -> str | None:
    which = make(b, Shaped(b.r.choice([(), kind.shape]), "i1"), depth)
    return b.op(kind, "select", which, make(b, kind, depth - 1), make(b, kind, depth - 1))


def _clamp(b: Scope, kind: Shaped, depth: int) -> str | None:
    if element_type(kind.dtype).kind in ("bool", "quant", "scale", "complex"):
        return None
    low, high = (make(b, Shaped(b.r.choice([(), kind.shape]), kind.dtype), depth - 1) for _ in range(2))
    return b.op(kind, "clamp", low, make(b, kind, depth), high)


def _fma(b: Scope, kind: Shaped, depth: int) -> str | None:
    if kind.dtype != "f32" or b.chance(0.5):
        return None
    more = {"subnormals": b.r.choice(["keep", "flush"])} if b.chance(0.5) else {}
    return b.op(kind, "fma", *(make(b, kind, depth - i) for i in range(3)), **more)


def _convert(b: Scope, kind: Shaped, depth: int) -> str | None:
    if element_type(kind.dtype).kind == "quant":
        return b.op(kind, "uniform_quantize", make(b, Shaped(kind.shape, b.r.choice(["f32", QUANTIZED])), depth))
    if kind.dtype == "f32" and b.chance(0.1):
        return b.op(kind, "uniform_dequantize", make(b, Shaped(kind.shape, QUANTIZED), depth))
    source = b.isa.dtype(b.r, "int", "uint", "float", "bool", "scale")
    return None if source == kind.dtype else b.op(kind, "convert", make(b, Shaped(kind.shape, source), depth))


def _reduce_precision(b: Scope, kind: Shaped, depth: int) -> str | None:
    of = element_type(kind.dtype)
    if of.kind != "float" or of.bits > 32 or b.chance(0.5):
        return None
    return b.op(kind, "reduce_precision", make(b, kind, depth), E=b.r.randint(1, 8), M=b.r.randint(0, 23))


def _bits(dtype: str) -> int:
    bits = element_type(dtype).bits
    return 8 if bits == 6 else bits


def _bitcast(b: Scope, kind: Shaped, depth: int) -> str | None:
    if element_type(kind.dtype).part:
        return None
    target, source = _bits(kind.dtype), b.isa.dtype(b.r, "int", "uint", "float", "bool", "quant", "scale")
    bits = _bits(source)
    shape: tuple[Dim, ...] = kind.shape
    if bits < target:
        shape = (*shape, target // bits)
        if b.size(shape) > 2 * MOST_ELEMENTS:
            return None
    elif bits > target:
        if not shape or shape[-1] != bits // target:
            return None
        shape = shape[:-1]
    x = Shaped(shape, source)
    return b.op(kind, "bitcast_convert", without_nan(b, make(b, x, depth), x))


# --- shapes -------------------------------------------------------------------------------------------------------


def _broadcast(b: Scope, kind: Shaped, depth: int) -> str | None:
    if b.chance(0.4):
        return b.op(kind, "broadcast", make(b, Shaped((), kind.dtype), depth))
    if not kind.shape:
        return None
    dims = b.r.sample(range(len(kind.shape)), b.r.randint(0, len(kind.shape)))
    shape = tuple(1 if b.chance(0.2) else kind.shape[d] for d in dims)
    return b.op(kind, "broadcast_in_dim", make(b, Shaped(shape, kind.dtype), depth), dims=dims)


def _reshape(b: Scope, kind: Shaped, depth: int) -> str | None:
    if not fixed(kind.shape):
        return None
    left, shape = math.prod(map(int, kind.shape)), []
    while left > 1 and len(shape) < 3:
        n = b.r.choice([d for d in range(1, left + 1) if left % d == 0])
        shape.append(n)
        left //= n
    if left > 1:
        shape.append(left)
    if not shape or b.chance(0.2):
        shape.insert(b.r.randint(0, len(shape)), 1)
    return b.op(kind, "reshape", make(b, Shaped(tuple(shape), kind.dtype), depth))


def _transpose(b: Scope, kind: Shaped, depth: int) -> str | None:
    rank = len(kind.shape)
    if rank < 2:
        return None
    dim = b.r.sample(range(rank), rank)
    shape: list[Dim] = [0] * rank
    for extent, axis in zip(kind.shape, dim, strict=True):
        shape[axis] = extent
    return b.op(kind, "transpose", make(b, Shaped(tuple(shape), kind.dtype), depth), dim=dim)


def _reverse(b: Scope, kind: Shaped, depth: int) -> str | None:
    rank = len(kind.shape)
    if not rank:
        return None
    return b.op(kind, "reverse", make(b, kind, depth), dim=b.r.sample(range(rank), b.r.randint(1, rank)))


def _slice(b: Scope, kind: Shaped, depth: int) -> str | None:
    if not kind.shape or not fixed(kind.shape):
        return None
    start, limit, stride, shape = [], [], [], []
    for n in map(int, kind.shape):
        step, first = b.r.choice([1, 1, 1, 2, 3]), b.r.choice([0, 0, 1, 2])
        # as many elements as wanted, whatever the rest of the last step is
        last = first + (n - 1) * step + 1 + b.r.randint(0, step - 1)
        start.append(first)
        limit.append(last)
        stride.append(step)
        shape.append(last + b.r.choice([0, 0, 1]))
    if math.prod(shape) > MOST_ELEMENTS:
        return None
    more = {"stride": stride} if any(s > 1 for s in stride) or b.chance(0.3) else {}
    x = make(b, Shaped(tuple(shape), kind.dtype), depth)
    return b.op(kind, "slice", x, start=start, limit=limit, **more)


def _pad(b: Scope, kind: Shaped, depth: int) -> str | None:
    if not kind.shape or not fixed(kind.shape) or element_type(kind.dtype).kind == "quant":
        return None
    low, high, interior, shape = [], [], [], []
    for n in map(int, kind.shape):
        between = b.r.choice([0, 0, 0, 1, 2])
        extent = b.r.randint(1, n)
        spare = n - (extent + (extent - 1) * between)
        first = b.r.randint(-1, 2)
        low.append(first)
        high.append(spare - first)
        interior.append(between)
        shape.append(extent)
    more: dict[str, object] = {"interior": interior} if any(interior) or b.chance(0.2) else {}
    if b.chance(0.6):
        value = {"float": FLOATS, "bool": ("0", "1")}.get(element_type(kind.dtype).kind, ("0", "1", "3"))
        more["value"] = b.r.choice([v for v in value if v != "0.0" or element_type(kind.dtype).kind == "float"])
    x = make(b, Shaped(tuple(shape), kind.dtype), depth)
    return b.op(kind, "pad", x, low=low, high=high, **more)


def _concatenate(b: Scope, kind: Shaped, depth: int) -> str | None:
    axes = [i for i, n in enumerate(kind.shape) if isinstance(n, int) and n > 1]
    if not axes:
        return None
    axis = b.r.choice(axes)
    total = int(kind.shape[axis])
    cut = b.r.randint(1, total - 1)
    parts = [cut, total - cut] if total - cut < 2 or b.chance(0.7) else [cut, 1, total - cut - 1]
    made = [make(b, Shaped((*kind.shape[:axis], n, *kind.shape[axis + 1:]), kind.dtype), depth - (i > 0))
            for i, n in enumerate(parts)]
    return b.op(kind, "concatenate", *made, dim=axis)


# --- many to one --------------------------------------------------------------------------------------------------


def _reduce(b: Scope, kind: Shaped, depth: int) -> str | None:
    kinds = kinds_of(kind.dtype)
    extents = [b.r.randint(1, 4) for _ in range(b.r.choice([0, 1, 1, 1, 2]))]
    if not kinds or b.size(kind.shape) * math.prod(extents) > MOST_ELEMENTS or len(kind.shape) > 3:
        return None
    shape: list[Dim] = list(kind.shape)
    dims: list[int] = []
    for n in extents:
        at = b.r.randint(0, len(shape))
        dims = [d + (d >= at) for d in dims] + [at]
        shape.insert(at, n)
    return b.op(kind, "reduce", make(b, Shaped(tuple(shape), kind.dtype), depth), dim=dims, kind=b.r.choice(kinds))


def _reduce_window(b: Scope, kind: Shaped, depth: int) -> str | None:
    kinds = kinds_of(kind.dtype)
    if not kinds or not kind.shape or not fixed(kind.shape) or len(kind.shape) > 2 or b.chance(0.5):
        return None
    lists: dict[str, list[int]] = {k: [] for k in ("size", "stride", "low", "high", "base_dilation", "window_dilation")}
    shape = []
    for n in map(int, kind.shape):
        size, stride = b.r.randint(1, 3), b.r.randint(1, 2)
        base, dilation = b.r.choice([1, 1, 2]), b.r.choice([1, 1, 2])
        low = b.r.choice([0, 0, 1])
        # what the windows reach, as an operand with its dilation and what is padded behind
        whole = (n - 1) * stride + (size - 1) * dilation + 1 - low
        extent = max(1, (whole - 1) // base + 1)
        high = whole - ((extent - 1) * base + 1)
        for name, v in (("size", size), ("stride", stride), ("low", low), ("high", high), ("base_dilation", base),
                        ("window_dilation", dilation)):
            lists[name].append(v)
        shape.append(extent)
    if math.prod(shape) > MOST_ELEMENTS:
        return None
    return b.op(kind, "reduce_window", make(b, Shaped(tuple(shape), kind.dtype), depth), kind=b.r.choice(kinds),
                **{k: v for k, v in lists.items() if k in ("size", "stride") or any(x != (k[-8:] == "dilation")
                                                                                    for x in v)})


def _factors(b: Scope, dtype: str) -> tuple[str, str] | None:
    """Element types of two operands that accumulate in a type."""
    of = element_type(dtype)
    kinds = ("int", "uint") if of.kind in ("int", "uint") else ("float",)
    if of.kind not in kinds:
        return None
    fitting = [d for d in (*b.isa.dtypes, dtype) if element_type(d).kind in kinds and element_type(d).bits <= of.bits]
    return b.r.choice(fitting), b.r.choice(fitting)


def _dot(b: Scope, kind: Shaped, depth: int) -> str | None:
    types = _factors(b, kind.dtype)
    rank = len(kind.shape)
    if types is None or rank > 3:
        return None
    batch = b.r.choice([0, 0, 1]) if rank else 0
    cut = b.r.randint(batch, rank)
    k = [b.r.randint(1, 4) for _ in range(b.r.choice([1, 1, 1, 2, 0]))]
    shapes, names = [], {}
    for side, free in (("lhs", kind.shape[batch:cut]), ("rhs", kind.shape[cut:])):
        axes: list[tuple[str, int, Dim]] = [("batch", i, d) for i, d in enumerate(kind.shape[:batch])]
        axes += [("k", i, d) for i, d in enumerate(k)]
        b.r.shuffle(axes)
        for i, d in enumerate(free):  # the free ones stay in order
            at = b.r.randint(max([p for p, a in enumerate(axes) if a[0] == "free"], default=-1) + 1, len(axes))
            axes.insert(at, ("free", i, d))
        shapes.append(tuple(d for _, _, d in axes))
        for part, short in (("batch", "batch"), ("contracting", "k")):
            places = {i: p for p, (what, i, _) in enumerate(axes) if what == short}
            names[f"{side}_{part}"] = [places[i] for i in sorted(places)]
        if b.size(shapes[-1]) > MOST_ELEMENTS:
            return None
    if not batch and b.chance(0.7):
        del names["lhs_batch"], names["rhs_batch"]
    more: dict[str, object] = dict(names)
    if kind.dtype == "f32" and b.chance(0.15):
        more |= {"rounding": "fused", "subnormals": b.r.choice(["keep", "flush"])}
    elif kind.dtype == "f32" and b.chance(0.15):
        kinds = {f"{side}_precision_type": b.r.choice(["bf16", "tf32", "f16"]) for side in ("lhs", "rhs")}
        count, made = b.r.choice([(1, 1), (2, 3), (2, 4), (3, 6), (3, 9)])
        more |= {**kinds, "lhs_component_count": count, "rhs_component_count": count, "num_primitive_operations": made}
    x, y = (make(b, Shaped(s, t), depth - i) for i, (s, t) in enumerate(zip(shapes, types, strict=True)))
    return b.op(kind, "dot_general", x, y, **more)


def _convolution(b: Scope, kind: Shaped, depth: int) -> str | None:
    types, rank = _factors(b, kind.dtype), len(kind.shape)
    if types is None or not fixed(kind.shape) or not 2 <= rank <= 4:
        return None
    r = b.r
    out_dims = r.sample(range(rank), rank) if b.chance(0.3) else list(range(rank))
    batch, outs, *space = (int(kind.shape[i]) for i in out_dims)
    groups = r.choice([g for g in (1, 1, 2, 3) if outs % g == 0])
    each = r.randint(1, 2)
    x, w = [batch, each * groups], [outs, each]
    lists: dict[str, list[int]] = {k: [] for k in ("stride", "low", "high", "lhs_dilation", "rhs_dilation")}
    for n in space:
        size, stride, low = r.randint(1, 3), r.randint(1, 2), r.choice([0, 0, 1])
        lhs, rhs = r.choice([1, 1, 2]), r.choice([1, 1, 2])
        whole = (n - 1) * stride + (size - 1) * rhs + 1 - low
        extent = max(1, (whole - 1) // lhs + 1)
        x.append(extent)
        w.append(size)
        for name, v in (("stride", stride), ("low", low), ("high", whole - ((extent - 1) * lhs + 1)),
                        ("lhs_dilation", lhs), ("rhs_dilation", rhs)):
            lists[name].append(v)
    plain = {k: (k not in ("low", "high")) for k in lists}
    more: dict[str, object] = {k: v for k, v in lists.items() if any(n != plain[k] for n in v) or (
        v and b.chance(0.9))}
    if groups > 1:
        more["groups"] = groups
    shapes = []
    for name, extents in (("lhs_dims", x), ("rhs_dims", w)):
        order = r.sample(range(rank), rank) if b.chance(0.3) else list(range(rank))
        placed = [0] * rank
        for axis, n in zip(order, extents, strict=True):
            placed[axis] = n
        shapes.append(tuple(placed))
        if order != list(range(rank)):
            more[name] = order
    if out_dims != list(range(rank)):
        more["out_dims"] = out_dims
    if max(map(math.prod, shapes)) > MOST_ELEMENTS:
        return None
    x_, w_ = (make(b, Shaped(s, t), depth - i) for i, (s, t) in enumerate(zip(shapes, types, strict=True)))
    return b.op(kind, "convolution", x_, w_, **more)


PRODUCERS: dict[Producer, float] = {
    _elementwise: 16, _compare: 6, _select: 3, _clamp: 2, _fma: 1, _convert: 6, _reduce_precision: 1, _bitcast: 4,
    _broadcast: 3, _reshape: 3, _transpose: 3, _reverse: 1.5, _slice: 2, _pad: 2, _concatenate: 2.5, _reduce: 5,
    _reduce_window: 1.5, _dot: 7, _convolution: 1.5, dynamic_slice: 0.8, dynamic_update: 0.8, gather: 1,
    scatter: 0.8, sort: 0.8, rng: 0.3, call: 0.6, loop: 0.4, custom: 0.4,
}
"""The producers and how often they are tried."""
