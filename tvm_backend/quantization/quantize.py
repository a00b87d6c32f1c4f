"""Post-training static quantization of a float ONNX network to QDQ, in the form that an accelerator computes exactly.

Calibration and rewriting are onnxruntime's; what is added is the choice of scales. An int8 accelerator requantizes a
sum once, by one float32 factor, so tensors that meet or pass through it must agree on their scales:

- both inputs of a residual ``Add`` share one scale, so that it is an integer addition;
- the result of an operator that only feeds a ``Relu`` or a ``Clip(0, ...)`` takes that activation's scale: then
  quantize → dequantize → relu → quantize is ``max(0, saturate(...))`` of the same integer;
- ``MaxPool`` keeps the scale of its input, so that it compares integers.

Zero points are 0, unless a scheme asks for others; biases are int32 in units of (input scale × weight scale).
"""

from __future__ import annotations

import contextlib
import io
import logging
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import onnx
from onnx import numpy_helper

from archloom.oracle.errors import InputError, ModelError
from archloom.tvm_backend.frontends.onnx import joined, rewrites
from archloom.tvm_backend.frontends.onnx.control_flow import straight
from archloom.tvm_backend.frontends.onnx.editor import Editor, copied, inputs_of, known_shapes, read_counts, rewrite
from archloom.tvm_backend.frontends.onnx.einsum import einsum_as_products
from archloom.tvm_backend.frontends.onnx.files import read_onnx
from archloom.tvm_backend.frontends.onnx.functions import HIDING_PRODUCTS, without_functions
from archloom.tvm_backend.frontends.onnx.recurrent import frame_by_frame, frames_first
from archloom.tvm_backend.frontends.onnx.versions import for_onnxruntime, renewed
from archloom.tvm_backend.progress import Progress
from archloom.tvm_backend.quantization import scheme as schemes
from archloom.tvm_backend.quantization.calibration import (
    Given,
    Wanted,
    batches,
    example_of,
    refuse_no_samples,
    refuse_other_floats,
)
from archloom.tvm_backend.quantization.scheme import ANCHORS, INT8_SYMMETRIC, KEEP_SCALE, OPERATORS, Scheme
from archloom.tvm_backend.samples import Batch

if TYPE_CHECKING:
    import torch

BINS = {"minmax": 0, "entropy": 1024, "percentile": 2048}
"""Bins of a histogram. By default onnxruntime takes 128 for entropy, as many as there are quantized: then no range is
narrower than the whole."""
Step: TypeAlias = Callable[[onnx.ModelProto], onnx.ModelProto]

# What is done to a float network before it is quantized, in order, and why in this order: the same for
# :mod:`.quantized_form`. Between them constants are folded and normalizations become parts of convolutions.
BEFORE_FOLDING: tuple[Step, ...] = (
    straight,  # what is in branches and loops is quantized, too
    frames_first,  # recurrent layers of one layout, which is the one that can be written out ...
    frame_by_frame,  # ... as products, which the steps below bring into form
    rewrites.sums_to_additions,  # additions may be quantized, sums of several may not
    joined.whole_functions,
    rewrites.hard_swish_by_sigmoid,  # which onnxruntime would write otherwise than importers read it
    rewrites.padded_windows,  # which onnxruntime would do while it folds
    rewrites.plain_convolutions,  # the reshapes and slices around them take the scale of what they pass on
    einsum_as_products,  # which would stay in floats
    rewrites.products_of_matrices,  # vectors first: the steps below look at the last two axes
    rewrites.constants_second,  # before batches, which leave a single matrix alone only where it is the second operand
    rewrites.equal_batches,
    joined.equal_nodes_once,  # of what is written by the steps above, too
)
AFTER_FOLDING: tuple[Step, ...] = (
    rewrites.plain_gemms,  # folding makes a Gemm of some products and additions, with factors and biases of any shape
    rewrites.biased_products,  # the products of more than two axes, which folding leaves
    joined.reshapes_at_once,  # those around products, too
)


def applied(steps: Sequence[Step], model: onnx.ModelProto) -> onnx.ModelProto:
    """The network after all steps."""
    for step in steps:
        model = step(model)
    return model


