"""Ways to run a step: on the XLA oracle, or on the NumPy interpreter that defines what is right."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from oracle.errors import StreamError
from tvm_backend.compiled import CompiledModel, Step

if TYPE_CHECKING:
    from oracle.stream import Stream
    from oracle.taidl.isa import Isa


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

    def run(self, step: Step, arguments: Mapping[str, Any]) -> np.ndarray:
        from oracle import interpreter

        stream = self._compiled.plans[step.name].stream
        tensors = {k: np.ascontiguousarray(v) for k, v in {**arguments, **step.constants}.items()}
        check_arguments(step, stream, tensors)
        results = interpreter.run(stream, isa_of(stream, self._isas), tensors)
        return np.asarray(results[step.workload.output.name]).reshape(step.workload.output.shape)


class XlaExecutor:
    """The functional oracle: each distinct stream is compiled once; constants stay on the device."""

    def __init__(self, compiled: CompiledModel) -> None:
        self._compiled = compiled
        self._isas: dict[Any, Isa] = {}
        self._oracles: dict[str, Any] = {}
        self._constants: dict[str, Mapping[str, Any]] = {}

    def prepare(self, step: Step) -> None:
        """Compile the step's stream and place its constants, if that has not been done."""
        import jax

        from oracle.xla import compile_stream

        if step.name in self._oracles:
            return
        stream = self._compiled.plans[step.name].stream
        check_arguments(step, stream, {**dict.fromkeys(n for n, _ in step.inputs), **step.constants})
        self._constants[step.name] = {k: jax.numpy.asarray(v) for k, v in step.constants.items()}
        self._oracles[step.name] = compile_stream(stream, isa_of(stream, self._isas))

    def run(self, step: Step, arguments: Mapping[str, Any]) -> Any:
        self.prepare(step)
        stream = self._compiled.plans[step.name].stream
        tensors = {**arguments, **self._constants[step.name]}
        results = self._oracles[step.name](*[tensors[a.name].reshape(a.shape) for a in stream.arguments])
        return results[0].reshape(step.workload.output.shape)


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
