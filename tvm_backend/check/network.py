"""Is the accelerator right? Outputs against onnxruntime, every layer against its operator in integers, the interpreter
of its ISA and the float network, and the accuracy on a data set."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np
import onnx

from archloom.oracle.errors import InputError
from archloom.tvm_backend import datasets, samples
from archloom.tvm_backend.check.layers import LayerCheck, LayerRun, check_layers, distance
from archloom.tvm_backend.check.reference import has_bfloat16, has_foreign, integer_session, run
from archloom.tvm_backend.check.tensors import is_quantized, quantization_steps
from archloom.tvm_backend.check.workload_reference import FLOAT_TOLERANCE
from archloom.tvm_backend.compiled import CompiledModel, Step
from archloom.tvm_backend.executable import build
from archloom.tvm_backend.executors import InterpreterExecutor
from archloom.tvm_backend.frontends.onnx.files import read_onnx
from archloom.tvm_backend.ir import expressions as ir
from archloom.tvm_backend.model import Model
from archloom.tvm_backend.progress import Progress
from archloom.tvm_backend.targets.choice import backends

SCHEMA = "archloom.check/1"
DEFAULT_SAMPLES = 4

MOST_SECONDS = 40
"""Of a processor, to interpret a layer: what each instruction takes is measured before."""

# what counts as correct where results are not equal to the last bit, by what is compared
LEAST_COSINE = 0.999
"""For outputs of floating-point host operators, which have no quantization step to be compared within."""
MOST_STEPS = 1.5
"""Quantization steps by which outputs may differ: whole steps, up to the rounding of float32."""

Reference = Callable[[Mapping[str, np.ndarray]], list[np.ndarray]]
ReferenceName: TypeAlias = Literal[
    "onnxruntime", "onnxruntime, in float32", "onnxruntime, of widened constants",
    "onnxruntime, in float32, of widened constants", "onnxruntime, operator by operator", "host"]


@dataclass(frozen=True)
class OutputCheck:
    """An output of the network against the reference, over all samples.

    ``quantization_step`` is the scale of the output where it is dequantized with one, and ``max_error_in_steps`` the
    largest difference in these steps. ``top1_agreement`` is the share of rows (all axes but the last) whose largest
    element is at the same place; ``None`` for outputs without a class axis.
    """

    name: str
    max_abs_error: float
    cosine: float
    top1_agreement: float | None
    quantization_step: float | None
    max_error_in_steps: float | None


@dataclass(frozen=True)
class Accuracy:
    """Share of the samples that get their label from each of the three.

    ``float_network`` is ``None`` where none was given, ``quantized`` where the network is not quantized.
    """

    float_network: float | None
    quantized: float | None
    accelerator: float

    def to_json(self) -> dict[str, float | None]:
        """A JSON object; ``reference`` is the float network's share, or that of the quantized reference."""
        reference = self.quantized if self.float_network is None else self.float_network
        return {"float": self.float_network, "quantized": self.quantized, "accelerator": self.accelerator,
                "reference": reference}


@dataclass(frozen=True)
class CheckResult:
    """What was compared with what, and everything that failed (empty: all is well).

    ``first_difference`` is the first layer, in the order of execution, whose result in the whole network is not that of
    the quantized reference; ``None`` if all are equal, or there is no such reference. It is no failure by itself: host
    operators in floats (softmax, normalizations) may round the last bit otherwise than onnxruntime's.
    """

    model: str
    target: str
    options: Mapping[str, Any]
    reference: ReferenceName
    samples: int
    outputs: tuple[OutputCheck, ...]
    layers: tuple[LayerCheck, ...]
    first_difference: str | None
    accuracy: Accuracy | None
    failures: tuple[str, ...]
    schema: str = SCHEMA

    def __str__(self) -> str:
        from archloom.tvm_backend.check.text import full_text

        return full_text(self)

    def _repr_html_(self) -> str:
        from archloom.oracle.pages import fragment
        from archloom.tvm_backend.check.text import page

        return fragment(page(self))

    @property
    def passed(self) -> bool:
        return not self.failures

    def to_json(self) -> dict[str, Any]:
        """A JSON object; ``accuracy`` is left out where no labels were given."""
        data = {**_finite(asdict(self)), "passed": self.passed}
        if self.accuracy is None:
            del data["accuracy"]
        else:
            data["accuracy"] = self.accuracy.to_json()
        return data


