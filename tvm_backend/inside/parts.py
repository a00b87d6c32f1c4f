"""Regions that are parts of the network as it was imported: with open extents, or with the host's operators in them.

Who takes which operator is found out at stated extents, the *specimen*: of the module with these, partitioned as any
other, each region's operators are known by their variables, and so are the operators of the open module. A region of it
is the part of the network that it is, as it was imported. At its first call with certain extents it is a network of
static shapes, which is partitioned, planned and compiled like any other; so many of them are kept for each region.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from tvm import IRModule, relax

from archloom.oracle.errors import InputError, suggest
from archloom.tvm_backend.host.rules import translatable
from archloom.tvm_backend.ir import compat
from archloom.tvm_backend.ir import expressions as ir
from archloom.tvm_backend.model import from_relax
from archloom.tvm_backend.passes.constants import fold_constants
from archloom.tvm_backend.targets.choice import Chosen
from archloom.tvm_backend.targets.partition import named, partition
from archloom.tvm_backend.targets.regions import LLVM, XLA, Node, Place, level_of_each, readers_of, regrouped

SPECIMENS = (16, 32, 48, 64)
"""Extents at which is looked at who takes what, where none are given: of the first open extent, the second, ..."""

MOVES = frozenset({"reshape", "permute_dims"})
"""Operators that go along with what they stand between."""


def open_extents(function: relax.Function) -> tuple[str, ...]:
    """The names of the extents that a function leaves open."""
    return tuple(dict.fromkeys(str(v.name) for v in relax.analysis.defined_symbolic_vars(function)))


def specimen_of(function: relax.Function, given: Mapping[str, int] | None, entry: str) -> dict[str, int]:
    """Extents to look at a function with; InputError for names that are not its own, or extents below 1."""
    names = open_extents(function)
    for name, extent in (given or {}).items():
        if name not in names:
            raise InputError(f"{entry}: no extent is called {name!r}{suggest(name, list(names))}")
        if isinstance(extent, bool) or not isinstance(extent, int) or extent < 1:
            raise InputError(f"{entry}: symbol {name!r}: expected a whole number from 1, found {extent!r}")
    return {name: (given or {}).get(name, SPECIMENS[min(i, len(SPECIMENS) - 1)]) for i, name in enumerate(names)}


def partition_parts(
    module: IRModule, chosen: Sequence[Chosen], extents: Mapping[str, int], entry: str, host: bool, merge: bool
) -> IRModule:
    """``main`` with its regions as functions, as :func:`targets.regions.form_regions` leaves them, extents open.

    With ``merge``, regions of all targets and what XLA runs beside them are regions of the first target.
    """
    module = named(fold_constants(compat.ensure_dataflow(module)))
    model = from_relax(compat.at_extents(module, extents), entry)
    found = partition(model.module, chosen).module
    takers: dict[str, str] = {}
    for function in found.functions.values():
        target = ir.codegen_of(function)
        for binding in ir.bindings(function) if target not in (None, "", "xla") else ():
            composite = compat.callee(found, binding.value)
            for var in (binding.var, *(ir.bound_in(composite) if composite is not None else ())):
                takers[var.name] = str(target)
    closed = {b.var.name: b.value for b in ir.bindings(model.module["main"])}
    main = module["main"]
    nodes = _nodes(main, takers, closed, host)
    if merge and takers:
        for node in nodes:
            if node.place != LLVM:
                node.place = (chosen[0].name, "")
    while True:
        level_of_each(nodes)
        groups: dict[tuple[int, Place], list[Node]] = defaultdict(list)
        for node in nodes:
            groups[(node.level, node.place)].append(node)
        made, symbols = regrouped(module, main, groups)
        undetermined = [s for s in symbols if relax.analysis.free_symbolic_vars(made[s])]
        if not undetermined and not _given_up(nodes, main):
            return made
        for symbol in undetermined:  # no tensor that it is given says what an extent is: TVM's code knows
            for node in symbols[symbol]:
                node.place = LLVM


def _given_up(nodes: list[Node], main: relax.Function) -> bool:
    """Whether tuples crossed the border of a region: what makes them, and takes them apart, is then TVM's."""
    results = {v for r in ir.outputs_of(main) for v in ir.variables(r)}
    users, found = readers_of(nodes), False
    for position, node in enumerate(nodes):
        if node.place == LLVM or ir.is_single(node.binding.var):
            continue
        readers = users[position]
        if node.binding.var in results or any((n.level, n.place) != (node.level, node.place) for n in readers):
            found = True
            for one in (node, *(n for n in readers if ir.is_tuple_get(n.binding.value))):
                one.place = LLVM
    return found


def _nodes(main: relax.Function, takers: Mapping[str, str], closed: Mapping[str, Any], host: bool) -> list[Node]:
    """All bindings with the places of the same ones in the specimen."""
    index: dict[Any, int] = {}
    nodes: list[Node] = []
    for binding in ir.bindings(main):
        read = list(ir.variables(binding.value))
        inputs = [index[v] for v in read if v in index]
        tensors = all(ir.is_single(v) or isinstance(v.ty, relax.TupleType) for v in (binding.var, *read))
        name = binding.var.name
        place = LLVM
        if tensors and name in takers:
            place = (takers[name], "")
        elif tensors and ir.is_tuple_get(binding.value) and inputs:
            place = nodes[inputs[0]].place
        elif tensors and host and name in closed and ir.op_name(binding.value) and translatable(closed[name]):
            place = XLA
        index[binding.var] = len(nodes)
        nodes.append(Node(binding, inputs, place, len(inputs) < len(read)))
    _join_between(nodes)
    return nodes


def _join_between(nodes: list[Node]) -> None:
    """What moves a tensor between two operators of a place, or makes it of constants for one, goes there, too."""
    users = readers_of(nodes)
    for position, node in reversed(list(enumerate(nodes))):
        places = {u.place for u in users[position]}
        if node.place == LLVM or len(places) != 1 or (place := places.pop()) in (LLVM, XLA):
            continue
        between = ir.op_name(node.binding.value) in MOVES and all(nodes[i].place == place for i in node.inputs)
        if between or (not node.inputs and not node.reads_parameters):
            node.place = place
