"""Matches of patterns in Relax's functions, found by the matcher of plain expressions.

TVM's FuseOpsByPattern takes a time that grows with the square of a network's depth, once for each pattern. Here
``main`` is read once into plain expressions, which have its operators and arguments alone; what is matched there is
moved into composite functions in one go. Both give the same module. Left to TVM (Unsupported) are: modules of several
functions to match in, functions of several blocks, with casts or choices, with symbols in shapes, with shapes or
numbers bound to variables, with calls that are bound twice; operators that patterns name, called with anything but
tensors, tuples, shapes and numbers; what :func:`~archloom.tvm_backend.ir.matcher.fuse_plain` leaves.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set
from typing import Any

import numpy as np

from archloom.tvm_backend.ir import compat, composites, nodes
from archloom.tvm_backend.ir.matcher import Check, Context, fuse_plain, operators_of
from archloom.tvm_backend.ir.patterns import DFPattern

_ELSEWHERE = nodes.Target("elsewhere", external=True)
"""What calls call that are of no operator: patterns are of operators."""


def fuse(module: compat.IRModule, patterns: Sequence[tuple[str, DFPattern, Check]]) -> compat.IRModule:
    """:func:`~archloom.tvm_backend.ir.fusing.fuse_by_pattern` of a module of Relax; Unsupported for what is above."""
    named: set[str] = set()
    mirror = _Mirror(module, named.union(*(operators_of(pattern) for _, pattern, _ in patterns)))
    fused = fuse_plain(mirror.module, [(name, pattern, mirror.seen_by(check)) for name, pattern, check in patterns])
    if fused["main"] is mirror.module["main"]:
        return module
    groups = {symbol: (str(function.attrs["Composite"]), [mirror.bound[b.var] for b in function.body])
              for symbol, function in fused.named.items() if symbol != "main"}
    body = [mirror.bound.get(b.var) or b.value.op.name for b in fused["main"].body if b.var is not mirror.results]
    return composites.with_composites(module, groups, body)


class _Mirror:
    """``main`` in plain expressions without types; ``bound`` has the binding of Relax for each variable.

    Its last binding reads what is seen outside of the block.
    """

    def __init__(self, module: compat.IRModule, operators: Set[str]) -> None:
        main = module["main"]
        _refuse(compat.entry_functions(module) != ["main"], "several functions to match in")
        _refuse(not compat.is_one_block(main), "a function that is not one block of plain bindings")
        _refuse(compat.has_symbols(main), "symbols in shapes")
        self.operators = operators
        self.plain: dict[int, nodes.Expr] = {}
        self.bound: dict[nodes.Var, Any] = {}
        seen: list[nodes.Var] = []
        body = []
        for binding in compat.bindings(main):
            value = self._of(binding.value)
            var = self._known(binding.var)
            self.bound[var] = binding
            body.append(nodes.Binding(var, value))
            if not compat.is_inner(binding.var):
                seen.append(var)
        calls = [b.value for b in self.bound.values() if compat.kind(b.value) == "call"]
        _refuse(len(set(calls)) < len(calls), "a call that is bound twice")
        self.results = nodes.Var("results", None)
        body.append(nodes.Binding(self.results, nodes.Tuple(tuple(seen))))
        self.module = nodes.Module({"main": nodes.Function((), tuple(body), self.results)})

    def _once(self, expr: Any, make: Callable[[Any], Any]) -> Any:
        """The one plain expression of an expression: what is the same here, is so there."""
        key = compat.identity(expr)
        if key not in self.plain:
            self.plain[key] = make(expr)
        return self.plain[key]

    def _known(self, expr: Any) -> Any:
        """A variable or a constant."""
        return self._once(expr, lambda leaf: (
            nodes.Var(leaf.name, None) if compat.kind(leaf) == "var" else nodes.Constant(np.zeros(()))))

    def _of(self, expr: Any) -> Any:
        match compat.kind(expr):
            case "var" | "constant":
                return self._known(expr)
            case "call":
                operator = compat.op_name(expr) or _ELSEWHERE
                of = self._argument if operator in self.operators else self._read
                return nodes.Call(operator, tuple(map(of, expr.args)), nodes.attributes(), None)
        _refuse(_is_inlined(expr), "a variable for shapes or numbers")
        return self._read(expr)

    def _argument(self, expr: Any) -> Any:
        """An argument of an operator that a pattern may match."""
        kind = compat.kind(expr)
        if kind in ("var", "constant"):
            return self._known(expr)
        if kind == "tuple":
            return self._once(expr, lambda whole: nodes.Tuple(tuple(map(self._argument, whole.fields))))
        number = kind == "other" and isinstance(compat.scalar_of(expr), int | float)
        _refuse(not (number or kind == "shape"), f"an argument that is a {type(expr).__name__}")
        return self._once(expr, lambda leaf: nodes.Shape(()))

    def _read(self, expr: Any) -> Any:
        """What no pattern looks into, as the variables that it reads."""
        return nodes.Tuple(tuple(map(self._known, compat.variables(expr))))

    def seen_by(self, check: Check) -> Callable[[Context], bool]:
        """The check of a match of plain expressions, which is shown Relax's."""

        def seen(context: Context) -> bool:
            inside = {self.bound[var].var: self.bound[var].value for var in context.matched_bindings}
            root = next(var for var, call in context.matched_bindings.items() if call is context.matched_expr)
            usages = {self.bound[var].var: [self._shown(user) for user in users if user is not self.results]
                      for var, users in context.var_usages.items()}
            return bool(check(Context(self.bound[root].value, inside, usages)))

        return seen

    def _shown(self, var: nodes.Var) -> Any:
        """A variable of Relax; the result of an earlier match as it is."""
        return self.bound[var].var if var in self.bound else var


def _is_inlined(expr: Any) -> bool:
    """Whether TVM puts a value into functions in place of a variable that is bound to it."""
    kind = compat.kind(expr)
    return all(map(_is_inlined, expr.fields)) if kind == "tuple" else kind not in ("var", "constant", "call", "field")


def _refuse(what: bool, why: str) -> None:
    if what:
        raise nodes.Unsupported(why)
