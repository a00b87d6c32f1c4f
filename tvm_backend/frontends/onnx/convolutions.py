"""Convolutions that no pattern knows as ones that all know: 1-D as 2-D of height 1, transposed ones by their phases.

A transposed convolution of stride s gives s × s images, one for each remainder of a result's place: each is a plain
convolution by every s-th element of the kernel. One convolution computes all of them as channels, which are then put
beside each other. Weights and biases may be initializers or, in a quantized network, dequantized ones.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from archloom.tvm_backend.frontends.onnx.skeleton import is_blank

if TYPE_CHECKING:
    import onnx

Change = Callable[[np.ndarray], np.ndarray]
LAST = np.iinfo(np.int64).max
MOST_BLANK = 1 << 28
"""Elements of a weight that was left out whose new shape is worked out; larger ones are read."""


def plain_convolutions(model: "onnx.ModelProto") -> "onnx.ModelProto":
    """Rewrite 1-D and transposed convolutions of constant weights, in place; others stay as they are."""
    if not any(node.op_type in ("Conv", "ConvTranspose") for node in model.graph.node):
        return model
    rewriting = _Rewriting.of(model.graph)
    rewriting.model = model
    for node in model.graph.node:
        rules = {"Conv": _flat, "ConvTranspose": _phases}
        rule = rules.get(node.op_type) if node.domain in ("", "ai.onnx") else None
        made = rule(node, rewriting) if rule is not None else None
        rewriting.nodes += [node] if made is None else made
    del model.graph.node[:]
    model.graph.node.extend(rewriting.nodes)
    return model


@dataclass
class _Rewriting:
    """The constants of a graph, its dequantized constants, and the nodes so far."""

    graph: "onnx.GraphProto"
    constants: Mapping[str, "onnx.TensorProto"]
    dequantized: Mapping[str, "onnx.NodeProto"]
    nodes: list[Any] = field(default_factory=list)
    model: "onnx.ModelProto | None" = None

    @cached_property
    def _tensors(self) -> dict[str, tuple[int, ...]]:
        import onnx

        from archloom.tvm_backend.frontends.onnx.rewrites import known_shapes

        return known_shapes(onnx.shape_inference.infer_shapes(self.model)) if self.model is not None else {}

    def tensor_shape(self, name: str) -> tuple[int, ...] | None:
        """Static shape of any tensor, inferred when it is first asked for."""
        return self._tensors.get(name)

    @staticmethod
    def of(graph: "onnx.GraphProto") -> "_Rewriting":
        constants = {t.name: t for t in graph.initializer}
        dequantized = {
            node.output[0]: node for node in graph.node
            if node.op_type == "DequantizeLinear" and all(name in constants for name in node.input)}
        return _Rewriting(graph, constants, dequantized)

    def shape(self, name: str) -> tuple[int, ...] | None:
        """Shape of a constant, or of a dequantized one."""
        source = self.dequantized[name].input[0] if name in self.dequantized else name
        return tuple(self.constants[source].dims) if source in self.constants else None

    def one_scale(self, name: str) -> bool:
        """Whether a constant is not dequantized by channels."""
        node = self.dequantized.get(name)
        return node is None or math.prod(self.constants[node.input[1]].dims) == 1

    def constant(self, name: str, value: Any) -> str:
        from onnx import numpy_helper

        self.graph.initializer.append(numpy_helper.from_array(np.ascontiguousarray(value), name))
        return name

    def changed(self, name: str, label: str, change: Change, nodes: list[Any]) -> str:
        """A constant, perhaps dequantized, with its values changed."""
        import onnx

        node = self.dequantized.get(name)
        if node is None:
            return self._changed(self.constants[name], label, change)
        copy = onnx.NodeProto()
        copy.CopyFrom(node)
        copy.input[0] = self._changed(self.constants[node.input[0]], f"{label}.integers", change)
        copy.output[0] = copy.name = label
        nodes.append(copy)
        return label

    def _changed(self, tensor: "onnx.TensorProto", label: str, change: Change) -> str:
        """A changed constant; of weights that were left out (:mod:`.skeleton`) only the shape is."""
        from onnx import helper, numpy_helper

        if not is_blank(tensor):
            return self.constant(label, change(numpy_helper.to_array(tensor)))
        if math.prod(tensor.dims) > MOST_BLANK:
            raise ValueError(f"a weight of shape {'x'.join(map(str, tensor.dims))} that was not read")
        zeros = np.zeros(tuple(tensor.dims), helper.tensor_dtype_to_np_dtype(tensor.data_type))
        self.graph.initializer.add(name=label, data_type=tensor.data_type, dims=change(zeros).shape)
        return label


def _flat(node: "onnx.NodeProto", graph: _Rewriting) -> list[Any] | None:
    """A convolution along one axis as one over images of height 1."""
    from onnx import helper

    if len(graph.shape(node.input[1]) or ()) != 3:
        return None
    name = node.output[0]
    nodes: list[Any] = []
    weight = graph.changed(node.input[1], f"{name}.kernel", lambda w: w[:, :, None, :], nodes)
    image, result = f"{name}.image", f"{name}.row"
    attributes = {a.name: helper.get_attribute_value(a) for a in node.attribute}
    for key, one in (("kernel_shape", 1), ("strides", 1), ("dilations", 1)):
        if key in attributes:
            attributes[key] = [one, *attributes[key]]
    if "pads" in attributes:
        before, after = attributes["pads"]
        attributes["pads"] = [0, before, 0, after]
    high, flat = (graph.constant(f"{part}.shape", np.array(shape, np.int64))
                  for part, shape in ((image, (0, 0, 1, -1)), (result, (0, 0, -1))))
    nodes += [
        helper.make_node("Reshape", [node.input[0], high], [image], image),
        helper.make_node("Conv", [image, weight, *node.input[2:]], [result], node.name or name, **attributes),
        helper.make_node("Reshape", [result, flat], [name], f"{result}.shaped"),
    ]
    return nodes


def _phases(node: "onnx.NodeProto", graph: _Rewriting) -> list[Any] | None:
    """A transposed convolution of images or rows, by the phases of its results."""
    from onnx import helper

    attributes = {a.name: helper.get_attribute_value(a) for a in node.attribute}
    shape = graph.shape(node.input[1])
    plain = attributes.get("auto_pad", b"NOTSET") == b"NOTSET" and "output_shape" not in attributes
    if shape is None or len(shape) not in (3, 4) or not plain:
        return None
    if not all(graph.one_scale(name) for name in node.input[1:] if name):
        return None
    flat, groups, rank = len(shape) == 3, attributes.get("group", 1), len(shape) - 2
    strides, dilation, more, begins, ends = (
        [neutral, *values] if flat else list(values) for neutral, values in (
            (1, attributes.get("strides", [1] * rank)), (1, attributes.get("dilations", [1] * rank)),
            (0, attributes.get("output_padding", [0] * rank)), (0, attributes.get("pads", [0] * rank * 2)[:rank]),
            (0, attributes.get("pads", [0] * rank * 2)[rank:])))
    kernel = [(k - 1) * d + 1 for k, d in zip((1, *shape[2:])[-2:], dilation, strict=True)]
    axes = [Phases(kernel[i], strides[i], begins[i], ends[i], more[i]) for i in range(2)]
    given = graph.tensor_shape(node.input[0]) if strides[0] != strides[1] else (0, 0)
    if given is None or any(a.reach < 0 for a in axes):
        return None
    name, nodes = node.output[0], []  # type: tuple[str, list[Any]]

    def by_phase(w: np.ndarray) -> np.ndarray:
        return by_phases(dilated(w[:, :, None] if flat else w, dilation), groups, strides[0], strides[1])

    def reshaped(source: str, result: str, wanted: tuple[int, ...]) -> str:
        dims = graph.constant(f"{result}.dims", np.array(wanted, np.int64))
        nodes.append(helper.make_node("Reshape", [source, dims], [result], result))
        return result

    phases = math.prod(strides)
    inputs = [reshaped(node.input[0], f"{name}.image", (0, 0, 1, -1)) if flat else node.input[0]]
    inputs.append(graph.changed(node.input[1], f"{name}.kernel", by_phase, nodes))
    if len(node.input) > 2 and node.input[2]:
        inputs.append(graph.changed(node.input[2], f"{name}.bias", lambda b: np.repeat(b, phases), nodes))
    images = whole = f"{name}.phases"
    nodes.append(helper.make_node(
        "Conv", inputs, [images], node.name or name, group=groups, kernel_shape=[a.taps for a in axes],
        strides=[1, 1], pads=[a.taps - 1 for a in axes] + [a.after for a in axes]))
    if strides[0] != strides[1]:
        channels, (h, w) = shape[1] * groups, (1, *given[2:])[-2:]
        rows, columns = h + axes[0].after, w + axes[1].after
        split = reshaped(images, f"{name}.split", (-1, channels, *strides, rows, columns))
        nodes.append(helper.make_node(
            "Transpose", [split], [f"{name}.beside"], f"{name}.beside", perm=[0, 1, 4, 2, 5, 3]))
        whole = reshaped(f"{name}.beside", f"{name}.whole", (-1, channels, rows * strides[0], columns * strides[1]))
    elif phases > 1:
        whole = f"{name}.whole"
        nodes.append(helper.make_node("DepthToSpace", [images], [whole], whole, blocksize=strides[0], mode="CRD"))
    crop = [graph.constant(f"{name}.{key}", np.array(value, np.int64)) for key, value in (
        ("starts", [a.before for a in axes]), ("ends", [-a.surplus if a.surplus else LAST for a in axes]),
        ("axes", [2, 3]))]
    result = f"{name}.cropped" if flat else name
    nodes.append(helper.make_node("Slice", [whole, *crop], [result], f"{name}.crop"))
    if flat:
        reshaped(result, name, (0, 0, -1))
    return nodes


@dataclass(frozen=True)
class Phases:
    """One axis of a transposed convolution: its kernel, stride, padding before and at the end, and extra results."""

    kernel: int
    stride: int
    before: int
    end: int
    more: int

    @property
    def taps(self) -> int:
        """Elements of the kernel in the largest phase."""
        return -(-self.kernel // self.stride)

    @property
    def after(self) -> int:
        """Padding after the input, so that every result is covered."""
        return self.reach // self.stride

    @property
    def reach(self) -> int:
        """Results beyond the place of the last input."""
        return self.kernel - 1 - self.end + self.more

    @property
    def surplus(self) -> int:
        """Results at the end that are cut off."""
        return (self.after + 1) * self.stride - (self.reach + 1)


def dilated(kernel: np.ndarray, dilation: Sequence[int]) -> np.ndarray:
    """[..., kh, kw] with zeros between its elements, so that it can be moved without dilation."""
    if set(dilation) <= {1}:
        return kernel
    reach = [(k - 1) * d + 1 for k, d in zip(kernel.shape[-2:], dilation, strict=True)]
    spread = np.zeros((*kernel.shape[:-2], *reach), kernel.dtype)
    spread[..., :: dilation[0], :: dilation[1]] = kernel
    return spread


def by_phases(kernel: np.ndarray, groups: int, sh: int, sw: int) -> np.ndarray:
    """[c, o / groups, kh, kw] of a transposed convolution → [o · sh · sw, c / groups, ⌈kh / sh⌉, ⌈kw / sw⌉].

    The channels of one output lie together, phase by phase; taps are mirrored.
    """
    c, o, kh, kw = kernel.shape
    th, tw = -(-kh // sh), -(-kw // sw)
    padded = np.zeros((c, o, th * sh, tw * sw), kernel.dtype)
    padded[:, :, :kh, :kw] = kernel
    parts = padded.reshape(groups, c // groups, o, th, sh, tw, sw)[:, :, :, ::-1, :, ::-1]
    return parts.transpose(0, 2, 4, 6, 1, 3, 5).reshape(groups * o * sh * sw, c // groups, th, tw)
