"""Grouping of a partitioned ``main``: neighbours that run in the same place become one function.

Every binding of ``main`` gets a place (the target in one of its memory layouts, XLA, or TVM's own code) and a level:
the largest level among its inputs, plus one for an input from another place (or, without any, 0 on the host and 1 on a
target, for which the host then has made ready what it can). Bindings of one place and level form a
group. A path between two of them never leaves the place, since that would raise the level; so groups are convex, and
sorting by level is a legal order of execution.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Container, Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any, Literal

from archloom.tvm_backend.compiled import HostOp
from archloom.tvm_backend.host.rules import heavy as is_heavy
from archloom.tvm_backend.host.rules import macs, translatable
from archloom.tvm_backend.ir import expressions as ir
from archloom.tvm_backend.ir.attention import ATTENTION, HEADS_SWAPPED
from archloom.tvm_backend.targets.live_ranges import Flow, flow_of

HOST_CODEGEN = "xla"
Place = tuple[str, str]
"""(who, layout): ``("llvm", "")``, ``("xla", "")`` or (target, layout class of its composites)."""

LLVM: Place = ("llvm", "")
XLA: Place = (HOST_CODEGEN, "")
HOST: Place = ("host", "")


@dataclass(eq=False)
class Node:
    binding: ir.Binding
    inputs: list[int]
    place: Place
    reads_parameters: bool = False
    level: int = 0


Positions = dict[str, tuple[int, ...]]
"""Where in ``main`` the bindings of each region's function were, by the function's symbol."""


def form_regions(
    module: ir.IRModule, owners: Mapping[str, str], tiled: frozenset[str] = frozenset(),
    plain: frozenset[str] = frozenset(),
) -> tuple[ir.IRModule, tuple[HostOp, ...], Positions, Flow]:
    """Group the composites of each target and the host operators that XLA should run into functions of their own.

    ``owners`` has the target of each composite, by name. Targets that are ``tiled`` keep images and matrices beside
    each other in one region; so do those that are ``plain``, which have all tensors as the network does. Beside them:
    what ``main`` reads and makes, in the order in which it runs.
    """
    main = module["main"]
    nodes = _placed(module, main, owners, tiled, plain)
    groups: dict[tuple[int, Place], list[Node]] = defaultdict(list)
    for node in nodes:
        groups[(node.level, node.place)].append(node)
    host = tuple(_describe(node, i) for i, node in enumerate(nodes)
                 if node.place in (LLVM, XLA) and ir.op_name(node.binding.value) is not None)
    at = {node.binding.var: i for i, node in enumerate(nodes)}
    order = [at[node.binding.var] for key in in_order(groups) for node in groups[key]]
    rebuilt, symbols = regrouped(module, main, groups)
    positions = {s: tuple(at[n.binding.var] for n in members) for s, members in symbols.items()}
    return rebuilt, host, positions, flow_of(main, order)


def _placed(
    module: ir.IRModule, main: ir.Function, owners: Mapping[str, str], tiled: frozenset[str], plain: frozenset[str],
) -> list[Node]:
    """All bindings with places and levels; no transposed tensor is handed from one group to another."""
    on_host: set[int] = set()
    while True:
        nodes = _nodes(module, main, owners, tiled, plain, on_host)
        _place_host(nodes)
        level_of_each(nodes)
        elsewhere = _read_elsewhere(nodes, main)
        if not elsewhere:
            return nodes
        on_host |= elsewhere


def readers_of(nodes: list[Node]) -> dict[int, list[Node]]:
    """For each binding by number those that read it."""
    readers: dict[int, list[Node]] = defaultdict(list)
    for node in nodes:
        for i in node.inputs:
            readers[i].append(node)
    return readers


def _read_elsewhere(nodes: list[Node], main: ir.Function) -> set[int]:
    """Transposed tensors of a target that are results of the network or read by another group."""
    results = {v for r in ir.outputs_of(main) for v in ir.variables(r)}
    swapped = {i for i, node in enumerate(nodes)
              if node.place[0] not in (LLVM[0], XLA[0]) and swaps_heads(node.binding.value)}
    return {i for i in swapped if nodes[i].binding.var in results} | {
        i for node in nodes for i in node.inputs
        if i in swapped and (node.level, node.place) != (nodes[i].level, nodes[i].place)}


def _nodes(
    module: ir.IRModule, main: ir.Function, owners: Mapping[str, str], tiled: frozenset[str],
    plain: frozenset[str], on_host: AbstractSet[int],
) -> list[Node]:
    """All bindings; transposes ``on_host`` (by number) stay there."""
    index: dict[Any, int] = {}
    nodes: list[Node] = []
    for binding in ir.bindings(main):
        composite = ir.is_composite(module, binding.value)
        place = HOST
        if composite is None or composite[0] not in owners:
            if ir.of(module).callee(module, binding.value) is not None:  # of another code generator, or a user's own
                place = LLVM
        else:
            name = owners[composite[0]]
            place = (name, "nhwc" if name not in tiled | plain and _images(composite[1]) else "row-major")
        variables = ir.variables(binding.value)
        inputs = [index[v] for v in variables if v in index]
        index[binding.var] = len(nodes)
        nodes.append(Node(binding, inputs, place, len(inputs) < len(variables)))
    for place in {n.place for n in nodes if n.place != HOST and n.place[1] == "row-major"}:
        _absorb_relayouts(nodes, place, module, on_host if place[0] in tiled else range(len(nodes)))
    return nodes


def _absorb_relayouts(nodes: list[Node], place: Place, module: ir.IRModule, on_host: Container[int]) -> None:
    """A reshape between composites of ``place`` costs nothing there: the same bytes are read under another shape. So it
    is with heads that are put before the length, or behind it, where a product of batches reads or makes them."""
    users = readers_of(nodes)

    def swapped(position: int, node: Node) -> bool:
        """Whether products of batches read the transposed tensor, or one has made it for that alone."""
        if position in on_host or not swaps_heads(node.binding.value) or not node.inputs:
            return False
        made = _multiplies_batches(nodes[node.inputs[0]], module) and len(users[node.inputs[0]]) == 1
        return made or all(_multiplies_batches(u, module) for u in users[position])

    taken: set[int] = set()
    for position, node in reversed(list(enumerate(nodes))):
        reshaped = ir.op_name(node.binding.value) == "reshape"
        if (reshaped or swapped(position, node)) and users[position] and all(u.place == place for u in users[position]):
            node.place = place
            taken.add(position)
    while lost := {i for i in taken if not nodes[i].inputs or nodes[nodes[i].inputs[0]].place != place
                   or any(u.place != place for u in users[i])}:
        for i in lost:
            nodes[i].place = HOST
        taken -= lost


def swaps_heads(value: Any) -> bool:
    """Whether a binding puts heads before the length, or behind it."""
    return ir.op_name(value) == "permute_dims" and ir.permutation(value) == HEADS_SWAPPED


def _multiplies_batches(node: Node, module: ir.IRModule) -> bool:
    """Whether a composite is a product of two batches of matrices, [batch, heads, rows, columns]."""
    composite = ir.is_composite(module, node.binding.value)
    for binding in () if composite is None else ir.bindings(composite[1]):
        if ir.op_name(binding.value) == "matmul":
            first, second = (ir.shape_of(a) for a in binding.value.args)
            return len(first) == len(second) == 4 and first[:2] == second[:2] and first[0] * first[1] > 1
    return False


def _images(function: ir.Function) -> bool:
    """Whether a composite works on images: those are stored channels-last within a region."""
    names = [ir.op_name(b.value) for b in ir.bindings(function)]
    if "nn.conv2d" in names:
        return True
    if {"matmul", *ATTENTION} & set(names):
        return False
    return len(ir.shape_of(ir.outputs_of(function)[0])) == 4


def level_of_each(nodes: list[Node]) -> None:
    """Set the level of each binding, in their order."""
    for node in nodes:
        node.level = max(
            (nodes[i].level + (nodes[i].place != node.place) for i in node.inputs),
            default=0 if node.place in (HOST, LLVM, XLA) else 1,  # after what the host makes of the inputs
        )
    _join_parameters(nodes)


def _join_parameters(nodes: list[Node]) -> None:
    """What only depends on constants (a dequantized weight) goes to the level of the first that reads it, if its place
    is the same: operators are recognized together with their parameters."""
    users = readers_of(nodes)
    fixed: list[bool] = []
    for node in nodes:
        fixed.append(not node.reads_parameters and all(fixed[i] for i in node.inputs))
    for position in reversed(range(len(nodes))):
        node = nodes[position]
        if fixed[position] and users[position]:
            node.level = max(node.level, min(u.level - (u.place != node.place) for u in users[position]))


def _place_host(nodes: list[Node]) -> None:
    """XLA takes the whole host where every operator has a translation: then no tensor ever crosses to TVM. Else it
    takes the groups that hold a heavy operator, and TVM the others and what has no translation."""
    level_of_each(nodes)
    groups: dict[int, list[Node]] = defaultdict(list)
    for node in nodes:
        if node.place == HOST:
            groups[node.level].append(node)
    whole = all(_goes_to_xla(n.binding) for group in groups.values() for n in group)
    for group in groups.values():
        heavy = any(is_heavy(n.binding.value) and translatable(n.binding.value) for n in group)
        for node in group:
            node.place = XLA if (whole or heavy) and translatable(node.binding.value) else LLVM
    for node in nodes:  # an access to a tuple belongs to what makes the tuple
        if node.place in (LLVM, XLA) and ir.is_tuple_get(node.binding.value) and node.inputs:
            node.place = nodes[node.inputs[0]].place
    _give_up_tuples(nodes)


def _goes_to_xla(binding: ir.Binding) -> bool:
    """Whether XLA can compute a host operator, or there is nothing to compute."""
    value = binding.value
    if ir.op_name(value) is None:
        return ir.is_tuple_get(value) is not None or ir.is_var(value) or ir.is_constant(value)
    return translatable(value)


def _give_up_tuples(nodes: list[Node]) -> None:
    """A tuple of tensors that leaves a group of XLA cannot be a result of it: TVM's code makes it."""
    for position, node in enumerate(nodes):
        if node.place == XLA and not ir.is_single(node.binding.var):
            users = [n for n in nodes if position in n.inputs]
            if any(u.place != XLA for u in users) or not users:
                node.place = LLVM
                for user in users:
                    if ir.is_tuple_get(user.binding.value):
                        user.place = LLVM


