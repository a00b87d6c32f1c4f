"""Running regions: tensors as the network has them in and out, each step on an executor."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from archloom.oracle.errors import InputError
from archloom.tvm_backend.compiled import Region, Step, TensorSpec, Value, View
from archloom.tvm_backend.executors import Executor
from archloom.tvm_backend.host.output_stage import as_int8
from archloom.tvm_backend.targets import layouts

Capture: TypeAlias = Callable[[Step, Mapping[str, np.ndarray], np.ndarray], None]
"""Called after each step with its input tensors (by argument, in the workload's shapes) and what its stream gave."""


def run_region(
    region: Region, inputs: Sequence[Any], executor: Executor, capture: Capture | None = None,
    result_of: Callable[[Step, Any, Mapping[str, Any]], Any] = Step.result,
) -> list[Any]:
    """Run the steps of a region on tensors in the network's layout; results in the network's layout.

    ``result_of`` makes the result of a step of what its stream gave and its input tensors.
    """
    tensors = {}
    for name, x in zip(region.inputs, inputs, strict=True):
        value = region.value(name)  # another region may have it under another shape
        tensors[name] = layouts.packed(_shaped(x, value.shape), value.layout)
    for step in region.steps:
        shapes = {t.name: t.shape for t in step.workload.inputs}
        arguments = {a: _shaped(as_int8(_read(tensors[value], region.value(value), step.views.get(a))), shapes[a])
                     for a, value in step.inputs}
        given = executor.run(step, arguments)
        if capture is not None:
            capture(step, {k: np.array(v) for k, v in arguments.items()}, np.array(given))
        result = result_of(step, given, arguments)
        tensors[step.output] = _shaped(result, region.value(step.output).stored_shape)
    values = [region.value(name) for name in region.outputs]
    return [layouts.unpacked(tensors[v.name], v.layout, v.shape, v.dtype) for v in values]


def _shaped(x: Any, shape: tuple[int, ...]) -> Any:
    """``x`` in a shape; asking JAX for the shape that an array has takes as long as a small program."""
    return x if x.shape == shape else x.reshape(shape)


def _read(x: Any, value: Value, view: View | None) -> Any:
    """A tensor of a region as a step reads it."""
    if view is None:
        return x
    if not value.layout.in_tiles:
        return layouts.packed(x.reshape(view.shape), view.layout)
    return layouts.repacked(x, value.layout, value.shape, view.layout, view.shape, view.needs_zeros(value))


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
