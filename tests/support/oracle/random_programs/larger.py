"""Producers of HLO's larger operators for random chains; they join those of :mod:`.operators`."""

from __future__ import annotations

import math

from archloom.oracle.resolved import Dim, Shaped
from archloom.oracle.taidl.types import element_type
from tests.support.oracle.random_programs.functions import function
from tests.support.oracle.random_programs.making import Producer, kinds_of, make
from tests.support.oracle.random_programs.scope import MOST_ELEMENTS, Scope, fixed
from tests.support.oracle.random_programs.storage import without_nan


def _float(kind: Shaped) -> bool:
    return element_type(kind.dtype).kind == "float"


def _split(b: Scope, count: int) -> int:
    return b.r.choice([n for n in range(1, count + 1) if count % n == 0])


# --- element by element -------------------------------------------------------------------------------------------


def _of_complex(b: Scope, kind: Shaped, depth: int) -> str | None:
    if kind.dtype not in ("f32", "f64"):
        return None
    whole = Shaped(kind.shape, {"f32": "c64", "f64": "c128"}[kind.dtype])
    return b.op(kind, b.r.choice(["real", "imag", "abs"]), make(b, whole, depth))


def _stochastic(b: Scope, kind: Shaped, depth: int) -> str | None:
    if element_type(kind.dtype).kind != "int":
        return None
    source = b.r.choice(["f32", "bf16", "f8e5m2", "f4e2m1fn"])
    random = Shaped(kind.shape, f"u{element_type(source).bits}")
    return b.op(kind, "stochastic_convert", make(b, Shaped(kind.shape, source), depth), make(b, random, depth - 1))


def _copy(b: Scope, kind: Shaped, depth: int) -> str | None:
    return b.op(kind, "copy", make(b, kind, depth))


