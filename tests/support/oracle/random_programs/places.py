"""Producers of operators whose places are data: slices that move, gather, scatter, and sort."""

from __future__ import annotations

import math

from archloom.oracle.resolved import Dim, Shaped
from archloom.oracle.taidl.types import element_type, limits
from tests.support.oracle.random_programs.making import kinds_of, make
from tests.support.oracle.random_programs.scope import MOST_ELEMENTS, Scope, fixed


def _index(b: Scope, depth: int, shape: tuple[int, ...] = ()) -> str:
    return make(b, Shaped(shape, b.isa.dtype(b.r, "int", "uint")), depth)


def _indices(b: Scope, depth: int, shape: tuple[int, ...], most: int) -> str:
    """Indices that lie in the tensor most often."""
    kind = Shaped(shape, b.isa.dtype(b.r, "int", "uint"))
    name = make(b, kind, depth)
    if b.chance(0.7) and limits(kind.dtype)[1] >= most:
        return b.op(kind, "remainder", name, b.value(kind, str(most)))
    return name


def _larger(b: Scope, shape: tuple[Dim, ...]) -> tuple[int, ...]:
    return tuple(int(n) + b.r.choice([0, 0, 1, 2]) for n in shape)


def dynamic_slice(b: Scope, kind: Shaped, depth: int) -> str | None:
    if not fixed(kind.shape) or len(kind.shape) > 3:
        return None
    shape = _larger(b, kind.shape)
    x = make(b, Shaped(shape, kind.dtype), depth)
    starts = [_indices(b, 0, (), n) for n in shape]
    return b.op(kind, "dynamic_slice", x, *starts, size=kind.shape)


def dynamic_update(b: Scope, kind: Shaped, depth: int) -> str | None:
    if not fixed(kind.shape) or len(kind.shape) > 3:
        return None
    shape = tuple(b.r.randint(1, int(n)) for n in kind.shape)
    update = make(b, Shaped(shape, kind.dtype), depth - 1)
    starts = [_indices(b, 0, (), int(n)) for n in kind.shape]
    return b.op(kind, "dynamic_update_slice", make(b, kind, depth), update, *starts)


def gather(b: Scope, kind: Shaped, depth: int) -> str | None:
    r, rank = b.r, len(kind.shape)
    if not fixed(kind.shape) or rank > 3:
        return None
    offsets = sorted(r.sample(range(rank), r.randint(0, rank)))
    batch = [int(n) for i, n in enumerate(kind.shape) if i not in offsets]
    window = [int(kind.shape[i]) for i in offsets]
    collapsed = r.choice([0, 1, 1, 2]) if len(window) < 3 else 0
    sizes: list[int] = list(window)
    gone: list[int] = []
    for _ in range(collapsed):
        at = r.randint(0, len(sizes))
        gone = [g + (g >= at) for g in gone] + [at]
        sizes.insert(at, 1)
    shape = tuple(n + r.choice([0, 1, 2]) for n in sizes)
    mapped = r.sample(range(len(sizes)), r.randint(0, len(sizes)))
    axis = r.randint(0, len(batch))
    indices = [*batch[:axis], len(mapped), *batch[axis:]]
    if len(mapped) == 1 and b.chance(0.5):
        axis, indices = len(batch), list(batch)
    if not mapped or math.prod(shape) > MOST_ELEMENTS or math.prod(indices) > MOST_ELEMENTS:
        return None
    x = make(b, Shaped(shape, kind.dtype), depth)
    return b.op(kind, "gather", x, _indices(b, depth - 1, tuple(indices), 3), offset_dims=offsets,
                collapsed_slice_dims=sorted(gone), start_index_map=mapped, slice_sizes=sizes, index_vector_dim=axis)


def scatter(b: Scope, kind: Shaped, depth: int) -> str | None:
    r, rank = b.r, len(kind.shape)
    if not fixed(kind.shape) or not 1 <= rank <= 3:
        return None
    inserted = sorted(r.sample(range(rank), r.randint(0, rank)))
    batch = [r.randint(1, 4) for _ in range(r.choice([0, 1, 1, 2]))]
    sizes = [r.randint(1, int(n)) for i, n in enumerate(kind.shape) if i not in inserted]
    where = sorted(r.sample(range(len(sizes) + len(batch)), len(sizes)))
    inner, outer = iter(sizes), iter(batch)
    updates = tuple(next(inner) if i in where else next(outer) for i in range(len(sizes) + len(batch)))
    mapped = r.sample(range(rank), r.randint(1, rank))
    axis = r.randint(0, len(batch))
    indices = [*batch[:axis], len(mapped), *batch[axis:]]
    if len(mapped) == 1 and b.chance(0.5):
        axis, indices = len(batch), list(batch)
    if math.prod(updates) > MOST_ELEMENTS:
        return None
    how = r.choice(["update", "update", *kinds_of(kind.dtype)])
    more = {"kind": how} if how != "update" or b.chance(0.5) else {}
    x = make(b, kind, depth)
    at = _indices(b, depth - 1, tuple(indices), max(map(int, kind.shape)))
    return b.op(kind, "scatter", x, at, make(b, Shaped(updates, kind.dtype), depth - 1), update_window_dims=where,
                inserted_window_dims=inserted, scatter_dims_to_operand_dims=mapped, index_vector_dim=axis, **more)


def sort(b: Scope, kind: Shaped, depth: int) -> str | None:
    if not kind.shape or element_type(kind.dtype).kind in ("quant", "scale", "complex"):
        return None
    count = b.r.choice([1, 1, 2, 3])
    which = b.r.randrange(count)
    types = [kind.dtype if i == which else b.isa.dtype(b.r, "int", "uint", "float", "bool") for i in range(count)]
    operands = [make(b, Shaped(kind.shape, t), depth - (i > 0)) for i, t in enumerate(types)]
    return b.op(kind, "sort", *operands, dim=b.r.randrange(len(kind.shape)), keys=b.r.randint(1, count),
                descending=b.r.randint(0, 1), result=which)
