"""Ways to run a step: on the XLA oracle, or on the NumPy interpreter that defines what is right."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from oracle.errors import StreamError
from tvm_backend.compiled import CompiledModel, Step

if TYPE_CHECKING:
    from oracle.stream import Stream
    from oracle.taidl.isa import Isa
    from oracle.xla import Oracle

Progress = Callable[[str, int, int], None]
COMPILING_AT_A_TIME = 2
"""XLA's compiler runs on one core for each program."""


class Executor(Protocol):
    """Runs steps one at a time. ``arguments`` are the step's inputs (not its constants) by the workload's names, in the
    workload's shapes; the result has the shape of the workload's output. Arrays are JAX's or NumPy's."""

    def run(self, step: Step, arguments: Mapping[str, Any]) -> Any:
        """The result of the step's workload."""


class InterpreterExecutor:
    """The NumPy interpreter of the ISA: slow and plain."""

    def __init__(self, compiled: CompiledModel) -> None:
        self._compiled = compiled
        self._isas: dict[Any, Isa] = {}
        _make_known(compiled)

    def run(self, step: Step, arguments: Mapping[str, Any]) -> np.ndarray:
        from oracle import interpreter

        stream = self._compiled.plans[step.name].stream
        tensors = {k: np.ascontiguousarray(v) for k, v in {**arguments, **step.constants}.items()}
        check_arguments(step, stream, tensors)
        results = interpreter.run(stream, isa_of(stream, self._isas), tensors)
        return np.asarray(results[step.workload.output.name]).reshape(step.workload.output.shape)


class XlaExecutor:
    """The functional oracle: each step's stream is compiled once, and its constants stay on the device."""

    def __init__(self, compiled: CompiledModel) -> None:
        self._compiled = compiled
        self._isas: dict[Any, Isa] = {}
        _make_known(compiled)
        self._oracles: dict[str, Oracle] = {}
        self._programs: dict[str, Callable[..., Sequence[Any]]] = {}
        self._constants: dict[str, Mapping[str, Any]] = {}

    def prepare(self, steps: Sequence[Step], progress: Progress | None = None) -> None:
        """Compile what is not compiled yet: streams become JAX functions one by one, XLA works on several at a time."""
        waiting = [step for step in steps if step.name not in self._programs]
        with ThreadPoolExecutor(COMPILING_AT_A_TIME) as pool:
            programs: dict[str, Future[Any]] = {}
            for done, step in enumerate(waiting):
                if progress is not None:
                    progress(step.name, done, len(waiting))
                programs[step.name] = pool.submit(self._oracle(step).compile)
            for name, program in programs.items():
                self._programs[name] = program.result()

    def run(self, step: Step, arguments: Mapping[str, Any]) -> Any:
        if step.name not in self._programs:
            self.prepare([step])
        oracle = self._oracles[step.name]
        tensors = {**arguments, **self._constants[step.name]}
        results = self._programs[step.name](*[tensors[a.name] for a in oracle.arguments])
        return results[0]

    def _oracle(self, step: Step) -> "Oracle":
        import jax

        from oracle.xla import compile_stream

        stream = self._compiled.plans[step.name].stream
        check_arguments(step, stream, {**dict.fromkeys(n for n, _ in step.inputs), **step.constants})
        self._constants[step.name] = {k: jax.numpy.asarray(v) for k, v in step.constants.items()}
        oracle = compile_stream(stream, isa_of(stream, self._isas))
        self._oracles[step.name] = oracle
        return oracle


def _make_known(compiled: CompiledModel) -> None:
    """The ISA of a target from another package is known once that target is."""
    from oracle import taidl

    if not {plan.stream.isa for plan in compiled.plans.values()} <= set(taidl.available()):
        from tvm_backend.uma.choice import backends

        for backend in backends(compiled.target):
            _ = backend.accelerator


def isa_of(stream: "Stream", cache: "dict[Any, Isa]") -> "Isa":
    """The ISA that a stream was written for, at its parameters."""
    key = (stream.isa, stream.parameters)
    if key not in cache:
        from oracle import taidl

        cache[key] = taidl.load(stream.isa, **dict(stream.parameters))
    return cache[key]


def check_arguments(step: Step, stream: "Stream", tensors: Mapping[str, Any]) -> None:
    """A stream must take exactly the tensors of its workload and give its output."""
    expected = {t.name: t.shape for t in step.workload.inputs}
    found = {a.name: a.shape for a in stream.arguments}
    if expected != found or set(tensors) != set(found):
        raise StreamError(
            f"step {step.name!r}: its stream takes {found}, expected the workload's arguments {expected}"
        )
    if [r.name for r in stream.results] != [step.workload.output.name]:
        raise StreamError(
            f"step {step.name!r}: its stream gives {[r.name for r in stream.results]}, expected "
            f"{step.workload.output.name!r}"
        )
