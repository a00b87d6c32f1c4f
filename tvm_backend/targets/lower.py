"""From a partitioned module to data: regions of steps, and the host part with a reason for each of its operators."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from archloom.oracle.errors import TargetError
from archloom.oracle.user_code import in_user_code
from archloom.tvm_backend.compiled import HostPart, Refused, Region, Step, Value, View
from archloom.tvm_backend.host.plan import plan_of
from archloom.tvm_backend.ir import expressions as ir
from archloom.tvm_backend.ir.match import NotQuantized, QuantizedOp
from archloom.tvm_backend.ir.names import RESULT, is_made_up
from archloom.tvm_backend.model import Model
from archloom.tvm_backend.passes.own_names import results_of
from archloom.tvm_backend.targets.backend import InTiles, Lowered, UMABackend
from archloom.tvm_backend.targets.choice import Chosen
from archloom.tvm_backend.targets.grids import Operator, agreed
from archloom.tvm_backend.targets.layouts import BATCH, HEADS, ROW_MAJOR, Layout, PixelGrid, Windows
from archloom.tvm_backend.targets.partition import NEEDED, Partitioned

ANCHORS = ("nn.conv2d", "matmul", "add")
"""Operators that a target may take as they are, with what precedes and follows them."""


def lower_regions(partitioned: Partitioned, chosen: Sequence[Chosen]) -> tuple[Region, ...]:
    """The targets' regions, in the order in which ``main`` calls them; names of steps are unique in the network."""
    module = partitioned.module
    functions = {gv.name_hint: function for gv, function in module.functions.items()}
    place = {c.name: i for i, c in enumerate(chosen)}
    names, held = _StepNames(), _Held(partitioned)
    regions = []
    for binding in ir.bindings(module["main"]):
        called = ir.of(binding.value).external_call(binding.value)
        function = functions.get(called[0]) if called is not None else None
        at = None if function is None else place.get(str(ir.codegen_of(function)))
        if called is None or function is None or at is None:
            continue
        before = _Before(partitioned.refused, [c.backend for c in chosen[:at]], partitioned.positions[called[0]])
        regions.append(_RegionLowering(module, function, chosen[at], before, names, held).region(called[0]))
    return tuple(regions)


@dataclass(frozen=True)
class _Before:
    """What was there before a region: the targets asked first, what they said, and where its operators were."""

    refused: Mapping[str, tuple[Refused, ...]]
    backends: Sequence[UMABackend]
    positions: Sequence[int]

    def answers(self, name: str, function: ir.Function) -> tuple[Refused, ...]:
        """Their answers to the operator of a composite function whose result is called ``name``."""
        inside = ir.bound_in(function)
        known: dict[str, Refused] = {}
        for variable in (name, *(v.name for v in inside)):
            for answer in self.refused.get(variable, ()):
                known.setdefault(answer.target, answer)
        calls = [v for v in inside.values() if ir.op_name(v) is not None]
        anchor = next((v for v in calls if ir.op_name(v) in ANCHORS), calls[0] if calls else None)
        return tuple(known.get(b.target_name) or _reason(str(ir.op_name(anchor)), anchor, inside, b)
                     for b in self.backends)


class _StepNames:
    """Names of a network's steps, each given once."""

    def __init__(self) -> None:
        self._count: dict[str, int] = {}

    def new(self, name: str) -> str:
        """``name``, or with the next number behind it where it is taken."""
        self._count[name] = self._count.get(name, 0) + 1
        return name if self._count[name] == 1 else self.new(f"{name}.{self._count[name]}")


@dataclass(frozen=True)
class _Reading:
    """A match as it was read, and as a workload; ``given``: for each operand the variable of the region that it is,
    None for a constant."""

    composite: str
    function: ir.Function
    op: QuantizedOp
    lowered: Lowered
    given: tuple[Any, ...]
    choice: str = ""

    def variables(self) -> dict[str, Any]:
        """The variables of the workload's arguments that are not constant."""
        return {argument: self.given[operand] for argument, operand in self.lowered.inputs}


