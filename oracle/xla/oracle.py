"""The functional oracle of a stream as a JAX function."""

from __future__ import annotations

import math
import threading
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Any

from oracle.errors import InputError
from oracle.resolve import resolve
from oracle.resolved import ResolvedStream
from oracle.stream import HbmTensor, Stream
from oracle.taidl.isa import Isa
from oracle.xla.expr import Expr, Extreme, Sum, children
from oracle.xla.loops import LoopRunner
from oracle.xla.lower import UNROLL, Lowering
from oracle.xla.match import Unraisable
from oracle.xla.ops import NUMPY
from oracle.xla.raising import Raised, raise_stream

CACHED = 256
"""How many oracles are kept in memory."""

CONTRACTIONS = 64
"""Up to how many contractions a stream is raised to: XLA takes some 50 ms to compile each."""


@dataclass(frozen=True)
class ResultReport:
    """How one result is computed: by raised operations, or by the stream's own loops for the ``reason`` given."""

    result: str
    raised: bool
    reason: str
    operations: tuple[str, ...]


@dataclass(frozen=True)
class OracleReport:
    """How a stream became a JAX function. ``reassociated`` tells that floating-point sums may be reordered."""

    stream: str
    reassociated: bool
    results: tuple[ResultReport, ...]

    @property
    def raised(self) -> bool:
        """Whether no loop over the instructions is left."""
        return all(r.raised for r in self.results)

    def __str__(self) -> str:
        lines = [f"oracle of {self.stream}" + (" (floating-point sums reordered)" if self.reassociated else "")]
        for r in self.results:
            how = "raised to " + ("; ".join(r.operations) or "element-wise operations")
            lines.append(f"  {r.result}: {how if r.raised else 'loops, because ' + r.reason}")
        return "\n".join(lines)


@dataclass(eq=False)
class Oracle:
    """What a stream computes, as a function of its arguments (see :func:`compile_stream`).

    Call it with one array for each of ``arguments``, in order, of exactly its shape and dtype; it returns a tuple of
    JAX arrays, one for each of ``results``. ``function`` is the same without checks, to be traced by ``jax.jit``.
    """

    stream: ResolvedStream
    raised: tuple[Raised, ...] | None
    reason: str
    reassociate: bool
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)
    _jitted: Any = field(default=None, repr=False)
    _operations: tuple[tuple[str, ...], ...] | None = field(default=None, repr=False)

    @property
    def arguments(self) -> tuple[HbmTensor, ...]:
        return self.stream.arguments

    @property
    def results(self) -> tuple[HbmTensor, ...]:
        return self.stream.results

    def function(self, *arguments: Any) -> tuple[Any, ...]:
        """The results for JAX arrays (or tracers) of the right shapes and types."""
        named = {t.name: a for t, a in zip(self.arguments, arguments, strict=True)}
        if self.raised is None:
            return LoopRunner.of(self.stream).run(named)
        lowering = Lowering(named)
        made, operations = [], []
        for r in self.raised:
            before = len(lowering.operations)
            made.append(lowering.tensor(r.value, r.axes, r.ranges))
            operations.append(tuple(lowering.operations[before:]))
        self._operations = tuple(operations)
        return tuple(made)

    def __call__(self, *arguments: Any) -> tuple[Any, ...]:
        """The results; InputError for arguments that do not match those of the stream."""
        self._check(arguments)
        results: tuple[Any, ...] = self.jitted(*arguments)
        return results

    @property
    def jitted(self) -> Any:
        """``jax.jit`` of :meth:`function`, made once."""
        import jax

        with self._lock:
            if self._jitted is None:
                self._jitted = jax.jit(self.function)
        return self._jitted

    def compile(self) -> Any:
        """Compile ahead of time; the executable takes and returns what :meth:`function` does."""
        import jax

        shapes = [jax.ShapeDtypeStruct(t.shape, t.dtype) for t in self.arguments]
        return self.jitted.lower(*shapes).compile()

    def _check(self, arguments: tuple[Any, ...]) -> None:
        if len(arguments) != len(self.arguments):
            names = ", ".join(t.name for t in self.arguments) or "none"
            raise InputError(f"the oracle of {self.stream.name} takes {len(self.arguments)} arguments ({names}), "
                             f"not {len(arguments)}")
        for tensor, value in zip(self.arguments, arguments, strict=True):
            shape, dtype = getattr(value, "shape", None), getattr(value, "dtype", None)
            if shape is None or dtype is None:
                raise InputError(f"argument {tensor.name} of the oracle of {self.stream.name} must be an array of "
                                 f"{_show(tensor.shape, tensor.dtype)}, not a {type(value).__name__}")
            if tuple(shape) != tensor.shape or str(dtype) != tensor.dtype:
                raise InputError(f"argument {tensor.name} of the oracle of {self.stream.name} must be "
                                 f"{_show(tensor.shape, tensor.dtype)}, not {_show(tuple(shape), str(dtype))}")

    @property
    def report(self) -> OracleReport:
        """How each result is computed; traces the function if it has not been yet."""
        if self.raised is not None and self._operations is None:
            import jax

            jax.eval_shape(self.function, *(jax.ShapeDtypeStruct(t.shape, t.dtype) for t in self.arguments))
        operations = self._operations or ((),) * len(self.results)
        return OracleReport(self.stream.name, self.reassociate, tuple(
            ResultReport(t.name, self.raised is not None, self.reason, ops)
            for t, ops in zip(self.results, operations, strict=True)))


