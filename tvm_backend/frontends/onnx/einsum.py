"""``Einsum`` as products of matrices.

TVM makes of it a function that only TVM runs, and onnxruntime's quantizer leaves it in floats: no accelerator would see
its products. Operands are taken in two at a time. Of two operands an index is of the *batch* where both have it and it
is needed later, *summed* where it is not, and otherwise of the rows (the first operand's own) or of the columns::

    btnh,nhd->btnd    batch n, summed h, rows bt, columns d:    [n, bt, h] x [n, h, d] -> [n, bt, d] -> [b, t, n, d]

Where nothing is summed, the two are multiplied element by element.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import onnx

from archloom.tvm_backend.frontends.onnx.editor import Editor, Shape, attributes_of, rewriting
from archloom.tvm_backend.ir.equations import extents_of, indices_of

TYPES = frozenset(getattr(onnx.TensorProto, name) for name in (
    "FLOAT", "FLOAT16", "BFLOAT16", "DOUBLE", "INT32", "INT64"))
"""Of ``MatMul``, which has none of fewer bits, and those that are summed by onnxruntime, too."""


@rewriting("Einsum")
def einsum_as_products(node: onnx.NodeProto, editor: Editor) -> bool:
    """Write ``Einsum`` by ``MatMul``, where types and shapes are known; a constant is the second operand."""
    shapes = [editor.inferred.get(name) for name in node.input]
    known = [shape for shape in shapes if shape is not None]
    if len(known) < len(shapes) or editor.type_of(node.input[0]) not in TYPES:
        return False
    terms, wanted = indices_of(attributes_of(node)["equation"].decode(), [len(shape) for shape in known])
    extents = extents_of(terms, known)
    if extents is None or not extents.keys() >= set(wanted):
        return False
    writer = _Writer(node, editor, extents)
    operands = [writer.taken(name, term, shape) for name, term, shape in zip(node.input, terms, known, strict=True)]
    for position, operand in enumerate(operands):
        others = [each for each in operands if each is not operand]
        operands[position] = writer.summed(operand, _needed(others, wanted))
    first, *rest = operands
    while rest:
        second, *rest = rest
        first = writer.product(first, second, _needed(rest, wanted), wanted if not rest else None)
    if first.tensor != writer.result:
        writer.arranged(first, [(index,) for index in wanted], writer.result)
    return True


@dataclass(frozen=True)
class _Operand:
    """A tensor with an index for each axis."""

    tensor: str
    indices: tuple[str, ...]


def _needed(operands: Iterable[_Operand], result: Iterable[str]) -> set[str]:
    return {*result, *(index for operand in operands for index in operand.indices)}


@dataclass
class _Writer:
    """Writes what takes the place of a node, whose indices have these extents."""

    node: onnx.NodeProto
    editor: Editor
    extents: dict[str, int]
    names: int = 0

    @property
    def result(self) -> str:
        return self.node.output[0]

    def name(self) -> str:
        """Of a tensor on the way."""
        self.names += 1
        return f"{self.result}.{self.names}"

    def taken(self, tensor: str, indices: tuple[str, ...], shape: Shape) -> _Operand:
        """An operand without axes that are repeated for those of others, and with each index once."""
        kept = [(index, extent) for index, extent in zip(indices, shape, strict=True) if extent == self.extents[index]]
        if len(kept) < len(indices):
            tensor = self.editor.reshaped(tensor, self.name(), [extent for _, extent in kept])
        operand = _Operand(tensor, tuple(index for index, _ in kept))
        while repeated := [index for index in operand.indices if operand.indices.count(index) > 1]:
            operand = self.diagonal(operand, repeated[0])
        return operand

    def diagonal(self, operand: _Operand, index: str) -> _Operand:
        """Two axes of one index as one: every (n + 1)-th element of both together."""
        axes = [axis for axis, each in enumerate(operand.indices) if each == index][:2]
        rest = [axis for axis in range(len(operand.indices)) if axis not in axes]
        n, left = self.extents[index], tuple(operand.indices[axis] for axis in rest)
        last = self.editor.node("Transpose", [operand.tensor], self.name(), perm=[*rest, *axes])
        flat = self.editor.reshaped(last, self.name(), [*(self.extents[each] for each in left), n * n])
        name = self.name()
        cut = [self.editor.constant(f"{name}.{key}", np.array([value], np.int64)) for key, value in (
            ("starts", 0), ("ends", n * n), ("axes", len(rest)), ("steps", n + 1))]
        return _Operand(self.editor.node("Slice", [flat, *cut], name), (*left, index))

    def summed(self, operand: _Operand, needed: set[str]) -> _Operand:
        """An operand without the indices that nothing else needs."""
        axes = [axis for axis, index in enumerate(operand.indices) if index not in needed]
        if not axes:
            return operand
        name = self.name()
        if self.editor.version < 13:
            self.editor.node("ReduceSum", [operand.tensor], name, axes=axes, keepdims=0)
        else:
            over = self.editor.constant(f"{name}.axes", np.array(axes, np.int64))
            self.editor.node("ReduceSum", [operand.tensor, over], name, keepdims=0)
        return _Operand(name, tuple(index for index in operand.indices if index in needed))

    def product(
        self, first: _Operand, second: _Operand, needed: set[str], wanted: tuple[str, ...] | None,
    ) -> _Operand:
        """The product of two operands, which is the node's result where its indices are as ``wanted``."""
        if first.tensor in self.editor.constants and second.tensor not in self.editor.constants:
            first, second = second, first
        common = [index for index in first.indices if index in second.indices]
        batch, gone = (tuple(i for i in common if (i in needed) == of_batch) for of_batch in (True, False))
        rows, columns = (tuple(i for i in each.indices if i not in common) for each in (first, second))
        whole, batches = (*batch, *rows, *columns), [(index,) for index in batch]
        if not gone:
            operator = "Mul"
            operands = [self.arranged(each, [(i,) if i in each.indices else () for i in whole])
                        for each in (first, second)]
        else:
            operator = "MatMul"
            operands = [self.arranged(first, [*batches, rows, gone]), self.arranged(second, [*batches, gone, columns])]
        name = self.result if whole == wanted else self.name()
        plain = not gone or len(rows) == len(columns) == 1
        label = None if wanted is None else self.node.name or self.result
        tensor = self.editor.node(operator, operands, name if plain else self.name(), label)
        if not plain:
            self.editor.reshaped(tensor, name, self.shape(whole))
        return _Operand(name, whole)

    def arranged(self, operand: _Operand, groups: Sequence[tuple[str, ...]], name: str | None = None) -> str:
        """The operand with an axis for each group of its indices; a constant stays one. Called ``name``, if given."""
        order = [operand.indices.index(index) for group in groups for index in group]
        shape = [math.prod(self.shape(group)) for group in groups]
        moved, split = order != sorted(order), len(groups) != len(order) or not all(groups)
        if not moved and not split:
            return operand.tensor if name is None else self.editor.node("Identity", [operand.tensor], name)
        name = name or self.name()
        if operand.tensor in self.editor.constants:
            return self.editor.changed(operand.tensor, name, lambda x: x.transpose(order).reshape(shape))
        if not split:
            return self.editor.node("Transpose", [operand.tensor], name, perm=order)
        tensor = self.editor.node("Transpose", [operand.tensor], self.name(), perm=order) if moved else operand.tensor
        return self.editor.reshaped(tensor, name, shape)

    def shape(self, indices: Iterable[str]) -> list[int]:
        return [self.extents[index] for index in indices]
