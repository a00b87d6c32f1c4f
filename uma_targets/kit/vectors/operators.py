"""What a target with a vector unit takes as nests: patterns, predicate, workloads, streams and their mappings."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache, partial, reduce
from operator import or_
from typing import Any, TypeAlias

import numpy as np

from archloom.acadl_models.acadl import ArchitectureGraph
from archloom.mapper import workload as wl
from archloom.mapper.hardware import Hardware
from archloom.mapper.mapping import Mapping as TileMapping
from archloom.mapper.memory import Memory
from archloom.mapper.nests import GATHER, ITEMS
from archloom.mapper.options import OptionValue
from archloom.mapper.space import Space, Table, product
from archloom.oracle.affine import Affine
from archloom.oracle.errors import MappingError
from archloom.oracle.stream import Instr, Node, Stream
from archloom.tvm_backend.ir.match import QuantizedOp
from archloom.tvm_backend.ir.nests import WHOLE, WIDE, Piece, kept
from archloom.tvm_backend.ir.operators import OPERATORS
from archloom.tvm_backend.ir.patterns import DFPattern, is_op, wildcard
from archloom.tvm_backend.targets.backend import InTiles, Lowered, Predicate, Verdict
from archloom.tvm_backend.targets.layouts import ROW_MAJOR, WORDS, Layout
from archloom.uma_targets.kit.attention import Kernel
from archloom.uma_targets.kit.vectors.emit import Choice, Words, choices_of, nodes_of
from archloom.uma_targets.kit.vectors.unit import Unit

NEEDS = ("float32, float16, bfloat16, int8, uint8, int32 or int64 results of operators that are nests of loops over "
         "the vector unit's operations")
CHAINED, BEFORE = 6, 2
"""Most operators one after the other in a piece, and before one that folds."""
NEAR = 2
"""Axes are tried for lanes whose estimates are so many times the lowest: what caches keep can make as much of a
difference. A free choice."""
NO_FOLD = frozenset({"quantize"})
"""What is stored before it is folded: as bytes, of which a fold would make each several times."""
ARITY: Mapping[str, int] = {
    **{name: 2 if o.binary else 1 for name, o in OPERATORS.items() if o.vector or o.scalar},
    **dict.fromkeys(("permute_dims", "astype", "repeat", "tile"), 1),
    **dict.fromkeys(("clip", "where", "quantize", "dequantize"), 3),
    **dict.fromkeys(("less", "less_equal", "greater", "greater_equal", "equal", "not_equal", "logical_and",
                     "bitwise_and", "power", "take", "broadcast_to"), 2),
}
"""Arguments of operators that say how a number of their result is computed."""
NORMS = {"nn.layer_norm": 3, "nn.rms_norm": 2, "nn.group_norm": 3}


@dataclass(frozen=True)
class VectorKit:
    """A target's vector unit, of the ISA's parameters; ``most``: of a graph, how many registers a group may have;
    ``reach_bytes``: how large a tensor may be of which elements are read by numbers that are computed."""

    unit: Callable[[Mapping[str, int]], Unit]
    most: Callable[[ArchitectureGraph], int]
    reach_bytes: int = (1 << 31) - 1


# --- patterns ---------------------------------------------------------------------------------------------------------
def patterns() -> Iterator[tuple[str, Callable[[], DFPattern]]]:
    """Names and patterns, those that take most first."""
    for count in range(BEFORE, 0, -1):
        yield f"fold_{count}", partial(_folding, partial(_reshaped, partial(_chain, count, NO_FOLD)))
    yield "fold_reshaped", partial(_folding, _reshape)
    yield "fold", partial(_folding, wildcard)
    for count in range(CHAINED, 1, -1):
        yield f"chain_{count}", partial(_chain, count)
    yield "one_reshaped", partial(_step, _reshape, False)
    yield "one", partial(_step, wildcard, False)


Make: TypeAlias = Callable[[], DFPattern]


def _reshape() -> DFPattern:
    return is_op("relax.reshape")(wildcard(), wildcard())


def _reshaped(value: Make) -> DFPattern:
    """``value``, or a reshape of it."""
    return is_op("relax.reshape")(value(), wildcard()) | value()


@lru_cache
def _chain(count: int, without: frozenset[str] = frozenset()) -> DFPattern:
    """So many operators one after the other, each of which says how a number is computed; with reshapes between."""
    if count == 1:
        return _step(partial(_reshaped, wildcard), False, without)
    return _step(partial(_reshaped, partial(_chain, count - 1, without)), True, without)


def _step(value: Make, anywhere: bool, without: frozenset[str] = frozenset()) -> DFPattern:
    """One operator on a value, its first argument or any one."""
    given, found = value(), []
    for name, arity in ARITY.items():
        if name in without:
            continue
        for place in range(arity if anywhere else 1):
            found.append(is_op(f"relax.{name}")(*(given if i == place else wildcard() for i in range(arity))))
    found += [is_op("relax.strided_slice")(given, *(wildcard() for _ in range(count))) for count in (3, 4)]
    return reduce(or_, found)


def _folding(value: Make) -> DFPattern:
    """What is the last operator of a piece."""
    given = value()
    return reduce(or_, (is_op(f"relax.{name}")(given, *(wildcard() for _ in range(NORMS.get(name, 1) - 1)))
                        for name in WHOLE))


def taken(vectors: VectorKit, graph: Callable[[Any], ArchitectureGraph]) -> Predicate:
    """A piece that has been read is one that is taken, but for places in large tensors, and for vectors at a time for
    which there are no registers: a part of it may be a piece."""
    def predicate(op: QuantizedOp, options: Mapping[str, OptionValue]) -> Verdict:
        if "piece" not in op.attrs:
            return Verdict(False, f"it is {op.anchor}", NEEDS)
        largest = max((ITEMS[item] * math.prod(op.operands[int(name[1:])].shape)
                       for name, item in _gathered(op.attrs["piece"])), default=0)
        if largest > vectors.reach_bytes:
            return Verdict(False, f"it reads elements of {largest} bytes by computed numbers",
                           f"tensors of at most {vectors.reach_bytes} bytes for that")
        try:
            for nest in op.attrs["piece"].nests:
                choices_of(nest, vectors.unit(graph(options).parameters))
        except MappingError as error:
            return Verdict(False, str(error), "pieces for which there are registers")
        return Verdict(True, "it is a nest of loops")

    return predicate


def _gathered(piece: Piece) -> set[tuple[str, str]]:
    """The operands of which elements are read by numbers that are computed, with their types in memory."""
    return {(o.of, o.item) for nest in piece.nests for each in nest.passes for o in each.code if o.name == GATHER}


def lowered(op: QuantizedOp) -> Lowered:
    """A piece as a workload on all of its operands as they are."""
    piece: Piece = op.attrs["piece"]
    constants, inputs, layouts, tensors = {}, [], {}, []
    for number, operand in enumerate(op.operands):
        name, array = Piece.operand(number), operand.array
        if array is None:
            inputs.append((name, number))
            layouts[name] = _layout(operand.dtype)
            tensors.append(_stored(operand.shape, operand.dtype))
        else:
            array = kept(array)
            constants[name] = WORDS.pack(array) if array.dtype == WIDE else array
            tensors.append((constants[name].shape, str(constants[name].dtype)))
    label = "+".join(dict.fromkeys(reversed(piece.operators)))
    work = wl.nest(piece.nests, (*tensors, _stored(op.shape, piece.dtype)), name=op.name)
    return Lowered(work, label, tuple(inputs), constants, _layout(piece.dtype), tiles=InTiles(layouts))


def _layout(dtype: str) -> Layout:
    return WORDS if dtype == WIDE else ROW_MAJOR


def _stored(shape: tuple[int, ...], dtype: str) -> tuple[tuple[int, ...], str]:
    """Shape and type of a tensor in memory."""
    return _layout(dtype).stored_shape(shape), "int32" if dtype == WIDE else dtype


# --- streams ----------------------------------------------------------------------------------------------------------
def kernel(isa: str, vectors: VectorKit, graph: Callable[[Any], ArchitectureGraph]) -> Kernel:
    """How nests are run."""
    return Kernel(partial(_stream, isa, vectors), partial(_space, vectors, graph))


def _stream(
    isa: str, vectors: VectorKit, workload: wl.Workload, mapping: TileMapping, parameters: tuple[tuple[str, int], ...],
) -> Stream:
    memory, unit = Memory.of(workload), vectors.unit(dict(parameters))
    counts = {t.name: t.size_bytes // t.item_bytes for t in (*workload.inputs, workload.output)}
    words = {t.name: Words(Affine(t.address), counts[t.name]) for t in memory.tensors}
    return memory.stream(isa, parameters, [
        node for nest, lane in zip(workload.nests, mapping.lanes, strict=True)
        for node in nodes_of(nest, words, unit, mapping.size("group"), lane)])


def _space(
    vectors: VectorKit, graph: Callable[[Any], ArchitectureGraph], workload: wl.Workload, hardware: Hardware,
    options: Mapping[str, Any],
) -> Space:
    """Groups as long as registers allow, and for each nest what is spread over lanes, as far as it costs not much more
    than what costs least."""
    made = graph(options)
    unit, most = vectors.unit(made.parameters), vectors.most(made)
    if not workload.nests:
        raise MappingError(f"{workload.name}: expected nests of loops, found none")

    def ports(access: Node) -> int:
        return hardware.units_of(access.mnemonic) if isinstance(access, Instr) else 1

    found = [choices_of(nest, unit, most, ports) for nest in workload.nests]
    near = [[choice for choice in choices if choice.cost <= NEAR * choices[0].cost] for choices in found]
    numbers = product({f"nest{i}": range(len(choices)) for i, choices in enumerate(near)})

    def column(of: Callable[[Choice], float]) -> np.ndarray:
        """For each nest a row of what its choices are."""
        return np.array([np.array([*map(of, choices)])[rows] for choices, rows in zip(near, numbers.values())])

    columns = {**numbers, "group": column(lambda choice: choice.group).max(axis=0)}
    estimates = column(lambda choice: choice.cost).sum(axis=0)

    def mapping(c: Mapping[str, np.ndarray], i: int) -> TileMapping:
        lanes = tuple(choices[int(c[name][i])].lane for name, choices in zip(numbers, near))
        return TileMapping("nest", "", (("group", int(c["group"][i])),), lanes=lanes)

    return Space((Table(columns, {}, lambda c: estimates, mapping),), len(estimates))