def _describe(node: Node, position: int) -> HostOp:
    """The operator by its variable; why it is the host's is yet to be found."""
    var, call = node.binding.var, node.binding.value
    shape = ir.shape_of(var) if ir.is_tensor(var) else ()
    engine: Literal["xla", "llvm"] = "xla" if node.place == XLA else "llvm"
    return HostOp(var.name, _called(call), shape, macs(call), engine, position=position)


def _called(call: Any) -> str:
    """The operator; of a call of TIR's loops, their function."""
    name = str(ir.op_name(call))
    return str(call.args[0].name_hint) if name.startswith("call_tir") else name


def regrouped(
    module: ir.IRModule, main: ir.Function, groups: dict[tuple[int, Place], list[Node]]
) -> tuple[ir.IRModule, dict[str, list[Node]]]:
    """``main`` with a call for each group that is not TVM's, and the functions called; which group each is."""
    results = ir.outputs_of(main)
    users = _users(groups, results)
    replaced: dict[Any, Any] = {}
    body: list[Any] = []
    functions: dict[str, ir.Function] = {}
    symbols: dict[str, list[Node]] = {}
    count: dict[str, int] = defaultdict(int)
    taken = {gv.name_hint for gv in module.functions}  # regions of an earlier partitioning
    for key in in_order(groups):
        nodes = groups[key]
        if key[1] == LLVM:
            for node in nodes:
                body.append(ir.bind(node.binding.var, ir.substitute(node.binding.value, replaced)))
            continue
        codegen = key[1][0]
        kind = codegen if codegen == HOST_CODEGEN else "target"  # regions are numbered in order, whosever they are
        while (symbol := f"{codegen}_{count[kind]}") in taken:
            count[kind] += 1
        count[kind] += 1
        inputs, outputs = _border(nodes, users)
        if not outputs:
            continue
        functions[symbol] = _outline(nodes, inputs, outputs, codegen, symbol)
        symbols[symbol] = nodes
        arguments = [replaced.get(v, v) for v in inputs]
        call = ir.of(main).call_external(symbol, arguments, outputs)
        result = ir.new_var(symbol, call)
        body.append(ir.bind(result, call))
        for i, output in enumerate(outputs):
            if len(outputs) == 1:
                replaced[output] = result
            else:
                field = ir.new_var(output.name, output)
                body.append(ir.bind(field, ir.of(main).tuple_get(result, i)))
                replaced[output] = field
    final = [replaced.get(r, r) if ir.is_var(r) else r for r in results]
    host_main = ir.rebuild(main, body, final)
    return ir.of(module).with_functions(host_main, functions, module), symbols