class _Held:
    """Which variables of the network hold what variables of the partitioned module do."""

    def __init__(self, partitioned: Partitioned) -> None:
        main = partitioned.network["main"]
        results = results_of(main)
        self.known, self.pixels = {b.var.name for b in ir.bindings(main)}, partitioned.pixels
        self.merged = partitioned.merged
        self.result = results[0] if len(results) == 1 else ""

    def variable(self, name: str) -> str:
        """The variable of the network; empty where it has none."""
        return self.result if name == RESULT else name if name in self.known else ""


@dataclass(eq=False)
class _RegionLowering:
    """One function of a target on its way to a region. ``values`` are the region's tensors by name and ``lies_in`` says
    in which of them a variable lies; ``read_as`` has the layouts in which steps read a tensor, by its name.
    ``readings`` are the matches by the variable of their result. ``transposed``: variables whose tensor lies with the
    heads behind the length, [batch, length, heads, depth], and that stand for it the other way: results of products of
    batches that are only read so, and what such products read."""

    module: ir.IRModule
    function: ir.Function
    target: Chosen
    before: _Before
    step_names: _StepNames
    held: _Held
    values: dict[str, Value] = field(default_factory=dict)
    lies_in: dict[Any, str] = field(default_factory=dict)
    read_as: dict[str, list[Layout]] = field(default_factory=dict)
    steps: list[Step] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.bindings = list(ir.bindings(self.function))
        self.results = list(ir.outputs_of(self.function))
        self.uses = ir.use_counts(self.function)
        self.readings = self._readings()
        self.transposed = self._transposed()

    def region(self, symbol: str) -> Region:
        for param in self.function.params:
            self.lies_in[param] = name = self._fresh(param.name)
            self.values[name] = Value(name, ir.shape_of(param), ir.dtype_of(param), ROW_MAJOR)
        for number, binding in enumerate(self.bindings):
            if ir.op_name(binding.value) in ("reshape", "permute_dims"):  # the same bytes under another shape
                self.lies_in[binding.var] = self.lies_in[binding.value.args[0]]
            elif binding.var in self.readings:  # else one with what reads it
                self._step(number, binding)
            elif ir.is_var(binding.value):  # the variable of the function's result
                self.lies_in[binding.var] = self.lies_in[binding.value]
        inputs = tuple(self.lies_in[p] for p in self.function.params)
        for name in inputs:
            self.values[name] = replace(self.values[name], layout=_kept(self.read_as.get(name, [])))
        return Region(symbol, self.target.name, tuple(self.values.values()), inputs,
                      tuple(self.lies_in[r] for r in self.results), tuple(map(self._with_needed_views, self.steps)))

    # matches ----------------------------------------------------------------------------------------------------------

    def _lowered(self, pattern: str, op: QuantizedOp) -> Lowered:
        with in_user_code(lambda: f"target {self.target.name!r}, strategy {pattern!r} of operator {op.name!r}"):
            return self.target.lowered(pattern, op)

    def _readings(self) -> dict[Any, _Reading]:
        """All matches as workloads, which agree on how images lie that they hand each other; where two are better taken
        as one, that stands for the second."""
        found: dict[Any, _Reading] = {}
        for binding in self.bindings:
            composite = ir.is_composite(self.module, binding.value)
            if composite is None:
                continue
            label, inner = composite
            op = operator_of(inner, self.target.backend)
            lowered = self._lowered(self.target.composites[label].name, op)
            given = dict(zip(inner.params, binding.value.args))
            reading = _Reading(label, inner, op, lowered, tuple(given.get(operand.var) for operand in op.operands))
            above = reading.given[0]
            if above in found and self.uses[above] == 1 and reading.given.count(above) == 1:
                reading = self._joined(found, reading)
            found[binding.var] = reading
        operators = [Operator(var, {a: v for a, v in r.variables().items() if v is not None}, r.lowered)
                     for var, r in found.items()]
        for var, grid in agreed(operators).items():
            gridded = found[var].lowered.tiles.gridded
            assert gridded is not None
            found[var] = replace(found[var], lowered=gridded.make(grid))
        return found

    def _joined(self, found: dict[Any, _Reading], second: _Reading) -> _Reading:
        """What is ``second`` alone, or one with the match whose result nothing else reads, which is then taken out."""
        above = second.given[0]
        first = found[above]
        joined = self.target.backend.join(first.op, second.op, self.target.options)
        if joined is None:
            return second
        if joined.lowered is None:
            return replace(second, choice=joined.why)
        del found[above]
        return replace(second, op=joined.op, lowered=joined.lowered, given=(*first.given, *second.given[1:]),
                       choice=joined.why)

    def _transposed(self) -> frozenset[Any]:
        found = set()
        for binding in self.bindings:
            if ir.op_name(binding.value) == "permute_dims":
                source = binding.value.args[0]
                made = source in self.readings and self.readings[source].lowered.layout == BATCH
                found.add(source if made and self.uses[source] == 1 else binding.var)
        return frozenset(found)

    # steps ------------------------------------------------------------------------------------------------------------

    def _step(self, number: int, binding: Any) -> None:
        """Add the step of a match, and the tensor that it makes."""
        reading = self.readings[binding.var]
        inputs = self._inputs(reading)
        lowered, views = self._in_layout_of_inputs(reading.lowered, inputs, self._views(reading))
        op, variable = reading.op, self.held.variable(binding.var.name)
        own = variable or binding.var.name
        unnamed = is_made_up(own)
        # an operator alone has no other name than that of its result
        inside = {v.name for v in ir.bound_in(reading.function)}
        nameless = is_made_up(op.name) or (op.name == op.anchor and op.name not in inside)
        name = self.step_names.new(op.name if not nameless else op.anchor if unnamed else own)
        value = Value(self._fresh(name if unnamed else own), ir.shape_of(binding.var),
                      ir.dtype_of(binding.var), lowered.layout)
        shape = value.shape
        if binding.var in self.transposed:
            value = replace(value, shape=_heads_last(shape, value.layout, value.name), layout=HEADS)
        if value.layout.in_tiles:
            value = replace(value, nonzero_edges=self._nonzero_edges(value, lowered.tiles, inputs))
        answers = self.before.answers(binding.var.name, reading.function)
        self.lies_in[binding.var] = value.name
        self.values[value.name] = value
        workload = replace(lowered.workload, name=name, constants=tuple(lowered.constants),
                           blocks=lowered.workload.blocks * self.held.merged.get(binding.var.name, 1))
        self.steps.append(Step(
            name, lowered.op, workload, tuple(inputs.items()), value.name, shape,
            lowered.constants, answers, self.before.positions[number], views, lowered.output_stage, reading.choice,
            variable, variable in self.held.pixels and not _ends_transposed(reading.function)))
        for argument, operand in inputs.items():
            layout = views[argument].layout if argument in views else lowered.tiles.layouts.get(argument, value.layout)
            self.read_as.setdefault(operand, []).append(layout)

    def _inputs(self, reading: _Reading) -> dict[str, str]:
        """The tensors that the workload's arguments take, by name."""
        for argument, operand in reading.lowered.inputs:
            if reading.given[operand] is None:
                raise TargetError(
                    f"target {self.target.name!r}: strategy of {reading.composite!r}: argument {argument!r} is operand "
                    f"{operand}, which is a constant; put it among the constants")
        return {argument: self.lies_in[variable] for argument, variable in reading.variables().items()}

    def _views(self, reading: _Reading) -> dict[str, View]:
        """How a step reads its arguments in tiles."""
        views: dict[str, View] = {}
        for argument, operand in reading.lowered.inputs:
            layout, read = reading.lowered.layout_of(argument), reading.op.operands[operand]
            if layout.in_tiles:
                shape = read.shape
                if reading.given[operand] in self.transposed:
                    shape, layout = _heads_last(shape, layout, argument), HEADS
                edges = reading.lowered.tiles.zero_edges.get(argument, ())
                views[argument] = View(shape, read.dtype, layout, edges)
        return views

    def _in_layout_of_inputs(
        self, lowered: Lowered, inputs: Mapping[str, str], views: dict[str, View]
    ) -> tuple[Lowered, dict[str, View]]:
        """A workload that any layout suits in that of the first operand in tiles, with its views."""
        stored = next((v for v in (self.values[name] for name in inputs.values()) if v.layout.in_tiles), None)
        if lowered.tiles.any_layout is None or stored is None or {v.shape for v in views.values()} != {stored.shape}:
            return lowered, views
        if isinstance(stored.layout, PixelGrid) and "columns" in lowered.tiles.nonzero_edges:
            return lowered, views  # there would be other numbers than zeros between pixels
        changed = {argument: replace(view, layout=stored.layout) for argument, view in views.items()}
        return replace(lowered, workload=lowered.tiles.any_layout(stored.stored_shape), layout=stored.layout), changed

    def _nonzero_edges(self, value: Value, tiles: InTiles, inputs: Mapping[str, str]) -> tuple[str, ...]:
        """The edges of a result beyond which there may be other numbers than zeros."""
        passed = {edge for argument in tiles.passed_edges if argument in inputs
                  for edge in self.values[inputs[argument]].nonzero_edges}
        return tuple(sorted({*tiles.nonzero_edges, *passed} & value.layout.ragged(value.shape)))

    def _with_needed_views(self, step: Step) -> Step:
        """The step without the views under which a value is read as it is kept."""
        values = {argument: self.values[name] for argument, name in step.inputs}
        views = {argument: view for argument, view in step.views.items()
                 if (view.shape, view.layout) != (values[argument].shape, values[argument].layout)
                 or view.needs_zeros(values[argument])}
        return replace(step, views=views) if len(views) < len(step.views) else step

    def _fresh(self, name: str) -> str:
        """A name that no tensor of the region has."""
        candidate, count = name, 1
        while candidate in self.values:
            count += 1
            candidate = f"{name}.{count}"
        return candidate


