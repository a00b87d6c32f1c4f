"""Latencies of instructions: numbers where they do not vary, programs for the engine's stack machine where they do."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from acadl_models.acadl.latency import Call, Expression, IfElse, LatencyError, Name, Node, Num
from acadl_models.timing.engine.layout import (
    STACK,
    X_ADD,
    X_BYTES,
    X_CDIV,
    X_EQ,
    X_EXPRESSION,
    X_FLOORDIV,
    X_GE,
    X_GT,
    X_JUMP,
    X_JUMP_IF_ZERO,
    X_LE,
    X_LT,
    X_MAX,
    X_MIN,
    X_MOD,
    X_MUL,
    X_NE,
    X_NEG,
    X_NOT,
    X_NUMBER,
    X_SUB,
    X_WORDS,
)
from oracle.affine import Affine

_BINARY = {
    "+": X_ADD, "-": X_SUB, "*": X_MUL, "//": X_FLOORDIV, "%": X_MOD, "cdiv": X_CDIV, "min": X_MIN, "max": X_MAX,
    "<": X_LT, "<=": X_LE, ">": X_GT, ">=": X_GE, "==": X_EQ, "!=": X_NE,
}  # fmt: skip

Names = Mapping[str, Affine]


def constant_value(expression: Expression, names: Names) -> int | None:
    """The value where none of the names that it needs varies; None otherwise, and for a name that is not there."""
    values: dict[str, int] = {}
    for name in expression.names:
        if name not in names or not names[name].is_constant:
            return None
        values[name] = names[name].constant
    return expression.evaluate(values)


def arguments(expression: Expression, names: Names) -> list[Affine]:
    """The expressions over loop variables on which the value depends."""
    return [names[n] for n in sorted(expression.names) if n in names and not names[n].is_constant]


def compile_latency(expression: Expression, names: Names, place: Callable[[Affine], int]) -> list[tuple[int, int]]:
    """Operations for the stack machine; ``place`` puts an expression into the tables.

    ``words`` and ``bytes`` that are not among ``names`` are those of the request.
    """
    code: list[tuple[int, int]] = []
    _emit(expression.root, names, place, code)
    if len(code) >= STACK:
        raise LatencyError(f"{expression.text!r} has {len(code)} operations; one that varies may have {STACK - 1}")
    return code


def _emit(node: Node, names: Names, place: Callable[[Affine], int], code: list[tuple[int, int]]) -> None:
    if isinstance(node, Num):
        code.append((X_NUMBER, node.value))
    elif isinstance(node, Name):
        if node.name in names:
            code.append((X_EXPRESSION, place(names[node.name])))
        else:
            code.append((X_WORDS if node.name == "words" else X_BYTES, 0))
    elif isinstance(node, IfElse):
        _emit_choice(node.condition, lambda: _emit(node.then, names, place, code),
                     lambda: _emit(node.otherwise, names, place, code), names, place, code)
    else:
        _emit_call(node, names, place, code)


def _emit_call(node: Call, names: Names, place: Callable[[Affine], int], code: list[tuple[int, int]]) -> None:
    def truth(operand: Node) -> Callable[[], None]:
        def emit() -> None:
            _emit(operand, names, place, code)
            code.extend([(X_NOT, 0), (X_NOT, 0)])
        return emit

    if node.op in ("and", "or"):
        first, second = node.arguments
        number = (X_NUMBER, int(node.op == "or"))
        shortcut: Callable[[], None] = lambda: code.append(number)  # noqa: E731
        then, otherwise = (truth(second), shortcut) if node.op == "and" else (shortcut, truth(second))
        _emit_choice(first, then, otherwise, names, place, code)
        return
    _emit(node.arguments[0], names, place, code)
    if node.op in ("not", "neg"):
        code.append((X_NOT if node.op == "not" else X_NEG, 0))
    for operand in node.arguments[1:]:
        _emit(operand, names, place, code)
        code.append((_BINARY[node.op], 0))


def _emit_choice(
    condition: Node, then: Callable[[], None], otherwise: Callable[[], None], names: Names,
    place: Callable[[Affine], int], code: list[tuple[int, int]],
) -> None:
    _emit(condition, names, place, code)
    branch = len(code)
    code.append((X_JUMP_IF_ZERO, 0))
    then()
    leave = len(code)
    code.append((X_JUMP, 0))
    code[branch] = (X_JUMP_IF_ZERO, len(code))
    otherwise()
    code[leave] = (X_JUMP, len(code))
