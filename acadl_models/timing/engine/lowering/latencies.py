"""Latencies of instructions: numbers where they do not vary, programs for the engine's stack machine where they do."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from archloom.acadl_models.acadl.latency import Call, Expression, IfElse, LatencyError, Name, Node, Num
from archloom.acadl_models.timing.engine.layout import STACK, Operation
from archloom.oracle.affine import Affine, Bounds

_BINARY = {
    "+": Operation.ADD, "-": Operation.SUB, "*": Operation.MUL, "//": Operation.FLOORDIV, "%": Operation.MOD,
    "cdiv": Operation.CDIV, "min": Operation.MIN, "max": Operation.MAX, "<": Operation.LT, "<=": Operation.LE,
    ">": Operation.GT, ">=": Operation.GE, "==": Operation.EQ, "!=": Operation.NE,
}  # fmt: skip

Names = Mapping[str, Affine]


Range = tuple[int, int]
ANYTHING: Range = (-(1 << 62), 1 << 62)


def simplify(expression: Expression, names: Names, bounds: Bounds) -> Node:
    """The expression with everything replaced that the ranges of the loop variables decide.

    A :class:`Num` is left where the value does not vary. ``words`` and ``bytes`` may be missing from ``names``: they
    vary with the request.
    """
    if not expression.names:
        return Num(expression.evaluate({}))
    if all(n in names and names[n].is_constant for n in expression.names):
        return Num(expression.evaluate({n: names[n].constant for n in expression.names}))
    ranges = {n: names[n].range(bounds) for n in sorted(expression.names) if n in names}
    key = (expression.text, tuple(ranges.items()))
    known = _folded.get(key)
    if known is None:
        if len(_folded) > 4096:
            _folded.clear()
        known = _folded[key] = _fold(expression.root, ranges)[0]
    return known


_folded: dict[object, Node] = {}
"""Simplified expressions: the layers of a network ask for the same ones again and again."""


def _fold(node: Node, ranges: Mapping[str, Range]) -> tuple[Node, Range]:
    """A node and the range of its values; what has one value becomes a number."""
    if isinstance(node, Num):
        return node, (node.value, node.value)
    if isinstance(node, Name):
        found = ranges.get(node.name, ANYTHING)
    elif isinstance(node, IfElse):
        condition, known = _fold(node.condition, ranges)
        if known[0] > 0 or known[1] < 0:
            return _fold(node.then, ranges)
        if known == (0, 0):
            return _fold(node.otherwise, ranges)
        (then, a), (otherwise, b) = _fold(node.then, ranges), _fold(node.otherwise, ranges)
        return IfElse(condition, then, otherwise), (min(a[0], b[0]), max(a[1], b[1]))
    else:
        parts = [_fold(argument, ranges) for argument in node.arguments]
        node = Call(node.op, tuple(p for p, _ in parts))
        found = _call_range(node.op, [r for _, r in parts])
        if node.op in ("and", "or") and _truth(parts[0][1]) is None:
            found = found if found[0] != found[1] or _total(node.arguments[1]) else (0, 1)
    return (Num(found[0]), found) if found[0] == found[1] else (node, found)


def _total(node: Node) -> bool:
    """Whether the value of a node always exists."""
    if isinstance(node, Call):
        return node.op not in ("//", "%", "cdiv") and all(_total(a) for a in node.arguments)
    if isinstance(node, IfElse):
        return _total(node.condition) and _total(node.then) and _total(node.otherwise)
    return True


def _truth(r: Range) -> bool | None:
    """Whether all values of a range are true or all are false."""
    return True if r[0] > 0 or r[1] < 0 else False if r == (0, 0) else None


def _call_range(op: str, ranges: list[Range]) -> Range:
    first, last = ranges[0], ranges[-1]
    if op in ("min", "max"):
        choose = min if op == "min" else max
        return choose(r[0] for r in ranges), choose(r[1] for r in ranges)
    if op == "neg":
        return -first[1], -first[0]
    if op == "+":
        return first[0] + last[0], first[1] + last[1]
    if op == "-":
        return first[0] - last[1], first[1] - last[0]
    if op == "*":
        products = [x * y for x in first for y in last]
        return min(products), max(products)
    if op in ("//", "%", "cdiv"):
        return _divided_range(op, first, last)
    return _truth_range(op, first, last)


def _divided_range(op: str, first: Range, last: Range) -> Range:
    """Of a division by one positive number; others are left open."""
    divisor = last[0]
    if divisor != last[1] or divisor <= 0:
        return ANYTHING
    if op == "%":
        whole = first[0] // divisor == first[1] // divisor
        return (first[0] % divisor, first[1] % divisor) if whole else (0, divisor - 1)
    if op == "//":
        return first[0] // divisor, first[1] // divisor
    return -(-first[0] // divisor), -(-first[1] // divisor)


def _truth_range(op: str, first: Range, last: Range) -> Range:
    """Of a comparison or a logical operator: 0, 1 or open."""
    known: bool | None
    if op == "not":
        truth = _truth(first)
        known = None if truth is None else not truth
    elif op in ("and", "or"):
        truths = (_truth(first), _truth(last))
        decisive = op == "or"
        known = decisive if decisive in truths else None if None in truths else not decisive
    elif op in ("==", "!="):
        equal = first == last and first[0] == first[1]
        apart = first[1] < last[0] or last[1] < first[0]
        known = None if not (equal or apart) else equal == (op == "==")
    else:
        if op in (">", ">="):
            op, first, last = {">": "<", ">=": "<="}[op], last, first
        strict = op == "<"
        always = first[1] < last[0] or (not strict and first[1] == last[0])
        never = first[0] > last[1] or (strict and first[0] == last[1])
        known = True if always else False if never else None
    return (0, 1) if known is None else (int(known), int(known))


def arguments(node: Node, names: Names) -> list[Affine]:
    """The expressions over loop variables on which the value of a node depends."""
    if isinstance(node, Name):
        return [names[node.name]] if node.name in names and not names[node.name].is_constant else []
    if isinstance(node, Num):
        return []
    parts = node.arguments if isinstance(node, Call) else (node.condition, node.then, node.otherwise)
    return [a for p in parts for a in arguments(p, names)]


def compile_latency(root: Node, names: Names, place: Callable[[Affine], int]) -> list[tuple[int, int]]:
    """Operations for the stack machine; ``place`` puts an expression into the tables.

    ``words`` and ``bytes`` that are not among ``names`` are those of the request.
    """
    code: list[tuple[int, int]] = []
    _emit(root, names, place, code)
    if len(code) >= STACK:
        raise LatencyError(f"has {len(code)} operations; one that varies along loops may have {STACK - 1}")
    return code


def _emit(node: Node, names: Names, place: Callable[[Affine], int], code: list[tuple[int, int]]) -> None:
    if isinstance(node, Num):
        code.append((Operation.NUMBER, node.value))
    elif isinstance(node, Name):
        if node.name in names:
            code.append((Operation.EXPRESSION, place(names[node.name])))
        else:
            code.append((Operation.WORDS if node.name == "words" else Operation.BYTES, 0))
    elif isinstance(node, IfElse):
        _emit_choice(
            node.condition,
            lambda: _emit(node.then, names, place, code),
            lambda: _emit(node.otherwise, names, place, code),
            names,
            place,
            code,
        )
    else:
        _emit_call(node, names, place, code)


def _emit_call(node: Call, names: Names, place: Callable[[Affine], int], code: list[tuple[int, int]]) -> None:
    def truth(operand: Node) -> Callable[[], None]:
        def emit() -> None:
            _emit(operand, names, place, code)
            code.extend([(Operation.NOT, 0), (Operation.NOT, 0)])

        return emit

    if node.op in ("and", "or"):
        first, second = node.arguments
        number = (Operation.NUMBER, int(node.op == "or"))
        shortcut: Callable[[], None] = lambda: code.append(number)  # noqa: E731
        then, otherwise = (truth(second), shortcut) if node.op == "and" else (shortcut, truth(second))
        _emit_choice(first, then, otherwise, names, place, code)
        return
    _emit(node.arguments[0], names, place, code)
    if node.op in ("not", "neg"):
        code.append((Operation.NOT if node.op == "not" else Operation.NEG, 0))
    for operand in node.arguments[1:]:
        _emit(operand, names, place, code)
        code.append((_BINARY[node.op], 0))


def _emit_choice(
    condition: Node,
    then: Callable[[], None],
    otherwise: Callable[[], None],
    names: Names,
    place: Callable[[Affine], int],
    code: list[tuple[int, int]],
) -> None:
    _emit(condition, names, place, code)
    branch = len(code)
    code.append((Operation.JUMP_IF_ZERO, 0))
    then()
    leave = len(code)
    code.append((Operation.JUMP, 0))
    code[branch] = (Operation.JUMP_IF_ZERO, len(code))
    otherwise()
    code[leave] = (Operation.JUMP, len(code))
