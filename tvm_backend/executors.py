"""Ways to run a step: on the XLA oracle, or on the NumPy interpreter that defines what is right."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from archloom.oracle import taidl
from archloom.oracle.errors import StreamError
from archloom.oracle.fallbacks import Fallback
from archloom.oracle.stream import Stream
from archloom.oracle.taidl.isa import Isa
from archloom.oracle.taidl.types import named_dtype
from archloom.tvm_backend.compiled import CompiledModel, Step
from archloom.tvm_backend.programs import Programs, stream_key
from archloom.tvm_backend.progress import Progress
from archloom.tvm_backend.targets.choice import backends

if TYPE_CHECKING:
    from archloom.oracle.xla import Oracle
    from archloom.tvm_backend.programs import Program

MEASURED_EACH, MEASURED_SECONDS = 16, 0.25
"""Instructions after which the clock is looked at, and how long is enough to say what the others will take."""
COMPILING_AT_A_TIME = 2
"""XLA's compiler runs on one core for each program."""


class Executor(Protocol):
    """Runs steps one at a time. ``arguments`` are the step's inputs (not its constants) by the workload's names, in the
    workload's shapes (for :class:`XlaExecutor` in any of as many elements); the result has the shape of the workload's
    output. Arrays are JAX's or NumPy's."""

    def run(self, step: Step, arguments: Mapping[str, Any]) -> Any:
        """The result of the step's workload."""


class _Streams:
    """The streams of a compiled network's steps, with their ISAs."""

    def __init__(self, compiled: CompiledModel) -> None:
        self._plans = compiled.plans
        self._isas: dict[Any, Isa] = {}
        if not {plan.stream.isa for plan in compiled.plans.values()} <= set(taidl.available()):
            for backend in backends(compiled.target):  # the ISA of another package's target is known once that is
                _ = backend.accelerator

    def isa(self, stream: "Stream") -> "Isa":
        key = (stream.isa, stream.parameters)
        if key not in self._isas:
            self._isas[key] = taidl.load(stream.isa, **dict(stream.parameters))
        return self._isas[key]

    def stream(self, step: Step) -> "Stream":
        """The step's stream; StreamError unless it takes exactly the tensors of its workload and gives its output."""
        stream = self._plans[step.name].stream
        expected = {t.name: t.stored_shape for t in step.workload.inputs}
        found = {a.name: a.shape for a in stream.arguments}
        if expected != found or {*dict(step.inputs), *step.constants} != set(found):
            raise StreamError(
                f"step {step.name!r}: its stream takes {found}, expected the workload's arguments {expected}"
            )
        if [r.name for r in stream.results] != [step.workload.output.name]:
            raise StreamError(
                f"step {step.name!r}: its stream gives {[r.name for r in stream.results]}, expected "
                f"{step.workload.output.name!r}"
            )
        return stream


class _Enough(Exception):
    """Instructions have been run for as long as was asked for."""


class InterpreterExecutor(_Streams):
    """The NumPy interpreter of the ISA: slow and plain."""

    def seconds(self, step: Step) -> float:
        """About how many seconds of a processor :meth:`run` takes, by what instructions take on zeros; the first ones,
        which are translated, count once."""
        from archloom.oracle import interpreter

        stream = self.stream(step)
        zeros = {t.name: np.zeros(t.shape, named_dtype(t.dtype)) for t in stream.arguments}
        marks: list[tuple[int, float]] = []

        def heard(done: int) -> None:
            marks[1:] = [(done, time.thread_time())]
            if marks[-1][1] - marks[0][1] >= MEASURED_SECONDS:
                raise _Enough

        begun = time.thread_time()
        try:
            interpreter.run(stream, self.isa(stream), zeros, heard=heard, each=MEASURED_EACH)
        except _Enough:
            (first, start), (last, end) = marks
            return start - begun + (end - start) * (stream.count() - first) / (last - first)
        return time.thread_time() - begun

    def run(self, step: Step, arguments: Mapping[str, Any], progress: Progress | None = None) -> np.ndarray:
        """See :class:`Executor`; ``progress`` hears of the instructions."""
        from archloom.oracle import interpreter

        stream = self.stream(step)
        tensors = {k: np.ascontiguousarray(v) for k, v in {**arguments, **step.constants}.items()}
        total, what = stream.count(), f"interpreting {step.name}"
        heard = None if progress is None else lambda done: progress(what, done, total)
        results = interpreter.run(stream, self.isa(stream), tensors, heard=heard)
        return np.asarray(results[step.workload.output.name]).reshape(step.workload.output.shape)


@dataclass(frozen=True, eq=False)
class _Prepared:
    """A step's program, with its constants and bit patterns on the device; ``names`` are those of its arguments."""

    program: "Program"
    names: tuple[str, ...]
    constants: Mapping[str, Any]
    bits: tuple[Any, ...]


class XlaExecutor(_Streams):
    """The functional oracle: each distinct stream is compiled once, and the steps' constants stay on the device."""

    def __init__(self, compiled: CompiledModel, programs: "Programs | None" = None) -> None:
        super().__init__(compiled)
        self._programs = programs if programs is not None else Programs()
        self._prepared: dict[str, _Prepared] = {}
        self.fallbacks: list[Fallback] = []
        """what streams do in another way than meant, by step"""

    def prepare(self, steps: Sequence[Step], progress: Progress | None = None) -> None:
        """Compile what is not compiled yet: streams become JAX functions one by one, XLA works on several at a time."""
        from archloom.oracle.xla import compile_stream

        waiting = [step for step in steps if step.name not in self._prepared]
        later: list[tuple[Step, str]] = []
        with ThreadPoolExecutor(COMPILING_AT_A_TIME) as pool:
            made: dict[str, tuple[Oracle, Future[Program]]] = {}
            for done, step in enumerate(waiting):
                if progress is not None:
                    progress(step.name, done, len(waiting))
                stream = self.stream(step)
                key = stream_key(stream, self.isa(stream))
                found = self._programs.find(key)
                if found is not None:
                    self._place(step, key, *found)
                    continue
                later.append((step, key))
                if key not in made:
                    oracle = compile_stream(stream, self.isa(stream))
                    made[key] = oracle, pool.submit(oracle.stored)
            for key, (oracle, program) in made.items():
                self._programs.keep(key, program.result(), oracle.bits, oracle.program.traced()[1])
        for step, key in later:
            oracle, program = made[key]
            self._place(step, key, program.result(), oracle.bits)

    def run(self, step: Step, arguments: Mapping[str, Any]) -> Any:
        if step.name not in self._prepared:
            self.prepare([step])
        prepared = self._prepared[step.name]
        constants = prepared.constants
        tensors = [constants[n] if n in constants else on_device(arguments[n]) for n in prepared.names]
        return prepared.program(*tensors, *prepared.bits)[0]

    def _place(self, step: Step, key: str, program: "Program", bits: np.ndarray) -> None:
        import jax

        noted = self._programs.fallbacks_of(key)
        self.fallbacks += [replace(f, where=f"{step.name}: {f.where}") for f in noted]
        constants = {k: jax.numpy.asarray(v) for k, v in step.constants.items()}
        patterns = (jax.numpy.asarray(bits),) if bits.size else ()
        names = tuple(a.name for a in self.stream(step).arguments)
        self._prepared[step.name] = _Prepared(program, names, constants, patterns)


def on_device(array: Any) -> Any:
    """A NumPy array as one of JAX of the same type; others as they are."""
    if isinstance(array, np.ndarray):
        import jax

        with jax.enable_x64(True):
            return jax.numpy.asarray(array)
    return array
