"""Open sizes in ``.pt2`` files: text that torch evaluates, looked at before it does.

Sizes are written as SymPy's constructors (``Mul(Integer(8), Symbol('s27', positive=True))``), what a program demands of
its inputs as comparisons in Python (``L['x'].size()[1] != 7``). Only calls of listed constructors, integers and symbols
are left in the first; only integers, sizes of inputs, arithmetic and comparisons in the second.
"""

from __future__ import annotations

import ast
import re
from typing import Any

from archloom.oracle.errors import ModelError

OPERATORS = frozenset({
    *(f"_operator.{name}" for name in (
        "add", "sub", "mul", "floordiv", "mod", "neg", "eq", "ne", "lt", "le", "gt", "ge", "and_", "or_", "not_")),
    "torch.sym_int", "torch.sym_max", "torch.sym_min", "torch.sym_not", "torch.sym_float", "_operator.truediv",
})
"""What a graph may compute of sizes."""
LONGEST = 4000
CONSTRUCTORS = frozenset({
    "Add", "Mul", "FloorDiv", "CleanDiv", "CeilDiv", "Mod", "PythonMod", "Max", "Min", "Integer", "Rational", "Symbol",
    "ModularIndexing", "Equality", "Unequality", "Eq", "Ne", "LessThan", "GreaterThan", "StrictLessThan",
    "StrictGreaterThan", "And", "Or", "Not", "ToFloat", "IntTrueDiv", "TruncToInt", "CeilToInt", "FloorToInt",
})
_SYMBOL = re.compile(r"[a-z]{1,4}\d+")
_INPUT = re.compile(r"\w+")
_OF_SIZES = (ast.Add, ast.Sub, ast.Mult, ast.FloorDiv, ast.Mod, ast.USub, ast.And, ast.Or, ast.Not, ast.Eq, ast.NotEq,
             ast.Lt, ast.LtE, ast.Gt, ast.GtE)


def check_size(text: Any, where: str) -> None:
    """ModelError for a size that is more than constructors of integers and symbols."""
    tree = _parsed(text)
    if tree is None or not _is_size(tree):
        raise ModelError(f"{where}: a size is {str(text)[:60]!r}; expected integers and symbols in "
                         f"{', '.join(sorted(CONSTRUCTORS))}")


def check_guard(text: Any, where: str) -> None:
    """ModelError for a demand that is more than a comparison of sizes of inputs."""
    tree = _parsed(text)
    if tree is None or not _is_comparison(tree):
        raise ModelError(f"{where}: the program demands {str(text)[:60]!r} of its inputs; expected comparisons of "
                         "sizes, by integer arithmetic")


def _parsed(text: Any) -> ast.expr | None:
    if not isinstance(text, str) or len(text) > LONGEST or not text.isascii() or "\n" in text:
        return None
    try:
        return ast.parse(text, mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _is_size(node: ast.expr) -> bool:
    match node:
        case ast.Call(func=ast.Name(id="Symbol"), args=[ast.Constant(value=str(name))], keywords=keywords):
            return bool(_SYMBOL.fullmatch(name)) and all(_is_assumption(k) for k in keywords)
        case ast.Call(func=ast.Name(id=name), args=args, keywords=[]):
            return name in CONSTRUCTORS and name != "Symbol" and all(_is_size(a) for a in args)
    return _is_integer(node)


def _is_assumption(keyword: ast.keyword) -> bool:
    return (keyword.arg in ("positive", "nonnegative", "integer") and isinstance(keyword.value, ast.Constant)
            and keyword.value.value is True)


def _is_integer(node: ast.expr) -> bool:
    match node:
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return _is_integer(operand)
        case ast.Constant(value=value):
            return type(value) is int
    return False


def _is_comparison(node: ast.expr) -> bool:
    match node:
        case ast.Compare(left=left, ops=ops, comparators=others):
            return all(isinstance(op, _OF_SIZES) for op in ops) and all(_is_comparison(e) for e in (left, *others))
        case ast.BinOp(left=left, op=op, right=right):
            return isinstance(op, _OF_SIZES) and _is_comparison(left) and _is_comparison(right)
        case ast.BoolOp(values=values):
            return all(_is_comparison(value) for value in values)
        case ast.UnaryOp(op=op, operand=operand):
            return isinstance(op, _OF_SIZES) and _is_comparison(operand)
        case ast.Call(func=ast.Name(id="max" | "min"), args=args, keywords=[]):
            return all(_is_comparison(a) for a in args)
        case ast.Subscript(value=ast.Call(func=ast.Attribute(value=tensor, attr="size"), args=[], keywords=[]),
                           slice=index):
            return _is_input(tensor) and _is_integer(index)
    return _is_integer(node)


def _is_input(node: ast.expr) -> bool:
    """``L['x']``, or what is in it: ``L['x']['k'][0]``."""
    match node:
        case ast.Name(id="L"):
            return True
        case ast.Subscript(value=whole, slice=ast.Constant(value=str(name))):
            return bool(_INPUT.fullmatch(name)) and _is_input(whole)
        case ast.Subscript(value=whole, slice=index):
            return _is_integer(index) and _is_input(whole)
    return False
