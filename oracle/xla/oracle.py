"""The functional oracle of a stream as a JAX function."""

from __future__ import annotations

import math
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, cast

import numpy as np

from archloom.oracle import native
from archloom.oracle.errors import InputError
from archloom.oracle.late_jax import jax, jnp
from archloom.oracle.memory import paused
from archloom.oracle.nests import size
from archloom.oracle.resolve import resolve
from archloom.oracle.resolved import ResolvedStream
from archloom.oracle.stream import HbmTensor, Stream, check_arrays
from archloom.oracle.taidl.isa import Isa
from archloom.oracle.taidl.operators.integer_dot import jit_within
from archloom.oracle.taidl.types import byte_count
from archloom.oracle.xla import border
from archloom.oracle.xla.executables import Called, Executable, needed, of
from archloom.oracle.xla.loops.runner import LoopRunner
from archloom.oracle.xla.lowering.lower import Lowering
from archloom.oracle.xla.notation.fallbacks import OracleFallback, Record
from archloom.oracle.xla.notation.limits import USUAL, Limits, Unraisable
from archloom.oracle.xla.notation.substitution import shared_work
from archloom.oracle.xla.notation.traits import is_chained, is_heavy
from archloom.oracle.xla.options import compiler_options, jit
from archloom.oracle.xla.raising.rerolling import with_loops
from archloom.oracle.xla.report import OracleReport, report
from archloom.oracle.xla.strategies import Outcome, Raising, raise_stream

CACHED = 256
"""How many programs are kept in memory."""


