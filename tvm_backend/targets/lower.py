"""From a partitioned module to data: regions of steps, and the host part with a reason for each of its operators."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from typing import Any

from archloom.oracle.errors import TargetError
from archloom.tvm_backend.compiled import HostOp, HostPart, Layout, Refused, Region, Step, Value
from archloom.tvm_backend.ir import expressions as compat
from archloom.tvm_backend.ir.match import UNNAMED, NotQuantized, Numbers, QuantizedOp, read
from archloom.tvm_backend.model import Model
from archloom.tvm_backend.targets.backend import Lowered, UMABackend
from archloom.tvm_backend.targets.choice import Chosen
from archloom.tvm_backend.targets.grids import Piece, agreed
from archloom.tvm_backend.targets.partition import NEEDED, Partitioned
from archloom.tvm_backend.targets.tiles import GRID, IMAGES, LAYOUTS, edges

ANCHORS = ("nn.conv2d", "matmul", "add")
"""Operators that a target may take as they are, with what precedes and follows them."""


def lower_regions(partitioned: Partitioned, chosen: Sequence[Chosen]) -> tuple[Region, ...]:
    """The targets' regions, in the order in which ``main`` calls them; names of steps are unique in the network."""
    taken: dict[str, int] = {}
    module = partitioned.module
    position = {c.name: i for i, c in enumerate(chosen)}
    functions = {
        gv.name_hint: (f, position[str(compat.codegen_of(f))]) for gv, f in module.functions.items()
        if compat.codegen_of(f) in position
    }
    order = sorted(functions, key=lambda symbol: int(symbol.rsplit("_", 1)[1]))
    refused = _refused(partitioned)
    regions = []
    for symbol in order:
        function, at = functions[symbol]
        before = _Before(refused, [c.backend for c in chosen[:at]], partitioned.positions.get(symbol, ()))
        regions.append(_region(module, symbol, function, chosen[at], taken, before))
    return tuple(regions)


_Refusals = Mapping[str, tuple[Refused, ...]]


@dataclass(frozen=True)
class _Before:
    """What was there before a region: the targets that were asked first, what they said, and where its operators were.
    """

    refused: _Refusals
    backends: Sequence[UMABackend]
    positions: Sequence[int]

    def at(self, number: int) -> int:
        """Where in the network the region's binding of this number was (0 if a pass has changed the region)."""
        return self.positions[number] if number < len(self.positions) else 0

    def answers(self, name: str, function: compat.Function) -> tuple[Refused, ...]:
        """Their answers to the operator of a composite function whose result is called ``name``."""
        inside = {b.var: b.value for b in compat.bindings(function)}
        known: dict[str, Refused] = {}
        for variable in (name, *(v.name for v in inside)):
            for answer in self.refused.get(variable, ()):
                known.setdefault(answer.target, answer)
        calls = [v for v in inside.values() if compat.op_name(v) is not None]
        anchor = next((v for v in calls if compat.op_name(v) in ANCHORS), calls[0] if calls else None)
        return tuple(known.get(b.target_name) or _reason(str(compat.op_name(anchor)), anchor, inside, b)
                     for b in self.backends)


def _refused(partitioned: Partitioned) -> _Refusals:
    """For each variable the first refusal of each target, in the order of preference."""
    found: dict[str, dict[str, Refused]] = {}
    for r in partitioned.refusals:
        found.setdefault(r.variable, {}).setdefault(r.target, Refused(r.target, r.reason, r.needs))
    return {variable: tuple(by_target.values()) for variable, by_target in found.items()}


