"""Results of a function one by one, where they are tuples or lie in tuples."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from archloom.tvm_backend.ir import expressions as ir
from archloom.tvm_backend.ir.nodes import TupleType


def with_flat_results(module: ir.IRModule) -> ir.IRModule:
    """``main`` returns all tensors of its result in one tuple, in order, or the one::

        return (a, (b, split(c)))  ->  return (a, b, split(c)[0], split(c)[1])
    """
    main = module["main"]
    results = ir.outputs_of(main)
    if not any(isinstance(ir.type_of(r), TupleType) for r in results):
        return module
    bound = ir.bound_in(main)
    body = list(ir.bindings(main))
    flat = []
    for leaf in (leaf for r in results for leaf in _leaves(r, bound)):
        if ir.is_tuple_get(leaf) is not None:
            var = ir.new_var("field", leaf)
            body.append(ir.bind(var, leaf))
            leaf = var
        flat.append(leaf)
    return ir.of(module).replace_main(module, ir.rebuild(main, body, flat))


def _leaves(expr: Any, bound: dict[Any, Any]) -> Iterator[Any]:
    """What is no tuple in ``expr``."""
    ty = ir.type_of(expr)
    if not isinstance(ty, TupleType):
        yield expr
        return
    fields = ir.tuple_fields(bound.get(expr) if ir.is_var(expr) else expr)
    for i in range(len(ty.fields)):
        of = ir.of(expr)
        yield from _leaves(fields[i] if fields is not None else of.normalized(of.tuple_get(expr, i)), bound)
