"""From a partitioned module to data: regions of steps, and the host part with a reason for each of its operators."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from oracle.errors import TargetError
from tvm_backend import expressions as compat
from tvm_backend.compiled import HostOp, HostPart, Layout, OptionValue, Region, Step, Value
from tvm_backend.model import Model
from tvm_backend.uma.backend import Lowered, UMABackend
from tvm_backend.uma.match import UNNAMED, NotQuantized, Numbers, QuantizedOp, read
from tvm_backend.uma.partition import Partitioned


def lower_regions(
    partitioned: Partitioned, backend: UMABackend, options: Mapping[str, OptionValue] | None = None
) -> tuple[Region, ...]:
    """The target's regions, in the order in which ``main`` calls them; names of steps are unique in the network.

    ``options`` are those of the target; the defaults if there are none.
    """
    taken: dict[str, int] = {}
    module = partitioned.module
    functions = {
        gv.name_hint: f for gv, f in module.functions.items() if compat.codegen_of(f) == backend.target_name
    }
    order = sorted(functions, key=lambda symbol: int(symbol.rsplit("_", 1)[1]))
    return tuple(_region(module, symbol, functions[symbol], backend, options or {}, taken) for symbol in order)


def _region(
    module: compat.IRModule, symbol: str, function: compat.Function, backend: UMABackend,
    options: Mapping[str, OptionValue], taken: dict[str, int],
) -> Region:
    names: dict[Any, str] = {}
    layouts: dict[str, Layout] = {}
    values: dict[str, Value] = {}
    steps: list[Step] = []
    for param in function.params:
        names[param] = _unique(param.name, values)
        values[names[param]] = Value(names[param], compat.shape_of(param), compat.dtype_of(param), "row-major")
    aliases: dict[Any, Any] = {}
    for binding in compat.bindings(function):
        found = compat.is_composite(module, binding.value)
        if compat.op_name(binding.value) == "reshape":  # the same bytes under another shape
            names[binding.var] = names[binding.value.args[0]]
            continue
        if found is None:  # the variable of the function's result
            aliases[binding.var] = binding.value
            continue
        step, value = _step(binding, found, backend, options, names, taken, values)
        names[binding.var] = value.name
        values[value.name] = value
        steps.append(step)
        for _, operand in step.inputs:
            layouts.setdefault(operand, value.layout)
    inputs = tuple(names[p] for p in function.params)
    for name in inputs:
        values[name] = replace(values[name], layout=layouts.get(name, "row-major"))
    outputs = tuple(names[aliases.get(r, r)] for r in compat.outputs_of(function))
    return Region(symbol, backend.target_name, tuple(values.values()), inputs, outputs, tuple(steps))


def _step(
    binding: Any, composite: tuple[str, compat.Function], backend: UMABackend, options: Mapping[str, OptionValue],
    names: Mapping[Any, str], taken: dict[str, int], values: Mapping[str, Value],
) -> tuple[Step, Value]:
    label, function = composite
    op = operator_of(function, backend.numbers)
    lowered: Lowered = backend.strategy(label.split(".", 1)[1], options)(op)
    arguments = [names[a] for a in binding.value.args]
    position = {param: i for i, param in enumerate(function.params)}
    inputs = []
    for argument, operand in lowered.inputs:
        variable = op.operands[operand].var
        if variable not in position:
            raise TargetError(
                f"target {backend.target_name!r}: strategy of {label!r}: argument {argument!r} is operand {operand}, "
                "which is a constant; put it among the constants"
            )
        inputs.append((argument, arguments[position[variable]]))
    # an operator alone has no other name than that of its result
    alone = op.name == op.anchor and not UNNAMED.fullmatch(binding.var.name)
    name = _numbered(binding.var.name if alone else op.name, taken)
    value = Value(
        _unique(name if UNNAMED.fullmatch(binding.var.name) else binding.var.name, values),
        compat.shape_of(binding.var), compat.dtype_of(binding.var), lowered.layout,
    )
    work = replace(lowered.workload, name=name)
    return Step(name, lowered.op, work, tuple(inputs), value.name, value.shape, lowered.constants), value


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


def lower_host(partitioned: Partitioned, model: Model, backend: UMABackend) -> HostPart:
    """The host part: ``main`` and the functions of XLA as text, and each operator with the reason why it is there.

    ``model`` is the network before partitioning, in which the reasons are looked for.
    """
    kept = compat.keep_functions(partitioned.module, lambda f: compat.codegen_of(f) in (None, "xla"))
    main = model.module["main"]
    bound = {b.var: b.value for b in compat.bindings(main)}
    by_name = {var.name: value for var, value in bound.items()}
    refused = {r.variable: r.reason for r in reversed(partitioned.refusals)}
    results = {v.name: spec.name for v, spec in zip(compat.outputs_of(main), model.outputs, strict=True)
               if compat.is_var(v)}
    ops = []
    for op in partitioned.host:
        reason = refused.get(op.variable) or _reason(op.op, by_name.get(op.variable), bound, backend)
        name = results.get(op.variable, op.variable) if UNNAMED.fullmatch(op.variable) else op.variable
        ops.append(HostOp(name, op.op, op.shape, op.macs, op.engine, reason))
    return HostPart(None, tuple(ops), kept)


def _reason(op: str, call: Any, bound: Mapping[Any, Any], backend: UMABackend) -> str:
    if op in ("quantize", "dequantize"):
        return "it converts between float32 and integers at the border of the host"
    if op not in ("nn.conv2d", "matmul", "add") or call is None:
        return f"{backend.target_name} has no pattern for {op}"
    try:
        read(call, bound.get, numbers=backend.numbers)
    except NotQuantized as error:
        return str(error)
    if backend.numbers == "float32":
        return f"it has no form that {backend.target_name} takes"
    return f"its result is not requantized in a form that {backend.target_name} takes"
