"""Numbers by which the result of a dense layer is multiplied: they go into its weights and its bias.

    (x · W + b) * c   →  x · (c W) + c b        also behind a reshape or a transpose

So are queries scaled before attention.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from archloom.tvm_backend.ir import expressions as ir
from archloom.tvm_backend.ir.conversion import is_blank

VIEWS = frozenset({"reshape", "permute_dims"})


def without_factors(module: ir.IRModule) -> ir.IRModule:
    """Rewrite ``main`` (see above) where nothing else reads what is multiplied."""
    main = module["main"]
    bound = {b.var: b.value for b in ir.bindings(main)}
    users: dict[Any, int] = {}
    for expr in [*bound.values(), *ir.outputs_of(main)]:
        for var in ir.variables(expr):
            users[var] = users.get(var, 0) + 1
    factors: dict[Any, float] = {}
    sources: dict[Any, Any] = {}
    for var, value in bound.items():
        found = _scaled(value, bound, users)
        if found is not None:
            factors.update(dict.fromkeys(found[1], found[2]))
            sources[var] = found[0]
    if not factors:
        return module
    replaced: dict[Any, Any] = {}
    body: list[Any] = []
    for var, value in bound.items():
        if var in sources:
            replaced[var] = ir.substitute(sources[var], replaced)
            continue
        new = ir.substitute(value, replaced)
        if var in factors:  # under another name: its numbers are others than the network's
            new = _times(new, factors[var])
            replaced[var] = ir.new_var(f"{var.name}.scaled", new)
        body.append(ir.bind(replaced.get(var, var), new))
    results = [ir.substitute(r, replaced) for r in ir.outputs_of(main)]
    return ir.replace_main(module, ir.rebuild(main, body, results))


def _scaled(
    call: Any, bound: Mapping[Any, Any], users: Mapping[Any, int]
) -> tuple[Any, tuple[Any, ...], float] | None:
    """What a call multiplies by one number, the variables of the dense layer behind it, and that number."""
    if ir.op_name(call) != "multiply":
        return None
    for side in (0, 1):
        number, source = ir.number_of(call.args[1 - side]), call.args[side]
        layer = _layer(source, bound, users) if number is not None else ()
        if number is not None and layer and ir.shape_of(call) == ir.shape_of(source):
            return source, layer, number
    return None


def _layer(var: Any, bound: Mapping[Any, Any], users: Mapping[Any, int]) -> tuple[Any, ...]:
    """The variables of a product with constant weights and of the bias added to it, in any shape; () for others."""
    if not ir.is_var(var) or users.get(var) != 1:
        return ()
    call: Any = bound.get(var)
    name = ir.op_name(call)
    if name in VIEWS:
        return _layer(call.args[0], bound, users)
    if name == "matmul" and ir.is_constant(call.args[1]):
        return (var,)
    if name == "add":
        for side in (0, 1):
            inner = call.args[side]
            product = ir.is_var(inner) and ir.op_name(bound.get(inner)) == "matmul"
            if product and ir.is_constant(call.args[1 - side]):
                below = _layer(inner, bound, users)
                return (*below, var) if below else ()
    return ()


def _times(call: Any, factor: float) -> Any:
    """A product or an addition with its constant multiplied; one without numbers stays as it is."""
    def scaled(expr: Any) -> Any:
        if not ir.is_constant(expr):
            return expr
        array = ir.const_value(expr)
        return expr if is_blank(array) else ir.constant_like(
            (array * np.asarray(factor, array.dtype)).astype(array.dtype), expr)

    return ir.make_call(call, [scaled(a) for a in call.args])
