"""Matches of patterns in plain expressions, moved into composite functions as by TVM's FuseOpsByPattern.

Patterns are tried one after another over the whole function, each at every binding from the first to the last. A match
takes the place of those that lie within it; one that overlaps with others is left. What one pattern has taken is a call
of a composite function for those after it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from archloom.tvm_backend.ir import nodes
from archloom.tvm_backend.ir.patterns import CallOf, Const, DFPattern, Not, Or, Wildcard
from archloom.tvm_backend.ir.plain import substitute

RELAX = "relax."
"""What operators' names begin with in patterns."""

COMMUTATIVE = frozenset({"relax.add", "relax.multiply"})
"""Operators whose arguments match in either order, that of the pattern first."""

Check = Callable[[Any], bool]


@dataclass(frozen=True, eq=False)
class Context:
    """What a check sees of a match, by the names of TVM's PatternCheckContext."""

    matched_expr: nodes.Call
    matched_bindings: Mapping[nodes.Var, nodes.Call]
    var_usages: Mapping[nodes.Var, Sequence[nodes.Var]]


def fuse_plain(module: nodes.Module, patterns: Sequence[tuple[str, Any, Check]]) -> nodes.Module:
    """:func:`~archloom.tvm_backend.ir.fusing.fuse_by_pattern` of plain expressions; Unsupported for what only TVM
    matches, and for a match of which more than the result is read elsewhere: TVM makes functions of several results of
    such."""
    for _, pattern, _ in patterns:
        operators_of(pattern)
    roots = [_root_operators(pattern) for _, pattern, _ in patterns]
    functions = dict(module.named)
    scope = _Scope(functions["main"])
    for (name, pattern, check), operators in zip(patterns, roots, strict=True):
        groups = scope.groups(name, pattern, operators, check)
        if groups:
            scope = _Scope(scope.with_calls(name, groups, functions))
    return nodes.Module({**functions, "main": scope.main})


class _Scope:
    """``main`` as one pattern is matched in it: the values of its variables, and who reads these."""

    def __init__(self, main: nodes.Function) -> None:
        self.main = main
        self.bound = {b.var: b.value for b in main.body}

    @cached_property
    def place(self) -> dict[nodes.Var, int]:
        return {var: i for i, var in enumerate(self.bound)}

    @cached_property
    def owner(self) -> dict[int, nodes.Var]:
        return {id(value): var for var, value in self.bound.items()}

    @cached_property
    def users(self) -> dict[nodes.Var, list[nodes.Var]]:
        """For each variable that is bound those whose values read it, and of the result who calls ``main``."""
        users: dict[nodes.Var, list[nodes.Var]] = {var: [] for var in self.bound}
        for user, value in self.bound.items():
            for var in dict.fromkeys(nodes.variables_in(value)):
                if var in users:
                    users[var].append(user)
        if self.main.result in users:
            users[self.main.result].append(_CALLER)
        return users

    def groups(
        self, name: str, pattern: DFPattern, operators: set[str], check: Check,
    ) -> dict[nodes.Var, list[nodes.Var]]:
        """The variables of each match that is taken, by that of its result, which calls one of ``operators``."""
        taken: dict[nodes.Var, nodes.Var] = {}
        groups: dict[nodes.Var, list[nodes.Var]] = {}
        for root, value in self.bound.items():
            if not isinstance(value, nodes.Call) or value.op not in operators:
                continue
            found = _Match(self.bound).match(pattern, value)
            if found is None:
                continue
            inside = sorted((self.owner[id(call)] for call in found), key=self.place.__getitem__)
            usages = {v: self.users[v] for v in inside}
            if not check(Context(value, {v: self.bound[v] for v in inside}, usages)):
                continue
            if any(user not in usages for v in inside if v is not root for user in usages[v]):
                raise nodes.Unsupported(f"a match of {name} of which more than the result is read elsewhere")
            absorbed = {taken[v] for v in inside if v in taken}
            if all(v in usages for smaller in absorbed for v in groups[smaller]):
                for smaller in absorbed:
                    del groups[smaller]
                groups[root] = inside
                taken.update(dict.fromkeys(inside, root))
        return groups

    def with_calls(
        self, name: str, groups: Mapping[nodes.Var, list[nodes.Var]], functions: dict[str, nodes.Function],
    ) -> nodes.Function:
        """``main`` with calls of composite functions, which ``functions`` gets. Matches whose results nothing reads are
        left out, as by TVM."""
        body = []
        results: dict[nodes.Var, Any] = {}
        for var in _emitted(self.main, {v: root for root, inside in groups.items() for v in inside}):
            if var not in groups:
                body.append(nodes.Binding(var, substitute(self.bound[var], results)))
            elif self.users[var]:
                symbol = f"fused_{len(functions)}"
                functions[symbol], outside = _composite(groups[var], self.bound, name)
                arguments = tuple(results.get(v, v) for v in outside)
                results[var] = nodes.Var(var.name, var.ty)
                call = nodes.Call(nodes.Target(symbol), arguments, nodes.attributes(), var.ty)
                body.append(nodes.Binding(results[var], call))
        main = self.main
        return nodes.Function(main.params, tuple(body), results.get(main.result, main.result), main.attrs)