def count_contractions(e: Expr) -> int:
    """How many contractions the lowering of ``e`` makes, where none are shared."""
    times = math.prod(n for _, n in e.variables) if isinstance(e, Extreme) else 1
    return isinstance(e, Sum) + (times if times <= UNROLL else 1) * sum(count_contractions(c) for c in children(e))


def _show(shape: tuple[int, ...], dtype: str) -> str:
    return f"{dtype}[{', '.join(map(str, shape))}]"


_cache: OrderedDict[object, Oracle] = OrderedDict()
_cache_lock = threading.Lock()


def compile_stream(stream: Stream, isa: Isa, *, reassociate: bool = False, raising: bool = True) -> Oracle:
    """The oracle of ``stream`` on ``isa``; equal streams on equal ISAs share one.

    With ``raising`` off, the stream runs as loops over its buffers. ``reassociate`` allows floating-point sums in
    another order than the stream's. Raises StreamError for a stream that the ISA refuses, and InputError for tensors
    of a type that JAX has not by default.
    """
    key = (stream, isa, reassociate, raising)
    with _cache_lock:
        if key in _cache:
            _cache.move_to_end(key)
            return _cache[key]
    made = compile_resolved(resolve(stream, isa), reassociate=reassociate, raising=raising)
    with _cache_lock:
        _cache[key] = made
        while len(_cache) > CACHED:
            _cache.popitem(last=False)
    return made


def compile_resolved(stream: ResolvedStream, *, reassociate: bool = False, raising: bool = True) -> Oracle:
    """As :func:`compile_stream`, for a stream that is resolved already; not cached."""
    for tensor in (*stream.arguments, *stream.results):
        if tensor.dtype not in NUMPY.values():
            raise InputError(f"tensor {tensor.name} of {stream.name} is {tensor.dtype}, which JAX does not compute "
                             f"with in its default mode (it does with {', '.join(sorted(NUMPY.values()))})")
    if not raising:
        return _as_loops(stream, "raising is switched off", reassociate)
    try:
        raised = raise_stream(stream, reassociate=reassociate)
        contractions = sum(count_contractions(r.value) for r in raised)
        if contractions > CONTRACTIONS:
            raise Unraisable(f"its pieces would be {contractions} contractions, each compiled for itself")
        return Oracle(stream, raised, "", reassociate)
    except Unraisable as reason:
        return _as_loops(stream, str(reason), reassociate)
    except RecursionError:
        return _as_loops(stream, "its reads depend on too many writes", reassociate)


def _as_loops(stream: ResolvedStream, reason: str, reassociate: bool) -> Oracle:
    if stream.hbm_bytes >= 1 << 31:
        raise InputError(f"{stream.name} runs as loops over its buffers, because {reason}; that needs less than "
                         f"{1 << 31} bytes of HBM, and it has {stream.hbm_bytes}")
    return Oracle(stream, None, reason, reassociate)