def _region(
    module: compat.IRModule, symbol: str, function: compat.Function, target: Chosen, taken: dict[str, int],
    before: _Before,
) -> Region:
    names: dict[Any, str] = {}
    layouts: dict[str, list[_Kept]] = {}
    values: dict[str, Value] = {}
    steps: list[Step] = []
    for param in function.params:
        names[param] = _unique(param.name, values)
        values[names[param]] = Value(names[param], compat.shape_of(param), compat.dtype_of(param), "row-major")
    aliases: dict[Any, Any] = {}
    uses = _uses(function)
    read_as = _readings(module, function, target, uses)
    turned = _turned(function, read_as, uses)
    for number, binding in enumerate(compat.bindings(function)):
        found = compat.is_composite(module, binding.value)
        if compat.op_name(binding.value) in ("reshape", "permute_dims"):  # the same bytes under another shape
            names[binding.var] = names[binding.value.args[0]]
            continue
        if found is None:  # the variable of the function's result
            aliases[binding.var] = binding.value
            continue
        if binding.var not in read_as:  # one with what reads it
            continue
        step, value = _step(binding, found, target.backend, read_as[binding.var], names, taken, values, turned)
        step = replace(step, refused=before.answers(binding.var.name, found[1]), position=before.at(number))
        names[binding.var] = value.name
        values[value.name] = value
        steps.append(step)
        for argument, operand in step.inputs:
            view = step.views.get(argument)
            layouts.setdefault(operand, []).append(
                (value.layout, ()) if view is None else (view.layout, view.form))
    inputs = tuple(names[p] for p in function.params)
    for name in inputs:
        layout, form = _kept(layouts.get(name, []))
        values[name] = replace(values[name], layout=layout, form=form)
    outputs = tuple(names[aliases.get(r, r)] for r in compat.outputs_of(function))
    return Region(symbol, target.name, tuple(values.values()), inputs, outputs,
                  tuple(_only_needed_views(step, values) for step in steps))


@dataclass(frozen=True)
class _Reading:
    """A match as it was read, and as a workload; ``given``: for each operand the variable of the region that it is,
    None for a constant."""

    op: QuantizedOp
    lowered: Lowered
    given: tuple[Any, ...]
    choice: str = ""


def _uses(function: compat.Function) -> Counter[Any]:
    """How often each variable is read."""
    return Counter(v for e in (*(b.value for b in compat.bindings(function)), *compat.outputs_of(function))
                   for v in compat.variables(e))


def _turned(function: compat.Function, read_as: Mapping[Any, _Reading], uses: Counter[Any]) -> frozenset[Any]:
    """Variables whose tensor is kept with the heads behind the length, [batch, length, heads, depth], and that stand
    for it the other way: results of products of batches that are only read so, and what such products read."""
    found = set()
    for binding in compat.bindings(function):
        if compat.op_name(binding.value) == "permute_dims":
            source = binding.value.args[0]
            found.add(source if source in read_as and uses[source] == 1 and read_as[source].lowered.layout == BATCH
                      else binding.var)
    return frozenset(found)


def _readings(
    module: compat.IRModule, function: compat.Function, target: Chosen, uses: Counter[Any]
) -> dict[Any, _Reading]:
    """All matches of a region as workloads, which agree on how images lie that they hand each other; where two are
    better taken as one, that stands for the second."""
    found: dict[Any, _Reading] = {}
    for binding in compat.bindings(function):
        composite = compat.is_composite(module, binding.value)
        if composite is None:
            continue
        label, inner = composite
        op = operator_of(inner, target.backend.numbers)
        lowered: Lowered = target.backend.strategy(label.split(".", 1)[1], target.options)(op)
        given = dict(zip(inner.params, binding.value.args))
        reading = _Reading(op, lowered, tuple(given.get(operand.var) for operand in op.operands))
        above = reading.given[0]
        if above in found and uses[above] == 1:
            reading = _joined(found, reading, target)
        found[binding.var] = reading
    pieces = [Piece(var, {a: r.given[i] for a, i in r.lowered.inputs if r.given[i] is not None}, r.lowered)
              for var, r in found.items()]
    for var, grid in agreed(pieces).items():
        gridded = found[var].lowered.gridded
        assert gridded is not None
        found[var] = replace(found[var], lowered=gridded.make(grid))
    return found


def _joined(found: dict[Any, _Reading], second: _Reading, target: Chosen) -> _Reading:
    """What is ``second`` alone, or one with the match whose result nothing else reads, which is then taken out."""
    above = second.given[0]
    first = found[above]
    joined = target.backend.join(first.op, second.op, target.options)
    if joined is None:
        return second
    if joined.lowered is None:
        return replace(second, choice=joined.why)
    del found[above]
    return _Reading(joined.op, joined.lowered, (*first.given, *second.given[1:]), joined.why)