def quantize(
    model: onnx.ModelProto | torch.nn.Module | str | Path, calibration: Given,
    scheme: Scheme = INT8_SYMMETRIC, *, name: str = "", progress: Progress = lambda what, done, total: None,
) -> onnx.ModelProto:
    """Quantize a float network (ONNX, or a torch module that torch can export to ONNX) to int8 QDQ.

    ``calibration`` has representative inputs, see :mod:`.calibration`; for a torch module the first one is also what it
    is exported on. ``name`` is what the result is called: a torch module's class, or as before, if not given. Raises
    :class:`~archloom.oracle.errors.ModelError` for a network that cannot be read or is already quantized, and
    :class:`~archloom.oracle.errors.InputError` for samples that do not fit.
    """
    from onnxruntime.quantization import QuantType
    from onnxruntime.quantization.qdq_quantizer import QDQQuantizer

    refuse_no_samples(calibration)
    if hasattr(model, "state_dict"):
        from archloom.tvm_backend.frontends.torch.export import to_onnx

        example, calibration = example_of(model, calibration)
        refuse_other_floats(model, example)
        name = name or type(model).__name__
        model = to_onnx(model, example, name)
    prepared = prepare(model)
    prepared.graph.name = name or prepared.graph.name  # torch calls all of them main_graph
    ranges = _calibrate(prepared, calibration, scheme, progress)
    progress("quantizing", 0, 0)
    _share_scales(prepared, ranges, scheme.symmetric)
    floats = float_additions(prepared)
    try:
        quantizer = QDQQuantizer(
            prepared, scheme.per_channel, False, QuantType.QInt8, QuantType.QInt8, ranges, [],
            [n.name for n in prepared.graph.node if n.op_type == "Add" and n.output[0] in floats], list(OPERATORS),
            # a ReLU may only be dropped where the range begins with 0, and ranges are shared
            {"QDQKeepRemovableActivations": True, "ActivationSymmetric": scheme.symmetric, "WeightSymmetric": True,
             "QDQDisableWeightAdjustForInt32Bias": False,
             "OpTypesToExcludeOutputQuantization": ["MatMul", "Gemm"] if scheme.float_results else []},
        )
        with _quiet():
            quantizer.quantize_model()
            quantizer.model.topological_sort()
    except Exception as error:  # onnxruntime's own types, and those of its mistakes
        raise ModelError(f"network: cannot be quantized: {type(error).__name__}: {error}") from error
    return quantizer.model.model


def prepare(model: onnx.ModelProto | str | Path) -> onnx.ModelProto:
    """Fold batch normalization, infer shapes and bring the operator set to one with QDQ (13 or newer)."""
    from onnxruntime.quantization.shape_inference import quant_pre_process

    label = "network" if isinstance(model, onnx.ModelProto) else str(model)
    proto = model if isinstance(model, onnx.ModelProto) else read_onnx(Path(model))
    if any(node.op_type in ("QuantizeLinear", "QLinearConv", "QLinearMatMul") for node in proto.graph.node):
        raise ModelError(f"{label}: expected a float network to quantize, found one that is already quantized")
    try:
        proto = for_onnxruntime(renewed(proto, label), label)
        with tempfile.TemporaryDirectory(prefix="archloom-quantize-") as folder, _quiet():
            source, folded, path = (Path(folder) / f"{name}.onnx" for name in ("float", "folded", "prepared"))
            written = copied(applied(BEFORE_FOLDING, without_functions(proto, HIDING_PRODUCTS)))
            _name_nodes(written)
            onnx.save(written, source)
            _fold(source, folded)
            quant_pre_process(folded, path, skip_symbolic_shape=True, skip_optimization=True)
            prepared = applied(AFTER_FOLDING, onnx.load(path))
            for node in prepared.graph.node:  # onnxruntime marks the matmuls that it has joined with their biases
                node.name = node.name.removesuffix("/MatMulAddFusion")
            _name_nodes(prepared)
            return prepared
    except ModelError:
        raise
    except Exception as error:  # onnxruntime raises its own unrelated types for a network it cannot run
        raise ModelError(f"{label}: cannot be prepared for quantization: {error}") from error


def _fold(source: Path, target: Path) -> None:
    """Let onnxruntime fold constants and take normalizations and biases into the operators before them. All else it
    leaves as it is: an estimate has no weights to give it."""
    from onnxruntime import GraphOptimizationLevel, InferenceSession, SessionOptions

    options = SessionOptions()
    options.optimized_model_filepath = str(target)
    options.graph_optimization_level = GraphOptimizationLevel.ORT_ENABLE_BASIC
    InferenceSession(str(source), options, providers=["CPUExecutionProvider"],
                     disabled_optimizers=list(joined.LEFT_OUT))


