"""Streams as loops over buffers: right for every stream, and the definition of what raising must equal.

Loops become ``fori_loop`` that carry only the buffers written inside; windows become slices, or gathers and scatters
where several dims walk one axis. Inside an instruction the same index notation and lowering serve as in raising, with
each read a leaf.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from archloom.oracle.affine import Affine, Mod
from archloom.oracle.late_jax import jnp, lax
from archloom.oracle.resolved import Op, Read, ResolvedStream, TensorType, Window
from archloom.oracle.stream import HbmTensor
from archloom.oracle.taidl.types import of_numpy
from archloom.oracle.xla.lowering.lower import Lowering
from archloom.oracle.xla.lowering.ops import bitcast, convert, jax_dtype
from archloom.oracle.xla.lowering.wholes import compute
from archloom.oracle.xla.notation.expr import Expr, Leaf
from archloom.oracle.xla.notation.fallbacks import How, Record
from archloom.oracle.xla.notation.limits import NoNotation, Unraisable
from archloom.oracle.xla.raising.moves import Tensor
from archloom.oracle.xla.raising.tensors import Raiser, leaf_over
from archloom.oracle.xla.raising.tree import Block, InstrItem, ReadItem, Tree, WriteItem

State = dict[str, Any]
"""The array of each buffer."""


@dataclass
class _Local(Raiser):
    """The tensors of single instructions: what is read, and constants that depend on loops, are arguments."""

    def _read(self, owner: InstrItem, number: int, s: Read) -> Tensor:
        axes, ranges = self._axes(s.type.shape)
        return axes, leaf_over(s.dst, axes, s.type, ranges)

    def _whole(
        self, owner: InstrItem, s: Op, axes: tuple[str, ...], operands: list[tuple[Tensor, TensorType]], why: str
    ) -> Expr:
        raise NoNotation(why)

    def _nullary(self, s: Op, index: tuple[Affine, ...]) -> Expr:
        value = s.attribute("value")
        varies = isinstance(value, Affine) and not value.is_constant
        return Leaf(s.dst, Affine(0), s.type.dtype) if varies else super()._nullary(s, index)


class LoopRunner:
    """Runs the whole of a stream inside a JAX trace."""

    def __init__(self, stream: ResolvedStream, record: Record) -> None:
        self.tree = Tree(stream)
        self.tensors = _Local(self.tree)
        self.record = record

    def run(self, arguments: Mapping[str, Any]) -> tuple[Any, ...]:
        """The results for arguments in their shapes and types."""
        stream = self.tree.stream
        state = self._start(arguments)
        state = self._block(self.tree.root, state, {})
        return tuple(_load(state["hbm"], tensor) for tensor in stream.results)

    def on(self, state: State, values: Mapping[str, Any]) -> State:
        """The state after the whole of the stream, for values of the variables that loops around it would have."""
        return self._block(self.tree.root, state, values)

    def _start(self, arguments: Mapping[str, Any]) -> State:
        stream = self.tree.stream
        # XLA must not see what is in them: it drops + 0.0, which makes 0.0 of -0.0
        state = {b.name: lax.optimization_barrier(jnp.zeros(b.shape, jax_dtype(b.dtype)))
                 for b in stream.buffers if b.name != "hbm"}
        hbm = jnp.zeros((stream.hbm_bytes,), jnp.int8)
        for tensor in stream.arguments:
            raw = bitcast(arguments[tensor.name], "i8").reshape(-1)
            hbm = lax.dynamic_update_slice(hbm, raw, (tensor.address,))
        return {**state, "hbm": hbm}

    def _block(self, block: Block, state: State, values: Mapping[str, Any]) -> State:
        tensors: dict[str, Any] = {}
        owner: InstrItem | None = None
        for item in block.items:
            if isinstance(item, Block):
                state, owner = self._loop(item, state, values), None
                continue
            if item.owner is not owner:
                owner, tensors = item.owner, self._constants(item.owner, values)
            if isinstance(item, ReadItem):
                window = item.read.window
                tensors[item.read.dst] = read_window(state[window.buffer], window, values)
            else:
                # computed before: XLA fuses a value with its write, and where it reads the buffer at other places
                # through a reshape, it overwrites in place what is still to be read
                value = lax.optimization_barrier(self._value(item, tensors))
                window = item.write.window
                state = {**state, window.buffer: write_window(state[window.buffer], window, value, values)}
        return state

    def _loop(self, loop: Block, state: State, values: Mapping[str, Any]) -> State:
        carried = sorted(loop.written)
        if not carried:
            return state

        def body(i: Any, arrays: tuple[Any, ...]) -> tuple[Any, ...]:
            before = {**state, **dict(zip(carried, arrays, strict=True))}
            inner = self._block(loop, before, {**values, loop.var: i})
            return tuple(inner[name] for name in carried)

        arrays = lax.fori_loop(0, loop.extent, body, tuple(state[name] for name in carried))
        return {**state, **dict(zip(carried, arrays, strict=True))}

    def _constants(self, owner: InstrItem, values: Mapping[str, Any]) -> dict[str, Any]:
        """The tensors of constants that depend on loop variables, by name."""
        made = {}
        for s in owner.instr.statements:
            value = s.attribute("value") if isinstance(s, Op) else None
            if isinstance(s, Op) and isinstance(value, Affine) and not value.is_constant:
                made[s.dst] = jnp.broadcast_to(convert(evaluate(value, values), "i32", s.type.dtype), s.type.shape)
        return made

    def _value(self, item: WriteItem, tensors: dict[str, Any]) -> Any:
        try:
            axes, e = self.tensors.tensor(item.owner, item.write.src)
        except Unraisable as reason:
            self.record.add(How.WHOLE_ARRAYS, item.owner.instr.mnemonic, str(reason), 1)
            return compute(item.owner.instr, item.write.src, tensors)
        ranges = {a: (0, n - 1) for a, n in zip(axes, item.write.type.shape, strict=True)}
        return Lowering(tensors, Record(sizes=self.record.sizes)).tensor(e, axes, ranges)


def evaluate(form: Affine, values: Mapping[str, Any]) -> Any:
    """A form over traced loop variables as an int32 scalar."""
    total = jnp.int32(_int32(form.constant))
    for atom, coefficient in form.terms:
        if isinstance(atom, str):
            part = values[atom]
        else:
            inner = evaluate(atom.numerator, values)
            part = inner % atom.divisor if isinstance(atom, Mod) else inner // atom.divisor
        total = total + part * jnp.int32(_int32(coefficient))
    return total


def _int32(x: int) -> int:
    return (x + (1 << 31)) % (1 << 32) - (1 << 31)


def _is_box(window: Window) -> bool:
    """Whether the dims walk different axes, in the order of the axes, and no element is met twice."""
    walking = [d for d in window.dims if d.extent > 1]
    axes = [d.axis for d in walking]
    return axes == sorted(set(axes)) and all(d.stride > 0 for d in walking)


def _spans(window: Window) -> list[tuple[int, int]]:
    """For each axis of the buffer the number of elements in a box window and their stride."""
    spans = [(1, 1)] * len(window.offsets)
    for d in window.dims:
        if d.extent > 1:
            spans[d.axis] = (d.extent, d.stride)
    return spans


def _indices(window: Window, offsets: list[Any]) -> tuple[Any, ...]:
    """Index arrays for each axis of the buffer over the window's shape."""
    made = []
    for axis, offset in enumerate(offsets):
        total: Any = np.zeros((1,) * len(window.dims), np.int32)
        for number, d in enumerate(window.dims):
            if d.axis == axis:
                shape = tuple(d.extent if i == number else 1 for i in range(len(window.dims)))
                total = total + (np.arange(d.extent, dtype=np.int32) * d.stride).reshape(shape)
        made.append(offset + total)
    return tuple(made)


