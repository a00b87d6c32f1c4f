"""Matrix products of float ONNX networks as they are quantized best: constants second, ``Gemm`` without extras."""

from __future__ import annotations

import math

import numpy as np
import onnx

from archloom.tvm_backend.frontends.onnx.editor import Editor, Shape, attributes_of, has_operators, read_counts, rewrite


def constants_second(model: onnx.ModelProto) -> onnx.ModelProto:
    """Replace ``W X`` of a constant matrix W by ``(Xᵀ Wᵀ)ᵀ``, where X's shape is known or inferred.

    Accelerators keep the second operand's constant; few take one that comes first.
    """
    return rewrite(model, {"MatMul": _constant_second})


def _constant_second(node: onnx.NodeProto, editor: Editor) -> bool:
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


def products_of_matrices(model: onnx.ModelProto) -> onnx.ModelProto:
    """Replace ``MatMul`` of a vector by one of a matrix of one row or column, where shapes are known."""
    return rewrite(model, {"MatMul": _matrices})


def _matrices(node: onnx.NodeProto, editor: Editor) -> bool:
    a, b = _shapes(node, editor)
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


def equal_batches(model: onnx.ModelProto) -> onnx.ModelProto:
    """Give both operands of each ``MatMul`` of batches the same leading dimensions, where shapes are known.

    One that multiplies all of a batch (keys that several heads share) is repeated, but for a single matrix: that is
    multiplied by all rows at once.
    """
    return rewrite(model, {"MatMul": _equal_batches})


def _equal_batches(node: onnx.NodeProto, editor: Editor) -> bool:
    shapes = _shapes(node, editor)
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


def _shapes(node: onnx.NodeProto, editor: Editor) -> list[Shape]:
    """Of the operands of a product, inferred where they are not stated; () for one that is not known."""
    if all(len(editor.shapes.get(name, ())) > 1 for name in node.input):
        return [editor.shapes[name] for name in node.input]
    return [editor.inferred.get(name, ()) for name in node.input]


def plain_gemms(model: onnx.ModelProto) -> onnx.ModelProto:
    """Give every ``Gemm`` the form ``A B + row`` with ``alpha`` and ``beta`` of 1, where B is a constant.

    Factors go into the constants, a transposed A becomes an operator of its own, and so does the addition of what is
    no constant row (onnxruntime's optimizer makes one ``Gemm`` of the two).
    """
    return rewrite(model, {"Gemm": _plain_gemm})


def _plain_gemm(node: onnx.NodeProto, editor: Editor) -> bool:
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
    if not has_operators(model, frozenset({"MatMul"})):
        return model
    readers = read_counts(model)
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
