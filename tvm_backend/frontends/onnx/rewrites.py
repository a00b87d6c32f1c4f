"""Rewrites of ONNX networks before import, where TVM's converters scatter an operator over several."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import onnx

WINDOWED = frozenset({"Conv", "MaxPool", "AveragePool"})


def explicit_padding(model: "onnx.ModelProto") -> "onnx.ModelProto":
    """Replace ``auto_pad`` by ``pads``, in place, wherever shapes are known (TVM would emit a separate pad)."""
    from onnx import helper

    padded = [node for node in model.graph.node if node.op_type in WINDOWED and node.domain in ("", "ai.onnx")
              and any(a.name == "auto_pad" for a in node.attribute)]
    shapes = known_shapes(model) if padded else {}
    for node in padded:
        attributes = {a.name: helper.get_attribute_value(a) for a in node.attribute}
        mode = attributes.get("auto_pad", b"NOTSET").decode()
        shape = shapes.get(node.input[0])
        if mode == "NOTSET" or shape is None:
            continue
        kernel = attributes.get("kernel_shape")
        if kernel is None:
            weights = shapes.get(node.input[1])
            if weights is None:
                continue
            kernel = weights[2:]
        kept = [a for a in node.attribute if a.name not in ("auto_pad", "pads")]
        del node.attribute[:]
        node.attribute.extend(kept)
        node.attribute.append(helper.make_attribute("pads", _pads(mode, shape[2:], kernel, attributes)))
    return model


def axes_within(model: "onnx.ModelProto") -> "onnx.ModelProto":
    """Let ``QuantizeLinear`` and ``DequantizeLinear`` of vectors name axis 0, in place; their default is axis 1.

    With one scale the axis means nothing, but TVM refuses one that is not there.
    """
    from onnx import helper

    shapes = None
    for node in model.graph.node:
        if node.op_type in ("QuantizeLinear", "DequantizeLinear") and not any(a.name == "axis" for a in node.attribute):
            shapes = known_shapes(model) if shapes is None else shapes
            if len(shapes.get(node.input[0], (0, 0))) < 2:
                node.attribute.append(helper.make_attribute("axis", 0))
    return model


def sums_to_additions(model: "onnx.ModelProto") -> "onnx.ModelProto":
    """Replace ``Sum`` by additions, in place: old networks write residuals so, and TVM would stack the operands."""
    from onnx import helper

    if not any(node.op_type == "Sum" for node in model.graph.node):
        return model
    nodes = []
    for node in model.graph.node:
        if node.op_type != "Sum" or node.domain not in ("", "ai.onnx"):
            nodes.append(node)
            continue
        total = node.input[0]
        if len(node.input) == 1:
            nodes.append(helper.make_node("Identity", [total], list(node.output), node.name))
        for position, operand in enumerate(node.input[1:], start=2):
            last = position == len(node.input)
            name = node.name if last else f"{node.name or node.output[0]}.{position - 1}"
            result = node.output[0] if last else f"{node.output[0]}.{position - 1}"
            nodes.append(helper.make_node("Add", [total, operand], [result], name))
            total = result
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    return model


def biased_products(model: "onnx.ModelProto") -> "onnx.ModelProto":
    """Make a product of a tensor of over two axes by a constant matrix, plus a constant row, one ``Gemm``, in place.

    onnxruntime's quantizer gives the bias of a ``Gemm`` the scale of the sums, and that of ``MatMul`` and ``Add`` eight
    bits of its own. Shapes must be known; what is not is left alone.
    """
    import numpy as np
    from onnx import helper, numpy_helper

    shapes = known_shapes(model)
    constants = {t.name for t in model.graph.initializer}
    readers = Counter(name for node in model.graph.node for name in node.input)
    readers.update(output.name for output in model.graph.output)
    products = {node.output[0]: node for node in model.graph.node if node.op_type == "MatMul"}
    joined: dict[str, list[onnx.NodeProto]] = {}
    for node in model.graph.node:
        sides = [(node.input[i], node.input[1 - i]) for i in range(2)] if node.op_type == "Add" else []
        for source, bias in sides:
            product = products.get(source)
            if product is None or bias not in constants or readers[source] != 1:
                continue
            x, weight = product.input
            given, matrix = shapes.get(x, ()), shapes.get(weight, ())
            if weight not in constants or len(given) < 3 or len(matrix) != 2 or shapes.get(bias) != matrix[1:]:
                continue
            rows, whole = f"{node.output[0]}.rows", f"{node.output[0]}.sums"
            for name, shape in ((f"{rows}.shape", (-1, matrix[0])), (f"{whole}.shape", (*given[:-1], matrix[1]))):
                model.graph.initializer.append(numpy_helper.from_array(np.array(shape, np.int64), name))
            joined[node.output[0]] = [
                helper.make_node("Reshape", [x, f"{rows}.shape"], [rows], rows),
                helper.make_node("Gemm", [rows, weight, bias], [whole], product.name or node.name),
                helper.make_node("Reshape", [whole, f"{whole}.shape"], [node.output[0]], f"{whole}.shaped"),
            ]
            del products[source]
            break
    if not joined:
        return model
    nodes = [new for node in model.graph.node if node.op_type != "MatMul" or node.output[0] in products
             for new in joined.get(node.output[0] if node.op_type == "Add" else "", [node])]
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    return model


def _pads(mode: str, image: tuple[int, ...], kernel: Any, attributes: dict[str, Any]) -> list[int]:
    """ONNX's definition: SAME gives ceil(extent / stride) outputs, VALID no padding; begins first, then ends."""
    begins, ends = [], []
    for axis, extent in enumerate(image):
        stride = attributes.get("strides", [1] * len(image))[axis]
        reach = (kernel[axis] - 1) * attributes.get("dilations", [1] * len(image))[axis] + 1
        total = max(0, (-(-extent // stride) - 1) * stride + reach - extent) if mode.startswith("SAME") else 0
        small, large = total // 2, total - total // 2
        begins.append(large if mode == "SAME_LOWER" else small)
        ends.append(small if mode == "SAME_LOWER" else large)
    return begins + ends


def known_shapes(model: "onnx.ModelProto") -> dict[str, tuple[int, ...]]:
    """Static shapes of tensors by name, as far as the network states or has inferred them."""
    graph = model.graph
    shapes = {i.name: tuple(i.dims) for i in graph.initializer}
    for info in [*graph.input, *graph.value_info, *graph.output]:
        tensor = info.type.tensor_type
        dims = [d.dim_value if d.WhichOneof("value") == "dim_value" else 0 for d in tensor.shape.dim]
        if tensor.HasField("shape") and all(d > 0 for d in dims):
            shapes[info.name] = tuple(dims)
    return shapes
