"""Rewrites of ONNX networks before import, and before they are quantized.

Where TVM's converters scatter an operator over several, it is written otherwise, and so are convolutions that no
pattern knows: 1-D as 2-D of height 1, transposed ones by their phases. Their weights and biases may be initializers or,
in a quantized network, dequantized ones. Matrix products of float networks take the form that is quantized best:
constants second, ``Gemm`` without extras.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import onnx

from archloom.tvm_backend.frontends.onnx import editor as edit
from archloom.tvm_backend.frontends.onnx.editor import Editor, attributes_of, rewriting, with_attributes
from archloom.tvm_backend.ir.conversion import padding
from archloom.tvm_backend.ir.windows import Phases, by_phases, dilated

LAST = np.iinfo(np.int64).max


@rewriting("Conv", "MaxPool", "AveragePool")
def explicit_padding(node: onnx.NodeProto, editor: Editor) -> bool:
    """Replace ``auto_pad`` by ``pads`` wherever shapes are known (TVM would emit a separate pad)."""
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


@rewriting("QuantizeLinear", "DequantizeLinear")
def axes_within(node: onnx.NodeProto, editor: Editor) -> bool:
    """Let ``QuantizeLinear`` and ``DequantizeLinear`` of vectors name axis 0; their default is axis 1.

    With one scale the axis means nothing, but TVM refuses one that is not there.
    """
    if any(a.name == "axis" for a in node.attribute) or len(editor.shapes.get(node.input[0], (0, 0))) > 1:
        return False
    editor.write(with_attributes(node, axis=0))
    return True


@rewriting("Sum")
def sums_to_additions(node: onnx.NodeProto, editor: Editor) -> bool:
    """Replace ``Sum`` by additions: old networks write residuals so, and TVM would stack the operands."""
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


def padded_windows(model: onnx.ModelProto) -> onnx.ModelProto:
    """Take ``Pad`` by zeros into the convolution or the mean of windows that alone reads it, where shapes are known."""
    if not edit.has_operators(model, frozenset({"Pad"})):
        return model
    editor, readers = Editor(model), edit.read_counts(model)
    pads = {node.output[0]: node for node in model.graph.node if node.op_type == "Pad" and readers[node.output[0]] == 1}
    joined = {node.output[0]: found for node in model.graph.node
              if node.input and node.input[0] in pads and (found := _padded(node, pads[node.input[0]], editor))}
    taken = {node.input[0] for node in model.graph.node if node.output[0] in joined}
    for node in model.graph.node:
        if node.output[0] in joined:
            editor.write(joined[node.output[0]])
        elif node.output[0] not in taken:
            editor.keep(node)
    return editor.done()


def _padded(node: onnx.NodeProto, pad: onnx.NodeProto, editor: Editor) -> onnx.NodeProto | None:
    """A convolution or mean of windows that does what ``pad`` does before it; None where it cannot."""
    given, shape = attributes_of(node), editor.inferred.get(pad.input[0], ())
    zeros = padding([name or None for name in pad.input], attributes_of(pad), len(shape), lambda name: (
        editor.value(name) if name in editor.constants else None))
    own = given.get("pads", [0] * 2 * max(len(shape) - 2, 0))
    means = node.op_type == "AveragePool" and not given.get("ceil_mode", 0) and (
        given.get("count_include_pad", 0) or not any(own))
    if not (node.op_type == "Conv" or means) or given.get("auto_pad", b"NOTSET") != b"NOTSET" or zeros is None or (
            zeros.attrs != {"pad_mode": "constant", "pad_value": 0.0} or zeros.slices(shape)
            or any(map(any, zeros.added[:2]))):
        return None
    before, after = zip(*zeros.added[2:], strict=True)
    also: dict[str, Any] = {"count_include_pad": 1} if means else {}
    found = with_attributes(node, pads=[a + b for a, b in zip(own, (*before, *after), strict=True)], **also)
    found.input[0] = pad.input[0]
    return found


@rewriting("LRN")
def normalization_over_channels(node: onnx.NodeProto, editor: Editor) -> bool:
    """Write ``LRN`` of any rank by means over neighbouring channels, as images whose rows are channels."""
    shape = editor.inferred.get(node.input[0])
    if shape is None:
        return False
    given, x, name = attributes_of(node), node.input[0], node.output[0]
    size, dtype = given["size"], onnx.helper.tensor_dtype_to_np_dtype(editor.infos[x].type.tensor_type.elem_type)
    squares = editor.node("Mul", [x, x], f"{name}.squares")
    rows = editor.reshaped(squares, f"{name}.rows", (shape[0], 1, shape[1], math.prod(shape[2:])))
    means = editor.node("AveragePool", [rows], f"{name}.means", kernel_shape=[size, 1], count_include_pad=1,
                        pads=[(size - 1) // 2, 0, size // 2, 0])
    total = editor.reshaped(means, f"{name}.mean", shape)
    for operator, key, default in (("Mul", "alpha", 1e-4), ("Add", "bias", 1.0), ("Pow", "beta", 0.75)):
        number = editor.constant(f"{name}.{key}", np.array(given.get(key, default), dtype))
        total = editor.node(operator, [total, number], f"{name}.by_{key}")
    editor.node("Div", [x, total], name, node.name)
    return True


@rewriting("HardSwish")
def hard_swish_by_sigmoid(node: onnx.NodeProto, editor: Editor) -> bool:
    """Write ``HardSwish`` as ONNX defines it: onnxruntime does so where it folds constants."""
    share = editor.node("HardSigmoid", [node.input[0]], f"{node.output[0]}.share", alpha=1 / 6, beta=0.5)
    editor.node("Mul", [node.input[0], share], node.output[0], node.name)
    return True


@rewriting("Dropout")
def without_dropout(node: onnx.NodeProto, editor: Editor) -> bool:
    """Leave out ``Dropout`` that leaves nothing out: networks that are trained are refused."""
    if len(node.output) > 1 and edit.read_counts(editor.model)[node.output[1]]:
        return False
    editor.node("Identity", node.input[:1], node.output[0], node.name)
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


def plain_convolutions(model: onnx.ModelProto) -> onnx.ModelProto:
    """Rewrite 1-D and transposed convolutions of constant weights; others stay as they are."""
    return edit.rewrite(model, {"Conv": _flat, "ConvTranspose": _phases})


def _flat(node: onnx.NodeProto, editor: Editor) -> bool:
    """A convolution along one axis as one over images of height 1."""
    if len(editor.constant_shape(node.input[1]) or ()) != 3:
        return False
    name = node.output[0]
    weight = editor.changed(node.input[1], f"{name}.kernel", lambda w: w[:, :, None, :])
    attributes = attributes_of(node)
    for key in ("kernel_shape", "strides", "dilations"):
        if key in attributes:
            attributes[key] = [1, *attributes[key]]
    if "pads" in attributes:
        before, after = attributes["pads"]
        attributes["pads"] = [0, before, 0, after]
    image = editor.reshaped(node.input[0], f"{name}.image", (0, 0, 1, -1))
    row = editor.node("Conv", [image, weight, *node.input[2:]], f"{name}.row", node.name or name, **attributes)
    shape = editor.constant(f"{row}.dims", np.array((0, 0, -1), np.int64))
    editor.node("Reshape", [row, shape], name, f"{row}.shaped")
    return True


def _phases(node: onnx.NodeProto, editor: Editor) -> bool:
    """A transposed convolution of images or rows, by the phases of its results."""
    attributes, shape = attributes_of(node), editor.constant_shape(node.input[1])
    plain = attributes.get("auto_pad", b"NOTSET") == b"NOTSET" and "output_shape" not in attributes
    if shape is None or len(shape) not in (3, 4) or not plain:
        return False
    if not all(_has_one_scale(name, editor) for name in node.input[1:] if name):
        return False
    flat, groups, rank = len(shape) == 3, attributes.get("group", 1), len(shape) - 2
    strides, dilation, more, begins, ends = (
        [neutral, *values] if flat else list(values) for neutral, values in (
            (1, attributes.get("strides", [1] * rank)), (1, attributes.get("dilations", [1] * rank)),
            (0, attributes.get("output_padding", [0] * rank)), (0, attributes.get("pads", [0] * rank * 2)[:rank]),
            (0, attributes.get("pads", [0] * rank * 2)[rank:])))
    kernel = [(k - 1) * d + 1 for k, d in zip((1, *shape[2:])[-2:], dilation, strict=True)]
    axes = [Phases(kernel[i], strides[i], begins[i], ends[i], more[i]) for i in range(2)]
    given = editor.inferred.get(node.input[0]) if strides[0] != strides[1] else (0, 0)
    if given is None or any(a.reach < 0 for a in axes):
        return False
    name, phases = node.output[0], math.prod(strides)
    cropped = flat or any(a.before or a.surplus for a in axes)
    image = f"{name}.whole" if cropped else name

    def by_phase(w: np.ndarray) -> np.ndarray:
        return by_phases(dilated(w[:, :, None] if flat else w, dilation), groups, strides[0], strides[1])

    inputs = [editor.reshaped(node.input[0], f"{name}.image", (0, 0, 1, -1)) if flat else node.input[0]]
    inputs.append(editor.changed(node.input[1], f"{name}.kernel", by_phase))
    if len(node.input) > 2 and node.input[2]:
        inputs.append(editor.changed(node.input[2], f"{name}.bias", lambda b: np.repeat(b, phases)))
    images = whole = editor.node(
        "Conv", inputs, f"{name}.phases" if cropped or phases > 1 else name, node.name or name, group=groups,
        kernel_shape=[a.taps for a in axes], strides=[1, 1], pads=[a.taps - 1 for a in axes] + [a.after for a in axes])
    if strides[0] != strides[1]:
        channels, (h, w) = shape[1] * groups, (1, *given[2:])[-2:]
        rows, columns = h + axes[0].after, w + axes[1].after
        split = editor.reshaped(images, f"{name}.split", (-1, channels, *strides, rows, columns))
        beside = editor.node("Transpose", [split], f"{name}.beside", perm=[0, 1, 4, 2, 5, 3])
        whole = editor.reshaped(beside, image, (-1, channels, rows * strides[0], columns * strides[1]))
    elif phases > 1:
        whole = editor.node("DepthToSpace", [images], image, blocksize=strides[0], mode="CRD")
    if not cropped:
        return True
    crop = [editor.constant(f"{name}.{key}", np.array(value, np.int64)) for key, value in (
        ("starts", [a.before for a in axes]), ("ends", [-a.surplus if a.surplus else LAST for a in axes]),
        ("axes", [2, 3]))]
    result = editor.node("Slice", [whole, *crop], f"{name}.cropped" if flat else name, f"{name}.crop")
    if flat:
        editor.reshaped(result, name, (0, 0, -1))
    return True


def _has_one_scale(name: str, editor: Editor) -> bool:
    """Whether a constant is not dequantized by channels."""
    node = editor.dequantized.get(name)
    return node is None or math.prod(editor.constants[node.input[1]].dims) == 1


@rewriting("MatMul")
def constants_second(node: onnx.NodeProto, editor: Editor) -> bool:
    """Replace ``W X`` of a constant matrix W by ``(Xᵀ Wᵀ)ᵀ``, where X's shape is known or inferred.

    Accelerators keep the second operand's constant; few take one that comes first.
    """
    first, x = node.input
    if first not in editor.constants or x in editor.constants or len(editor.constants[first].dims) != 2:
        return False
    rank = len(editor.inferred.get(x, ()))
    if rank < 2:
        return False
    name, axes = node.output[0], [*range(rank - 2), rank - 1, rank - 2]
    matrix = editor.changed(first, f"{name}.matrix", np.transpose)
    columns = editor.node("Transpose", [x], f"{name}.columns", perm=axes)
    rows = editor.node("MatMul", [columns, matrix], f"{name}.rows", node.name or name)
    editor.node("Transpose", [rows], name, f"{name}.whole", perm=axes)
    return True


@rewriting("MatMul")
def products_of_matrices(node: onnx.NodeProto, editor: Editor) -> bool:
    """Replace ``MatMul`` of a vector by one of a matrix of one row or column, where shapes are known."""
    a, b = _operand_shapes(node, editor)
    name = node.output[0]
    if not a or not b or min(len(a), len(b)) > 1:
        return False
    rows, columns = a if len(a) > 1 else (1, *a), b if len(b) > 1 else (*b, 1)
    operands = [source if shape == wanted else editor.reshaped(source, f"{name}.{side}", wanted)
                for source, shape, wanted, side in zip(
                    node.input, (a, b), (rows, columns), ("rows", "columns"), strict=True)]
    product = editor.node("MatMul", operands, f"{name}.matrix", node.name or name)
    leading = rows[:-2] if len(rows) >= len(columns) else columns[:-2]
    editor.reshaped(product, name, (*leading, *a[-2:-1], *(b[-1:] if len(b) > 1 else ())))
    return True


@rewriting("MatMul")
def equal_batches(node: onnx.NodeProto, editor: Editor) -> bool:
    """Give both operands of each ``MatMul`` of batches the same leading dimensions, where shapes are known.

    One that multiplies all of a batch (keys that several heads share) is repeated, but for a single matrix: that is
    multiplied by all rows at once.
    """
    shapes = _operand_shapes(node, editor)
    leads = [shape[:-2] for shape in shapes]
    if leads[0] == leads[1] or math.prod(leads[1]) == 1 or not all(shapes):
        return False
    inputs, full = list(node.input), np.broadcast_shapes(*leads)
    for side, lead in enumerate(leads):
        if lead != full:
            wide, dims = (f"{node.output[0]}.{word}{side}" for word in ("operand", "shape"))
            shape = editor.constant(dims, np.array((*full, *shapes[side][-2:]), np.int64))
            inputs[side] = editor.node("Expand", [inputs[side], shape], wide)
    editor.node("MatMul", inputs, node.output[0], node.name)
    return True


def _operand_shapes(node: onnx.NodeProto, editor: Editor) -> list[edit.Shape]:
    """Of the operands of a product, inferred where they are not stated; () for one that is not known."""
    if all(len(editor.shapes.get(name, ())) > 1 for name in node.input):
        return [editor.shapes[name] for name in node.input]
    return [editor.inferred.get(name, ()) for name in node.input]


@rewriting("Gemm")
def plain_gemms(node: onnx.NodeProto, editor: Editor) -> bool:
    """Give every ``Gemm`` the form ``A B + row`` with ``alpha`` and ``beta`` of 1, where B is a constant.

    Factors go into the constants, a transposed A becomes an operator of its own, and so does the addition of what is
    no constant row (onnxruntime's optimizer makes one ``Gemm`` of the two).
    """
    (a, b), c = node.input[:2], node.input[2] if len(node.input) > 2 else ""
    if b not in editor.constants:
        return False
    given = attributes_of(node)
    name, dtype, shape = node.output[0], editor.value(b).dtype, editor.constants[b].dims
    alpha, beta = dtype.type(given.get("alpha", 1.0)), dtype.type(given.get("beta", 1.0))
    width = shape[0 if given.get("transB") else 1]
    row = c in editor.constants and tuple(editor.constants[c].dims) in ((width,), (1, width))
    if alpha == beta == 1 and not given.get("transA") and (not c or (row and len(editor.constants[c].dims) == 1)):
        return False
    if given.get("transA"):
        a = editor.node("Transpose", [a], f"{name}.columns", perm=[1, 0])
    if alpha != 1:
        b = editor.changed(b, f"{name}.matrix", lambda matrix: alpha * matrix)
    inputs = [a, b]
    if row:
        inputs.append(editor.changed(c, f"{name}.row", lambda bias: beta * bias.reshape(-1)))
    sums = name if row or not c else f"{name}.sums"
    editor.node("Gemm", inputs, sums, node.name or name, transB=given.get("transB", 0))
    if sums != name:
        if beta != 1:
            c = editor.node("Mul", [c, editor.constant(f"{name}.beta", np.array([beta]))], f"{name}.added")
        editor.node("Add", [sums, c], name, f"{name}.add")
    return True


def biased_products(model: onnx.ModelProto) -> onnx.ModelProto:
    """Make a product of a tensor by a constant matrix, plus a constant row, one ``Gemm``.

    onnxruntime's quantizer gives the bias of a ``Gemm`` the scale of the sums, and that of ``MatMul`` and ``Add`` eight
    bits of its own. Shapes must be known; what is not is left alone.
    """
    if not edit.has_operators(model, frozenset({"MatMul"})):
        return model
    readers = edit.read_counts(model)
    products = {node.output[0]: node for node in model.graph.node if node.op_type == "MatMul"}
    editor = Editor(model)
    joined: dict[str, tuple[onnx.NodeProto, str]] = {}
    for node in model.graph.node:
        for source, bias in [(node.input[i], node.input[1 - i]) for i in range(2)] if node.op_type == "Add" else []:
            product = products.get(source)
            if product is not None and readers[source] == 1 and _takes_bias(product, bias, editor):
                joined[node.output[0]] = products.pop(source), bias
                break
    for node in model.graph.node:
        if node.op_type == "Add" and node.output[0] in joined:
            product, bias = joined[node.output[0]]
            _biased(product, bias, node, editor)
        elif node.op_type != "MatMul" or node.output[0] in products:
            editor.keep(node)
    return editor.done()


def _takes_bias(product: onnx.NodeProto, bias: str, editor: Editor) -> bool:
    """Whether the product is by a constant matrix, and ``bias`` a constant row of as many numbers as its results."""
    x, weight = product.input
    matrix = editor.shapes.get(weight, ())
    return (bias in editor.constants and weight in editor.constants and len(matrix) == 2
            and len(editor.shapes.get(x, ())) > 1 and editor.shapes.get(bias) == matrix[1:])


def _biased(product: onnx.NodeProto, bias: str, addition: onnx.NodeProto, editor: Editor) -> None:
    x, weight = product.input
    name, shape, matrix = addition.output[0], editor.shapes[x], editor.shapes[weight]
    label = product.name or addition.name
    if len(shape) == 2:
        editor.node("Gemm", [x, weight, bias], name, label)
        return
    rows = editor.reshaped(x, f"{name}.rows", (-1, matrix[0]))
    sums = editor.node("Gemm", [rows, weight, bias], f"{name}.sums", label)
    dims = editor.constant(f"{sums}.dims", np.array((*shape[:-1], matrix[1]), np.int64))
    editor.node("Reshape", [sums, dims], name, f"{name}.sums.shaped")
