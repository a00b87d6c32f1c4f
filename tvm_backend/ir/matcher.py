"""Matches of patterns, moved into composite functions as by TVM's FuseOpsByPattern.

Patterns are tried one after another over the whole function, each at every binding from the first to the last. A match
takes the place of those that lie within it; one that overlaps with others is left. What one pattern has taken is a call
of a composite function for those after it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from archloom.tvm_backend.ir import nodes
from archloom.tvm_backend.ir.expressions import IRModule
from archloom.tvm_backend.ir.patterns import CallOf, Const, DFPattern, Not, Or, Wildcard, to_relax
from archloom.tvm_backend.ir.plain import substitute

RELAX = "relax."
"""What operators' names begin with in patterns."""

Check = Callable[[Any], bool]


@dataclass(frozen=True, eq=False)
class Context:
    """What a check sees of a match, by the names of TVM's PatternCheckContext."""

    matched_expr: nodes.Call
    matched_bindings: Mapping[nodes.Var, nodes.Call]
    var_usages: Mapping[nodes.Var, Sequence[nodes.Var]]


def fuse_by_pattern(module: IRModule, patterns: Sequence[tuple[str, Any, Check]]) -> IRModule:
    """Every match as a call of a composite function, each taken where its check agrees; earlier patterns win.

    What a check raises ends the pass. Patterns are of :mod:`archloom.tvm_backend.ir.patterns`, or TVM's own, for which
    a plain module raises Unsupported.
    """
    if not isinstance(module, nodes.Module):
        from archloom.tvm_backend.ir import compat

        return compat.fuse_by_pattern(module, [(name, to_relax(p), check) for name, p, check in patterns])
    if not all(isinstance(p, DFPattern) for _, p, _ in patterns):
        raise nodes.Unsupported("a pattern written for TVM alone")
    functions = dict(module.named)
    main = functions["main"]
    for name, pattern, check in patterns:
        main = _fused(main, name, pattern, check, functions)
    return nodes.Module({**functions, "main": main})


def _fused(
    main: nodes.Function, name: str, pattern: DFPattern, check: Check, functions: dict[str, nodes.Function],
) -> nodes.Function:
    root_op = _root_operators(pattern)
    bound = {b.var: b.value for b in main.body}
    place = {var: i for i, var in enumerate(bound)}
    users: dict[nodes.Var, list[nodes.Var]] = {}
    owner: dict[int, nodes.Var] = {}
    taken: dict[nodes.Var, nodes.Var] = {}
    groups: dict[nodes.Var, list[nodes.Var]] = {}
    for binding in main.body:
        value = binding.value
        if not isinstance(value, nodes.Call) or value.op not in root_op:
            continue
        found = _Match(bound).match(pattern, value)
        if found is None:
            continue
        if not users:
            owner = {id(b.value): b.var for b in main.body if isinstance(b.value, nodes.Call)}
            users = _users(main)
        inside = [owner[id(c)] for c in found]
        context = Context(value, {v: bound[v] for v in inside}, {v: users[v] for v in inside})
        if check(context):
            absorbed = {taken[v] for v in inside if v in taken}
            if any(v not in inside for smaller in absorbed for v in groups[smaller]):
                continue
            for smaller in absorbed:
                del groups[smaller]
            if any(user not in inside for v in inside if v is not binding.var for user in users[v]):
                raise nodes.Unsupported(f"a match of {name} of which more than the result is read elsewhere")
            groups[binding.var] = sorted(set(inside), key=place.__getitem__)
            taken.update(dict.fromkeys(inside, binding.var))
    if not groups:
        return main
    body = []
    results: dict[nodes.Var, Any] = {}  # results of matches have no name of their own, as with TVM
    for binding in main.body:
        root = taken.get(binding.var)
        if root is None:
            value = substitute(binding.value, results)
            body.append(binding if value is binding.value else nodes.Binding(binding.var, value))
        elif root is binding.var:
            symbol = f"fused_{len(functions)}"
            functions[symbol], outside = _composite(groups[root], bound, name)
            arguments = tuple(results.get(v, v) for v in outside)
            results[root] = nodes.Var("lv", root.ty)
            call = nodes.Call(nodes.Target(symbol), arguments, nodes.attributes(), root.ty)
            body.append(nodes.Binding(results[root], call))
    return nodes.Function(main.params, tuple(body), results.get(main.result, main.result), main.attrs)