def _name_nodes(model: onnx.ModelProto) -> None:
    """Give each node a name of its own, in place: what is left in floats is told to onnxruntime by names."""
    taken: set[str] = set()
    for node in model.graph.node:
        if not node.name or node.name in taken:
            node.name = f"{node.name or node.op_type}:{node.output[0]}"
        taken.add(node.name)


class _Reader:
    """onnxruntime's calibration data reader over batches, which counts them."""

    def __init__(self, batches: Iterator[Batch], progress: Progress) -> None:
        self.batches, self.progress = batches, progress
        self.count = 0

    def get_next(self) -> Batch | None:
        batch = next(self.batches, None)
        self.count += batch is not None
        self.progress(f"calibrating with sample {self.count}", 0, 0)
        return batch


def _calibrate(model: onnx.ModelProto, samples: Given, scheme: Scheme, progress: Progress) -> Any:
    """Ranges of all activations (onnxruntime's ``TensorsData``)."""
    from onnxruntime.quantization import CalibrationDataReader
    from onnxruntime.quantization.calibrate import CalibrationMethod, create_calibrator

    methods = {
        "minmax": CalibrationMethod.MinMax, "entropy": CalibrationMethod.Entropy,
        "percentile": CalibrationMethod.Percentile,
    }
    reader = _Reader(batches(samples, [_wanted(i) for i in inputs_of(model.graph)]), progress)
    CalibrationDataReader.register(_Reader)
    with tempfile.TemporaryDirectory(prefix="archloom-quantize-") as folder, _quiet():
        path = Path(folder) / "float.onnx"
        onnx.save(_without_float_additions(model), path)
        try:
            calibrator = create_calibrator(
                path, list(OPERATORS), augmented_model_path=str(Path(folder) / "augmented.onnx"),
                calibrate_method=methods[scheme.calibration],
                extra_options={"symmetric": scheme.symmetric, "percentile": scheme.percentile,
                               "num_bins": BINS[scheme.calibration]})
        except Exception as error:  # onnxruntime cannot run the network, and says so in types of its own
            raise ModelError(f"network: cannot be calibrated: {' '.join(str(error).split())[:400]}") from error
        try:
            with contextlib.redirect_stdout(io.StringIO()):  # it tells of histograms by print
                calibrator.collect_data(reader)
        except (InputError, ModelError):
            raise
        except Exception as error:  # onnxruntime's own types: wrong shape, dtype or rank of a sample
            if reader.count == 0:
                raise InputError("calibration: expected at least one sample, found none") from error
            raise InputError(f"calibration sample {reader.count}: {error}") from error
        with contextlib.redirect_stdout(io.StringIO()):
            ranges = calibrator.compute_data()
    if scheme.calibration == "entropy" and not scheme.symmetric:
        _within(ranges, {name: found[2:4] for name, found in calibrator.collector.histogram_dict.items()})
    return ranges


def _wanted(info: onnx.ValueInfoProto) -> Wanted:
    return Wanted(info.name, tuple(
        d.dim_value if d.HasField("dim_value") else None for d in info.type.tensor_type.shape.dim))


def _within(ranges: Any, seen: Mapping[str, tuple[Any, Any]]) -> None:
    """Cut ranges to the least and the largest value that was seen, in place: entropy finds them around zero."""
    from onnxruntime.quantization.calibrate import TensorData

    for name, (low, high) in seen.items():
        bounds = np.asarray(ranges[name].range_value, np.float32).reshape(-1)
        lowest, highest = max(float(bounds[0]), float(low)), min(float(bounds[1]), float(high))
        ranges.data[name] = TensorData(lowest=np.float32(lowest), highest=np.float32(highest))


def _without_float_additions(model: onnx.ModelProto) -> onnx.ModelProto:
    """The network with additions that stay in floats written otherwise: a - (-b). Only what is quantized is then
    calibrated. Histograms cannot hold the masks of attention, whose values are the least that there are."""
    in_floats = float_additions(model)

    def as_difference(node: onnx.NodeProto, editor: Editor) -> bool:
        if node.output[0] not in in_floats:
            return False
        a, b = node.input
        name = node.output[0]
        editor.node("Sub", [a, editor.node("Neg", [b], f"{name}.negative", "")], name, node.name)
        return True

    return rewrite(model, {"Add": as_difference})


