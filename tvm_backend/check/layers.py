"""Every layer as it ran in a network: against the interpreter, its operator in integers, and the references."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import onnx

from archloom.tvm_backend.check.tensors import INTEGRAL, Expected, expected_layers
from archloom.tvm_backend.check.workload_reference import (
    in_floats,
    result_of_sums,
    rounding_steps,
    steps_of_nest,
    sums_of,
)
from archloom.tvm_backend.compiled import Step, Value
from archloom.tvm_backend.executable import CompiledNetwork
from archloom.tvm_backend.executors import InterpreterExecutor
from archloom.tvm_backend.model import Model
from archloom.tvm_backend.progress import Progress
from archloom.tvm_backend.targets.layouts import HEADS, unpacked

MOST_DECIBELS = 300.0
"""What stands for no noise at all: beyond what float64 resolves."""


@dataclass(frozen=True)
class LayerCheck:
    """A layer as it ran.

    On the same inputs: ``max_abs_error`` is the largest difference to the NumPy interpreter of the ISA, and
    ``integer_error`` that to the operator itself, computed in integers (None for operators on floats, and for nests of
    loops); ``bit_exact`` says that the layer equals both, value and type. In the whole network: ``differing`` is the
    share of elements that are not those of the quantized reference and ``most_steps`` the largest difference in
    quantization steps (None without such a reference), ``snr_db`` the power of the float network's tensor over that of
    the difference to it, in decibels (None where the float network has no such tensor). ``rounding_steps``: by how many
    steps at most a machine's own rounding of the sums differs from that by float32 factors, which is onnxruntime's
    (None where it has that). ``misplaced``: which elements are not the operator's (of floats: not within what rounding
    explains), and the first of them; None where all are, or nothing says what they are.
    """

    name: str
    op: str
    max_abs_error: float
    integer_error: float | None
    as_interpreted: bool
    bit_exact: bool
    differing: float | None
    most_steps: float | None
    snr_db: float | None
    rounding_steps: float | None = None
    misplaced: str | None = None


@dataclass(frozen=True, eq=False)
class LayerRun:
    """A step as it ran: its input tensors by argument, and its output, in the workload's shapes."""

    step: "Step"
    arguments: Mapping[str, np.ndarray]
    output: np.ndarray


def check_layers(
    exe: "CompiledNetwork", model: "Model", runs: Sequence[LayerRun], batch: Mapping[str, np.ndarray],
    floats: "onnx.ModelProto | None", progress: Progress | None = None,
) -> Iterable[LayerCheck]:
    """The layers of one run of ``exe`` on ``batch``; ``floats`` is the network that ``model`` was quantized from."""
    interpreter = InterpreterExecutor(exe.compiled)
    if progress:
        progress("computing references of the layers", 0, len(runs))
    expected = expected_layers(model, {run.step.name: run.step.variable for run in runs}, batch, floats)
    values = {step: region.value(step.output) for region in exe.compiled.regions for step in region.steps}
    for i, run in enumerate(runs):
        if progress:
            progress(f"interpreting {run.step.name}", i, len(runs))
        interpreted = interpreter.run(run.step, run.arguments, progress)
        error, same = _difference(run.output, interpreted)
        integers, exact, steps, misplaced = _as_operator(run)
        yield LayerCheck(
            run.step.name, run.step.op, error, integers, same, same and exact,
            *_against(run, values[run.step], expected.get(run.step.name)), steps, misplaced)


def _as_operator(run: LayerRun) -> tuple[float | None, bool, float | None, str | None]:
    """Largest difference to the operator in integers, whether there is none, ``rounding_steps`` and ``misplaced``."""
    work, tensors = run.step.workload, {**run.arguments, **run.step.constants}
    if work.kind == "nest":
        return None, True, steps_of_nest(work, tensors, run.output), None
    if work.inputs[0].dtype != "int8":
        found = in_floats(work, tensors)
        return None, True, None, None if found is None else _misplaced(run, *found)
    sums = sums_of(work, tensors)
    result = result_of_sums(sums, work, tensors)
    return (*_difference(run.output, result), rounding_steps(sums, work.epilogue, tensors), _misplaced(run, result, 0))