_CALLER = nodes.Var("caller", None)
"""Who reads the result of a function."""


def _emitted(main: nodes.Function, root_of: Mapping[nodes.Var, nodes.Var]) -> list[nodes.Var]:
    """What is bound when each match is one call, in TVM's order: that of their first bindings, but for what they read,
    which comes before."""
    reads: dict[nodes.Var, list[nodes.Var]] = {}
    for binding in main.body:
        reads.setdefault(root_of.get(binding.var, binding.var), []).extend(
            root_of.get(v, v) for v in nodes.variables_in(binding.value))
    order, seen = [], set()
    for first in reads:
        waiting = [] if first in seen else [(first, iter(reads[first]))]
        seen.add(first)
        while waiting:
            unseen = next((v for v in waiting[-1][1] if v in reads and v not in seen), None)
            if unseen is None:
                order.append(waiting.pop()[0])
            else:
                seen.add(unseen)
                waiting.append((unseen, iter(reads[unseen])))
    return order


def _composite(
    group: list[nodes.Var], bound: Mapping[nodes.Var, Any], name: str
) -> tuple[nodes.Function, tuple[nodes.Var, ...]]:
    """A function of the group's bindings, and the variables to call it with."""
    members = set(group)
    outside = dict.fromkeys(v for var in group for v in nodes.variables_in(bound[var]) if v not in members)
    params = {v: nodes.Var(v.name, v.ty) for v in outside}
    body = tuple(nodes.Binding(var, substitute(bound[var], params)) for var in group)
    return nodes.Function(tuple(params.values()), body, group[-1], {"Composite": name}), tuple(outside)


def _root_operators(pattern: DFPattern) -> set[str]:
    """Operators of the calls that a pattern can match."""
    if isinstance(pattern, CallOf):
        return {pattern.op.removeprefix(RELAX)}
    if isinstance(pattern, Or):
        return _root_operators(pattern.first) | _root_operators(pattern.second)
    raise nodes.Unsupported("a pattern that is no operator at its root")


def operators_of(pattern: Any) -> set[str]:
    """All operators in a pattern; Unsupported for one that TVM matches in other forms of equal value, too."""
    found, seen, waiting = set(), set(), [pattern]
    while waiting:
        part = waiting.pop()
        if part in seen:
            continue
        seen.add(part)
        if not isinstance(part, DFPattern):
            raise nodes.Unsupported("a pattern written for TVM alone")
        inner = part.args if isinstance(part, CallOf) else [p for p in vars(part).values() if isinstance(p, DFPattern)]
        if isinstance(part, CallOf):
            if not part.op.startswith(RELAX):
                raise nodes.Unsupported(f"an operator that is not Relax's, {part.op}")
            found.add(part.op.removeprefix(RELAX))
            if any({part.op, p.op} == _ASSOCIATED for p in inner if isinstance(p, CallOf)):
                raise nodes.Unsupported("a pattern of quotients of products, or of products of quotients")
        waiting += inner
    return found


_ASSOCIATED = {"relax.multiply", "relax.divide"}


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
        value = expr
        while type(value) is nodes.Var and value in self.bound:
            value = self.bound[value]
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
        self._forget(mark)
        return False

    def _forget(self, mark: int) -> None:
        """Take back all that was matched since ``order`` had so many patterns."""
        for p in self.order[mark:]:
            del self.memo[p]
        del self.order[mark:]

    def _fits(self, pattern: DFPattern, value: Any) -> bool:
        match pattern:
            case CallOf(op, args):
                mark = len(self.order)
                if all(map(self.fits, args, value.args)):
                    return True
                self._forget(mark)
                return op in COMMUTATIVE and all(map(self.fits, args, reversed(value.args)))
            case Wildcard():
                return True
            case Const():
                return isinstance(value, nodes.Constant)
            case Or(first, second):
                return self.fits(first, value) or self.fits(second, value)
            case Not(inner):
                return not self.fits(inner, value)
        raise nodes.Unsupported(f"a pattern {type(pattern).__name__}")
