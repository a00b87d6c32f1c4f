"""What each layer of a network should give: tensors of the quantized reference, and of the network in floats."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from archloom.tvm_backend.check.reference import integer_session, run
from archloom.tvm_backend.frontends.onnx.editor import Editor
from archloom.tvm_backend.frontends.onnx.integers import to_qdq
from archloom.tvm_backend.ir import expressions as ir
from archloom.tvm_backend.model import Model
from archloom.tvm_backend.passes.own_names import results_of
from archloom.tvm_backend.targets.partition import named

Batch = Mapping[str, np.ndarray]
QUANTIZING = frozenset({"QuantizeLinear", "DequantizeLinear", "DynamicQuantizeLinear", "ConvInteger", "MatMulInteger"})
PASSED = frozenset({"Identity", "Reshape", "Flatten", "Squeeze", "Unsqueeze", "Transpose"})
"""Operators that keep the numbers of a tensor."""
INTEGRAL = "biu"
"""Kinds of types whose tensors are compared in steps (that of bfloat16 is V)."""
PADDED = "_QuantizeLinear_Input"
"""What onnxruntime's quantizer appends to the name of a tensor that is an output of the network."""


@dataclass(frozen=True, eq=False)
class Expected:
    """A layer's result.

    ``integers`` as the quantized reference has them (None for a float network), of which each step is ``scale`` and
    ``zero`` is ``zero``; ``real`` as the float network has it, None where that has no such tensor.
    """

    integers: np.ndarray | None
    real: np.ndarray | None
    scale: float = 1.0
    zero: int = 0


def is_quantized(model: "Model") -> bool:
    """Whether the network quantizes anything."""
    if model.onnx is not None:
        return any(n.op_type in QUANTIZING or n.op_type.startswith(("QLinear", "QGemm")) for n in model.onnx.graph.node)
    return any(ir.op_name(b.value) in ("quantize", "dequantize") for b in ir.bindings(model.module["main"]))


def quantization_steps(proto: "onnx.ModelProto") -> dict[str, float]:
    """For each graph output that is dequantized with one scale, that scale: the smallest possible difference."""
    constants = {t.name: t for t in proto.graph.initializer}
    makers = {name: node for node in proto.graph.node for name in node.output}
    steps = {}
    for output in proto.graph.output:
        node = _before_all(makers.get(output.name), PASSED, makers)
        if node is not None and node.op_type == "DequantizeLinear" and node.input[1] in constants:
            scale = numpy_helper.to_array(constants[node.input[1]])
            if scale.size == 1:
                steps[output.name] = float(scale.reshape(()))
    return steps


def _before_all(node: Any, kinds: Collection[str], makers: Mapping[str, Any]) -> Any:
    """The first node before ``node``, or it itself, that is of none of ``kinds``; None where there is none."""
    while node is not None and node.op_type in kinds:
        node = makers.get(node.input[0])
    return node


def expected_layers(
    model: "Model", results: Mapping[str, str], batch: Batch, reference: "onnx.ModelProto | None"
) -> dict[str, Expected]:
    """For each step what it should give on ``batch``; ``results`` has the network's variable that its result is in
    (:class:`~archloom.tvm_backend.targets.partition.Partitioned`), by which alone the two are told to be the same.

    ``reference`` is the float network that ``model`` was quantized from; without it, its own floats are taken, in
    which weights have the values that they were quantized to.
    """
    if model.onnx is None:
        return _of_relax(model, results, batch)
    held = dict(model.tensors)
    for variable, output in zip(results_of(named(model.module)["main"]), model.outputs, strict=True):
        held[variable] = output.name
    tensors = {step: held[variable] for step, variable in results.items() if variable in held}
    return _of_onnx(model.onnx, tensors, batch, reference)


def _of_onnx(
    proto: "onnx.ModelProto", results: Mapping[str, str], batch: Batch, reference: "onnx.ModelProto | None"
) -> dict[str, Expected]:
    """``results`` has the tensor of each step."""
    from archloom.tvm_backend.quantization.quantize import prepare

    qdq = to_qdq(proto)
    known = {name for node in proto.graph.node for name in node.output}
    # max-pooling of integers may be written as that of floats, quantized again
    again = {n.input[0]: n.output[0] for n in qdq.graph.node if n.op_type == "QuantizeLinear"}
    tensors = {step: again.get(t, t) for step, t in results.items() if again.get(t, t) in known}
    integers = _values(proto, set(tensors.values()), batch)
    makers = {node.output[0]: node for node in qdq.graph.node if node.output}
    floats, source = without_activation_quantization(qdq), {t: t for t in tensors.values()}
    if reference is not None:
        floats = prepare(reference)
        made = {name for node in floats.graph.node for name in node.output}
        names = {t: _activated(_before(t, makers).removesuffix(PADDED), floats, qdq) for t in tensors.values()}
        source = {t: name for t, name in names.items() if name in made}
    real = _values(floats, set(source.values()), batch)
    found = {}
    for step, tensor in tensors.items():
        value, scale, zero = integers[tensor], *_parameters(tensor, makers, qdq)
        exact = real.get(source.get(tensor, ""))
        found[step] = Expected(value if value.dtype.kind in INTEGRAL else None, exact, scale, zero)
    return found


def _before(tensor: str, makers: Mapping[str, Any]) -> str:
    """The float tensor that is quantized to ``tensor``, perhaps with operators on integers between them."""
    node = makers.get(tensor)
    if node is not None and node.op_type == "QuantizeLinear":
        return str(node.input[0])
    return tensor