def _misplaced(run: LayerRun, expected: np.ndarray, bound: float) -> str | None:
    """Which elements of a layer's result differ by more than ``bound``: how many, between which places, and the first
    one."""
    wrong = distance(run.output, expected) > bound
    if not wrong.any():
        return None
    names, places = run.step.workload.output.names, np.argwhere(wrong)
    axes = [axis for axis, extent in enumerate(wrong.shape) if extent > 1]
    first, last, at = places.min(0), places.max(0), tuple(places[0].tolist())
    within = ", ".join(f"{names[axis]} {first[axis]}..{last[axis]}" for axis in axes)
    place = " ".join(f"{names[axis]}={at[axis]}" for axis in axes)
    numbers = f"expected {expected[at]:g}, found {run.output[at]:g}"
    if not axes:
        return numbers
    return f"{len(places):,} of {wrong.size:,} elements, within {within}; the first is {place}: {numbers}"


def _difference(a: np.ndarray, b: np.ndarray) -> tuple[float, bool]:
    gap = distance(a, b)
    return float(gap.max(initial=0)), a.dtype == b.dtype and not gap.any()


def distance(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """How far numbers lie apart: 0 also for the same infinity and for two that are not a number, infinitely far where
    only one is."""
    a, b = a.astype(np.float64), b.astype(np.float64)
    with np.errstate(invalid="ignore"):
        gap = np.abs(a - b)
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    return np.where(same, 0.0, np.where(np.isnan(gap), np.inf, gap))


def _against(
    run: LayerRun, value: "Value", expected: Expected | None
) -> tuple[float | None, float | None, float | None]:
    """``differing``, ``most_steps`` and ``snr_db`` of :class:`LayerCheck`."""
    if expected is None:
        return None, None, None
    output = np.asarray(run.step.result(run.output, run.arguments)).reshape(value.stored_shape)
    output = unpacked(output, value.layout, value.shape, value.dtype)
    if output.shape != run.step.shape and value.layout == HEADS:  # kept with the heads behind the length
        output = output.transpose(0, 2, 1, 3)
    if run.step.channels_last and output.ndim == 4:  # images of one dimension for rows and columns are made such below
        output = output.transpose(0, 3, 1, 2)
    output = _as_image(output, next((t.shape for t in (expected.integers, expected.real) if t is not None), ()))
    differing = steps = None
    if expected.integers is not None and expected.integers.size == output.size and output.dtype.kind in INTEGRAL:
        gap = np.abs(output.astype(np.int64) - expected.integers.reshape(output.shape).astype(np.int64))
        differing, steps = float((gap != 0).mean()), float(gap.max(initial=0))
    decibels = None
    if expected.real is not None and expected.real.size == output.size:
        real = expected.real.reshape(output.shape).astype(np.float64)
        decibels = snr_db(real, (output.astype(np.float64) - expected.zero) * expected.scale)
    return differing, steps, decibels


def _as_image(output: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """The product of a convolution's gathered windows, [images and groups, places, channels], as the image; others as
    they are."""
    if len(shape) != 4 or output.size != math.prod(shape):
        return output
    gathered = output.ndim == 3 and output.shape[1] == math.prod(shape[2:])
    return output.transpose(0, 2, 1).reshape(shape) if gathered else output


def snr_db(signal: np.ndarray, approximation: np.ndarray) -> float:
    """10 · log10(Σ signal² / Σ (signal - approximation)²), from -300 to 300."""
    power = float(np.square(signal, dtype=np.float64).sum())
    noise = float(np.square(distance(signal, approximation)).sum())
    if noise == 0:
        return MOST_DECIBELS
    if not 0 < (ratio := power / noise) < math.inf:
        return -MOST_DECIBELS
    return min(max(10 * math.log10(ratio), -MOST_DECIBELS), MOST_DECIBELS)