_Kept = tuple[Layout, tuple[int, ...]]
"""A layout, and the form of a convolution where it is one's."""


def _kept(wanted: Sequence[_Kept]) -> _Kept:
    """How a region keeps what it is given, so that its steps can read it: as the first does, or as it is."""
    if not wanted or (wanted[0][0] == "tile-windows" and len(set(wanted)) > 1):
        return "row-major", ()
    return wanted[0]


def _only_needed_views(step: Step, values: Mapping[str, Value]) -> Step:
    """The step without the views under which a value is read as it is kept."""
    taken = dict(step.inputs)
    views = {argument: view for argument, view in step.views.items()
             if view.held != values[taken[argument]].held or view.anew(values[taken[argument]])}
    return replace(step, views=views) if len(views) < len(step.views) else step


def _step(
    binding: Any, composite: tuple[str, compat.Function], backend: UMABackend, reading: _Reading,
    names: Mapping[Any, str], taken: dict[str, int], values: Mapping[str, Value], turned: AbstractSet[Any],
) -> tuple[Step, Value]:
    (label, _), op, lowered = composite, reading.op, reading.lowered
    inputs: list[tuple[str, str]] = []
    views: dict[str, Value] = {}
    for argument, operand in lowered.inputs:
        variable = reading.given[operand]
        if variable is None:
            raise TargetError(
                f"target {backend.target_name!r}: strategy of {label!r}: argument {argument!r} is operand {operand}, "
                "which is a constant; put it among the constants"
            )
        inputs.append((argument, names[variable]))
        layout = lowered.layouts.get(argument, lowered.layout)
        if layout in LAYOUTS:
            operand_of = op.operands[operand]
            form = lowered.forms.get(argument, lowered.form) if layout in IMAGES else ()
            views[argument] = Value(argument, operand_of.shape, operand_of.dtype, layout, form,
                                    lowered.zeros.get(argument, ()))
            if variable in turned:
                views[argument] = _heads_last(views[argument])
    lowered, views = _as_kept(lowered, [values[name] for _, name in inputs], views)
    # an operator alone has no other name than that of its result
    alone = op.name == op.anchor and not UNNAMED.fullmatch(binding.var.name)
    name = _numbered(binding.var.name if alone else op.name, taken)
    value = Value(
        _unique(name if UNNAMED.fullmatch(binding.var.name) else binding.var.name, values),
        compat.shape_of(binding.var), compat.dtype_of(binding.var), lowered.layout,
        lowered.form if lowered.layout in IMAGES else (),
    )
    shape = value.shape
    if binding.var in turned:
        value = _heads_last(value)
    if value.in_tiles:
        value = replace(value, beyond=_beyond(value, lowered, {a: values[name] for a, name in inputs}))
    work = replace(lowered.workload, name=name)
    step = Step(name, lowered.op, work, tuple(inputs), value.name, shape, lowered.constants, views=views)
    return replace(step, finish=lowered.finish, choice=reading.choice), value


BATCH: Layout = "tile-batch"


def _heads_last(value: Value) -> Value:
    """Matrices [batch, heads, length, depth] as those of heads of [batch, length, heads, depth]: the same tiles."""
    if value.layout != BATCH:
        raise TargetError(f"value {value.name!r}: expected matrices of each head ({BATCH}), found {value.layout}")
    batch, heads, length, depth = value.shape
    return replace(value, shape=(batch, length, heads, depth), layout="tile-heads")


KEPT: tuple[Layout, ...] = ("tiles", "tile-batch", "tile-heads", "tile-pixels", "tile-places", "tile-grid")
"""Layouts in which a step may find a tensor that any layout suits."""


