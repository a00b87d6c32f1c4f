"""Networks as chains of segments, each partitioned and planned once: for searches among networks of equal blocks.

Where a single tensor is all that operators hand on to those after them, a network can be cut. Between convolutions that
an int8 target takes, the cut changes nothing: the tensor is quantized there in any case, and no pattern matches across
a quantized tensor that a convolution reads. So a float network that is estimated as if quantized is cut there, each
segment is partitioned as a network of its own under names that say nothing, and what is found is kept by its structure.
The partition of the network is put together from those of its segments: the conversions at the cuts go, and the regions
on both sides of a cut are one.

Whatever does not certainly give the same partition as the whole network is left to it: :class:`Undivided` says why.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import onnx
from onnx import helper

from archloom.mapper.search import Plan
from archloom.mapper.workload import Workload
from archloom.oracle.errors import ArchloomError
from archloom.oracle.memory import Remembered
from archloom.tvm_backend.compile import partition_model, plan_steps
from archloom.tvm_backend.compiled import HostOp, HostPart, Partition, Region, Step
from archloom.tvm_backend.estimate.pieces import GIVEN, NAME, Key, Piece, Shape, Undivided, input_shape, pieces_of
from archloom.tvm_backend.frontends.onnx.editor import known_shapes
from archloom.tvm_backend.frontends.onnx.guard import without_weights
from archloom.tvm_backend.frontends.onnx.skeleton import NoSkeleton
from archloom.tvm_backend.ir.conversion import rename
from archloom.tvm_backend.ir.nodes import Unsupported
from archloom.tvm_backend.memory import LiveRange, Memory
from archloom.tvm_backend.model import Model, make_model
from archloom.tvm_backend.quantization.quantized_form import quantized_form
from archloom.tvm_backend.quantization.scheme import FLOAT
from archloom.tvm_backend.targets.choice import Chosen
from archloom.tvm_backend.targets.layouts import NHWC

KEPT, READ = 2048, 256
"""Segments that a process remembers, and pieces of networks that are the same for all machines."""


@dataclass(frozen=True, eq=False)
class Segment:
    """A partitioned piece of a network: ``shape`` is that of its result.

    ``parts``: names of parts of operators, which no other operator of the network may have. ``memory`` has no
    conversions at the cuts. ``plans`` has those of its steps as far as they were made.
    """

    regions: tuple[Region, ...]
    host: tuple[HostOp, ...]
    shape: Shape
    parts: tuple[str, ...]
    memory: Memory
    plans: "dict[str, Plan]" = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Chain:
    """A network of which each piece is an instance of a segment."""

    partition: Partition
    origins: Mapping[str, tuple[Segment, str]]
    """For each step its segment and its name there"""
    pieces: "Sequence[tuple[Piece, Segment]]"
    border: tuple[str, str]
    """The names of its input and of its result"""

    def memory(self) -> Memory:
        """The live ranges of the whole: what a segment begins with is what the one before has made last."""
        layers: list[str] = []
        tensors: list[LiveRange] = []
        for piece, segment in self.pieces:
            at, given = len(layers), len(tensors) - 1
            for tensor in segment.memory.tensors:
                moved = replace(tensor, name=self._named(piece, segment, tensor.name), first=tensor.first + at,
                                last=tensor.last + at)
                if at and tensor.name == GIVEN:
                    tensors[given] = replace(tensors[given], last=moved.last)
                else:
                    tensors.append(moved)
            layers += [self._named(piece, segment, name) for name in segment.memory.layers]
        return Memory(tuple(layers), tuple(tensors))

    def _named(self, piece: Piece, segment: Segment, name: str) -> str:
        if name == GIVEN:
            return self.border[0]
        is_result = name == piece.result and name in {op.name for op in segment.host}
        return self.border[1] if is_result else piece.named(name)

    def unplanned(self) -> "list[Workload]":
        """The workloads of the steps that no plan was made for yet."""
        return [step.workload for step in self.partition.steps()
                if (origin := self.origins[step.name])[1] not in origin[0].plans]

    def plans(self, chosen: "Sequence[Chosen]", progress: Any) -> "dict[str, Plan]":
        """A plan for each step; those of segments that were planned before are at hand."""
        missing = [name for name, (segment, own) in self.origins.items() if own not in segment.plans]
        if missing:
            wanted = set(missing)
            regions = tuple(
                replace(region, steps=tuple(step for step in region.steps if step.name in wanted))
                for region in self.partition.regions)
            for name, plan in plan_steps(replace(self.partition, regions=regions), chosen, progress).items():
                segment, own = self.origins[name]
                segment.plans[own] = plan
        return {name: segment.plans[own] for name, (segment, own) in self.origins.items()}


def partitioned(proto: "onnx.ModelProto", chosen: "Sequence[Chosen]", request: str, title: str) -> Chain:
    """The partition of a float network in its quantized form; Undivided where it has to be looked at as a whole.

    ``proto`` may lack weights; ``request`` names all that the partition depends on beside the network.
    """
    if len(chosen) != 1 or not chosen[0].backend.is_quantized:
        raise Undivided("several targets, or one of floats")
    pieces = pieces_of(proto)
    if len(pieces) < 2:
        raise Undivided("there is no tensor at which it may be cut")
    shape = input_shape(proto)
    sets = _sets(proto)
    segments: list[Segment] = []
    for position, piece in enumerate(pieces):
        key = (request, sets, shape, position == 0, position == len(pieces) - 1, piece.structure)
        if key not in _known:
            try:
                _known[key] = _segment(piece, proto, shape, chosen[0], position == len(pieces) - 1)
            except Undivided as reason:
                _known[key] = reason
        segment = _known[key]
        if isinstance(segment, Undivided):
            raise segment
        segments.append(segment)
        shape = segment.shape
    return _joined(pieces, segments, proto, chosen[0], title)


def forget() -> None:
    """Drop the segments that this process remembers."""
    _known.clear()
    _read.clear()


_known: Remembered[Key, Segment | Undivided] = Remembered(KEPT)
_read: Remembered[Key, tuple[Model, list[str]]] = Remembered(READ)


def _sets(proto: "onnx.ModelProto") -> Key:
    """The versions of ONNX that a network is of."""
    return proto.ir_version, *((o.domain, o.version) for o in proto.opset_import)


def _segment(piece: Piece, proto: "onnx.ModelProto", shape: Shape, target: "Chosen", is_last: bool) -> Segment:
    """The piece partitioned as a network of its own; Undivided where that may not be what the network's partition
    has."""
    found, variables = _alone(piece, proto, shape, target)
    first = proto.graph.input[0].name in piece.tensors
    host = _without_borders(found.host.ops, piece.result, first=first, last=is_last)
    if not found.regions or not _is_linear(found.regions, is_last):
        raise Undivided("a piece of it is not one region from its input to its result")
    if not is_last and len(host) != (1 if first else 0):
        raise Undivided("the host has work between two cuts")
    if any(NAME.search(op.reason) or op.op in ("nn.conv2d", "matmul", "add") for op in host):
        raise Undivided("the host has an operator whose reason depends on others")
    names = [*(step.name for step in found.steps()), *(op.name for op in host)]
    if not all(map(NAME.match, names)):
        raise Undivided("an operator of a piece is called as none of its nodes")
    regions = tuple(
        replace(region, values=(), steps=tuple(replace(step, constants={}) for step in region.steps))
        for region in found.regions)
    parts = tuple(name for name in variables if (part := NAME.fullmatch(name)) and part[1] == "step" and part[3])
    return Segment(regions, host, found.outputs[0].shape, parts, _uncut(found, first=first, last=is_last))


def _uncut(found: Partition, *, first: bool, last: bool) -> Memory:
    """The live ranges of a piece without the conversions at the cuts."""
    assert found.memory is not None  # as partition_model always gives it
    memory = found.memory if first else found.memory.without(0)
    return memory if last else memory.without(len(memory.layers) - 1)


def _alone(piece: Piece, proto: "onnx.ModelProto", shape: Shape, target: "Chosen") -> tuple[Partition, list[str]]:
    """The partition of a piece as a network of its own, and the names of its variables."""
    model, variables = _read.once((_sets(proto), shape, piece.structure), lambda: _model(piece, proto, shape))
    with _said_of_the_whole():
        return partition_model(model, target.name, target.options), variables


def _model(piece: Piece, proto: "onnx.ModelProto", shape: Shape) -> tuple[Model, list[str]]:
    """A piece as a network of its own, which is the same for all targets, and the names of its variables."""
    from archloom.tvm_backend.frontends.onnx.load import read_skeleton

    with _said_of_the_whole():
        network = onnx.shape_inference.infer_shapes(_network(piece, proto, shape))
        if not _adds_equal_shapes(network):
            raise Undivided("an addition is of tensors of different or unknown shapes")
        with without_weights():
            form = quantized_form(network)
        module, _, _ = read_skeleton(form, "a segment", None)
        border = [network.graph.input[0].name], [network.graph.output[0].name]
        model = make_model(module, "segment", "onnx", None, *border)
    return model, [binding.var.name for binding in module["main"].body]


@contextmanager
def _said_of_the_whole() -> Iterator[None]:
    """What is wrong with a piece is said of the whole network, whose operators have names."""
    try:
        yield
    except (ArchloomError, NoSkeleton, Unsupported, onnx.shape_inference.InferenceError) as error:
        raise Undivided(f"a piece of it cannot be read alone: {error}") from error


def _network(piece: Piece, proto: "onnx.ModelProto", shape: Shape) -> "onnx.ModelProto":
    """A piece under names by number."""
    network = onnx.ModelProto(ir_version=proto.ir_version, opset_import=proto.opset_import)
    graph = network.graph
    graph.name = "segment"
    names = {name: f"tensor{number}x" for name, number in piece.tensors.items()}
    for number, (name, tensor) in enumerate(piece.constants.items()):
        names[name] = f"constant{number}x"
        copy = graph.initializer.add()
        copy.CopyFrom(tensor)
        copy.name = names[name]
    graph.input.append(helper.make_tensor_value_info(GIVEN, FLOAT, shape))
    graph.output.append(helper.make_tensor_value_info(piece.result, FLOAT, None))
    for number, node in enumerate(piece.nodes):
        copy = graph.node.add()
        copy.CopyFrom(node)
        copy.name = f"step{number}x"
        copy.input[:] = [names.get(name, "") for name in node.input]
        copy.output[:] = [names[name] for name in node.output]
    return network


def _adds_equal_shapes(network: "onnx.ModelProto") -> bool:
    """Whether all additions are of tensors of one known shape, which stay additions when quantized."""
    shapes = known_shapes(network)
    return all(
        shapes.get(node.input[0]) is not None and shapes.get(node.input[0]) == shapes.get(node.input[1])
        for node in network.graph.node if node.op_type == "Add")


def _without_borders(ops: Sequence[HostOp], output: str, *, first: bool, last: bool) -> tuple[HostOp, ...]:
    """The host's operators without the conversions at the cuts; Undivided where these are not as expected."""
    kept = list(ops)
    if not first:
        if not kept or kept[0].op != "quantize" or kept[0].name != "tensor0x_QuantizeLinear":
            raise Undivided("a piece does not begin with the conversion to integers")
        kept = kept[1:]
    if not last:
        if not kept or kept[-1].op != "dequantize" or kept[-1].name != output:
            raise Undivided("a piece does not end with the conversion from integers")
        kept = kept[:-1]
    return tuple(kept)


