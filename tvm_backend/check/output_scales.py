"""The quantization steps of a QDQ network's outputs."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import onnx

_PASSES_THROUGH = frozenset({"Identity", "Reshape", "Flatten", "Squeeze", "Unsqueeze", "Transpose"})


def quantization_steps(proto: "onnx.ModelProto") -> dict[str, float]:
    """For each graph output that is dequantized with one scale, that scale: the smallest possible difference."""
    from onnx import numpy_helper

    constants = {t.name: t for t in proto.graph.initializer}
    producers = {name: node for node in proto.graph.node for name in node.output}
    steps = {}
    for output in proto.graph.output:
        node = producers.get(output.name)
        while node is not None and node.op_type in _PASSES_THROUGH:
            node = producers.get(node.input[0])
        if node is not None and node.op_type == "DequantizeLinear" and node.input[1] in constants:
            scale = numpy_helper.to_array(constants[node.input[1]])
            if scale.size == 1:
                steps[output.name] = float(scale.reshape(()))
    return steps
