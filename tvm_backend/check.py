"""Is the accelerator right? Outputs against onnxruntime, and every layer against the interpreter of its ISA."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from oracle.errors import InputError
from tvm_backend import samples

if TYPE_CHECKING:
    import onnx

    from tvm_backend.compiled import Step
    from tvm_backend.executable import CompiledNetwork
    from tvm_backend.model import Model

SCHEMA = "archloom.check/1"
LEAST_COSINE = 0.999
"""For outputs of floating-point host operators, which have no quantization step to be compared within."""
FLOAT_TOLERANCE = 1e-4
"""For outputs of targets that compute in float32: part of the largest magnitude, since sums have another order."""
DEFAULT_SAMPLES = 4

Reference = Callable[[Mapping[str, np.ndarray]], list[np.ndarray]]
Progress = Callable[[str, int, int], None]


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
class LayerCheck:
    """A layer's stream on the oracle against the NumPy interpreter, on the same inputs."""

    name: str
    max_abs_error: float
    bit_exact: bool


@dataclass(frozen=True)
class Accuracy:
    """Share of the samples that get their label."""

    reference: float
    accelerator: float


@dataclass(frozen=True)
class CheckResult:
    """What was compared with what, and everything that failed (empty: all is well)."""

    model: str
    target: str
    options: Mapping[str, Any]
    reference: Literal["onnxruntime", "host"]
    samples: int
    outputs: tuple[OutputCheck, ...]
    layers: tuple[LayerCheck, ...]
    accuracy: Accuracy | None
    failures: tuple[str, ...]
    schema: str = SCHEMA

    @property
    def passed(self) -> bool:
        return not self.failures

    def to_json(self) -> dict[str, Any]:
        """A JSON object; ``accuracy`` is left out where no labels were given."""
        data = {**asdict(self), "passed": self.passed}
        if self.accuracy is None:
            del data["accuracy"]
        return data


def check(
    model: "Model", target: str, options: Mapping[str, object], *, inputs: Any = None, labels: Any = None,
    reference: Any = None, count: int = DEFAULT_SAMPLES, progress: Progress | None = None,
) -> CheckResult:
    """Compile ``model`` and compare.

    ``inputs``: an array or a mapping of arrays of samples (``count`` random batches if ``None``); ``labels``: a class
    for each sample; ``reference``: a float ONNX network (path or proto) for the reference accuracy. Every layer is
    checked on the first batch.
    """
    from tvm_backend.executable import build

    given = _batches(model, inputs, count)
    exe = build(model, target, options, progress=progress)
    exe.prepare(progress)
    found: list[list[np.ndarray]] = []
    layers: tuple[LayerCheck, ...] = ()
    for batch in given:
        steps: list[_Run] = []
        first = not found
        outputs = exe.run(batch, capture=(lambda *run, into=steps: into.append(_Run(*run))) if first else None)
        if first:
            layers = tuple(_layers(exe, steps, progress))
        found.append(list(outputs.values()))
    compare = _reference(model)
    expected = [compare(batch) for batch in given]
    checks = tuple(_outputs(model, found, expected))
    accuracy = None
    if labels is not None:
        judge = None if reference is None else _float_reference(reference)
        accurate = expected if judge is None else [judge(batch) for batch in given]
        accuracy = Accuracy(_accuracy(accurate, labels), _accuracy(found, labels))
    return CheckResult(
        model.name, target, dict(exe.compiled.options), "host" if model.onnx is None else "onnxruntime",
        sum(len(next(iter(batch.values()), ())) for batch in given), checks, layers, accuracy,
        tuple(_failures(checks, layers, _bounds(model, target, expected))),
    )


def _batches(model: "Model", inputs: Any, count: int) -> list[samples.Batch]:
    if inputs is None:
        return samples.random(model.inputs, count)
    return samples.batches(samples.named(inputs, model.inputs, "inputs"), model.inputs, "inputs")


def _reference(model: "Model") -> Reference:
    """onnxruntime where the network came from ONNX; else the imported network itself, all of it on the host."""
    if model.onnx is not None:
        return _onnx_reference(model.onnx)
    from tvm_backend.host import jitted

    run = jitted(model.module["main"])
    return lambda batch: [np.asarray(y) for y in run(list(batch.values()))]


def _float_reference(reference: "str | Path | onnx.ModelProto") -> Reference:
    from tvm_backend.onnx_files import read_onnx

    return _onnx_reference(read_onnx(Path(reference)) if isinstance(reference, str | Path) else reference)


def _onnx_reference(proto: "onnx.ModelProto") -> Reference:
    from tvm_backend.onnx_reference import integer_session, run

    session = integer_session(proto)
    return lambda batch: list(run(session, batch).values())


