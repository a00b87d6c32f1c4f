"""Constants of ONNX networks that importers cannot read, as the floats that they stand for.

Weights of 4 bits, of 8 with a floating point, and those with a scale for each block along an axis are read by an
operator that makes floats of them, ``DequantizeLinear`` or ``Cast``: its result is computed here by ONNX's reference.
onnxruntime's ``MatMulNBits``, a product by weights of a few bits packed into bytes, becomes a product by floats. Of
weights that were left out (:mod:`.skeleton`) the floats are left out, too. Anything else that has such a type is
refused by name.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import onnx
from onnx import helper, numpy_helper

from archloom.oracle.errors import ModelError
from archloom.tvm_backend.frontends.onnx.editor import OWN_DOMAINS, Editor, attributes_of
from archloom.tvm_backend.frontends.onnx.functions import by_reference, without_unread
from archloom.tvm_backend.frontends.onnx.skeleton import NARROW_TYPES, NoSkeleton
from archloom.tvm_backend.ir.conversion import blank, is_blank

WIDENING = {"DequantizeLinear": "output_dtype", "Cast": "to"}
"""Operators that make floats of others, and the attribute that says which."""
PACKED = "MatMulNBits"
"""of the domain ``com.microsoft``"""


def widened(model: onnx.ModelProto, label: str) -> onnx.ModelProto:
    """The network with floats in place of such constants; itself where there are none.

    ModelError where a tensor of such a type is read by another operator or is computed from the network's inputs.
    """
    graph = model.graph
    if not (any(t.data_type in NARROW_TYPES for t in graph.initializer)
            or any(_is_blocked(node) or node.op_type == PACKED or any(_narrow_attributes(node))
                   for node in graph.node)):
        return model
    constants = _Constants(model)
    for node in graph.node:
        if node.op_type == PACKED:
            _unpack(node, constants.editor, label)
        elif not constants.take(node):
            _refuse(node, constants, label)
            constants.editor.keep(node)
    return without_unread(constants.editor.done())


class _Constants:
    """The constants of a network, and those that are computed of narrow ones."""

    def __init__(self, model: onnx.ModelProto) -> None:
        self.editor = Editor(model)
        self.computed: dict[str, np.ndarray] = {}

    def take(self, node: onnx.NodeProto) -> bool:
        """Compute the results of a node that only makes others of narrow constants, or of blocks."""
        names, output = [name for name in node.input if name], str(node.output[0])
        if node.domain not in OWN_DOMAINS:
            return False
        if node.op_type == "Constant" and any(_narrow_attributes(node)):
            self.computed[output] = numpy_helper.to_array(next(a.t for a in node.attribute if a.name == "value"))
            return True
        kinds = [self.kind(name) for name in names]
        if None in kinds or len(node.output) > 1 or (NARROW_TYPES.isdisjoint(kinds) and not _is_blocked(node)):
            return False
        self.computed[output] = found = self._result(node, names)
        if helper.np_dtype_to_tensor_dtype(found.dtype) not in NARROW_TYPES:
            self.editor.constant(output, found)
        return True

    def kind(self, name: str) -> int | None:
        """The type of a constant; None for another tensor."""
        if name in self.computed:
            return int(helper.np_dtype_to_tensor_dtype(self.computed[name].dtype))
        return self.editor.constants[name].data_type if name in self.editor.constants else None

    def _result(self, node: onnx.NodeProto, names: list[str]) -> np.ndarray:
        given = [self.computed[name] if name in self.computed else self.editor.value(name) for name in names]
        if any(map(is_blank, given)):
            if node.op_type not in WIDENING:
                raise NoSkeleton(f"{node.op_type} of a weight that was not read")
            kind = attributes_of(node).get(WIDENING[node.op_type], 0)
            return blank(given[0].shape, helper.tensor_dtype_to_np_dtype(kind) if kind else given[1].dtype)
        found = by_reference(node, self.editor.model, dict(zip(names, given, strict=True)))
        if found is None:
            raise ModelError(f"node {node.name or node.output[0]!r} ({node.op_type}): expected what ONNX's reference "
                             f"computes in operator set {self.editor.version}, of narrow constants or blocks")
        return found[0]


def _unpack(node: onnx.NodeProto, editor: Editor, label: str) -> None:
    """Write the product that a ``MatMulNBits`` stands for: of its first operand and of floats [K, N]."""
    _, b, scales, zeros, order, bias = [*node.input, *[""] * 6][:6]
    given, name = {"bits": 4, **attributes_of(node)}, str(node.output[0])
    named = f"{label}: node {node.name or name!r} ({PACKED})"
    extent, n, block, bits = (given.get(key, 0) for key in ("K", "N", "block_size", "bits"))
    if min(extent, n, block) < 1 or bits not in range(1, 9):
        raise ModelError(f"{named}: expected K, N and block_size from 1 and bits from 1 to 8, found {given}")
    if order:
        raise ModelError(f"{named}: expected weights in the order of their blocks, found one of their own, {order!r}")
    blocks = -(-extent // block)
    sizes = {b: n * blocks * -(-block * bits // 8), scales: n * blocks}
    if zeros:
        packs = zeros in editor.constants and editor.constants[zeros].data_type == onnx.TensorProto.UINT8
        sizes[zeros] = n * -(-blocks * bits // 8) if packs else n * blocks
    for each, size in sizes.items():
        found = math.prod(editor.constants[each].dims) if each in editor.constants else "none"
        if found != size:
            raise ModelError(f"{named}: expected a constant of {size} elements, found {found}: {each!r}")
    packed, scale = editor.value(b), editor.value(scales).reshape(n, blocks)
    if is_blank(packed):
        weights = blank((extent, n), scale.dtype)
    else:
        zero = np.full(scale.shape, 1 << bits - 1) if not zeros else editor.value(zeros).reshape(n, -1)
        zero = unpacked(zero, bits)[:, :blocks] if zero.dtype == np.uint8 else zero
        numbers = unpacked(packed.reshape(n * blocks, -1), bits)[:, :block].reshape(n, blocks, block)
        floats = (numbers.astype(scale.dtype) - zero.astype(scale.dtype)[:, :, None]) * scale[:, :, None]
        weights = floats.reshape(n, -1)[:, :extent].T
    product = f"{name}.product" if bias else name
    editor.node("MatMul", [node.input[0], editor.constant(f"{name}.weights", weights)], product, node.name or None)
    if bias:
        editor.node("Add", [product, bias], name)


def unpacked(rows: np.ndarray, bits: int) -> np.ndarray:
    """Numbers of ``bits`` bits, uint8 [rows, numbers], that lie in bytes, uint8 [rows, bytes], lowest bits first."""
    each = np.unpackbits(rows, axis=1, bitorder="little")
    each = each[:, :each.shape[1] // bits * bits].reshape(len(rows), -1, bits)
    return np.packbits(each, axis=2, bitorder="little")[:, :, 0]


def _is_blocked(node: onnx.NodeProto) -> bool:
    return node.op_type == "DequantizeLinear" and any(a.name == "block_size" and a.i for a in node.attribute)


def _narrow_attributes(node: onnx.NodeProto) -> Iterator[int]:
    """The narrow types that a node's attributes state for its result."""
    if node.domain in OWN_DOMAINS:
        for a in node.attribute:
            kind = a.t.data_type if a.name == "value" else a.i if a.name in ("to", "output_dtype", "dtype") else 0
            if kind in NARROW_TYPES:
                yield kind


def _refuse(node: onnx.NodeProto, constants: _Constants, label: str) -> None:
    """ModelError for a node that stays and reads or makes numbers of a narrow type."""
    named = f"{label}: node {node.name or node.output[0]!r} ({node.op_type})"
    for name in node.input:
        if (kind := constants.kind(name)) in NARROW_TYPES:
            raise ModelError(f"{named}: expected constants of {_shown(kind)} to be read by DequantizeLinear or Cast, "
                             f"together with constants alone, found {name!r}")
    for kind in _narrow_attributes(node):
        raise ModelError(f"{named}: expected a result of at least 8 bits, as constants alone may be of {_shown(kind)}")


def _shown(kind: int | None) -> str:
    return onnx.TensorProto.DataType.Name(kind).lower()