def _ends_transposed(function: ir.Function) -> bool:
    """Whether a match ends with the axes exchanged: an image has the name of the pixels that it is made of."""
    return ir.op_name(_result_of(function)) == "permute_dims"


def _kept(wanted: Sequence[Layout]) -> Layout:
    """How a region keeps what it is given, so that its steps can read it: as the first does, or as it is."""
    if not wanted or (isinstance(wanted[0], Windows) and len(set(wanted)) > 1):
        return ROW_MAJOR
    return wanted[0]


def _heads_last(shape: tuple[int, ...], layout: Layout, name: str) -> tuple[int, ...]:
    """The shape [batch, length, heads, depth] of matrices [batch, heads, length, depth]: the same tiles."""
    if layout != BATCH:
        raise TargetError(f"value {name!r}: expected matrices of each head ({BATCH.name}), found {layout.name}")
    batch, heads, length, depth = shape
    return batch, length, heads, depth


def operator_of(function: ir.Function, backend: UMABackend) -> QuantizedOp:
    """The operator that a composite function computes."""
    return backend.read(_result_of(function), ir.bound_in(function).get)


def _result_of(function: ir.Function) -> Any:
    """What the result of a composite function is bound to."""
    bound = ir.bound_in(function)
    result = ir.outputs_of(function)[0]
    while ir.is_var(result) and result in bound:
        result = bound[result]
    return result