@dataclass(eq=False)
class Program:
    """The JAX function of a stream without its bit patterns: what streams that differ in those alone share.

    ``outcome`` has what it was raised to; without, the stream runs as loops: so it does, too, where a tensor on the way
    turns out to have more elements than ``most_elements`` when the function is traced, or XLA's program to take more
    than ``most_bytes`` beside arguments and results when it is compiled.
    """

    stream: ResolvedStream
    outcome: Outcome
    reassociate: bool
    limits: Limits
    _lock: Any = field(default_factory=threading.RLock, repr=False)
    _made: dict[str, Any] = field(default_factory=dict, repr=False)
    _traced: "tuple[tuple[tuple[str, ...], ...], tuple[OracleFallback, ...]] | None" = field(default=None, repr=False)

    @cached_property
    def most_elements(self) -> int:
        """Of a tensor on the way."""
        given = sum(math.prod(t.shape) for t in self._tensors)
        return max(self.limits.elements, self.limits.elements_for_one * given)

    @cached_property
    def most_bytes(self) -> int:
        """Beside arguments and results."""
        given = sum(byte_count(t.shape, t.dtype) for t in self._tensors)
        return max(self.limits.temporary_bytes, self.limits.temporary_bytes_for_one * given)

    @property
    def _tensors(self) -> tuple[HbmTensor, ...]:
        return *self.stream.arguments, *self.stream.results

    @property
    def raising(self) -> Raising | None:
        """The results as expressions; None where the stream runs as loops."""
        return self.outcome.raising

    def function(self, *arguments: Any) -> tuple[Any, ...]:
        """The results for JAX arrays (or tracers) of the right shapes and types."""
        tensors = self.stream.arguments
        with jax.enable_x64(True) if border.needs_wide(self.stream) else nullcontext():
            named = {t.name: border.inwards(a, t) for t, a in zip(tensors, arguments, strict=True)}
            with shared_work():  # sums within sums would be rewritten again for each of those around them
                made = self._computed(named)
            return tuple(border.outwards(a, t) for t, a in zip(self.stream.results, made, strict=True))

    def _computed(self, named: Mapping[str, Any]) -> tuple[Any, ...]:
        """The results for arguments by name, in bytes where :func:`archloom.oracle.xla.border.as_bytes` says so."""
        if self.raising is not None:
            try:
                return self._raised(self.raising, named)
            except Unraisable as error:
                self.outcome = self.outcome.withdrawn(error.refusal.reason)
            except RecursionError:
                self.outcome = self.outcome.withdrawn("its operations lie too deep within one another")
        self.refuse_loops(self.stream.name)
        record = Record()
        made = LoopRunner(border.as_bytes(self.stream), record).run(named)
        self._traced = ((),) * len(made), record.fallbacks
        return made

    def _raised(self, raising: Raising, named: Mapping[str, Any]) -> tuple[Any, ...]:
        record, operations = Record(), []
        lowering = Lowering(named, record, reassociate=self.reassociate, most_elements=self.most_elements)
        results = []
        for r in raising.results:
            before = len(record.operations)
            results.append(lowering.tensor(r.value, r.axes, r.ranges))
            operations.append(tuple(record.operations[before:]))
        self._traced = tuple(operations), (*raising.fallbacks, *record.fallbacks)
        return tuple(results)

    def refuse_loops(self, name: str) -> None:
        """InputError where the stream would run as loops over more bytes than they count, or of more instructions than
        XLA compiles in a minute."""
        if self.raising is None:
            loops, why = size(self.stream.body), self.outcome.reason
        else:
            loops = sum(part.instructions for part in self.raising.left)
            why = "; ".join(f"{part.what}: {part.reason}" for part in self.raising.left[:1])
        if loops > self.limits.loop_instructions:
            raise InputError(
                f"{name} runs as loops over its buffers, because {why}; XLA takes up to a tenth of a second and a "
                f"megabyte to compile each instruction in them, of which there are {loops:,}, more than "
                f"{self.limits.loop_instructions:,}: only the interpreter runs it")
        if self.raising is None and self.stream.hbm_bytes >= 1 << 31:
            raise InputError(f"{name} runs as loops over its buffers, because {why}; that "
                             f"needs less than {1 << 31} bytes of HBM, and it has {self.stream.hbm_bytes}")

    def _once(self, name: str, make: Callable[[], Any]) -> Any:
        with self._lock:
            if name not in self._made:
                self._made[name] = make()
            return self._made[name]

    @property
    def jitted(self) -> Any:
        """``jax.jit`` of :meth:`function`, made once."""
        return self._once("jitted", lambda: jit_within(self.function))

    @property
    def portable(self) -> Any:
        """:attr:`jitted` for any machine: StableHLO without machine code of ours."""
        return self._once("portable", lambda: jax.jit(native.portable()(self.function)))

    @property
    def outermost(self) -> Any:
        """:attr:`jitted` with :func:`compiler_options`, which JAX takes only where no other function is traced."""
        values = [r.value for r in self.raising.results] if self.raising is not None else []
        raised = self.raising is not None and not self.raising.left
        chained, summed = (any(map(has, values)) for has in (is_chained, is_heavy))
        return self._once("outermost", lambda: jit(
            self.function, compiler_options(self.stream, raised=raised, chained=chained, summed=summed),
            keep_unused=True))

    def executable(self, name: str) -> Any:
        """:meth:`function` compiled ahead of time, once; InputError, of the stream ``name``, where it takes more memory
        than it may."""
        return self._once("executable", lambda: self._compiled(name))

    def _compiled(self, name: str) -> Any:
        compiled = self._lowered().compile()
        found = needed(compiled, name)
        if found <= self.most_bytes:
            return compiled
        why = f"XLA's program takes {found:,} bytes beside arguments and results, more than {self.most_bytes:,}"
        if self.raising is None:
            raise InputError(f"{name} runs as loops over its buffers, because {self.outcome.reason}; as loops, {why}")
        self.outcome = self.outcome.withdrawn(why)
        for made in ("jitted", "portable", "outermost"):
            self._made.pop(made, None)
        self.refuse_loops(name)
        return self._compiled(name)

    def _lowered(self) -> Any:
        raising, lowered = self.raising, self.outermost.lower(*self._shapes())
        if self.raising is not raising:  # with the options of loops
            del self._made["outermost"]
            lowered = self.outermost.lower(*self._shapes())
        return lowered

    def traced(self) -> tuple[tuple[tuple[str, ...], ...], tuple[OracleFallback, ...]]:
        """The heavy operations of each result, and what is not done as wanted; traces the function if need be."""
        if self._traced is None:
            jax.eval_shape(self.function, *self._shapes())
        assert self._traced is not None
        return self._traced

    def _shapes(self) -> list[Any]:
        return [jax.ShapeDtypeStruct(t.shape, t.dtype) for t in self.stream.arguments]


