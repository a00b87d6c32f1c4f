"""Cycles of a network without building anything that runs: import, partition, map, time."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from oracle.collector import paused
from oracle.errors import ArtifactError, InputError
from tvm_backend import cache, operators
from tvm_backend.compiled import HostPart, Partition, Region, Step, TensorSpec, Value
from tvm_backend.report.data import Report

if TYPE_CHECKING:
    from tvm_backend.model import Model

Options = Mapping[str, object]
Progress = Callable[[str, int, int], None]


def estimate(model: Any, target: str, options: Options, **load_options: Any) -> Report:
    """The report of ``model``: a loaded one, an operator as text, or anything that ``frontends.load`` takes."""
    from tvm_backend import frontends

    if (operator := operators.spelled(model)) is not None:
        if load_options:
            raise InputError(f"{', '.join(sorted(load_options))}: not taken with an operator as text")
        return estimate_operator(operator, target, options)
    return estimate_model(frontends.loaded(model, load_options, target), target, options)


@paused()
def estimate_model(model: "Model", target: str, options: Options, *, progress: Progress | None = None) -> Report:
    """Partition, map and time an imported network."""
    from tvm_backend.compile import compile_model
    from tvm_backend.report.build import of_compiled

    return of_compiled(compile_model(model, target, options, progress=progress))


@paused()
def estimate_file(
    path: Path, target: str, options: Options, input_shapes: Mapping[str, Sequence[int]], *,
    progress: Progress | None = None,
) -> Report:
    """As :func:`estimate_model` for an ONNX file, with the report kept on disk by the contents of the file."""
    from tvm_backend import frontends
    from tvm_backend.files import read_file
    from tvm_backend.uma import registry

    if target not in registry.BUILT_IN:  # the code of other packages is not part of the key
        return estimate_model(frontends.load(path, input_shapes=input_shapes), target, options, progress=progress)
    asked = {"name": path.stem, "target": target, "options": dict(options), "shapes": dict(input_shapes)}
    name = cache.key([hashlib.sha256(read_file(path)).hexdigest(), json.dumps(asked, sort_keys=True)])
    try:
        return Report.from_json(cache.load("reports", name))
    except ArtifactError:  # not there, or damaged
        pass
    report = estimate_model(frontends.load(path, input_shapes=input_shapes), target, options, progress=progress)
    cache.store("reports", name, report.to_json())
    return report


def estimate_operator(operator: operators.Operator, target: str, options: Options) -> Report:
    """Map and time one operator; TVM is not needed where it is one of int8."""
    from tvm_backend.compile import plan_steps, resolve_options
    from tvm_backend.report.build import build
    from tvm_backend.uma import registry

    backend = registry.get(target)
    if backend.numbers != "int8":
        from tvm_backend import frontends

        return estimate_model(frontends.loaded(str(operator), {}, target), target, options)
    resolved = resolve_options(backend, options)
    partition = partition_operator(operator, target, resolved)
    return build(partition, plan_steps(partition, backend), backend)


def partition_operator(operator: operators.Operator, target: str, options: Mapping[str, Any]) -> Partition:
    """A network of one step and no host."""
    work = operators.workload(operator)
    tensors = [*work.inputs, work.output]
    values = tuple(Value(t.name, t.shape, t.dtype, "row-major") for t in tensors)
    names = tuple(t.name for t in work.inputs)
    step = Step(operator.kind, str(operator), work, tuple(zip(names, names)), work.output.name, work.output.shape)
    region = Region("region_0", target, values, names, (work.output.name,), (step,))
    specs = tuple(TensorSpec(t.name, t.shape, t.dtype) for t in tensors)
    return Partition(str(operator), "operator", target, options, specs[:-1], specs[-1:], (region,), HostPart("", ()))