def _bitcast(b: Scope, kind: Shaped, depth: int) -> str | None:
    of = element_type(kind.dtype)
    if not fixed(kind.shape) or of.bits == 6 or of.part:
        return None
    source = b.isa.dtype(b.r, "int", "uint", "float")
    bits, total = element_type(source).bits, math.prod(map(int, kind.shape)) * of.bits
    if bits == 6 or total % bits or total // bits > MOST_ELEMENTS:
        return None
    n = _split(b, total // bits)
    x = Shaped((n, total // bits // n), source)
    return b.op(kind, "bitcast", without_nan(b, make(b, x, depth), x))


def _extent(b: Scope, kind: Shaped, depth: int) -> str | None:
    if element_type(kind.dtype).kind not in ("int", "uint"):
        return None
    made = b.op(Shaped((), "i32"), "get_dimension_size", make(b, Shaped((3, 2), kind.dtype), depth), dim=1)
    scalar = b.op(Shaped((), kind.dtype), "convert", made)
    return b.op(kind, "broadcast", scalar) if kind.shape else scalar


# --- functions ----------------------------------------------------------------------------------------------------


def _map(b: Scope, kind: Shaped, depth: int) -> str | None:
    if not fixed(kind.shape):
        return None
    types = [kind.dtype, b.isa.dtype(b.r, "int", "uint", "float")][:b.r.randint(1, 2)]
    operands = [make(b, Shaped(kind.shape, t), depth - i) for i, t in enumerate(types)]
    name = function(b, [Shaped((), t) for t in types], [Shaped((), kind.dtype)], 2)
    return b.op(kind, "map", *operands, function=name)


def _scan(b: Scope, kind: Shaped, depth: int) -> str | None:
    if not kind.shape or not fixed(kind.shape):
        return None
    axis, final = b.r.randrange(len(kind.shape)), b.chance(0.3)
    state = Shaped((2,), b.isa.dtype(b.r, "int", "uint", "float"))
    source = Shaped((*kind.shape[:axis], b.r.randint(1, 3), *kind.shape[axis:]) if final else kind.shape, kind.dtype)
    part = Shaped((*source.shape[:axis], *source.shape[axis + 1:]), kind.dtype)
    state = part if final else state
    name = function(b, [part, state], [part, state], 2)
    return b.op(kind, "scan", make(b, source, depth), make(b, state, depth - 1), dim=axis, function=name,
                reverse=b.r.randint(0, 1), result=int(final))


# --- places that compare ------------------------------------------------------------------------------------------


def _top_k(b: Scope, kind: Shaped, depth: int) -> str | None:
    if not kind.shape or not fixed(kind.shape) or element_type(kind.dtype).kind not in ("int", "uint", "float"):
        return None
    k = int(kind.shape[-1])
    shape, result = (*kind.shape[:-1], k + b.r.randint(0, 3)), 0
    dtype = kind.dtype
    if dtype == "i32" and b.chance(0.5):
        dtype, result = b.isa.dtype(b.r, "int", "uint", "float", "bool"), 1
    return b.op(kind, "top_k", make(b, Shaped(shape, dtype), depth), k=k, largest=b.r.randint(0, 1), result=result)


def _select_and_scatter(b: Scope, kind: Shaped, depth: int) -> str | None:
    kinds = kinds_of(kind.dtype)
    if not kinds or not 1 <= len(kind.shape) <= 2 or not fixed(kind.shape) or element_type(kind.dtype).kind == "bool":
        return None
    lists: dict[str, list[int]] = {k: [] for k in ("size", "stride", "low", "high")}
    counts = []
    for n in map(int, kind.shape):
        low, high, stride = b.r.randint(0, 1), b.r.randint(0, 1), b.r.randint(1, 2)
        size = b.r.randint(1, min(3, n + low + high))
        for name, v in (("size", size), ("stride", stride), ("low", low), ("high", high)):
            lists[name].append(v)
        counts.append((n + low + high - size) // stride + 1)
    operands = [make(b, Shaped(s, kind.dtype), depth - i) for i, s in enumerate((kind.shape, tuple(counts), ()))]
    return b.op(kind, "select_and_scatter", *operands, select=b.r.choice(["ge", "gt", "le", "lt"]),
                kind=b.r.choice(kinds), **lists)


# --- matrices -----------------------------------------------------------------------------------------------------


def _cholesky(b: Scope, kind: Shaped, depth: int) -> str | None:
    if not _float(kind) or not fixed(kind.shape) or len(kind.shape) < 2 or kind.shape[-1] != kind.shape[-2]:
        return None
    return b.op(kind, "cholesky", make(b, kind, depth), lower=b.r.randint(0, 1))


def _solve(b: Scope, kind: Shaped, depth: int) -> str | None:
    if not _float(kind) or not fixed(kind.shape) or len(kind.shape) < 2:
        return None
    left = b.r.randint(0, 1)
    n = kind.shape[-2 if left else -1]
    x = Shaped((*kind.shape[:-2], n, n), kind.dtype)
    if b.size(x.shape) > MOST_ELEMENTS:
        return None
    return b.op(kind, "triangular_solve", make(b, x, depth), make(b, kind, depth - 1), left_side=left,
                lower=b.r.randint(0, 1), unit_diagonal=b.r.randint(0, 1),
                transpose_a=b.r.choice(["no_transpose", "transpose", "adjoint"]))


def _batch_norm(b: Scope, kind: Shaped, depth: int) -> str | None:
    if not _float(kind) or not kind.shape or not fixed(kind.shape):
        return None
    which = b.r.choice(["inference", "training", "grad"])
    vector = which != "inference" and len(kind.shape) == 1 and b.chance(0.5)
    axis = b.r.randrange(len(kind.shape))
    shape = (2, kind.shape[0]) if vector else kind.shape
    axis = 1 if vector else axis
    x, features = Shaped(shape, kind.dtype), Shaped((shape[axis],), kind.dtype)
    count = {"inference": 4, "training": 2, "grad": 3}[which]
    operands = [make(b, x, depth), *(make(b, features, depth - 1) for _ in range(count))]
    operands += [make(b, x, depth - 1)] if which == "grad" else []
    more = {"result": b.r.randint(1, 2) if vector else 0} if which != "inference" else {}
    return b.op(kind, f"batch_norm_{which}", *operands, epsilon=b.r.choice(["0.5", "1e-3"]), feature_index=axis, **more)


def _fft(b: Scope, kind: Shaped, depth: int) -> str | None:
    if kind.dtype != "f32" or not kind.shape or not fixed(kind.shape):
        return None
    length = kind.shape[len(kind.shape) - b.r.randint(1, min(2, len(kind.shape))):]
    if b.chance(0.4):
        half = Shaped((*kind.shape[:-1], int(kind.shape[-1]) // 2 + 1), "c64")
        return b.op(kind, "fft", make(b, half, depth), fft_type="irfft", fft_length=length)
    whole, how = Shaped(kind.shape, "c64"), b.r.choice(["fft", "ifft"])
    made = b.op(whole, "fft", make(b, whole, depth), fft_type=how, fft_length=length)
    return b.op(kind, b.r.choice(["real", "imag"]), made)


def _ragged_dot(b: Scope, kind: Shaped, depth: int) -> str | None:
    if element_type(kind.dtype).kind not in ("int", "uint", "float") or len(kind.shape) != 2 or not fixed(kind.shape):
        return None
    (m, n), k, g = kind.shape, b.r.randint(1, 3), b.r.randint(1, 3)
    if b.size((g, k, n)) > MOST_ELEMENTS:
        return None
    operands = [make(b, Shaped(s, kind.dtype), depth - i) for i, s in enumerate(((m, k), (g, k, n)))]
    return b.op(kind, "ragged_dot", *operands, make(b, Shaped((g,), b.isa.dtype(b.r, "int", "uint")), 0))


def _scaled_dot(b: Scope, kind: Shaped, depth: int) -> str | None:
    if not _float(kind) or len(kind.shape) != 2 or not fixed(kind.shape):
        return None
    (m, n), blocks = kind.shape, b.r.randint(1, 2)
    k = blocks * b.r.randint(1, 2)
    types = [kind.dtype, kind.dtype, "f8e8m0fnu", b.r.choice(["f8e8m0fnu", kind.dtype])]
    shapes: list[tuple[Dim, ...]] = [(m, k), (n, k), (m, blocks), (1, blocks)]
    operands = [make(b, Shaped(s, t), depth - i) for i, (s, t) in enumerate(zip(shapes, types, strict=True))]
    return b.op(kind, "scaled_dot", *operands, lhs_contracting=[1], rhs_contracting=[1])


# --- replicas -----------------------------------------------------------------------------------------------------


def _collective(b: Scope, kind: Shaped, depth: int) -> str | None:
    if len(kind.shape) < 2 or not fixed(kind.shape):
        return None
    r, rank, kinds = b.r, len(kind.shape), kinds_of(kind.dtype)
    axis = r.randrange(rank)
    inner = [i for i in range(rank) if i != axis]
    dim, other = r.choice(inner), r.choice(inner)
    count = int(kind.shape[axis])
    size = _split(b, count)
    more: dict[str, object] = {"replicas": axis, "replica_groups": r.sample(range(count), count), "group_size": size}
    shape = [int(n) for n in kind.shape]
    choices = ["collective_broadcast", "collective_permute", *(["all_reduce"] if kinds else [])]
    choices += ["all_gather", "all_to_all"] if shape[dim] % size == 0 else []
    choices += ["reduce_scatter"] if kinds and math.prod(shape) * size <= MOST_ELEMENTS else []
    which = r.choice(choices)
    if which == "collective_permute":
        pairs = list(zip(r.sample(range(count), count), r.sample(range(count), count), strict=True))
        more = {"replicas": axis, "source_target_pairs": [i for p in pairs[:r.randint(1, count)] for i in p]}
    if which in ("all_gather", "reduce_scatter"):
        more["dim"] = dim
        shape[dim] = shape[dim] // size if which == "all_gather" else shape[dim] * size
    if which == "all_to_all":
        more |= {"split_dimension": other, "concat_dimension": dim}
        shape[dim] //= size
        shape[other] *= size
    if which in ("all_reduce", "reduce_scatter"):
        more["kind"] = r.choice(kinds)
    return b.op(kind, which, make(b, Shaped(tuple(shape), kind.dtype), depth), **more)


PRODUCERS: dict[Producer, float] = {
    _of_complex: 1, _stochastic: 0.6, _copy: 0.3, _bitcast: 0.4, _extent: 0.2, _map: 0.4, _scan: 0.4, _top_k: 0.5,
    _select_and_scatter: 0.5, _cholesky: 0.5, _solve: 0.4, _batch_norm: 0.5, _fft: 0.4, _ragged_dot: 0.4,
    _scaled_dot: 0.4, _collective: 1.5,
}
"""The producers and how often they are tried."""