_CALLER = nodes.Var("caller", None)
"""Who reads the result of a function."""


def _users(main: nodes.Function) -> dict[nodes.Var, list[nodes.Var]]:
    """For each variable that is bound in ``main`` those whose values read it, and of the result who calls ``main``."""
    users: dict[nodes.Var, list[nodes.Var]] = {b.var: [] for b in main.body}
    for binding in main.body:
        for var in dict.fromkeys(nodes.variables_in(binding.value)):
            if var in users:
                users[var].append(binding.var)
    if main.result in users:
        users[main.result].append(_CALLER)
    return users


def _composite(
    group: list[nodes.Var], bound: Mapping[nodes.Var, Any], name: str
) -> tuple[nodes.Function, tuple[nodes.Var, ...]]:
    """A function of the group's bindings, and the variables to call it with."""
    members = set(group)
    outside = dict.fromkeys(v for var in group for v in nodes.variables_in(bound[var]) if v not in members)
    params = {v: nodes.Var(v.name, v.ty) for v in outside}
    body = tuple(nodes.Binding(var, substitute(bound[var], params)) for var in group)
    return nodes.Function(tuple(params.values()), body, group[-1], {"Composite": name}), tuple(outside)


def _root_operators(pattern: DFPattern) -> set[Any]:
    """Operators of the calls that a pattern can match."""
    if isinstance(pattern, CallOf):
        return {pattern.op.removeprefix(RELAX)}
    if isinstance(pattern, Or):
        return _root_operators(pattern.first) | _root_operators(pattern.second)
    raise nodes.Unsupported("a pattern that is no operator at its root")


class _Match:
    """One attempt: which expression each pattern has matched so far, and the calls among them in order."""

    def __init__(self, bound: Mapping[nodes.Var, Any]) -> None:
        self.bound = bound
        self.memo: dict[DFPattern, Any] = {}
        self.order: list[DFPattern] = []

    def match(self, pattern: DFPattern, root: nodes.Call) -> list[nodes.Call] | None:
        """The calls of a match whose root is ``root``, None if there is none."""
        if not self.fits(pattern, root):
            return None
        calls = [self.memo[p] for p in self.order if isinstance(p, CallOf)]
        return list(dict.fromkeys(calls))

    def fits(self, pattern: DFPattern, expr: Any) -> bool:
        value = self.bound.get(expr, expr) if type(expr) is nodes.Var else expr
        if pattern in self.memo:
            return self.memo[pattern] is value
        if type(pattern) is CallOf and not (type(value) is nodes.Call and value.op == pattern.op[len(RELAX):]
                                            and len(value.args) == len(pattern.args)):
            return False
        mark = len(self.order)
        if self._fits(pattern, value):
            self.memo[pattern] = value
            self.order.append(pattern)
            return True
        for p in self.order[mark:]:
            del self.memo[p]
        del self.order[mark:]
        return False

    def _fits(self, pattern: DFPattern, value: Any) -> bool:
        match pattern:
            case CallOf(_, args):
                return all(self.fits(p, a) for p, a in zip(args, value.args, strict=True))
            case Wildcard():
                return True
            case Const():
                return isinstance(value, nodes.Constant)
            case Or(first, second):
                return self.fits(first, value) or self.fits(second, value)
            case Not(inner):
                return not _Match(self.bound).fits(inner, value)
        raise nodes.Unsupported(f"a pattern {type(pattern).__name__}")