@np.errstate(all="ignore")  # infinities and NaN are values, no accidents
def check(
    model: "Model", target: str, options: Mapping[str, object], *, inputs: Any = None, labels: Any = None,
    reference: Any = None, count: int = DEFAULT_SAMPLES, most_instructions: int | None = None,
    progress: Progress | None = None,
) -> CheckResult:
    """Compile ``model`` and compare, as :func:`archloom.check` has it: on ``count`` random batches without ``inputs``.
    Every layer is checked on the first batch."""
    if most_instructions is not None and most_instructions < 1:
        raise InputError(f"most_instructions: expected at least 1, found {most_instructions}")
    given, named_labels = _batches(model, inputs, count)
    labels = named_labels if labels is None else labels
    floats = _float_network(reference, model)
    exe = build(model, target, options, progress=progress)
    _check_length(exe.compiled, most_instructions, progress)
    exe.prepare(progress)
    found: list[list[np.ndarray]] = []
    layers: tuple[LayerCheck, ...] = ()
    for batch in given:
        runs: list[LayerRun] = []
        first = not found
        outputs = exe.run(batch, capture=(lambda *run, into=runs: into.append(LayerRun(*run))) if first else None)
        if first:
            layers = tuple(check_layers(exe, model, runs, batch, floats, progress))
        found.append(list(outputs.values()))
    rounded = any(layer.rounding_steps for layer in layers) or (is_quantized(model) and _in_floats(target))
    judged = _judged(model, target, given, found, rounded)
    accuracy = None if labels is None else _accuracies(model, floats, given, judged.expected, found, labels)
    return CheckResult(
        model.name, target, dict(exe.compiled.options), judged.reference,
        sum(samples.rows(batch) for batch in given), judged.outputs, layers,
        next((layer.name for layer in layers if layer.differing), None), accuracy,
        (*_untaken(layers, target), *_layer_failures(layers), *judged.failures),
    )


def _check_length(compiled: CompiledModel, most: int | None, progress: Progress | None) -> None:
    """InputError that names the layer with the most instructions if they are too many to be interpreted; without a
    limit of their number, a layer that would take too long."""
    lengths = {step: compiled.plans[step.name].stream.count() for step in compiled.steps()}
    longest = sorted(lengths, key=lengths.__getitem__, reverse=True)
    if most is not None:
        if longest and lengths[longest[0]] > most:
            raise _too_long(longest[0], f"at most {most:,}, and this one has {lengths[longest[0]]:,}")
        return
    interpreter, measured = InterpreterExecutor(compiled), set[int]()
    for step in longest:
        stream = compiled.plans[step.name].stream
        if id(stream) in measured:
            continue
        measured.add(id(stream))
        if progress:
            progress(f"measuring {step.name}", len(measured) - 1, len(longest))
        if (seconds := interpreter.seconds(step)) > MOST_SECONDS:
            raise _too_long(step, f"those that take {MOST_SECONDS} s, and {lengths[step]:,} of this one take about "
                                  f"{seconds:,.0f} s")


def _too_long(step: Step, why: str) -> InputError:
    return InputError(
        f"layer {step.name}: the interpreter runs every instruction of a layer, {why}; raise the limit to interpret it "
        "all the same (--most-instructions, most_instructions in Python), or check a smaller one")


@dataclass(frozen=True)
class _Judged:
    """Outputs by a reference: what that gives, how far they are from it, and what failed."""

    reference: ReferenceName
    expected: Sequence[Sequence[np.ndarray]]
    outputs: tuple[OutputCheck, ...]
    failures: tuple[str, ...]


def _judged(
    model: "Model", target: str, given: Sequence[samples.Batch], found: Sequence[Sequence[np.ndarray]], rounded: bool,
) -> _Judged:
    """By the first reference that outputs are right by, or else by the first; ``rounded``: layers are not as the
    reference by the machine's own rounding, or by that of floats, which are quantized between layers."""
    by_all = []
    for name, compare in _references(model):
        expected = [compare(batch) for batch in given]
        outputs = tuple(_outputs(model, found, expected))
        failures = tuple(_output_failures(outputs, _bounds(model, target, expected), rounded))
        by_all.append(_Judged(name, expected, outputs, failures))
        if not failures:
            return by_all[-1]
    return by_all[0]