def _is_linear(regions: Sequence[Region], is_last: bool) -> bool:
    """Whether the first region takes what comes in, alone, and the only one makes what goes out."""
    if len(regions[0].inputs) != 1 or (not is_last and (len(regions) > 1 or len(regions[0].outputs) != 1)):
        return False
    border = [regions[0].value(name) for name in (regions[0].inputs[0], *(() if is_last else regions[0].outputs))]
    return all(value.layout == NHWC for value in border)


# joining ----------------------------------------------------------------------------------------------------------


def _joined(
    pieces: Sequence[Piece], segments: Sequence[Segment], proto: "onnx.ModelProto", target: "Chosen", title: str
) -> Chain:
    """The network's partition: all segments but the last have one region, which goes on in the next one's first.
    Undivided where parts of operators would have to be numbered, since others have their names."""
    named = [piece.named(name) for piece, segment in zip(pieces, segments, strict=True) for name in segment.parts]
    named += [rename(node.name).replace(".", "_") for node in proto.graph.node]
    if len(set(named)) < len(named):
        raise Undivided("a part of an operator is called as another operator")
    origins: dict[str, tuple[Segment, str]] = {}
    steps: list[Step] = []
    host: list[HostOp] = []
    regions: list[Region] = []
    for piece, segment in zip(pieces, segments, strict=True):
        for region in segment.regions:
            for step in region.steps:
                name = piece.named(step.name)
                origins[name] = segment, step.name
                steps.append(replace(step, name=name))
            if segment is segments[-1] and piece is pieces[-1]:
                regions.append(replace(region, steps=tuple(steps)))
                steps = []
        host += [
            replace(op, name=proto.graph.output[0].name if op.name == piece.result else piece.named(op.name))
            for op in segment.host]
    partition = Partition(title, "onnx", target.name, target.options, (), (), tuple(regions), HostPart("", tuple(host)))
    border = proto.graph.input[0].name, proto.graph.output[0].name
    return Chain(partition, origins, tuple(zip(pieces, segments, strict=True)), border)
