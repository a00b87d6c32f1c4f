"""Matrix products of float ONNX networks as they are quantized best: constants second, ``Gemm`` without extras."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from archloom.tvm_backend.frontends.onnx.rewrites import known_shapes

if TYPE_CHECKING:
    import onnx


def constants_second(model: "onnx.ModelProto") -> "onnx.ModelProto":
    """Replace ``W X`` of a constant matrix W by ``(Xᵀ Wᵀ)ᵀ``, in place, where X's shape is known or inferred.

    Accelerators keep the second operand's constant; few take one that comes first.
    """
    import onnx
    from onnx import helper, numpy_helper

    constants = {t.name: t for t in model.graph.initializer}
    if not any(node.op_type == "MatMul" and node.input[0] in constants for node in model.graph.node):
        return model
    shapes = known_shapes(onnx.shape_inference.infer_shapes(model))
    nodes: list[Any] = []
    for node in model.graph.node:
        first = constants.get(node.input[0]) if node.op_type == "MatMul" else None
        rank = len(shapes.get(node.input[1], ())) if first is not None else 0
        if first is None or len(first.dims) != 2 or rank < 2 or node.input[1] in constants:
            nodes.append(node)
            continue
        name, axes = node.output[0], [*range(rank - 2), rank - 1, rank - 2]
        matrix = f"{name}.matrix"
        model.graph.initializer.append(numpy_helper.from_array(
            np.ascontiguousarray(numpy_helper.to_array(first).T), matrix))
        nodes += [
            helper.make_node("Transpose", [node.input[1]], [f"{name}.columns"], f"{name}.columns", perm=axes),
            helper.make_node("MatMul", [f"{name}.columns", matrix], [f"{name}.rows"], node.name or name),
            helper.make_node("Transpose", [f"{name}.rows"], [name], f"{name}.whole", perm=axes),
        ]
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    return model


def products_of_matrices(model: "onnx.ModelProto") -> "onnx.ModelProto":
    """Replace ``MatMul`` of a vector by one of a matrix of one row or column, in place, where shapes are known."""
    from onnx import helper, numpy_helper

    shapes = _shapes_of_products(model)
    nodes: list[Any] = []

    def reshaped(source: str, result: str, shape: tuple[int, ...]) -> str:
        dims = f"{result}.dims"
        model.graph.initializer.append(numpy_helper.from_array(np.array(shape, np.int64), dims))
        nodes.append(helper.make_node("Reshape", [source, dims], [result], result))
        return result

    for node in model.graph.node:
        a, b = (shapes.get(name, ()) for name in node.input[:2]) if node.op_type == "MatMul" else ((), ())
        name = node.output[0]
        if not a or not b or min(len(a), len(b)) > 1:
            nodes.append(node)
            continue
        rows, columns = a if len(a) > 1 else (1, *a), b if len(b) > 1 else (*b, 1)
        left, right = (source if shape == wanted else reshaped(source, f"{name}.{side}", wanted)
                       for source, shape, wanted, side in zip(
                           node.input, (a, b), (rows, columns), ("rows", "columns"), strict=True))
        nodes.append(helper.make_node("MatMul", [left, right], [f"{name}.matrix"], node.name or name))
        leading = rows[:-2] if len(rows) >= len(columns) else columns[:-2]
        reshaped(f"{name}.matrix", name, (*leading, *a[-2:-1], *(b[-1:] if len(b) > 1 else ())))
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    return model


def batches_alike(model: "onnx.ModelProto") -> "onnx.ModelProto":
    """Give both operands of each ``MatMul`` of batches the same leading dimensions, in place, where shapes are known.

    One that multiplies all of a batch (keys that several heads share) is repeated, but for a single matrix: that is
    multiplied by all rows at once.
    """
    from onnx import helper, numpy_helper

    shapes = _shapes_of_products(model)
    nodes: list[Any] = []
    for node in model.graph.node:
        leads = [shapes.get(name, ())[:-2] for name in node.input] if node.op_type == "MatMul" else []
        if not leads or leads[0] == leads[1] or math.prod(leads[1]) == 1 or not all(map(shapes.get, node.input)):
            nodes.append(node)
            continue
        inputs, full = list(node.input), np.broadcast_shapes(*leads)
        for side, lead in enumerate(leads):
            if lead != full:
                wide, dims = (f"{node.output[0]}.{word}{side}" for word in ("operand", "shape"))
                shape = np.array((*full, *shapes[inputs[side]][-2:]), np.int64)
                model.graph.initializer.append(numpy_helper.from_array(shape, dims))
                nodes.append(helper.make_node("Expand", [inputs[side], dims], [wide], wide))
                inputs[side] = wide
        nodes.append(helper.make_node("MatMul", inputs, list(node.output), node.name))
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    return model


def _shapes_of_products(model: "onnx.ModelProto") -> dict[str, tuple[int, ...]]:
    """Shapes by name; inferred if those of an operand of a ``MatMul`` are not stated."""
    import onnx

    shapes = known_shapes(model)
    products = [node for node in model.graph.node if node.op_type == "MatMul"]
    if all(len(shapes.get(name, ())) > 1 for node in products for name in node.input):
        return shapes
    return known_shapes(onnx.shape_inference.infer_shapes(model))


def plain_gemms(model: "onnx.ModelProto") -> "onnx.ModelProto":
    """Give every ``Gemm`` the form ``A B + row`` with ``alpha`` and ``beta`` of 1, in place, where B is a constant.

    Factors go into the constants, a transposed A becomes an operator of its own, and so does the addition of what is
    no constant row (onnxruntime's optimizer makes one ``Gemm`` of the two).
    """
    from onnx import helper, numpy_helper

    constants = {t.name: t for t in model.graph.initializer}
    nodes: list[Any] = []

    def constant(name: str, value: np.ndarray) -> str:
        model.graph.initializer.append(numpy_helper.from_array(np.ascontiguousarray(value), name))
        return name

    for node in model.graph.node:
        if node.op_type != "Gemm" or node.domain not in ("", "ai.onnx") or node.input[1] not in constants:
            nodes.append(node)
            continue
        given = {a.name: helper.get_attribute_value(a) for a in node.attribute}
        (a, b), c = node.input[:2], node.input[2] if len(node.input) > 2 else ""
        name, dtype = node.output[0], numpy_helper.to_array(constants[b]).dtype
        alpha, beta = dtype.type(given.get("alpha", 1.0)), dtype.type(given.get("beta", 1.0))
        width = constants[b].dims[0 if given.get("transB") else 1]
        row = c in constants and tuple(constants[c].dims) in ((width,), (1, width))
        if alpha == beta == 1 and not given.get("transA") and (not c or (row and len(constants[c].dims) == 1)):
            nodes.append(node)
            continue
        if given.get("transA"):
            nodes.append(helper.make_node("Transpose", [a], [f"{name}.columns"], f"{name}.columns", perm=[1, 0]))
            a = f"{name}.columns"
        if alpha != 1:
            b = constant(f"{name}.matrix", alpha * numpy_helper.to_array(constants[b]))
        inputs = [a, b]
        if row:
            inputs.append(constant(f"{name}.row", beta * numpy_helper.to_array(constants[c]).reshape(-1)))
        sums = name if row or not c else f"{name}.sums"
        nodes.append(helper.make_node("Gemm", inputs, [sums], node.name or name, transB=given.get("transB", 0)))
        if sums == name:
            continue
        if beta != 1:
            c, factors = f"{name}.added", [c, constant(f"{name}.beta", beta)]
            nodes.append(helper.make_node("Mul", factors, [c], c))
        nodes.append(helper.make_node("Add", [sums, c], [name], f"{name}.add"))
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    return model