def _activated(tensor: str, floats: "onnx.ModelProto", quantized: "onnx.ModelProto") -> str:
    """A tensor of the float network, or the result of the activation after it that the quantizer has dropped."""
    readers = [node for node in floats.graph.node if tensor in node.input]
    if len(readers) == 1 and readers[0].op_type in ("Relu", "Clip"):
        (result,) = readers[0].output
        if not any(result in (*node.output, *node.input) for node in quantized.graph.node):
            return str(result)
    return tensor


def _parameters(tensor: str, makers: Mapping[str, Any], proto: "onnx.ModelProto") -> tuple[float, int]:
    """Scale and zero point of a tensor of integers; 1 and 0 for others."""
    node = _before_all(makers.get(tensor), ("MaxPool", "Relu", "Reshape", "Transpose"), makers)
    if node is None or node.op_type != "QuantizeLinear":
        return 1.0, 0
    constants = {t.name: t for t in proto.graph.initializer}
    numbers = [numpy_helper.to_array(constants[name]) for name in node.input[1:] if name in constants]
    scale = float(numbers[0].reshape(-1)[0]) if numbers else 1.0
    return scale, int(numbers[1].reshape(-1)[0]) if len(numbers) > 1 else 0


def _values(proto: "onnx.ModelProto", tensors: set[str], batch: Batch) -> dict[str, np.ndarray]:
    """Tensors of a network by name, as onnxruntime computes them."""
    copy = onnx.ModelProto()
    copy.CopyFrom(proto)
    there = {o.name for o in copy.graph.output}
    copy.graph.output.extend(helper.make_empty_tensor_value_info(t) for t in sorted(tensors - there))
    return run(integer_session(copy), batch)


def _of_relax(model: "Model", results: Mapping[str, str], batch: Batch) -> dict[str, Expected]:
    """By the imported network itself, on the host."""
    from archloom.tvm_backend.host.network import whole

    main = named(model.module)["main"]
    bound = {b.var.name: b for b in ir.bindings(main)}
    steps = {step: name for step, name in results.items() if name in bound}
    names = sorted(set(steps.values()))
    if not names:
        return {}
    variables = [bound[name].var for name in names]
    plain = ir.rebuild(main, ir.bindings(main), variables)
    inputs = list(batch.values())
    values = dict(zip(names, (np.asarray(v) for v in whole(plain)(inputs)), strict=True))
    real = dict(zip(names, (np.asarray(v) for v in whole(plain_floats(main, names))(inputs)), strict=True))
    found = {}
    for step, name in steps.items():
        scale, zero, value = 1.0, 0, values[name]
        call = bound[name].value
        if ir.op_name(call) == "clip" and ir.is_var(call.args[0]):
            call = bound[call.args[0].name].value
        if ir.op_name(call) == "quantize" and all(ir.is_constant(a) for a in call.args[1:3]):
            scale, zero = (ir.const_value(a).reshape(-1)[0] for a in call.args[1:3])
        found[step] = Expected(
            value if value.dtype.kind in INTEGRAL else None, real[name], float(scale), int(zero))
    return found


# a quantized network without the quantization of its activations: the floats that its layers stand for


def without_activation_quantization(model: onnx.ModelProto) -> onnx.ModelProto:
    """A copy of a QDQ network in which activations pass ``QuantizeLinear`` and ``DequantizeLinear`` unchanged.

    Weights keep the values that they were quantized to, so that what differs is what rounding activations does.
    """
    editor = Editor(model)
    real: set[str] = set()
    for node in model.graph.node:
        first = node.input[0] if node.input else ""
        if node.op_type == "QuantizeLinear" and first not in editor.constants:
            real.add(node.output[0])
            # quantizers drop a ReLU where the range begins with 0
            passing = "Relu" if _begins_with_zero(node, editor) else "Identity"
            editor.node(passing, [first], node.output[0], node.name)
        elif node.op_type == "DequantizeLinear" and first in real:
            editor.node("Identity", [first], node.output[0], node.name)
        else:
            if any(name in real for name in node.input):  # operators that pass integers on
                real.update(node.output)
            editor.keep(node)
    result = editor.done()
    if result is not model:
        del result.graph.value_info[:]  # types that were of integers
    return result


def _begins_with_zero(node: onnx.NodeProto, editor: Editor) -> bool:
    """Whether the least number of a quantization is 0."""
    if len(node.input) < 3 or node.input[2] not in editor.constants:
        return False
    zero = editor.value(node.input[2])
    return bool((zero == np.iinfo(zero.dtype).min).all())


def plain_floats(function: Any, names: list[str]) -> Any:
    """A Relax function whose results are the variables ``names``, with activations that are not quantized."""
    replaced: dict[Any, Any] = {}
    real: dict[Any, Any] = {}
    body, found = [], {}
    for binding in ir.bindings(function):
        var, value, op = binding.var, binding.value, ir.op_name(binding.value)
        if op == "dequantize" and ir.is_var(value.args[0]) and value.args[0] in real:
            replaced[var] = real[value.args[0]]
        else:
            value = ir.substitute(value, replaced)
            body.append(ir.bind(var, value))
            if op == "quantize" and ir.is_var(value.args[0]):
                real[var] = value.args[0]
            elif op == "clip" and ir.is_var(value.args[0]) and value.args[0] in real:
                real[var] = real[value.args[0]]  # a narrower range of integers
        if var.name in names:
            found[var.name] = replaced.get(var, real.get(var, var))
    results = [found[name] for name in names] or [
        replaced.get(r, r) if ir.is_var(r) else r for r in ir.outputs_of(function)]
    return ir.rebuild(function, body, results)