def _share_scales(model: onnx.ModelProto, ranges: Any, symmetric: bool) -> None:
    """Give the tensors of every group in :func:`scale_groups` one range, in place."""
    from onnxruntime.quantization.calibrate import TensorData

    for members, shadowed in scale_groups(model, with_additions=symmetric):
        known = [name for name in members if name in ranges.data]
        leading = [name for name in known if name not in shadowed] or known
        if not leading:
            continue
        bounds = [np.asarray(ranges[name].range_value, np.float32).reshape(-1) for name in leading]
        low, high = min(b.min() for b in bounds), max(b.max() for b in bounds)
        if symmetric:
            high = max(-low, high)
            low = -high
        for name in known:
            ranges.data[name] = TensorData(lowest=np.float32(low), highest=np.float32(high))


def scale_groups(model: onnx.ModelProto, with_additions: bool = True) -> list[tuple[list[str], set[str]]]:
    """Groups of tensors that share one scale, each with those members whose own range does not count.

    Operands of additions only need to where an accelerator adds them as integers.

    A result that only feeds an activation does not count: what it saturates, the activation would have cut off or the
    activation's range covers.
    """
    producer = {out: node for node in model.graph.node for out in node.output}
    readers = read_counts(model)
    parent: dict[str, str] = {}

    def find(name: str) -> str:
        parent.setdefault(name, name)
        while parent[name] != name:
            parent[name] = parent[parent[name]]
            name = parent[name]
        return name

    shadowed: set[str] = set()
    in_floats = float_additions(model)
    for node in model.graph.node:
        if node.op_type == "Add" and with_additions and node.output[0] not in in_floats:
            parent[find(node.input[0])] = find(node.input[1])
        elif node.op_type in KEEP_SCALE:
            parent[find(node.input[0])] = find(node.output[0])
        elif node.op_type == "Relu" or (node.op_type == "Clip" and _clips_at_zero(node, model)):
            before = [node.input[0]]  # what only this activation sees, back to the operator that makes it
            source = producer.get(before[-1])
            while source is not None and source.op_type in schemes.RESHAPES:
                before.append(source.input[0])
                source = producer.get(before[-1])
            if source is not None and source.op_type in ANCHORS and all(readers[name] == 1 for name in before):
                parent[find(node.input[0])] = find(node.output[0])
                shadowed.update(before)
    groups = defaultdict[str, list[str]](list)
    for name in list(parent):
        groups[find(name)].append(name)
    return [(members, shadowed & set(members)) for members in groups.values() if len(members) > 1]


def float_additions(model: onnx.ModelProto) -> set[str]:
    """Results of the additions that stay in floats: all but residual ones between quantized operators.

    An accelerator adds tensors of one shape. Constants, masks of attention (whose magnitude leaves nothing of the
    scores in eight bits) and sums that are only normalized stay as they are.
    """
    constants = {i.name for i in model.graph.initializer}
    shapes = known_shapes(model)
    readers = defaultdict[str, "list[onnx.NodeProto]"](list)
    for node in model.graph.node:
        for name in node.input:
            readers[name].append(node)
    # whether the user or an operator of integers reads a tensor, perhaps through others that pass it on
    feeds_integers = {output.name: True for output in model.graph.output}
    for node in reversed(model.graph.node):  # readers come behind what they read
        for name in node.output:
            feeds_integers.setdefault(name, any(
                reader.op_type in schemes.AVERAGES or reader.op_type in ANCHORS - {"Add"}
                or (reader.op_type in schemes.PASSING and feeds_integers.get(reader.output[0], False))
                for reader in readers[name]))
    found = set()
    for node in model.graph.node:
        if node.op_type == "Add":
            a, b = node.input
            fits = not {a, b} & constants and shapes.get(a) == shapes.get(b)
            if not fits or not feeds_integers[node.output[0]]:
                found.add(node.output[0])
    return found


def _clips_at_zero(node: onnx.NodeProto, model: onnx.ModelProto) -> bool:
    if len(node.input) < 2 or not node.input[1]:
        return False
    low = next((i for i in model.graph.initializer if i.name == node.input[1]), None)
    return low is not None and float(numpy_helper.to_array(low).reshape(-1)[0]) == 0.0


WARNINGS, ERRORS = 2, 3
"""Severities of onnxruntime, of which the first is its default."""


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """onnxruntime's quantizer logs advice on the root logger that does not apply here, its sessions warn of theirs."""
    import onnxruntime

    level = logging.getLogger().level
    onnxruntime.set_default_logger_severity(ERRORS)
    logging.getLogger().setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logging.getLogger().setLevel(level)
        onnxruntime.set_default_logger_severity(WARNINGS)