def in_order(groups: Iterable[tuple[int, Place]]) -> list[tuple[int, Place]]:
    """Groups in the order in which they run, by level and place."""
    return sorted(groups, key=lambda key: (key[0], key[1] not in (LLVM, XLA), key[1]))


def _users(groups: dict[tuple[int, Place], list[Node]], results: Iterable[Any]) -> dict[Any, set[int]]:
    """For each variable, the groups that read it (by id; 0 for the function's results)."""
    users: dict[Any, set[int]] = defaultdict(set)
    for nodes in groups.values():
        for node in nodes:
            for var in ir.variables(node.binding.value):
                users[var].add(id(nodes))
    for result in results:
        for var in ir.variables(result):
            users[var].add(0)
    return users


def _border(nodes: list[Node], users: dict[Any, set[int]]) -> tuple[list[Any], list[Any]]:
    """Variables that a group takes from outside and gives to outside, each in order of first use or definition."""
    defined = {node.binding.var for node in nodes}
    inputs: list[Any] = []
    for node in nodes:
        for var in ir.variables(node.binding.value):
            if var not in defined and var not in inputs:
                inputs.append(var)
    outputs = [node.binding.var for node in nodes if users[node.binding.var] - {id(nodes)}]
    return inputs, outputs


def _outline(nodes: list[Node], inputs: list[Any], outputs: list[Any], codegen: str, symbol: str) -> ir.Function:
    params = [ir.of(v).parameter_like(v) for v in inputs]
    inner = dict(zip(inputs, params, strict=True))
    body = [ir.bind(n.binding.var, ir.substitute(n.binding.value, inner)) for n in nodes]
    return ir.of(outputs[0]).make_function(params, body, outputs, {"Codegen": codegen, "global_symbol": symbol})