def _as_kept(lowered: Lowered, kept: Sequence[Value], views: Mapping[str, Value]) -> tuple[Lowered, dict[str, Value]]:
    """A workload that any layout suits in that of the first operand which a step has stored, with its views."""
    stored = next((v for v in kept if v.layout in KEPT), None)
    shapes = {view.shape for view in views.values()}
    spoils = stored is not None and stored.layout == GRID and "columns" in lowered.beyond  # no zeros between pixels
    if lowered.relaid is None or stored is None or shapes != {stored.shape} or spoils:
        return lowered, dict(views)
    form = stored.form if stored.layout in IMAGES else ()
    changed = {name: replace(view, layout=stored.layout, form=form) for name, view in views.items()}
    return replace(lowered, workload=lowered.relaid(stored.stored_shape), layout=stored.layout, form=form), changed


def _beyond(value: Value, lowered: Lowered, inputs: Mapping[str, Value]) -> tuple[str, ...]:
    """The edges of a result beyond which there may be other numbers than zeros."""
    found = {*lowered.beyond, *(edge for name in lowered.carried if name in inputs for edge in inputs[name].beyond)}
    return tuple(sorted(found & edges(value.held)))


def operator_of(function: compat.Function, numbers: Numbers = "int8") -> QuantizedOp:
    """The operator that a composite function computes."""
    bound = {b.var: b.value for b in compat.bindings(function)}
    root = compat.outputs_of(function)[0]
    while compat.is_var(root) and compat.is_var(bound.get(root)):
        root = bound[root]
    expr = bound[root] if compat.is_var(root) else root
    return read(expr, bound.get, numbers=numbers)


def _unique(name: str, taken: Mapping[str, Any]) -> str:
    candidate, count = name, 1
    while candidate in taken:
        count += 1
        candidate = f"{name}.{count}"
    return candidate


def _numbered(name: str, taken: dict[str, int]) -> str:
    taken[name] = taken.get(name, 0) + 1
    return name if taken[name] == 1 else _numbered(f"{name}.{taken[name]}", taken)


def lower_host(partitioned: Partitioned, model: Model, chosen: Sequence[Chosen]) -> HostPart:
    """The host part: ``main`` and the functions of XLA as text, and each operator with each target's reason.

    ``model`` is the network before partitioning, in which the reasons are looked for.
    """
    kept = compat.keep_functions(partitioned.module, lambda f: compat.codegen_of(f) in (None, "xla"))
    main = model.module["main"]
    bound = {b.var: b.value for b in compat.bindings(main)}
    by_name = {var.name: value for var, value in bound.items()}
    refused = _refused(partitioned)
    results = {v.name: spec.name for v, spec in zip(compat.outputs_of(main), model.outputs, strict=True)
               if compat.is_var(v)}
    ops = []
    for op in partitioned.host:
        known = {r.target: r for r in refused.get(op.variable, ())}
        answers = tuple(known.get(c.name) or _reason(op.op, by_name.get(op.variable), bound, c.backend) for c in chosen)
        name = results.get(op.variable, op.variable) if UNNAMED.fullmatch(op.variable) else op.variable
        ops.append(HostOp(name, op.op, op.shape, op.macs, op.engine, _together(answers), answers, op.position))
    return HostPart(None, tuple(ops), kept)


def _together(answers: Sequence[Refused]) -> str:
    """One sentence: the reason if all targets give the same, else each one's."""
    if len({a.reason for a in answers}) == 1:
        return answers[0].reason
    return "; ".join(f"{a.target}: {a.reason}" for a in answers)


def _reason(op: str, call: Any, bound: Mapping[Any, Any], backend: UMABackend) -> Refused:
    """Why an operator that no pattern of the target has matched stays on the host."""
    name = backend.target_name
    if op in ("quantize", "dequantize"):
        return Refused(name, "it converts between float32 and integers at the border of the host")
    if op not in ANCHORS or call is None:
        return Refused(name, f"{name} has no pattern for {op}")
    try:
        read(call, bound.get, numbers=backend.numbers)
    except NotQuantized as error:
        return Refused(name, str(error), NEEDED[backend.numbers])
    if backend.numbers != "int8":
        return Refused(name, f"it has no form that {name} takes")
    return Refused(name, f"its result is not requantized in a form that {name} takes", NEEDED["int8"])
