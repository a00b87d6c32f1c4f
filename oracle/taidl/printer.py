"""Syntax tree to TAIDL text; parsing the text gives an equal tree."""

from __future__ import annotations

from collections.abc import Iterator

from archloom.oracle.taidl import ast
from archloom.oracle.taidl.expressions import COMPARISON, LEVELS

_LEVEL = {operator: level for level, operators in enumerate(LEVELS) for operator in operators}
_UNARY = len(LEVELS)


def print_isa(isa: ast.IsaDef) -> str:
    """The canonical text of a description."""
    lines = [f"isa {isa.name};", ""]
    lines += [f"include {i.name};" for i in isa.includes]
    lines += [f"param {p.name} = {p.default} in {print_range(p)};" for p in isa.parameters]
    lines += [f"const {c.name} = {print_expr(c.value)};" for c in isa.constants]
    lines += [_buffer(b) for b in isa.buffers]
    for r in isa.registers:
        lines.append(f"{r.name}{f'[{print_expr(r.size)}]' if r.size is not None else ''} = {print_expr(r.initial)};")
    for definition in isa.definitions:
        lines += ["", f"def {definition.name}({', '.join(definition.parameters)}) {{", *_block(definition.body), "}"]
    for instruction in isa.instructions:
        lines += ["", f"[{instruction.name}]({', '.join(instruction.attributes)}) {{", *_block(instruction.body), "}"]
    lines += [f"alias {a.name}({', '.join(a.attributes)}) = {a.instruction};" for a in isa.aliases]
    return "\n".join(lines) + "\n"


def _buffer(b: ast.BufferDecl) -> str:
    of = "" if b.of is None else f" = {b.of}"
    return f"[{b.name}] ({'x'.join(_dim(d) for d in b.rows)}) ({print_type(b.base)}){of};"


def print_range(p: ast.Parameter) -> str:
    """``4..64 where dim % 4 == 0``"""
    return f"{p.low}..{p.high}" + ("" if p.condition is None else f" where {print_expr(p.condition)}")


def print_expr(expr: ast.Expr) -> str:
    """The expression with the fewest parentheses that parse back to the same tree."""
    return _expr(expr, 0)


def print_type(kind: ast.Type) -> str:
    """``16x{rows}xi8``"""
    width = "" if kind.bits is None else f"{{{print_expr(kind.bits)}}}"
    return "".join(f"{_dim(d)}x" for d in kind.dims) + kind.dtype + width


def print_slice(piece: ast.Slice) -> str:
    """``$buffer[axes]``"""
    return f"${piece.buffer}" + (f"[{', '.join(_axis(a) for a in piece.axes)}]" if piece.axes else "")


def _expr(expr: ast.Expr, level: int) -> str:
    match expr:
        case ast.Number(value):
            return repr(value)
        case ast.Name(name):
            return name
        case ast.Element(name, index):
            return f"{name}[{print_expr(index)}]"
        case ast.Call(function, arguments):
            return f"{function}({', '.join(print_expr(a) for a in arguments)})"
        case ast.Unary(operator, operand):
            text = operator + _expr(operand, _UNARY)
            return text if level <= _UNARY else f"({text})"
        case ast.Binary(operator, left, right):
            own = _LEVEL[operator]
            # comparisons do not associate; all others do to the left
            text = f"{_expr(left, own + (own == COMPARISON))} {operator} {_expr(right, own + 1)}"
            return text if level <= own else f"({text})"


def _dim(dim: ast.Expr) -> str:
    return str(dim.value) if isinstance(dim, ast.Number) else f"{{{print_expr(dim)}}}"


def _axis(axis: ast.Axis) -> str:
    if isinstance(axis, ast.At):
        return print_expr(axis.index)
    if isinstance(axis, ast.Walk):
        entries = ", ".join(f"{print_expr(e)} : {print_expr(s)}" for e, s in axis.entries)
        return f"{_expr(axis.base, _LEVEL['+'])} + {{{entries}}}"
    start, stop, step = (print_expr(e) if e is not None else "" for e in (axis.start, axis.stop, axis.step))
    return f"{start}:{stop}" + (f":{step}" if step else "")


def _attribute(value: ast.Attribute) -> str:
    if isinstance(value, ast.Region):
        return value.name
    if isinstance(value, ast.Group):
        return "{" + ", ".join(print_expr(i) for i in value.items) + "}"
    return print_expr(value)


def _operand(operand: ast.Tensor | ast.Expr) -> str:
    return f"%{operand.name}" if isinstance(operand, ast.Tensor) else print_expr(operand)


def _operation(op: ast.Op) -> str:
    parts = [_operand(o) for o in op.operands]
    parts += [f"{name}={_attribute(value)}" for name, value in op.attributes]
    return f"%{op.dst}:{print_type(op.type)} = {op.opcode}({', '.join(parts)});"


def _block(body: tuple[ast.Statement, ...]) -> Iterator[str]:
    for statement in body:
        for line in _statement(statement):
            yield "    " + line


def _statement(statement: ast.Statement) -> Iterator[str]:
    match statement:
        case ast.Read(dst, kind, source):
            yield f"%{dst}:{print_type(kind)} <- {print_slice(source)};"
        case ast.Write(src, kind, target):
            yield f"%{src}{f':{print_type(kind)}' if kind else ''} -> {print_slice(target)};"
        case ast.Op():
            yield _operation(statement)
        case ast.Assign(register, index, value):
            element = f"[{print_expr(index)}]" if index is not None else ""
            yield f"{register}{element} = {print_expr(value)};"
        case ast.Let(name, value):
            yield f"let {name} = {print_expr(value)};"
        case ast.Assert(condition):
            yield f"assert({print_expr(condition)});"
        case ast.Invoke(name, arguments):
            yield f"{name}({', '.join(_operand(a) for a in arguments)});"
        case ast.Repeat(variable, count, body):
            yield f"REPEAT ({variable}, {print_expr(count)}) {{"
            yield from _block(body)
            yield "}"
        case ast.If(condition, then, otherwise):
            yield f"IF ({print_expr(condition)}) {{"
            yield from _block(then)
            if otherwise:
                yield "} ELSE {"
                yield from _block(otherwise)
            yield "}"
