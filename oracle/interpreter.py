"""The reference interpreter: executes a stream's flat trace in NumPy, straight from the TAIDL statements.

It is the definition of right that every fast path is tested against. Each instruction instance runs its statements in
order, with every assertion, every type and the bounds of every access checked; an instance whose attributes and
registers equal those of an earlier one repeats what that one did (:mod:`archloom.oracle.taidl.replay`).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from archloom.oracle.errors import InputError, StreamError, suggest
from archloom.oracle.memory import paused
from archloom.oracle.stream import HbmTensor, Instr, Node, Parallel, Stream, check_array
from archloom.oracle.taidl import types
from archloom.oracle.taidl.isa import HBM, Isa
from archloom.oracle.taidl.machine import Machine
from archloom.oracle.taidl.types import Array, byte_count, named_dtype
from archloom.oracle.validate import check_isa

Heard: TypeAlias = Callable[[int], None]
HEARD_EACH = 4096
"""Instructions between two reports."""


@dataclass(frozen=True)
class State:
    """What a run leaves: tensor buffers (rows first, as :class:`oracle.resolved.Buffer`), HBM as int8, registers."""

    buffers: Mapping[str, Array]
    hbm: Array
    registers: Mapping[str, int]

    def read(self, tensor: HbmTensor) -> Array:
        """A copy of a tensor in HBM, with its shape and dtype."""
        raw = self.hbm[tensor.address:tensor.address + byte_count(tensor.shape, tensor.dtype)]
        return types.from_bytes(raw, tensor.shape, named_dtype(tensor.dtype))


def run(
    stream: Stream, isa: Isa, arguments: Mapping[str, np.ndarray], *, poison: int | None = None,
    heard: Heard | None = None, each: int = HEARD_EACH,
) -> dict[str, np.ndarray]:
    """The stream's results, by name, for the arguments given.

    ``arguments`` has one array for each of ``stream.arguments``, of its shape and dtype. HBM and the buffers start as
    zeros; with ``poison`` as random bytes of that seed, to find reads of what was never written. After ``each`` so many
    instructions ``heard`` is told how many have run, of ``stream.count()``. Raises InputError for wrong arguments,
    StreamError for an instruction that breaks an assertion or leaves its memory.
    """
    state = run_state(stream, isa, arguments, poison=poison, heard=heard, each=each)
    return {r.name: state.read(r) for r in stream.results}


def run_state(
    stream: Stream, isa: Isa, arguments: Mapping[str, np.ndarray], *, poison: int | None = None,
    heard: Heard | None = None, each: int = HEARD_EACH,
) -> State:
    """As :func:`run`, but all the state at the end."""
    hbm, machine = start(stream, isa, arguments, poison=poison)
    # infinities and NaN are values of the language, not accidents
    with np.errstate(all="ignore"), paused():
        numbers = itertools.count()
        told = None if heard is None else _Counter(heard, each)
        for step in [_prepare(node, machine, numbers, told) for node in stream.body]:
            step({})
    return State({n: a for n, a in machine.buffers.items() if n != HBM}, hbm, machine.registers())


def start(
    stream: Stream, isa: Isa, arguments: Mapping[str, np.ndarray], *, poison: int | None = None
) -> tuple[Array, Machine]:
    """HBM with the arguments in place, and a machine at reset upon it."""
    check_isa(stream, isa)
    random = None if poison is None else np.random.default_rng(poison)
    hbm = _fresh((stream.hbm_bytes,), "i8", random)
    for tensor, value in _paired(stream, arguments):
        raw = types.to_bytes(value)
        hbm[tensor.address:tensor.address + raw.size] = raw
    for tensor in stream.results:
        _check_place(stream, tensor, "result")
    buffers = {b.name: _fresh(b.shape, b.dtype, random) for b in isa.buffers}
    return hbm, Machine(isa, {**buffers, HBM: hbm})


def _fresh(shape: tuple[int, ...], dtype: str, random: np.random.Generator | None) -> Array:
    held = types.numpy_dtype(dtype)
    if random is None:
        return np.zeros(shape, held)
    if held.itemsize == 1:
        codes = random.integers(0, 1 << types.element_type(dtype).bits, shape)
        return types.as_codes(codes.astype(np.uint8), held)
    size = int(np.prod(shape, dtype=np.int64)) * held.itemsize
    return np.frombuffer(random.bytes(size), np.int8).copy().view(held).reshape(shape)


def _paired(stream: Stream, arguments: Mapping[str, np.ndarray]) -> Iterator[tuple[HbmTensor, np.ndarray]]:
    names = [t.name for t in stream.arguments]
    for name in arguments:
        if name not in names:
            raise InputError(f"stream {stream.name} has no argument {name!r}{suggest(name, names)}")
    for tensor in stream.arguments:
        if tensor.name not in arguments:
            raise InputError(f"argument {tensor.name} of stream {stream.name} is missing")
        value = np.asarray(arguments[tensor.name])
        check_array(f"stream {stream.name}", tensor, value)
        _check_place(stream, tensor, "argument")
        yield tensor, value


def _check_place(stream: Stream, tensor: HbmTensor, what: str) -> None:
    end = tensor.address + byte_count(tensor.shape, tensor.dtype)
    if tensor.address < 0 or end > stream.hbm_bytes:
        raise StreamError(
            f"{what} {tensor.name} of stream {stream.name} lies at {tensor.address}..{end}, outside of its "
            f"{stream.hbm_bytes} bytes of HBM"
        )


# --- the trace ----------------------------------------------------------------------------------------------------

_Step = Callable[[dict[str, int]], None]
"""Executes a node for the values of the loops around it."""


class _Counter:
    """Counts instructions that have run, for who has asked."""

    def __init__(self, heard: Heard, each: int) -> None:
        self._heard, self._each, self._count = heard, each, 0

    def after(self, step: _Step) -> _Step:
        """The same, counted."""
        def run(loops: dict[str, int]) -> None:
            step(loops)
            self._count += 1
            if self._count % self._each == 0:
                self._heard(self._count)

        return run


def _prepare(node: Node, machine: Machine, numbers: Iterator[int], told: _Counter | None) -> _Step:
    if isinstance(node, Parallel):
        raise StreamError(f"the interpreter runs one core: parallel {node.var} over {node.dim} is not for it")
    if isinstance(node, Instr):
        step = _instance(node, machine, next(numbers))
        return step if told is None else told.after(step)
    body = [_prepare(n, machine, numbers, told) for n in node.body]

    def nest(loops: dict[str, int]) -> None:
        outer = loops.get(node.var)
        for i in node.values:
            loops[node.var] = i
            for each in body:
                each(loops)
        if outer is None:
            loops.pop(node.var, None)
        else:
            loops[node.var] = outer

    return nest


def _instance(node: Instr, machine: Machine, number: int) -> _Step:
    unit = machine.unit(node.mnemonic, tuple(name for name, _ in node.attributes))
    attributes = [value for _, value in node.attributes]

    def step(loops: dict[str, int]) -> None:
        try:
            unit.run(tuple([value.evaluate(loops) for value in attributes]), loops)
        except StreamError as error:
            error.instruction = number
            raise

    return step