@dataclass(frozen=True, eq=False)
class _Run:
    """A step as it ran: its input tensors by argument, and its output."""

    step: "Step"
    arguments: Mapping[str, np.ndarray]
    output: np.ndarray


def _layers(exe: "CompiledNetwork", runs: Sequence[_Run], progress: Progress | None) -> Iterable[LayerCheck]:
    from tvm_backend.executors import InterpreterExecutor

    interpreter = InterpreterExecutor(exe.compiled)
    for i, run in enumerate(runs):
        if progress:
            progress(f"interpreting {run.step.name}", i, len(runs))
        expected = interpreter.run(run.step, run.arguments)
        difference = np.abs(run.output.astype(np.float64) - expected.astype(np.float64))
        same = run.output.dtype == expected.dtype and np.array_equal(run.output, expected)
        yield LayerCheck(run.step.name, float(difference.max(initial=0)), same)


def _outputs(model: "Model", found: Sequence[Sequence[np.ndarray]], expected: Sequence[Sequence[np.ndarray]]
             ) -> Iterable[OutputCheck]:
    steps = {}
    if model.onnx is not None:
        from tvm_backend.output_scales import quantization_steps

        steps = quantization_steps(model.onnx)
    for i, spec in enumerate(model.outputs):
        a = np.stack([batch[i] for batch in found]).astype(np.float64)
        b = np.stack([batch[i].reshape(spec.shape) for batch in expected]).astype(np.float64)
        error = float(np.abs(a - b).max(initial=0))
        step = steps.get(spec.name)
        yield OutputCheck(spec.name, error, _cosine(a, b), _top1(a, b, len(spec.shape)), step,
                          error / step if step else None)


def _cosine(a: np.ndarray, b: np.ndarray) -> float:
    norms = float(np.linalg.norm(a) * np.linalg.norm(b))
    return min(float(np.vdot(a, b)) / norms, 1.0) if norms else float(np.array_equal(a, b))


def _top1(a: np.ndarray, b: np.ndarray, rank: int) -> float | None:
    """Share of rows with the same largest element.

    Equal largest elements, which int8 logits often have, count as the same if one of them is the other's choice.
    """
    if rank < 2 or a.shape[-1] < 2:
        return None
    a, b = a.reshape(-1, a.shape[-1]), b.reshape(-1, b.shape[-1])
    chosen = a.argmax(1)
    return float((b[np.arange(len(b)), chosen] == b.max(1)).mean())


def _accuracy(outputs: Sequence[Sequence[np.ndarray]], labels: Any) -> float:
    scores = np.concatenate([batch[0] for batch in outputs])
    classes = np.asarray(labels)
    if classes.dtype.kind not in "iu" or classes.shape != (len(scores),) or scores.ndim != 2:
        raise InputError(
            f"labels: expected {len(scores)} class numbers, found {classes.dtype} of shape {classes.shape}")
    return float((scores.argmax(1) == classes).mean())


def _bounds(model: "Model", target: str, expected: Sequence[Sequence[np.ndarray]]) -> dict[str, float]:
    """The largest error of each output that rounding explains, for a target that computes in float32."""
    from tvm_backend.uma.choice import backends

    if any(backend.numbers != "float32" for backend in backends(target)):
        return {}
    return {spec.name: FLOAT_TOLERANCE * max(float(np.abs(batch[i]).max(initial=0)) for batch in expected)
            for i, spec in enumerate(model.outputs)}


def _failures(
    outputs: Iterable[OutputCheck], layers: Iterable[LayerCheck], bounds: Mapping[str, float]
) -> Iterable[str]:
    for layer in layers:
        if not layer.bit_exact:
            yield f"layer {layer.name}: differs from the interpreter by up to {layer.max_abs_error:g}"
    for output in outputs:
        if output.name in bounds:
            if not output.max_abs_error <= bounds[output.name]:
                yield (f"output {output.name}: differs by {output.max_abs_error:.3g}, rounding explains "
                       f"{bounds[output.name]:.3g}")
            continue
        # differences are whole steps, up to the rounding of float32
        if output.max_error_in_steps is not None and output.max_error_in_steps > 1.5:
            yield f"output {output.name}: differs by {output.max_error_in_steps:.2f} quantization steps"
        if output.max_error_in_steps is None and not output.cosine >= LEAST_COSINE:
            yield f"output {output.name}: cosine {output.cosine:.6f} is below {LEAST_COSINE}"
        if output.top1_agreement is not None and output.top1_agreement < 1:
            yield f"output {output.name}: {100 * (1 - output.top1_agreement):.1f} % of the largest elements differ"
