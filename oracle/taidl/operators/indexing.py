"""Operators whose places are data: dynamic slices, gather, scatter and sort.

Indices are integers of any type. As in XLA, a slice that would leave its tensor is moved back into it
(``dynamic_slice``, ``dynamic_update_slice``, ``gather``), and an update that would is left out (``scatter``).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from archloom.oracle.late_jax import jnp, lax
from archloom.oracle.resolved import Dim, Shaped, TensorType
from archloom.oracle.taidl.operators import base, carriers, numbers
from archloom.oracle.taidl.operators.base import Attribute, Attributes, Opcode, Values, flag, integer, integers, ints
from archloom.oracle.taidl.operators.elementwise import largest, smallest
from archloom.oracle.taidl.operators.reduction import kind_fault
from archloom.oracle.taidl.types import element_type, limits


def _index_fault(x: Shaped) -> str | None:
    return None if base.is_kind(x.dtype, "int", "uint") else f"{{}} takes integers as indices, found {x}"


def _bounded(xp: Any, index: Any, bound: int) -> Any:
    """Indices as i32, moved into 0 .. bound."""
    dtype = index.dtype
    if dtype.itemsize < 4:
        return xp.clip(index.astype(np.int32), np.int32(0), np.int32(bound))
    return xp.clip(index, dtype.type(0), dtype.type(bound)).astype(np.int32)


def _in_reach(index: Any, bound: int, dtype: str) -> Any:
    """Whether indices lie in 0 .. bound."""
    top = limits(dtype)[1]
    return (index >= index.dtype.type(0)) & (index <= index.dtype.type(min(bound, top)))


# --- slices -------------------------------------------------------------------------------------------------------


def _starts_fault(x: Shaped, starts: Sequence[Shaped]) -> str | None:
    if len(starts) != len(x.shape):
        return f"{{}} of {x} takes {len(x.shape)} indices, {len(starts)} given"
    for i in starts:
        if i.shape or _index_fault(i):
            return f"an index of {{}} is a scalar integer, found {i}"
    return None


def _dynamic_slice_rule(result: Shaped, operands: Sequence[Shaped], a: Attributes) -> str | None:
    x, size = operands[0], integers(a, "size")
    fault = _starts_fault(x, operands[1:])
    if fault or len(size) != len(x.shape):
        return fault or f"size needs one entry for each axis of {x}"
    for extent, n in zip(x.shape, size, strict=True):
        if isinstance(n, int) and (n < 1 or (isinstance(extent, int) and n > extent)):
            return f"a slice of {base.show(size)} does not fit into {x}"
    return base.wrong(result, size, x.dtype)


def _update_rule(result: Shaped, operands: Sequence[Shaped], a: Attributes) -> str | None:
    if len(operands) < 2:
        return "{} takes a tensor, an update and the indices"
    x, update = operands[:2]
    fault = _starts_fault(x, operands[2:])
    if fault:
        return fault
    fits = len(update.shape) == len(x.shape) and update.dtype == x.dtype and all(
        not (isinstance(n, int) and isinstance(extent, int)) or n <= extent
        for n, extent in zip(update.shape, x.shape, strict=True))
    return base.wrong(result, x.shape, x.dtype) if fits else f"an update of {update} does not fit into {x}"


def _box(xp: Any, shape: Sequence[int], starts: Sequence[Any], size: Sequence[int]) -> list[Any]:
    return [_bounded(xp, i, n - k) for i, n, k in zip(starts, shape, size, strict=True)]


def _dynamic_slice(result: TensorType, x: Sequence[Any], a: Values, types: Sequence[str]) -> Any:
    starts = _box(np, x[0].shape, [*map(numbers.value, map(np.asarray, x[1:]), types[1:])], a["size"])
    return x[0][tuple(slice(int(i), int(i) + n) for i, n in zip(starts, a["size"], strict=True))].copy()


def _dynamic_update(result: TensorType, x: Sequence[Any], a: Values, types: Sequence[str]) -> Any:
    starts = _box(np, x[0].shape, [*map(numbers.value, map(np.asarray, x[2:]), types[2:])], x[1].shape)
    made = np.array(x[0])  # NumPy makes numbers of results without axes, which take no items
    made[tuple(slice(int(i), int(i) + n) for i, n in zip(starts, x[1].shape, strict=True))] = x[1]
    return made


def _dynamic_update_lowering(result: TensorType, x: Sequence[Any], a: Values, types: Sequence[str]) -> Any:
    """Of each element the old one or the update's.

    XLA has an operation for that, but where the update reads what the tensor is a reshape of, it fuses the two and
    overwrites in place what it is still to read.
    """
    tensor, update = x[:2]
    if not tensor.ndim:
        return update
    room = [n - k for n, k in zip(tensor.shape, update.shape, strict=True)]
    starts = _box(jnp, tensor.shape, x[2:], update.shape)
    wide = lax.pad(update, np.zeros((), update.dtype), [(n, n, 0) for n in room])
    moved = lax.dynamic_slice(wide, [np.int32(n) - s for n, s in zip(room, starts, strict=True)], tensor.shape)
    inside: Any = True
    for axis, (start, count) in enumerate(zip(starts, update.shape, strict=True)):
        if room[axis]:
            place = lax.broadcasted_iota(np.int32, tensor.shape, axis) - start
            inside = inside & (place >= 0) & (place < count)
    return jnp.where(inside, moved, tensor)


# --- gather -------------------------------------------------------------------------------------------------------


def _vectors(indices: Shaped, axis: Any, mapped: Sequence[Dim]) -> tuple[list[Dim], str | None]:
    """The shape of the indices without their vectors, and what is wrong with these."""
    rank = len(indices.shape)
    if not isinstance(axis, int) or not 0 <= axis <= rank:
        return [], f"index_vector_dim must be in 0..{rank}, found {axis}"
    extent: Dim = indices.shape[axis] if axis < rank else 1
    if isinstance(extent, int) and extent != len(mapped):
        return [], f"an index of {indices} has {extent} entries, but {len(mapped)} axes are indexed"
    return [d for i, d in enumerate(indices.shape) if i != axis], None


def _gather_rule(result: Shaped, operands: Sequence[Shaped], a: Attributes) -> str | None:
    x, indices = operands
    offsets, collapsed = integers(a, "offset_dims"), integers(a, "collapsed_slice_dims")
    mapped, sizes = integers(a, "start_index_map"), integers(a, "slice_sizes")
    batch, fault = _vectors(indices, a["index_vector_dim"], mapped)
    rank = len(x.shape)
    fault = fault or _index_fault(indices) or base.axes_fault(mapped, rank) or base.axes_fault(collapsed, rank)
    fault = fault or base.axes_fault(offsets, len(offsets) + len(batch))
    if fault:
        return fault
    if len(sizes) != rank or len(offsets) + len(collapsed) != rank:
        return (f"slice_sizes needs an entry for each axis of {x}, and each axis is in collapsed_slice_dims or has an "
                f"entry in offset_dims")
    for i, (n, extent) in enumerate(zip(sizes, x.shape, strict=True)):
        most = 1 if i in collapsed else extent
        if isinstance(n, int) and (n < 1 or (isinstance(most, int) and n > most)):
            return f"a slice of {base.show(sizes)} does not fit into {x}"
    kept = [n for i, n in enumerate(sizes) if i not in collapsed]
    if list(offsets) != sorted(offsets, key=int):
        return f"offset_dims={base.show(offsets)} must ascend"
    return base.wrong(result, _interleaved(batch, kept, offsets), x.dtype)


def _interleaved(batch: Sequence[Any], window: Sequence[Any], at: Sequence[Any]) -> list[Any]:
    """One list of both, the entries of ``window`` at the places ``at``."""
    inner, outer = iter(window), iter(batch)
    return [next(inner) if i in at else next(outer) for i in range(len(batch) + len(window))]


def _columns(indices: Any, axis: int, count: int) -> list[Any]:
    """The entries of the index vectors, each in the shape of the batch."""
    if axis == indices.ndim:
        return [indices]
    pick = [slice(None)] * indices.ndim
    columns = []
    for k in range(count):
        pick[axis] = k  # type: ignore[call-overload]
        columns.append(indices[tuple(pick)])
    return columns


def _gather(lib: Any, result: TensorType, operands: Sequence[Any], a: Values, types: Sequence[str]) -> Any:
    x, indices = lib.xp.asarray(operands[0]), lib.value(operands[1], types[1])
    shape = result.shape
    rank, offsets, mapped = x.ndim, a["offset_dims"], a["start_index_map"]
    columns = dict(zip(mapped, _columns(indices, a["index_vector_dim"], len(mapped)), strict=True))
    kept = [i for i in range(rank) if i not in a["collapsed_slice_dims"]]
    place = []
    for axis in range(rank):
        position: Any = np.zeros((1,) * len(shape), np.int32)
        if axis in kept:
            line = [1] * len(shape)
            line[offsets[kept.index(axis)]] = a["slice_sizes"][axis]
            position = np.arange(a["slice_sizes"][axis], dtype=np.int32).reshape(line)
        if axis in columns:
            start = _bounded(lib.xp, columns[axis], x.shape[axis] - a["slice_sizes"][axis])
            position = position + start.reshape(_interleaved(start.shape, [1] * len(offsets), offsets))
        place.append(position)
    return lib.xp.broadcast_to(x[tuple(place)] if rank else x, shape)


# --- scatter ------------------------------------------------------------------------------------------------------

_UPDATES = ("update", "add", "max", "min", "multiply", "and", "or", "xor")


def _scatter_rule(result: Shaped, operands: Sequence[Shaped], a: Attributes) -> str | None:
    x, indices, updates = operands
    window, inserted = integers(a, "update_window_dims"), integers(a, "inserted_window_dims")
    mapped = integers(a, "scatter_dims_to_operand_dims")
    batch, fault = _vectors(indices, a["index_vector_dim"], mapped)
    rank = len(x.shape)
    fault = fault or _index_fault(indices) or base.axes_fault(mapped, rank) or base.axes_fault(inserted, rank)
    fault = fault or base.axes_fault(window, len(updates.shape))
    if fault:
        return fault
    if a["kind"] != "update" and kind_fault(a["kind"], x.dtype):
        return kind_fault(a["kind"], x.dtype)
    if len(window) + len(inserted) != rank or updates.dtype != x.dtype or list(window) != sorted(window, key=int):
        return (f"each axis of {x} is in inserted_window_dims or has an entry in update_window_dims (which ascend), "
                f"and the updates are of its type, found {updates}")
    if base.shapes_differ([d for i, d in enumerate(updates.shape) if i not in window], batch):
        return (f"the updates {updates} without the axes {base.show(window)} do not have the shape {base.show(batch)} "
                "of indices")
    sizes = _window_sizes(updates.shape, a, rank)
    if any(isinstance(n, int) and isinstance(d, int) and n > d for n, d in zip(sizes, x.shape, strict=True)):
        return f"an update of {base.show(sizes)} does not fit into {x}"
    return base.wrong(result, x.shape, x.dtype)


def _window_sizes(updates: Sequence[Any], a: Attributes, rank: int) -> list[Any]:
    window = iter(integers(a, "update_window_dims"))
    return [1 if i in integers(a, "inserted_window_dims") else updates[int(next(window))] for i in range(rank)]


def _pieces(x: Any, indices: Any, updates: Any, a: Values) -> tuple[list[Any], Any, list[int]]:
    """Start indices by axis, flat; the updates, one for each index, in the rank of the tensor; their size."""
    mapped, window = a["scatter_dims_to_operand_dims"], a["update_window_dims"]
    columns = dict(zip(mapped, _columns(indices, a["index_vector_dim"], len(mapped)), strict=True))
    sizes = _window_sizes(updates.shape, a, x.ndim)
    order = [i for i in range(updates.ndim) if i not in window]
    count = math.prod(updates.shape[i] for i in order)
    flat = updates.transpose([*order, *window]).reshape(count, *sizes)
    return [columns[i].reshape(-1) if i in columns else None for i in range(x.ndim)], flat, sizes


def _meeting(kind: str) -> Any:
    """How an update meets what was there, in numbers of NumPy."""
    def by_kind(integers_: Any, floats: Any) -> Any:
        return lambda old, new: (floats if old.dtype.kind == "f" else integers_)(old, new)

    return {"update": lambda old, new: new, "max": largest, "min": smallest, "and": np.bitwise_and,
            "or": np.bitwise_or, "xor": np.bitwise_xor, "add": by_kind(np.add, numbers.add),
            "multiply": by_kind(np.multiply, numbers.multiply)}[kind]


def _scatter(result: TensorType, x: Sequence[Any], a: Values, types: Sequence[str]) -> Any:
    starts, updates, sizes = _pieces(x[0], numbers.value(x[1], types[1]), x[2], a)
    meet, made = meeting(numbers, a["kind"], result.dtype), x[0].copy()
    inside = np.ones(len(updates), bool)
    for start, n, extent in zip(starts, sizes, result.shape, strict=True):
        if start is not None:
            inside &= _in_reach(start, extent - n, types[1])
    for i in np.flatnonzero(inside):
        firsts = [0 if start is None else int(start[i]) for start in starts]
        box = tuple(slice(f, f + n) for f, n in zip(firsts, sizes, strict=True))
        made[box] = meet(made[box], updates[i])
    return made


def meeting(lib: Any, kind: str, dtype: str) -> Any:
    """How an element meets what was there, as a function of two elements."""
    if lib is carriers:
        return _jax_meeting(kind, dtype)
    meet = _meeting(kind)
    return lambda old, new: new if kind == "update" else numbers.element(
        meet(numbers.value(old, dtype), numbers.value(new, dtype)), dtype)


def _jax_meeting(kind: str, dtype: str) -> Any:
    if kind == "update":
        return lambda old, new: new
    floats = element_type(dtype).kind == "float"
    f = {"max": jnp.maximum, "min": jnp.minimum, "and": lax.bitwise_and, "or": lax.bitwise_or,
         "xor": lax.bitwise_xor, "add": carriers.add if floats else jnp.add,
         "multiply": carriers.multiply if floats else jnp.multiply}[kind]

    def meet(old: Any, new: Any) -> Any:
        return carriers.element(f(*(carriers.flush(carriers.value(v, dtype)) for v in (old, new))), dtype)

    return meet


def _scatter_lowering(result: TensorType, x: Sequence[Any], a: Values, types: Sequence[str]) -> Any:
    target = jnp.asarray(x[0])
    if not target.ndim:
        target = target.reshape(())
    starts, updates, sizes = _pieces(target, jnp.asarray(x[1]), jnp.asarray(x[2]), a)
    meet = _jax_meeting(a["kind"], result.dtype)
    inside: Any = np.ones(updates.shape[0], bool)
    firsts = []
    for start, n, extent in zip(starts, sizes, target.shape, strict=True):
        if start is None:
            firsts.append(np.zeros(updates.shape[0], np.int32))
        else:
            inside = inside & _in_reach(start, extent - n, types[1])
            firsts.append(_bounded(jnp, start, extent - n))
    table = jnp.stack([jnp.asarray(f) for f in firsts], 1) if firsts else jnp.zeros((updates.shape[0], 0), jnp.int32)
    flags = jnp.asarray(inside)

    def body(i: Any, tensor: Any) -> Any:
        place = [table[i, axis] for axis in range(tensor.ndim)]
        old = lax.dynamic_slice(tensor, place, sizes)
        return lax.dynamic_update_slice(tensor, jnp.where(flags[i], meet(old, updates[i]), old), place)

    return lax.fori_loop(0, updates.shape[0], body, target)


# --- sort ---------------------------------------------------------------------------------------------------------


def _sort_rule(result: Shaped, operands: Sequence[Shaped], a: Attributes) -> str | None:
    first, keys = operands[0], a["keys"]
    fault = base.axis_fault(a["dim"], len(first.shape))
    if fault:
        return fault
    for x in operands:
        if base.shapes_differ(x.shape, first.shape):
            return f"{{}} needs operands of one shape, found {' and '.join(map(str, operands))}"
    if isinstance(keys, int) and not 1 <= keys <= len(operands):
        return f"keys must be in 1..{len(operands)}, found {keys}"
    return base.flags_fault(a, "descending") or base.chosen(result, operands, a)


def ranks(lib: Any, v: Any, descending: bool) -> Any:
    """Numbers as integers of the same order: zeros are equal, NaN is above all."""
    if v.dtype.kind == "b":
        v = v.astype(np.uint8)
    if v.dtype.kind == "f":
        signed = np.dtype(f"int{8 * v.dtype.itemsize}")
        raw = lib.bits(lib.xp.where(v == 0, v.dtype.type(0), v), signed)
        most = signed.type(np.iinfo(signed).max)
        v = lib.xp.where(v != v, most, lib.xp.where(raw < 0, raw ^ most, raw))
    return ~v if descending else v


def _sort(lib: Any, result: TensorType, x: Sequence[Any], a: Values, types: Sequence[str]) -> Any:
    keys = [ranks(lib, lib.flush(lib.value(v, t)), bool(a["descending"])) for v, t in zip(x[:a["keys"]], types)]
    order = lib.xp.lexsort(keys[::-1], axis=a["dim"])
    return lib.xp.take_along_axis(x[a["result"]], order, a["dim"])


ROWS: list[Opcode] = [
    Opcode("dynamic_slice", None, _dynamic_slice_rule, _dynamic_slice,
           lambda result, x, a, types: lax.dynamic_slice(x[0], _box(jnp, x[0].shape, x[1:], a["size"]), a["size"]),
           "opaque", "a tensor, then a scalar index for each axis; moved back where it would leave the tensor",
           (ints("size", None, "dynamic_slice_sizes", "slice_sizes"),)),
    Opcode("dynamic_update_slice", None, _update_rule, _dynamic_update, _dynamic_update_lowering, "opaque",
           "a tensor, an update, then a scalar index for each axis; moved back where it would leave the tensor",
           least=2),
    Opcode("gather", 2, _gather_rule, *base.in_both(_gather), "opaque",
           "a tensor and indices, as XLA's; a slice is moved back where it would leave the tensor",
           (ints("offset_dims"), ints("collapsed_slice_dims"), ints("start_index_map"), ints("slice_sizes"),
            integer("index_vector_dim"))),
    Opcode("scatter", 3, _scatter_rule, _scatter, _scatter_lowering, "opaque",
           "a tensor, indices and updates, as XLA's; updates are made one after the other, in the row-major order of "
           "their indices; one that would leave the tensor is left out",
           (ints("update_window_dims"), ints("inserted_window_dims"), ints("scatter_dims_to_operand_dims"),
            integer("index_vector_dim"), Attribute("kind", "word", _UPDATES, default="update"))),
    Opcode("sort", None, _sort_rule, *base.in_both(_sort), "opaque",
           "operand number `result` (0) along `dim`, by the first `keys` (1) operands; stable; NaN is above all; "
           "`descending` is 0 or 1 (0)",
           (integer("dim", None, "dimension"), integer("keys", 1), flag("descending", 0), integer("result", 0))),
]