@dataclass(frozen=True, eq=False)
class Oracle:
    """What a stream computes, as a function of its arguments (see :func:`compile_stream`).

    Call it with one array for each of ``arguments``, in order, of exactly its shape and dtype; it returns a tuple of
    JAX arrays, one for each of ``results``. ``function`` is the same without checks, to be traced by ``jax.jit``.
    """

    name: str
    program: Program
    bits: np.ndarray
    """The stream's bit patterns, which the program takes as its last argument if there are any."""

    @property
    def arguments(self) -> tuple[HbmTensor, ...]:
        every = self.program.stream.arguments
        return every[:-1] if self.bits.size else every

    @property
    def results(self) -> tuple[HbmTensor, ...]:
        return self.program.stream.results

    @property
    def raised(self) -> bool:
        """Whether no loop over the instructions is left."""
        return self.program.raising is not None and not self.program.raising.left

    def function(self, *arguments: Any) -> tuple[Any, ...]:
        """The results for JAX arrays (or tracers) of the right shapes and types."""
        return self.program.function(*arguments, *self._bits())

    def __call__(self, *arguments: Any) -> tuple[Any, ...]:
        """The results; InputError for arguments that do not match those of the stream."""
        check_arrays(f"the oracle of {self.name}", self.arguments, arguments)
        results: tuple[Any, ...] = self.program.jitted(*arguments, *self._bits())
        return results

    def compile(self) -> Callable[..., Any]:
        """Compile ahead of time; what is returned takes and gives what :meth:`function` does."""
        executable = self.program.executable(self.name)
        if not self.bits.size:
            return cast("Callable[..., Any]", executable)
        bits = jnp.asarray(self.bits)
        return lambda *arguments: executable(*arguments, bits)

    def stored(self) -> Executable | Called:
        """The program compiled ahead of time, in a form that can be stored; it takes :attr:`bits`, too, if any."""
        return of(self.program.executable(self.name), len(self.program.stream.arguments))

    def _bits(self) -> tuple[np.ndarray, ...]:
        return (self.bits,) if self.bits.size else ()

    @property
    def report(self) -> OracleReport:
        """How each result is computed; traces the function if it has not been yet."""
        program = self.program
        operations, fallbacks = program.traced()
        return report(self.name, program.stream, program.outcome, program.reassociate, operations, fallbacks)


_programs: OrderedDict[object, Program] = OrderedDict()
_programs_lock = threading.Lock()


def forget() -> None:
    """Forget the programs kept in memory; those in use go on."""
    with _programs_lock:
        _programs.clear()


def compile_stream(
    stream: Stream, isa: Isa, *, reassociate: bool = False, raising: bool = True, limits: Limits = USUAL
) -> Oracle:
    """The oracle of ``stream`` on ``isa``; streams that differ in name and scales alone share one program.

    With ``raising`` off, the stream runs as loops over its buffers; ``limits`` bound what raising may take.
    ``reassociate`` allows floating-point sums in another order than the stream's. Raises StreamError for a stream that
    the ISA refuses, and InputError for tensors of a type that JAX has not by default.
    """
    return compile_resolved(resolve(stream, isa), reassociate=reassociate, raising=raising, limits=limits)


def compile_resolved(
    stream: ResolvedStream, *, reassociate: bool = False, raising: bool = True, limits: Limits = USUAL
) -> Oracle:
    """As :func:`compile_stream`, for a stream that is resolved already."""
    border.check(stream)
    plain, bits = border.take_out(stream)
    key = (plain, reassociate, raising, limits)
    with _programs_lock:
        program = _programs.get(key)
    if program is None:
        program = _program(plain, reassociate, raising, limits)
    program.refuse_loops(stream.name)
    with _programs_lock:
        program = _programs.setdefault(key, program)
        _programs.move_to_end(key)
        while len(_programs) > CACHED:
            _programs.popitem(last=False)
    return Oracle(stream.name, program, bits)


@paused()
def _program(stream: ResolvedStream, reassociate: bool, raising: bool, limits: Limits) -> Program:
    stream = with_loops(stream, limits)
    outcome = Outcome(None, "raising is switched off")
    if raising:
        outcome = raise_stream(border.as_bytes(stream), reassociate=reassociate, limits=limits)
    return Program(stream, outcome, reassociate, limits)
