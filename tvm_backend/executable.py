"""Compiled networks as a user holds them: run, report, save, load.

Regions are run step by step on an executor, with tensors as the network has them in and out.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np

from archloom.oracle.errors import ArtifactError, InputError, suggest
from archloom.oracle.fallbacks import Fallback
from archloom.oracle.memory import memory_errors
from archloom.tvm_backend.compile import compile_model
from archloom.tvm_backend.compiled import CompiledModel, Region, Step, TensorSpec, Value, View
from archloom.tvm_backend.executors import Executor, InterpreterExecutor, XlaExecutor, on_device
from archloom.tvm_backend.host.network import Host, PlannedHost
from archloom.tvm_backend.host.output_programs import OutputStages
from archloom.tvm_backend.host.output_stage import as_int8
from archloom.tvm_backend.model import Model
from archloom.tvm_backend.programs import Programs, Stored
from archloom.tvm_backend.progress import Progress
from archloom.tvm_backend.report.build import of_compiled
from archloom.tvm_backend.report.data import Report
from archloom.tvm_backend.samples import as_array
from archloom.tvm_backend.targets import layouts
from archloom.tvm_backend.targets.layouts import ROW_MAJOR

if TYPE_CHECKING:
    from archloom.tvm_backend.host.plan import HostCall

Capture: TypeAlias = Callable[[Step, Mapping[str, np.ndarray], np.ndarray], None]
"""Called after each step with its input tensors (by argument, in the workload's shapes) and what its stream gave."""


class CompiledNetwork:
    """A compiled network: ``network(x)`` runs it, :attr:`report` says what it costs, :meth:`save` keeps it.

    The host part is built at the first call, each stream compiled when it is first run (or by :meth:`prepare`).
    """

    def __init__(self, compiled: CompiledModel, report: Report | None = None, programs: "Stored | None" = None) -> None:
        self.compiled = compiled
        self._saved_report = report
        self._stored = programs
        self._lock = threading.RLock()
        self._executors: dict[str, Executor] = {}
        self._fallbacks: list[Fallback] = []

    def __repr__(self) -> str:
        from archloom.tvm_backend.summary import in_a_line

        whole = self.compiled
        return in_a_line(f"CompiledNetwork {whole.name} for {whole.target}", whole.inputs, whole.outputs)

    def _repr_html_(self) -> str:
        return self.report._repr_html_()

    @cached_property
    def report(self) -> Report:
        """Cycles, utilization and bytes of every layer, with the host's layers named."""
        if self._saved_report is not None:
            return self._saved_report
        return of_compiled(self.compiled)

    @property
    def fallbacks(self) -> tuple[Fallback, ...]:
        """What was done in another way than meant: on the way into archloom, and so far in running and saving."""
        streams = self._executors.get("xla")
        noted = streams.fallbacks if isinstance(streams, XlaExecutor) else ()
        return (*self.compiled.fallbacks, *self.programs.fallbacks, *noted, *self._fallbacks)

    def __call__(self, *args: Any, **named: Any) -> np.ndarray | tuple[np.ndarray, ...]:
        """Run on NumPy arrays or torch tensors, by position, by name, or as one mapping; gives NumPy arrays. One result
        is an array, several a tuple in the network's order."""
        results = tuple(self.run(inputs_by_name([spec.name for spec in self.compiled.inputs], args, named)).values())
        return results[0] if len(results) == 1 else results

    def run(
        self, inputs: Mapping[str, Any], *, executor: Literal["xla", "interpreter"] | Executor = "xla",
        capture: Capture | None = None,
    ) -> dict[str, np.ndarray]:
        """Run on inputs by name; results by name.

        ``executor`` says who runs the steps of the regions (the host part is always the same); ``capture`` sees each
        step. Raises :class:`~archloom.oracle.errors.InputError` for names, shapes or dtypes that are not the network's,
        and before a program runs that needs more memory than there is.
        """
        arrays = checked_inputs(self.compiled.inputs, inputs)
        with self._lock, memory_errors():
            chosen = self._executor(executor)
            if isinstance(chosen, XlaExecutor):
                chosen.prepare(list(self.compiled.steps()))
            result_of = self._output_stages if isinstance(chosen, XlaExecutor) else Step.result
            results = self._host(arrays, lambda symbol, tensors: run_region(
                self._region(symbol, tensors), tensors, chosen, capture, result_of))
        if len(results) != len(self.compiled.outputs):
            raise ArtifactError(f"{self.compiled.name}: its host part gives {len(results)} results, expected "
                                f"{len(self.compiled.outputs)}")
        for spec, y in zip(self.compiled.outputs, results, strict=True):
            if y.size != math.prod(spec.shape):
                raise ArtifactError(f"{self.compiled.name}: its host part gives {y.shape} for {spec.name!r}, expected "
                                    f"{spec.shape}")
        return {spec.name: y.reshape(spec.shape) for spec, y in zip(self.compiled.outputs, results, strict=True)}

    def prepare(self, progress: Progress | None = None) -> None:
        """Build the host part and compile all streams now. ``progress`` hears (what, done, of)."""
        with self._lock:
            _ = self._host
            executor = self._executor("xla")
            assert isinstance(executor, XlaExecutor)
            executor.prepare(list(self.compiled.steps()), progress)
            _ = self._output_stages

    def save(self, path: str | Path, *, programs: bool = True) -> Path:
        """Write the artifact to ``path``: a zip if its name ends in ``.zip``, else a directory; whole or not at all.

        With ``programs``, everything is compiled first, and the artifact brings XLA's machine code along: on a machine
        alike it then runs at once. A network that is too large to run here is saved without, see :attr:`fallbacks`.
        """
        from archloom.tvm_backend.artifact import files as artifact_files
        from archloom.tvm_backend.artifact import network as artifact

        artifact_files.check_free(Path(path))
        stored = None
        if programs:
            try:
                self.prepare()
                stored = self.programs.stored()
            except InputError as error:
                self._fallbacks.append(Fallback(
                    f"{path}", f"it has no machine code: {error}", "whoever loads it compiles it again"))
        artifact.save(self.compiled, self.report, Path(path), stored)
        return Path(path)

    def packed(self) -> bytes:
        """The artifact in memory, with its programs: a zip that stores its files as they are."""
        from archloom.tvm_backend.artifact import files as artifact_files
        from archloom.tvm_backend.artifact import network as artifact

        self.prepare()
        files = artifact.files_of(self.compiled, self.report, self.programs.stored())
        return artifact_files.archive(artifact_files.with_manifest(files))

    @cached_property
    def calls(self) -> tuple["HostCall", ...]:
        """The calls of regions and of the host's pieces, in order; InputError where TVM runs a part of the host."""
        plan = self.compiled.host.plan
        if plan is None:
            raise InputError(f"{self.compiled.name}: TVM runs a part of its host")
        return plan.calls

    def call(self, number: int, arguments: Sequence[Any]) -> Sequence[Any]:
        """Run one of :attr:`calls` on arrays, of a network that is prepared; gives arrays. Threads need no turns."""
        executor, host = self._executor("xla"), self._host
        assert isinstance(host, PlannedHost)
        return host.call(number, [on_device(x) for x in arguments], lambda symbol, tensors: run_region(
            self._region(symbol, tensors), tensors, executor, None, self._output_stages))

    def _region(self, symbol: str, tensors: Sequence[Any]) -> Region:
        """The region that the host part calls; ArtifactError where an artifact's two do not fit together."""
        region = self._regions.get(symbol)
        if region is None or len(region.inputs) != len(tensors):
            there = ", ".join(f"{r.symbol!r} of {len(r.inputs)} tensors" for r in self.compiled.regions) or "none"
            raise ArtifactError(f"{self.compiled.name}: its host part calls region {symbol!r} with {len(tensors)} "
                                f"tensors, expected one of: {there}")
        return region

    @cached_property
    def _regions(self) -> dict[str, Region]:
        return {region.symbol: region for region in self.compiled.regions}

    @cached_property
    def programs(self) -> "Programs":
        """The programs of XLA that run the network."""
        return Programs(self._stored)

    @cached_property
    def _output_stages(self) -> "OutputStages":
        return OutputStages(self.compiled.steps(), self.programs)

    @cached_property
    def _host(self) -> "Host | PlannedHost":
        plan = self.compiled.host.plan
        symbols = [region.symbol for region in self.compiled.regions]
        return Host(self.compiled.host, symbols) if plan is None else PlannedHost(plan, self.programs)

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


def build(
    model: "Model", target: str, options: Mapping[str, object], *, progress: Progress | None = None
) -> CompiledNetwork:
    return CompiledNetwork(compile_model(model, target, options, progress=progress))


def open_artifact(path: Path, *, programs: bool = True) -> CompiledNetwork:
    """The compiled network that was saved at ``path``; its host part is built at the first call.

    Without ``programs``, the artifact's machine code is left aside, and everything is compiled from its streams.
    """
    from archloom.tvm_backend.artifact import network as artifact

    loaded = artifact.load(path)
    return CompiledNetwork(loaded.compiled, loaded.report, loaded.programs if programs else None)


def open_packed(data: bytes, label: str) -> CompiledNetwork:
    """The compiled network that :meth:`CompiledNetwork.packed` made; ``label`` is what messages call it."""
    from archloom.tvm_backend.artifact import files as artifact_files
    from archloom.tvm_backend.artifact import network as artifact

    loaded = artifact.from_files(artifact_files.read_archive(data, Path(label)), Path(label))
    return CompiledNetwork(loaded.compiled, loaded.report, loaded.programs)


# running regions ------------------------------------------------------------------------------------------------------


def run_region(
    region: Region, inputs: Sequence[Any], executor: Executor, capture: Capture | None = None,
    result_of: Callable[[Step, Any, Mapping[str, Any]], Any] = Step.result,
) -> list[Any]:
    """Run the steps of a region on tensors in the network's layout; results in the network's layout.

    Of inputs and results only the order of their elements counts: neighbours may have them under other shapes, and a
    new shape costs as much as a small program. ``result_of`` makes the result of a step of what its stream gave and its
    input tensors.
    """
    tensors = {}
    for name, x in zip(region.inputs, inputs, strict=True):
        value = region.value(name)
        tensors[name] = x if value.layout == ROW_MAJOR else layouts.packed(_shaped(x, value.shape), value.layout)
    for step in region.steps:
        shapes = {t.name: t.shape for t in step.workload.inputs}
        arguments = {a: _read(tensors[value], region.value(value), step.views.get(a)) for a, value in step.inputs}
        signed = {t.name for t in step.workload.inputs if t.dtype == "int8"}
        arguments = {a: as_int8(x) if a in signed else x for a, x in arguments.items()}
        if not isinstance(executor, XlaExecutor):
            arguments = {a: _shaped(x, shapes[a]) for a, x in arguments.items()}
        given = executor.run(step, arguments)
        if capture is not None:
            capture(step, {a: np.array(x).reshape(shapes[a]) for a, x in arguments.items()},
                    np.array(given).reshape(step.workload.output.shape))
        tensors[step.output] = result_of(step, given, arguments)
    values = [region.value(name) for name in region.outputs]
    return [x if v.layout == ROW_MAJOR else layouts.unpacked(_shaped(x, v.stored_shape), v.layout, v.shape, v.dtype)
            for v in values for x in (tensors[v.name],)]


def _shaped(x: Any, shape: tuple[int, ...]) -> Any:
    """``x`` in a shape; asking JAX for the shape that an array has takes as long as a small program."""
    return x if x.shape == shape else x.reshape(shape)


def _read(x: Any, value: Value, view: View | None) -> Any:
    """A tensor of a region as a step reads it."""
    if view is None:
        return x
    x = _shaped(x, value.stored_shape)
    if not value.layout.in_tiles:
        return layouts.packed(x.reshape(view.shape), view.layout)
    return layouts.repacked(x, value.layout, value.shape, view.layout, view.shape, view.needs_zeros(value))


def inputs_by_name(names: Sequence[str], args: Sequence[Any], named: Mapping[str, Any]) -> Mapping[str, Any]:
    """The inputs of a call: by position, by name, or one mapping."""
    if len(args) == 1 and not named and isinstance(args[0], Mapping):
        return args[0]
    if len(args) > len(names):
        raise InputError(f"expected {len(names)} inputs ({', '.join(names)}), found {len(args)}")
    return {**dict(zip(names, args, strict=False)), **named}


def checked_inputs(specs: Sequence[TensorSpec], inputs: Mapping[str, Any]) -> list[np.ndarray]:
    """The inputs as NumPy arrays in the order of ``specs``, which must be all that there are."""
    arrays = [checked(spec, inputs) for spec in specs]
    known = [spec.name for spec in specs]
    for name in inputs:
        if name not in known:
            raise InputError(f"no input is named {name!r}{suggest(name, known)}")
    return arrays


def checked(spec: TensorSpec, inputs: Mapping[str, Any]) -> np.ndarray:
    """The input for ``spec`` as a NumPy array; its shape and dtype must be the network's."""
    if spec.name not in inputs:
        raise InputError(f"input {spec.name!r} is missing; expected {describe(spec)}")
    array = as_array(inputs[spec.name])
    if array.shape != spec.shape:
        raise InputError(f"input {spec.name!r}: expected {describe(spec)}, found shape {_show(array.shape)}")
    if str(array.dtype) != spec.dtype:
        raise InputError(f"input {spec.name!r}: expected {describe(spec)}, found dtype {array.dtype}")
    return array


def describe(spec: TensorSpec) -> str:
    return f"{spec.dtype} of shape {_show(spec.shape)}"


def _show(shape: Sequence[int]) -> str:
    return "x".join(map(str, shape)) or "scalar"