def _finite(value: Any) -> Any:
    """For JSON, which has no infinity and no NaN: null where numbers lie infinitely far apart."""
    if isinstance(value, Mapping):
        return {key: _finite(inner) for key, inner in value.items()}
    if isinstance(value, tuple | list):
        return [_finite(inner) for inner in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _accuracies(
    model: "Model", floats: "onnx.ModelProto | None", given: Sequence[samples.Batch],
    expected: Sequence[Sequence[np.ndarray]], found: Sequence[Sequence[np.ndarray]], labels: Any,
) -> Accuracy:
    """Of the float network, of the quantized reference, and of the accelerator."""
    exact = None
    if floats is not None:
        judge = _onnx_reference(floats)
        exact = _accuracy([judge(batch) for batch in given], labels)
    accuracy = _accuracy(expected, labels)
    if not is_quantized(model):
        return Accuracy(accuracy if exact is None else exact, None, _accuracy(found, labels))
    return Accuracy(exact, accuracy, _accuracy(found, labels))


def _batches(model: "Model", inputs: Any, count: int) -> tuple[list[samples.Batch], np.ndarray | None]:
    """Batches, and the labels of a data set that has some."""
    if inputs is None:
        return samples.random(model.inputs, count), None
    if isinstance(inputs, str):
        found = datasets.testing(inputs, model.inputs)
        return samples.batches(found.inputs, model.inputs, inputs), found.labels
    return samples.batches(samples.named(inputs, model.inputs, "inputs"), model.inputs, "inputs"), None


_NAMES: Mapping[tuple[bool, bool], ReferenceName] = {
    (False, False): "onnxruntime", (True, False): "onnxruntime, in float32",
    (False, True): "onnxruntime, of widened constants",
    (True, True): "onnxruntime, in float32, of widened constants"}
"""By whether a network has bfloat16, and constants of types that onnxruntime does not have."""


def _references(model: "Model") -> Iterator[tuple[ReferenceName, Reference]]:
    """onnxruntime where the network came from ONNX, with its kernels for several operators of a quantized network, some
    of which round where that does not, and without; else the imported network itself, all of it on the host."""
    if model.onnx is not None:
        yield _NAMES[has_bfloat16(model.onnx), has_foreign(model.onnx)], _onnx_reference(model.onnx)
        if is_quantized(model):
            yield "onnxruntime, operator by operator", _onnx_reference(model.onnx, fused=False)
        return
    from archloom.tvm_backend.host.network import whole

    run = whole(model.module["main"])
    yield "host", lambda batch: [np.asarray(y) for y in run(list(batch.values()))]


def _float_network(reference: "str | Path | onnx.ModelProto | None", model: "Model") -> "onnx.ModelProto | None":
    if reference is None:
        return model.floats
    proto = read_onnx(Path(reference)) if isinstance(reference, str | Path) else reference
    missing = {spec.name for spec in model.inputs} - {i.name for i in proto.graph.input}
    if missing:
        raise InputError(f"reference: it has no input {min(missing)!r}, which the network has")
    return proto


def _onnx_reference(proto: "onnx.ModelProto", *, fused: bool = True) -> Reference:
    session = integer_session(proto, fused=fused)
    return lambda batch: list(run(session, batch).values())


def _outputs(model: "Model", found: Sequence[Sequence[np.ndarray]], expected: Sequence[Sequence[np.ndarray]]
             ) -> Iterable[OutputCheck]:
    steps = {} if model.onnx is None else quantization_steps(model.onnx)
    for i, spec in enumerate(model.outputs):
        a = np.stack([batch[i] for batch in found]).astype(np.float64)
        b = np.stack([batch[i].reshape(spec.shape) for batch in expected]).astype(np.float64)
        error = float(distance(a, b).max(initial=0))
        step = steps.get(spec.name)
        yield OutputCheck(spec.name, error, _cosine(a, b), _top1(a, b, len(spec.shape)), step,
                          error / step if step else None)


def _cosine(a: np.ndarray, b: np.ndarray) -> float:
    """Of the numbers that are finite on one side at least: what is not, is not on the other (or no cosine will do)."""
    finite = np.isfinite(a) & np.isfinite(b)
    if distance(a[~finite], b[~finite]).any():
        return -1.0
    a, b = a[finite], b[finite]
    norms = float(np.linalg.norm(a) * np.linalg.norm(b))
    return min(float(np.vdot(a, b)) / norms, 1.0) if norms else float(np.array_equal(a, b))


def _top1(a: np.ndarray, b: np.ndarray, rank: int) -> float | None:
    """Share of rows with the same largest element. Equal largest elements, which int8 logits often have, count as the
    same if one of them is the other's choice."""
    if rank < 2 or a.shape[-1] < 2:
        return None
    a, b = a.reshape(-1, a.shape[-1]), b.reshape(-1, b.shape[-1])
    chosen = a.argmax(1)
    return float((distance(b[np.arange(len(b)), chosen], b.max(1)) == 0).mean())


def _accuracy(outputs: Sequence[Sequence[np.ndarray]], labels: Any) -> float:
    scores = np.concatenate([batch[0] for batch in outputs])
    classes = np.asarray(labels)
    if classes.dtype.kind not in "iu" or classes.shape != (len(scores),) or scores.ndim != 2:
        raise InputError(
            f"labels: expected {len(scores)} class numbers, found {classes.dtype} of shape {classes.shape}")
    return float((scores.argmax(1) == classes).mean())


def _bounds(model: "Model", target: str, expected: Sequence[Sequence[np.ndarray]]) -> dict[str, float]:
    """The largest error of each output that rounding explains, of a network that is computed in floats."""
    numbers = [backend.numbers for backend in backends(target)]
    if is_quantized(model) or not set(FLOAT_TOLERANCE).issuperset(numbers):
        return {}
    given = {spec.dtype for spec in (*model.inputs, *model.outputs)}
    given |= {ir.dtype_of(b.var) for b in ir.bindings(model.module["main"]) if ir.is_tensor(b.var)}
    tolerance = max(t for n, t in FLOAT_TOLERANCE.items() if n in numbers or n in given)
    return {spec.name: tolerance * max(float(np.abs(batch[i]).max(initial=0, where=np.isfinite(batch[i])))
                                       for batch in expected) for i, spec in enumerate(model.outputs)}


def _in_floats(target: str) -> bool:
    """Whether quantized networks are computed in floats, too."""
    return not any(backend.takes_integers for backend in backends(target))


def _untaken(layers: Sequence[LayerCheck], target: str) -> list[str]:
    """That there was nothing to check, which proves nothing."""
    return [] if layers else [f"nothing of it runs on {target}, so nothing was checked: archloom compile --coverage "
                              "says why"]


def _layer_failures(layers: Iterable[LayerCheck]) -> Iterable[str]:
    for layer in layers:
        if layer.max_abs_error or not layer.as_interpreted:
            yield f"layer {layer.name}: differs from the interpreter by up to {layer.max_abs_error:g}"
        elif not layer.bit_exact:
            yield (f"layer {layer.name}: differs from its operator in integers by up to {layer.integer_error:g}: "
                   f"{layer.misplaced}")
        elif layer.misplaced is not None:
            yield f"layer {layer.name}: differs from its operator by more than rounding explains: {layer.misplaced}"
        elif layer.rounding_steps is not None and layer.rounding_steps > 1:
            yield (f"layer {layer.name}: the machine's rounding is {layer.rounding_steps:g} steps from that of "
                   "float32; expected 1 at most")


def _output_failures(
    outputs: Iterable[OutputCheck], bounds: Mapping[str, float], rounded: bool
) -> Iterable[str]:
    """What is not right; where layers are ``rounded`` otherwise, steps add up from layer to layer, and the cosine
    decides."""
    for output in outputs:
        if output.name in bounds:
            if not output.max_abs_error <= bounds[output.name]:
                yield (f"output {output.name}: differs by {output.max_abs_error:.3g}, rounding explains "
                       f"{bounds[output.name]:.3g}")
            continue
        if output.max_error_in_steps is not None and output.max_error_in_steps > MOST_STEPS and not rounded:
            yield f"output {output.name}: differs by {output.max_error_in_steps:.2f} quantization steps"
        if (rounded or output.max_error_in_steps is None) and not output.cosine >= LEAST_COSINE:
            yield f"output {output.name}: cosine {output.cosine:.6f} is below {LEAST_COSINE}"
        if not rounded and output.top1_agreement is not None and output.top1_agreement < 1:
            yield f"output {output.name}: {100 * (1 - output.top1_agreement):.1f} % of the largest elements differ"
