"""Integer expressions of TAIDL as affine forms, by which dimensions are compared before their values are known."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from archloom.oracle.affine import Affine
from archloom.oracle.taidl import ast
from archloom.oracle.taidl.evaluate import Evaluation, evaluate
from archloom.oracle.taidl.printer import print_expr


class _Canonical(Evaluation[Affine]):
    """Affine forms over names and over the texts of what is not affine."""

    def __init__(self, known: Mapping[str, int]) -> None:
        self.known = known

    def number(self, e: ast.Number) -> Affine:
        return Affine(e.value) if isinstance(e.value, int) else self.opaque(e)

    def name(self, e: ast.Name) -> Affine:
        return Affine(self.known[e.name]) if e.name in self.known else Affine.variable(e.name)

    def opaque(self, e: ast.Expr) -> Affine:
        return Affine.variable(print_expr(e))

    element = inverted = opaque

    def operation(self, e: ast.Binary, left: Affine, right: Affine) -> Affine:
        if left.is_constant and right.is_constant:
            return self.folded(replace(e, left=ast.Number(left.constant), right=ast.Number(right.constant)))
        match e.operator:
            case "+":
                return left + right
            case "-":
                return left - right
            case "*" if left.is_constant or right.is_constant:
                return left * right
            case "//" if right.is_constant and right.constant > 0:
                return left // right.constant
            case "%" if right.is_constant and right.constant > 0:
                return left % right.constant
        return Affine.variable(f"({left}) {e.operator} ({right})")

    def select(self, condition: ast.Expr, then: ast.Expr, otherwise: ast.Expr) -> Affine:
        return self.function(ast.Call("select", ()), [self.value(e) for e in (condition, then, otherwise)])

    def function(self, e: ast.Call, values: list[Affine]) -> Affine:
        if all(v.is_constant for v in values):
            return self.folded(replace(e, arguments=tuple(ast.Number(v.constant) for v in values)))
        return Affine.variable(f"{e.function}({', '.join(map(str, values))})")

    def folded(self, e: ast.Expr) -> Affine:
        return Affine(int(evaluate(e, {})))


def canonical(expr: ast.Expr, known: Mapping[str, int]) -> Affine:
    """The expression as an affine form over names and over the texts of its parts that are not affine.

    Two expressions of equal form have equal values; conditions become 0 or 1 where they are decided.
    """
    return _Canonical(known).value(expr)