def lower_host(partitioned: Partitioned, model: Model, chosen: Sequence[Chosen]) -> HostPart:
    """The host part: ``main`` and the functions of XLA as text, and each operator with each target's reason.

    The reasons are looked for in the network before partitioning; ``model`` has the names of its results.
    """
    kept = ir.of(partitioned.module).keep_functions(partitioned.module, lambda f: ir.codegen_of(f) in (None, "xla"))
    main = partitioned.network["main"]
    bound = ir.bound_in(main)
    by_name = {var.name: value for var, value in bound.items()}
    results = {v.name: spec.name for v, spec in zip(ir.outputs_of(main), model.outputs, strict=True) if ir.is_var(v)}
    ops, held = [], _Held(partitioned)
    for op in partitioned.host:
        variable = held.variable(op.name) or op.name
        known = {r.target: r for r in partitioned.refused.get(variable, ())}
        answers = tuple(known.get(c.name) or _reason(op.op, by_name.get(variable), bound, c.backend) for c in chosen)
        own = not is_made_up(variable) and variable != RESULT
        name = variable if own else results.get(variable, op.op)
        ops.append(replace(op, name=name, reason=_joint_reason(answers), refused=answers))
    return HostPart(None, tuple(ops), kept, lambda: plan_of(kept))


def _joint_reason(answers: Sequence[Refused]) -> str:
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
        backend.read(call, bound.get)
    except NotQuantized as error:
        return Refused(name, str(error), NEEDED[backend.numbers])
    if not backend.is_quantized:
        return Refused(name, f"it has no form that {name} takes")
    return Refused(name, f"its result is not requantized in a form that {name} takes", NEEDED["int8"])
