"""The functional oracle of a stream as a JAX function."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np

from archloom.oracle.collector import paused
from archloom.oracle.errors import InputError
from archloom.oracle.resolve import resolve
from archloom.oracle.resolved import ResolvedStream
from archloom.oracle.stream import HbmTensor, Stream
from archloom.oracle.taidl.isa import Isa
from archloom.oracle.xla import border
from archloom.oracle.xla.executables import Called, Executable, of
from archloom.oracle.xla.loops import LoopRunner
from archloom.oracle.xla.lowering.lower import Lowering
from archloom.oracle.xla.notation.expr import is_chained
from archloom.oracle.xla.notation.work import shared_work
from archloom.oracle.xla.options import compiler_options
from archloom.oracle.xla.raising.match import Unraisable
from archloom.oracle.xla.raising.repeats import with_loops
from archloom.oracle.xla.raising.stream import Raising, raise_stream
from archloom.oracle.xla.report import OracleReport, report
from archloom.oracle.xla.scalars import take_out

CACHED = 256
"""How many programs are kept in memory."""


@dataclass(eq=False)
class Program:
    """The JAX function of a stream without its bit patterns: what streams that differ in those alone share.

    ``raising`` is None where the stream runs as loops, for the ``reason`` given.
    """

    stream: ResolvedStream
    raising: Raising | None
    reason: str
    reassociate: bool
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)
    _jitted: Any = field(default=None, repr=False)
    _outermost: Any = field(default=None, repr=False)
    _executable: Any = field(default=None, repr=False)
    _operations: tuple[tuple[str, ...], ...] | None = field(default=None, repr=False)

    def function(self, *arguments: Any) -> tuple[Any, ...]:
        """The results for JAX arrays (or tracers) of the right shapes and types."""
        import jax

        tensors = self.stream.arguments
        with jax.enable_x64(True) if border.needs_wide(self.stream) else nullcontext():
            named = {t.name: border.inwards(a, t) for t, a in zip(tensors, arguments, strict=True)}
            with shared_work():  # sums within sums would be rewritten again for each of those around them
                made = self._computed(named)
            return tuple(border.outwards(a, t) for t, a in zip(self.stream.results, made, strict=True))

    def _computed(self, named: Mapping[str, Any]) -> tuple[Any, ...]:
        """The results for arguments by name, in bytes where :func:`archloom.oracle.xla.border.as_bytes` says so."""
        if self.raising is None:
            return LoopRunner.of(border.as_bytes(self.stream)).run(named)
        lowering = Lowering(named, reassociate=self.reassociate)
        made, operations = [], []
        for r in self.raising.results:
            before = len(lowering.operations)
            made.append(lowering.tensor(r.value, r.axes, r.ranges))
            operations.append(tuple(lowering.operations[before:]))
        self._operations = tuple(operations)
        return tuple(made)

    @property
    def jitted(self) -> Any:
        """``jax.jit`` of :meth:`function`, made once."""
        import jax

        with self._lock:
            if self._jitted is None:
                self._jitted = jax.jit(self.function)
        return self._jitted

    @property
    def outermost(self) -> Any:
        """:attr:`jitted` with :func:`compiler_options`, which JAX takes only where no other function is traced."""
        import jax

        with self._lock:
            if self._outermost is None:
                raised = self.raising is not None and not self.raising.left
                chained = self.raising is not None and any(is_chained(r.value) for r in self.raising.results)
                options = compiler_options(self.stream, raised=raised, chained=chained)
                self._outermost = jax.jit(self.function, compiler_options=options, keep_unused=True)
        return self._outermost

    def executable(self) -> Any:
        """:meth:`function` compiled ahead of time, once."""
        jitted = self.outermost
        with self._lock:
            if self._executable is None:
                self._executable = jitted.lower(*self._shapes()).compile()
        return self._executable

    def operations(self) -> tuple[tuple[str, ...], ...]:
        """What heavy operations each result takes; traces the function if it has not been yet."""
        if self.raising is not None and self._operations is None:
            import jax

            jax.eval_shape(self.function, *self._shapes())
        return self._operations or ((),) * len(self.stream.results)

    def _shapes(self) -> list[Any]:
        import jax

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
        self._check(arguments)
        results: tuple[Any, ...] = self.program.jitted(*arguments, *self._bits())
        return results

    def compile(self) -> Callable[..., Any]:
        """Compile ahead of time; what is returned takes and gives what :meth:`function` does."""
        executable = self.program.executable()
        if not self.bits.size:
            return cast("Callable[..., Any]", executable)
        import jax.numpy as jnp

        bits = jnp.asarray(self.bits)
        return lambda *arguments: executable(*arguments, bits)

    def stored(self) -> Executable | Called:
        """The program compiled ahead of time, in a form that can be stored; it takes :attr:`bits`, too, if any."""
        return of(self.program.executable(), len(self.program.stream.arguments))

    def _bits(self) -> tuple[np.ndarray, ...]:
        return (self.bits,) if self.bits.size else ()

    def _check(self, arguments: tuple[Any, ...]) -> None:
        if len(arguments) != len(self.arguments):
            names = ", ".join(t.name for t in self.arguments) or "none"
            raise InputError(f"the oracle of {self.name} takes {len(self.arguments)} arguments ({names}), "
                             f"not {len(arguments)}")
        for tensor, value in zip(self.arguments, arguments, strict=True):
            shape, dtype = getattr(value, "shape", None), getattr(value, "dtype", None)
            if shape is None or dtype is None:
                raise InputError(f"argument {tensor.name} of the oracle of {self.name} must be an array of "
                                 f"{_show(tensor.shape, tensor.dtype)}, not a {type(value).__name__}")
            if tuple(shape) != tensor.shape or str(dtype) != tensor.dtype:
                raise InputError(f"argument {tensor.name} of the oracle of {self.name} must be "
                                 f"{_show(tensor.shape, tensor.dtype)}, not {_show(tuple(shape), str(dtype))}")

    @property
    def report(self) -> OracleReport:
        """How each result is computed; traces the function if it has not been yet."""
        program = self.program
        return report(self.name, program.stream, program.raising, program.reason, program.reassociate,
                      program.operations())


def _show(shape: tuple[int, ...], dtype: str) -> str:
    return f"{dtype}[{', '.join(map(str, shape))}]"


_programs: OrderedDict[object, Program] = OrderedDict()
_programs_lock = threading.Lock()


def forget() -> None:
    """Forget the programs kept in memory; those in use go on."""
    with _programs_lock:
        _programs.clear()


def compile_stream(stream: Stream, isa: Isa, *, reassociate: bool = False, raising: bool = True) -> Oracle:
    """The oracle of ``stream`` on ``isa``; streams that differ in name and scales alone share one program.

    With ``raising`` off, the stream runs as loops over its buffers. ``reassociate`` allows floating-point sums in
    another order than the stream's. Raises StreamError for a stream that the ISA refuses, and InputError for tensors
    of a type that JAX has not by default.
    """
    return compile_resolved(resolve(stream, isa), reassociate=reassociate, raising=raising)


def compile_resolved(stream: ResolvedStream, *, reassociate: bool = False, raising: bool = True) -> Oracle:
    """As :func:`compile_stream`, for a stream that is resolved already."""
    border.check(stream)
    plain, bits = take_out(stream)
    key = (plain, reassociate, raising)
    with _programs_lock:
        program = _programs.get(key)
    if program is None:
        program = _program(plain, reassociate, raising)
    if program.raising is None and plain.hbm_bytes >= 1 << 31:
        raise InputError(f"{stream.name} runs as loops over its buffers, because {program.reason}; that needs less "
                         f"than {1 << 31} bytes of HBM, and it has {stream.hbm_bytes}")
    with _programs_lock:
        program = _programs.setdefault(key, program)
        _programs.move_to_end(key)
        while len(_programs) > CACHED:
            _programs.popitem(last=False)
    return Oracle(stream.name, program, bits)


@paused()
def _program(stream: ResolvedStream, reassociate: bool, raising: bool) -> Program:
    stream = with_loops(stream)
    if not raising:
        return Program(stream, None, "raising is switched off", reassociate)
    try:
        return Program(stream, raise_stream(border.as_bytes(stream), reassociate=reassociate), "", reassociate)
    except Unraisable as reason:
        return Program(stream, None, str(reason), reassociate)
    except RecursionError:
        return Program(stream, None, "its reads depend on too many writes", reassociate)
