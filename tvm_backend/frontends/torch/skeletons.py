"""Torch modules as ONNX without their weights, equal blocks exported once: what an estimate of integers begins with."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import onnx
import onnx_ir
import torch

from archloom.tvm_backend.frontends.onnx import skeleton
from archloom.tvm_backend.frontends.torch import blocks, weights
from archloom.tvm_backend.frontends.torch.export import evaluated, example_tensors, onnx_program

DOMAIN, BLOCK, NUMBER, MODULE = "archloom", "block", "number", "module"
"""Of the operator that stands for a call of a block, and its attributes: calls of different modules on one tensor are
not the same, though weights are no inputs of the operator."""
_GRAPHS = (onnx.AttributeProto.GRAPH, onnx.AttributeProto.GRAPHS)
_NUMBERED = re.compile(r"_\d+$")


def skeleton_of(
    module: torch.nn.Module, example_inputs: Any, name: str = "network", input_names: Sequence[str] | None = None
) -> skeleton.Skeleton:
    """A float module as ONNX without its weights, which may be on ``meta`` and are not looked at."""
    inputs = example_tensors(example_inputs, name)
    with weights.filled(evaluated(module)), blocks.apart(module, inputs, _as_node) as apart:
        parts = [_bare(block, block.inputs(), name, None) for block in apart.found]
        with apart.taken_out():
            whole = _bare(module, inputs, name, input_names)
    made = written_out(whole, parts) if parts else whole
    return skeleton.Skeleton(skeleton.of_proto(made), apart.fallbacks)


def _as_node(block: blocks.Block, number: int, module: int, tensors: list[torch.Tensor]) -> Sequence[torch.Tensor]:
    """A call of a block as a node of ONNX."""
    shapes, dtypes = zip(*block.outputs, strict=True)
    return torch.onnx.ops.symbolic_multi_out(
        f"{DOMAIN}::{BLOCK}", tensors, {NUMBER: number, MODULE: module}, dtypes=dtypes, shapes=shapes, version=1)


def _bare(
    module: torch.nn.Module, inputs: tuple[Any, ...], name: str, input_names: Sequence[str] | None
) -> onnx.ModelProto:
    """A module as ONNX; weights have no data."""
    program = onnx_program(module, inputs, name, input_names)
    for value in program.model.graph.initializers.values():
        if skeleton.is_weight(int(value.dtype), tuple(value.shape)):
            value.const_value = onnx_ir.ExternalTensor("", None, None, value.dtype, shape=value.shape, name=value.name)
    proto = program.model_proto
    for node in proto.graph.node:  # where in which file it was written
        node.ClearField("metadata_props")
        node.ClearField("doc_string")
    return skeleton.parse(skeleton.of_proto(proto))


# calls of blocks ------------------------------------------------------------------------------------------------------


def written_out(whole: onnx.ModelProto, parts: Sequence[onnx.ModelProto]) -> onnx.ModelProto:
    """``whole`` with a copy of its part, by number, in place of each call of a block.

    Operators and tensors are numbered anew in their order; inputs, results and the network's own weights keep their
    names."""
    graph = whole.graph
    made = onnx.GraphProto(name=graph.name, input=graph.input, output=graph.output)
    own = [value.name for value in (*graph.input, *graph.output, *graph.initializer)]
    _Copies(made, [part.graph for part in parts], own).write(graph, dict(zip(own, own)))
    sets = [opset for opset in whole.opset_import if opset.domain != DOMAIN]
    return onnx.ModelProto(ir_version=whole.ir_version, opset_import=sets, graph=made)


class _Copies:
    """Writes copies of graphs into ``made``, in which the names ``taken`` are used already."""

    def __init__(self, made: onnx.GraphProto, parts: Sequence[onnx.GraphProto], taken: Iterable[str]) -> None:
        self.made, self.parts = made, parts
        self._taken = {"", *taken}
        self._count: Counter[str] = Counter()

    def write(self, graph: onnx.GraphProto, names: dict[str, str]) -> None:
        """A copy of ``graph``; what is not in ``names`` is called as nothing else is."""
        def named(name: str) -> str:
            if name and name not in names:
                names[name] = self._fresh(name)
            return names[name] if name else ""

        for tensor in graph.initializer:
            self.made.initializer.add().CopyFrom(tensor)
            self.made.initializer[-1].name = named(tensor.name)
        for node in graph.node:
            inputs, outputs = list(map(named, node.input)), list(map(named, node.output))
            if node.domain == DOMAIN:
                number = next(attribute.i for attribute in node.attribute if attribute.name == NUMBER)
                self._call(self.parts[number], inputs, outputs)
            else:
                self._node(node, inputs, outputs)
        for info in graph.value_info:
            self.made.value_info.add().CopyFrom(info)
            self.made.value_info[-1].name = named(info.name)

    def _call(self, part: onnx.GraphProto, inputs: list[str], outputs: list[str]) -> None:
        names = dict(zip([value.name for value in part.input], inputs, strict=True))
        results = list(zip([value.name for value in part.output], outputs, strict=True))
        made = {name for node in part.node for name in node.output}
        for inner, outer in results:
            if inner in made:
                names.setdefault(inner, outer)
        self.write(part, names)
        for inner, outer in results:
            if names[inner] != outer:  # an input, a constant, or the same tensor once more
                self.made.node.add(
                    op_type="Identity", name=self._fresh("node_Identity"), input=[names[inner]], output=[outer])

    def _node(self, node: onnx.NodeProto, inputs: list[str], outputs: list[str]) -> None:
        if any(attribute.type in _GRAPHS for attribute in node.attribute):
            raise skeleton.NoSkeleton(f"node {node.name!r} has a graph inside")
        copy = self.made.node.add(op_type=node.op_type, domain=node.domain, name=self._fresh(node.name), input=inputs,
                                  output=outputs)
        copy.attribute.extend(node.attribute)

    def _fresh(self, name: str) -> str:
        """A name that nothing has, with the next number behind one that is taken, as torch does it."""
        stem = _NUMBERED.sub("", name)
        found = stem
        while found in self._taken:
            self._count[stem] += 1
            found = f"{stem}_{self._count[stem]}"
        self._taken.add(found)
        return found