def read_window(array: Any, window: Window, values: Mapping[str, Any]) -> Any:
    """The elements of the window, in its shape."""
    offsets = [evaluate(o, values) for o in window.offsets]
    if not _is_box(window):
        return array[_indices(window, offsets)]
    spans = _spans(window)
    box = lax.dynamic_slice(array, offsets, [(n - 1) * s + 1 for n, s in spans])
    if any(s > 1 for _, s in spans):
        box = box[tuple(slice(None, None, s) for _, s in spans)]
    return box.reshape(window.shape)


def write_window(array: Any, window: Window, value: Any, values: Mapping[str, Any]) -> Any:
    """The array with the window's elements replaced by ``value``."""
    offsets = [evaluate(o, values) for o in window.offsets]
    spans = _spans(window)
    if _is_box(window) and all(s == 1 for _, s in spans):
        return lax.dynamic_update_slice(array, value.reshape([n for n, _ in spans]), offsets)
    return array.at[_indices(window, offsets)].set(value)


def _load(hbm: Any, tensor: HbmTensor) -> Any:
    dtype = of_numpy(tensor.dtype)
    size = jax_dtype(dtype).itemsize
    count = math.prod(tensor.shape)
    raw = lax.dynamic_slice(hbm, (tensor.address,), (count * size,))
    if size == 1:
        return bitcast(raw, dtype).reshape(tensor.shape)
    return bitcast(raw.reshape(count, size), dtype).reshape(tensor.shape)
