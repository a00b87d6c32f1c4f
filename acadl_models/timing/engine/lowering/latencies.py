"""Latencies of instructions as expressions over loop variables, and programs for the engine's stack machine."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from archloom.acadl_models.acadl.latency import Expression, LatencyError, key_of
from archloom.acadl_models.timing.engine.layout import STACK, Operation
from archloom.oracle.affine import Affine, Bounds
from archloom.oracle.resolution.symbolic import ANY, FALSE, TRUE, Ranges, Undecided, compare
from archloom.oracle.taidl import ast
from archloom.oracle.taidl.evaluate import COMPARISONS, Evaluation, whole
from archloom.oracle.variables import Variable

Names = Mapping[str, Affine]

_OPERATIONS = {
    "+": Operation.ADD, "*": Operation.MUL, "//": Operation.FLOORDIV, "%": Operation.MOD,
    "min": Operation.MIN, "max": Operation.MAX, "<": Operation.LT, "<=": Operation.LE, "==": Operation.EQ,
    "!=": Operation.NE, "words": Operation.WORDS, "bytes": Operation.BYTES,
}  # fmt: skip
_MIRRORED = {">": "<", ">=": "<="}


class Computed(Variable):
    """What the stack machine computes: ``operator`` of ``operands``, a comparison of its only operand with 0.

    ``words`` and ``bytes`` of a request are operators without operands, ``select`` is one with three. ``fails``:
    perhaps, by a divisor that is not positive, so that it must be computed even where that does not change the value.
    """

    operator: str
    operands: tuple[Affine, ...]
    fails: bool

    def __new__(cls, operator: str, operands: tuple[Affine, ...]) -> "Computed":
        made = super().__new__(cls, f"?{operator}({', '.join(map(str, operands))})")
        made.operator, made.operands = operator, operands
        divides = operator in ("//", "%") and not (operands[1].is_constant and operands[1].constant > 0)
        made.fails = divides or may_fail(*operands)
        return made


def may_fail(*values: Affine) -> bool:
    """Whether something in the values may have no value."""
    return any(isinstance(atom, Computed) and atom.fails for value in values for atom, _ in value.terms)


class Lowering(Evaluation[Affine]):
    """Over expressions in loop variables of known ranges; what is not affine and what these leave open is computed.

    ``words`` and ``bytes`` may be missing from ``names``: they vary with the request.
    """

    def __init__(self, names: Names, bounds: Bounds) -> None:
        self.names = names
        self.bounds = Ranges(bounds)

    def computed(self, low: int, high: int, operator: str, *operands: Affine) -> Affine:
        """A variable for what the machine computes, between ``low`` and ``high``."""
        made = Computed(operator, operands)
        if low == high and not made.fails:
            return Affine(low)
        self.bounds[made] = low, high
        return Affine.variable(made)

    def known(self, value: Affine) -> Affine:
        """A number if the ranges leave only one."""
        low, high = value.range(self.bounds)
        return Affine(low) if low == high else value

    def total(self, left: Affine, right: Affine) -> Affine:
        return self.computed(*ANY, "+", left, right) if may_fail(left, right) else self.known(left + right)

    def decided(self, operator: str, left: Affine, right: Affine) -> bool | None:
        """Whether ``left operator right``; None where that is open."""
        try:
            return None if may_fail(left, right) else compare(operator, left, right, self.bounds)
        except Undecided:
            return None

    def compared(self, operator: str, left: Affine, right: Affine) -> Affine:
        found = self.decided(operator, left, right)
        if found is not None:
            return TRUE if found else FALSE
        if operator in _MIRRORED:
            operator, left, right = _MIRRORED[operator], right, left
        return self.computed(0, 1, operator, self.total(left, -right))

    def divided(self, operator: str, left: Affine, right: Affine) -> Affine:
        """By one positive number within what ranges decide; the machine fails for a divisor that is not positive."""
        low, high = ANY
        if right.is_constant and right.constant > 0 and not may_fail(left):
            found = left // right.constant if operator == "//" else left % right.constant
            found = found.simplify(self.bounds)
            if found.is_linear:
                return self.known(found)
            low, high = found.range(self.bounds)
        return self.computed(low, high, operator, left, right)

    def number(self, e: ast.Number) -> Affine:
        return Affine(whole(e))

    def name(self, e: ast.Name | ast.Element) -> Affine:
        key = key_of(e)
        return self.known(self.names[key]) if key in self.names else self.computed(*ANY, key)

    element = name

    def inverted(self, e: ast.Expr) -> Affine:
        return self.compared("==", self.value(e), FALSE)

    def logic(self, e: ast.Binary) -> Affine:
        both = e.operator == "&&"
        found = self.select(e.left, e.right if both else ast.Number(1), ast.Number(0) if both else e.right)
        return self.compared("!=", found, FALSE)

    def operation(self, e: ast.Binary, left: Affine, right: Affine) -> Affine:
        operator = e.operator
        if operator in COMPARISONS:
            return self.compared(operator, left, right)
        if operator in ("//", "%"):
            return self.divided(operator, left, right)
        if operator != "*":
            return self.total(left, right if operator == "+" else -right)
        if may_fail(left, right) or (left.terms and right.terms):
            products = [x * y for x in left.range(self.bounds) for y in right.range(self.bounds)]
            return self.computed(min(products), max(products), operator, left, right)
        return left * right

    def select(self, condition: ast.Expr, then: ast.Expr, otherwise: ast.Expr) -> Affine:
        chosen = self.value(condition)
        found = self.decided("!=", chosen, FALSE)
        if found is not None:
            return self.value(then if found else otherwise)
        yes, no = self.value(then), self.value(otherwise)
        (a, b), (c, d) = yes.range(self.bounds), no.range(self.bounds)
        return self.computed(min(a, c), max(b, d), "select", chosen, yes, no)

    def function(self, e: ast.Call, values: list[Affine]) -> Affine:
        if e.function == "cdiv":
            return -self.divided("//", -values[0], values[1])
        best = values[0]
        choose = min if e.function == "min" else max
        for value in values[1:]:
            found = self.decided("<=", best, value)
            if found is not None:
                best = best if found == (choose is min) else value
                continue
            (a, b), (c, d) = best.range(self.bounds), value.range(self.bounds)
            best = self.computed(choose(a, c), choose(b, d), e.function, best, value)
        return best


def lower_latency(expression: Expression, names: Names, bounds: Bounds) -> Affine:
    """The expression over loop variables; a number where the ranges of these leave only one."""
    return Lowering(names, bounds).value(expression.root)


def compile_latency(value: Affine, place: Callable[[Affine], int]) -> list[tuple[int, int]]:
    """Operations for the stack machine; ``place`` puts an expression over loop variables into the tables."""
    code: list[tuple[int, int]] = []
    _emit(value, place, code)
    if len(code) >= STACK:
        raise LatencyError(f"has {len(code)} operations; one that varies along loops may have {STACK - 1}")
    return code


def _emit(value: Affine, place: Callable[[Affine], int], code: list[tuple[int, int]]) -> None:
    if max(map(abs, (value.constant, *(factor for _, factor in value.terms)))) >> 62:
        raise LatencyError("needs numbers of more than 62 bits")
    computed = [(atom, factor) for atom, factor in value.terms if isinstance(atom, Computed)]
    plain = tuple(t for t in value.terms if not isinstance(t[0], Computed))
    rest = Affine(value.constant, plain) if computed else value
    for atom, factor in computed:
        _emit_computed(atom, place, code)
        if factor != 1:
            code += [(Operation.NUMBER, factor), (Operation.MUL, 0)]
        if atom is not computed[0][0]:
            code.append((Operation.ADD, 0))
    if rest.terms or rest.constant or not computed:
        code.append((Operation.EXPRESSION, place(rest)) if rest.terms else (Operation.NUMBER, rest.constant))
        code += [(Operation.ADD, 0)] * bool(computed)


def _emit_computed(atom: Computed, place: Callable[[Affine], int], code: list[tuple[int, int]]) -> None:
    if atom.operator != "select":
        for operand in atom.operands:
            _emit(operand, place, code)
        code.append((_OPERATIONS[atom.operator], 0))
        return
    condition, then, otherwise = atom.operands
    _emit(condition, place, code)
    branch = len(code)
    code.append((Operation.JUMP_IF_ZERO, 0))
    _emit(then, place, code)
    leave = len(code)
    code.append((Operation.JUMP, 0))
    code[branch] = (Operation.JUMP_IF_ZERO, len(code))
    _emit(otherwise, place, code)
    code[leave] = (Operation.JUMP, len(code))
