"""Rewrites of ONNX networks before import, where TVM's converters scatter an operator over several."""

from __future__ import annotations

from typing import Any

import onnx

from archloom.tvm_backend.frontends.onnx.editor import Editor, attributes_of, rewrite, with_attributes


def explicit_padding(model: onnx.ModelProto) -> onnx.ModelProto:
    """Replace ``auto_pad`` by ``pads`` wherever shapes are known (TVM would emit a separate pad)."""
    return rewrite(model, dict.fromkeys(("Conv", "MaxPool", "AveragePool"), _padded))


def _padded(node: onnx.NodeProto, editor: Editor) -> bool:
    if not any(a.name == "auto_pad" for a in node.attribute):
        return False
    attributes = attributes_of(node)
    mode = attributes["auto_pad"].decode()
    shape = editor.shapes.get(node.input[0])
    if mode == "NOTSET" or shape is None:
        return False
    kernel = attributes.get("kernel_shape")
    if kernel is None:
        weights = editor.shapes.get(node.input[1])
        if weights is None:
            return False
        kernel = weights[2:]
    editor.write(with_attributes(node, ["auto_pad"], pads=_pads(mode, shape[2:], kernel, attributes)))
    return True


def axes_within(model: onnx.ModelProto) -> onnx.ModelProto:
    """Let ``QuantizeLinear`` and ``DequantizeLinear`` of vectors name axis 0; their default is axis 1.

    With one scale the axis means nothing, but TVM refuses one that is not there.
    """
    return rewrite(model, dict.fromkeys(("QuantizeLinear", "DequantizeLinear"), _with_axis))


def _with_axis(node: onnx.NodeProto, editor: Editor) -> bool:
    if any(a.name == "axis" for a in node.attribute) or len(editor.shapes.get(node.input[0], (0, 0))) > 1:
        return False
    editor.write(with_attributes(node, axis=0))
    return True


def sums_to_additions(model: onnx.ModelProto) -> onnx.ModelProto:
    """Replace ``Sum`` by additions: old networks write residuals so, and TVM would stack the operands."""
    return rewrite(model, {"Sum": _sum})


def _sum(node: onnx.NodeProto, editor: Editor) -> bool:
    total, result = node.input[0], node.output[0]
    if len(node.input) == 1:
        editor.node("Identity", [total], result, node.name)
    for position, operand in enumerate(node.input[1:], start=2):
        if position == len(node.input):
            editor.node("Add", [total, operand], result, node.name)
        else:
            total = editor.node("Add", [total, operand], f"{result}.{position - 1}",
                                f"{node.name or result}.{position - 1}")
    return True


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
