"""Running compiled networks: arrays in, arrays out, each step on the oracle, the interpreter, or another executor."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np

from archloom.oracle.errors import InputError, suggest
from archloom.tvm_backend.compiled import CompiledModel, Region, Step, TensorSpec, Value
from archloom.tvm_backend.executors import Executor, InterpreterExecutor, XlaExecutor
from archloom.tvm_backend.host.finish import as_int8
from archloom.tvm_backend.targets import tiles

if TYPE_CHECKING:
    from archloom.tvm_backend.host.finishing import Finishes
    from archloom.tvm_backend.programs import Programs, Stored

Finish: TypeAlias = Callable[[Step, Any, Mapping[str, Any]], Any]
"""The result of a step for its sums and tensors."""
Capture: TypeAlias = Callable[[Step, Mapping[str, np.ndarray], np.ndarray], None]
"""Called after each step with its input tensors (by argument, in the workload's shapes) and what its stream gave."""


class Executable:
    """A compiled network, ready to run.

    The host part is built at the first call, each stream compiled when it is first run (or by :meth:`prepare`).
    """

    def __init__(self, compiled: CompiledModel, stored: "Stored | None" = None) -> None:
        self.compiled = compiled
        self._stored = stored
        self._lock = threading.RLock()
        self._host: Any = None
        self._executors: dict[str, Executor] = {}
        self._current: tuple[Executor, Finish, Capture | None] | None = None

    def __call__(self, *args: Any, **named: Any) -> np.ndarray | tuple[np.ndarray, ...]:
        """Run on NumPy arrays or torch tensors, by position, by name, or as one mapping; gives NumPy arrays.

        One result is an array, several a tuple in the network's order.
        """
        if len(args) == 1 and not named and isinstance(args[0], Mapping):
            inputs: Mapping[str, Any] = args[0]
        else:
            names = [spec.name for spec in self.compiled.inputs]
            if len(args) > len(names):
                raise InputError(f"expected {len(names)} inputs ({', '.join(names)}), found {len(args)}")
            inputs = {**dict(zip(names, args, strict=False)), **named}
        results = tuple(self.run(inputs).values())
        return results[0] if len(results) == 1 else results

    def run(
        self, inputs: Mapping[str, Any], *, executor: Literal["xla", "interpreter"] | Executor = "xla",
        capture: Capture | None = None,
    ) -> dict[str, np.ndarray]:
        """Run on inputs by name; results by name.

        ``executor`` says who runs the steps of the regions (the host part is always the same); ``capture`` sees each
        step. Raises :class:`~archloom.oracle.errors.InputError` for names, shapes or dtypes that are not the network's.
        """
        arrays = [checked(spec, inputs) for spec in self.compiled.inputs]
        known = [spec.name for spec in self.compiled.inputs]
        for name in inputs:
            if name not in known:
                raise InputError(f"no input is named {name!r}{suggest(name, known)}")
        with self._lock:
            chosen = self._executor(executor)
            if isinstance(chosen, XlaExecutor):
                chosen.prepare(list(self.compiled.partition.steps()))
            finish = self._finishes if isinstance(chosen, XlaExecutor) else Step.finished
            self._current = (chosen, finish, capture)
            try:
                results = self._built()(arrays)
            finally:
                self._current = None
        return {spec.name: y for spec, y in zip(self.compiled.outputs, results, strict=True)}

    def prepare(self, progress: Callable[[str, int, int], None] | None = None) -> None:
        """Build the host part and compile all streams now. ``progress`` hears (what, done, of)."""
        with self._lock:
            self._built()
            executor = self._executor("xla")
            assert isinstance(executor, XlaExecutor)
            executor.prepare(list(self.compiled.partition.steps()), progress)
            _ = self._finishes

    @cached_property
    def _finishes(self) -> "Finishes":
        from archloom.tvm_backend.host.finishing import Finishes

        return Finishes(self.compiled.partition.steps(), self.programs)

    @cached_property
    def programs(self) -> "Programs":
        """The programs of XLA that run the network."""
        from archloom.tvm_backend.programs import Programs

        return Programs(self._stored)

    def _executor(self, executor: str | Executor) -> Executor:
        if not isinstance(executor, str):
            return executor
        makers: dict[str, Callable[[CompiledModel], Executor]] = {
            "xla": lambda compiled: XlaExecutor(compiled, self.programs), "interpreter": InterpreterExecutor,
        }
        if executor not in makers:
            raise InputError(f"unknown executor {executor!r}{suggest(executor, list(makers))}")
        if executor not in self._executors:
            self._executors[executor] = makers[executor](self.compiled)
        return self._executors[executor]

    def _built(self) -> Any:
        if self._host is None:
            from archloom.tvm_backend.host.network import Host, PlannedHost

            pieces = {region.symbol: self._piece(region) for region in self.compiled.regions}
            plan = self.compiled.host.plan
            self._host = Host(self.compiled.host, pieces) if plan is None else PlannedHost(plan, pieces, self.programs)
        return self._host

    def _piece(self, region: Region) -> Callable[[Sequence[Any]], Sequence[Any]]:
        def piece(inputs: Sequence[Any]) -> Sequence[Any]:
            assert self._current is not None
            executor, finish, capture = self._current
            return run_region(region, inputs, executor, capture, finish)

        return piece


def run_region(
    region: Region, inputs: Sequence[Any], executor: Executor, capture: Capture | None = None,
    finish: Finish = Step.finished,
) -> list[Any]:
    """Run the steps of a region on tensors in the network's layout; results in the network's layout."""
    tensors = {}
    for name, x in zip(region.inputs, inputs, strict=True):
        value = region.value(name)
        tensors[name] = stored(_shaped(x, value.shape), value)  # another region may have it under another shape
    for step in region.steps:
        shapes = {t.name: t.shape for t in step.workload.inputs}
        arguments = {a: _shaped(as_int8(_read(tensors[value], region.value(value), step.views.get(a))), shapes[a])
                     for a, value in step.inputs}
        result = executor.run(step, arguments)
        if capture is not None:
            capture(step, {k: np.array(v) for k, v in arguments.items()}, np.array(result))
        result = finish(step, result, arguments)
        tensors[step.output] = _shaped(result, region.value(step.output).stored_shape)
    return [unstored(tensors[name], region.value(name)) for name in region.outputs]


def _shaped(x: Any, shape: tuple[int, ...]) -> Any:
    """``x`` in a shape; asking JAX for the shape that an array has takes as long as a small program."""
    return x if x.shape == shape else x.reshape(shape)


def _read(x: Any, value: Value, view: Value | None) -> Any:
    """A tensor of a region as a step reads it."""
    if view is None:
        return x
    if not value.in_tiles:
        return tiles.tiled(x.reshape(view.shape), view.layout, view.form)
    return tiles.retiled(x, value.held, view.held, view.anew(value))


def stored(x: Any, value: Value) -> Any:
    """A tensor in the network's layout as the region keeps it."""
    if value.in_tiles:
        return tiles.tiled(x, value.layout, value.form)
    return x.transpose(0, 2, 3, 1) if value.layout == "nhwc" else x


def unstored(x: Any, value: Value) -> Any:
    """Inverse of :func:`stored`."""
    if value.in_tiles:
        return tiles.untiled(x, value.shape, value.layout, value.dtype, value.form)
    return x.transpose(0, 3, 1, 2) if value.layout == "nhwc" else x


def checked(spec: TensorSpec, inputs: Mapping[str, Any]) -> np.ndarray:
    """The input for ``spec`` as a NumPy array; its shape and dtype must be the network's."""
    if spec.name not in inputs:
        raise InputError(f"input {spec.name!r} is missing; expected {describe(spec)}")
    value = inputs[spec.name]
    if hasattr(value, "detach"):
        value = value.detach().cpu().numpy()
    array = np.asarray(value)
    if array.shape != spec.shape:
        raise InputError(f"input {spec.name!r}: expected {describe(spec)}, found shape {_show(array.shape)}")
    if str(array.dtype) != spec.dtype:
        raise InputError(f"input {spec.name!r}: expected {describe(spec)}, found dtype {array.dtype}")
    return array


def describe(spec: TensorSpec) -> str:
    return f"{spec.dtype} of shape {_show(spec.shape)}"


def _show(shape: Sequence[int]) -> str:
    return "x".join(map(str, shape)) or "scalar"
