"""The reference manual of an ISA as data, worked out from its text: what ``archloom isa`` prints.

Descriptions are the comments of the text: those directly above a declaration, or behind it on its line. What an
instruction touches, and what its attributes are for, follows from its statements with every ``def`` in place.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from archloom.oracle.taidl import ast
from archloom.oracle.taidl.evaluate import names
from archloom.oracle.taidl.inline import plain
from archloom.oracle.taidl.isa import Isa
from archloom.oracle.taidl.printer import print_expr, print_isa, print_range, print_slice, print_type
from archloom.oracle.taidl.statements import statement_expressions
from archloom.oracle.taidl.types import element_type

_SECTION = re.compile(r"#\s*-{2,}\s*(.*?)\s*-{2,}\s*")


@dataclass(frozen=True)
class Value:
    """A parameter, constant or register: its value, and what else is to be said (a range, the number of elements)."""

    name: str
    value: str
    expected: str
    description: str


@dataclass(frozen=True)
class Storage:
    """A buffer: axes of its rows and of its base type, its size in bytes (of whole elements of bits, rounded up)."""

    name: str
    rows: tuple[int, ...]
    base: str
    bytes: int
    description: str


@dataclass(frozen=True)
class Operand:
    """An attribute of an instruction, and what it decides."""

    name: str
    uses: tuple[str, ...]


@dataclass(frozen=True)
class Entry:
    """An instruction (or a ``def``): its description, what it asserts and touches, its text."""

    name: str
    section: str
    operands: tuple[Operand, ...]
    description: tuple[str, ...]
    asserts: tuple[str, ...]
    reads: tuple[tuple[str, tuple[str, ...]], ...]
    writes: tuple[tuple[str, tuple[str, ...]], ...]
    registers_read: tuple[str, ...]
    registers_written: tuple[str, ...]
    text: str
    aliases: tuple[str, ...] = ()
    """Other ways to call it."""

    @property
    def call(self) -> str:
        """``name(attributes)``."""
        return f"{self.name}({', '.join(o.name for o in self.operands)})"


@dataclass(frozen=True)
class Manual:
    """All that a description says, in its order."""

    name: str
    introduction: tuple[str, ...]
    parameters: tuple[Value, ...]
    constants: tuple[Value, ...]
    registers: tuple[Value, ...]
    buffers: tuple[Storage, ...]
    instructions: tuple[Entry, ...]
    blocks: tuple[Entry, ...]


def manual(isa: Isa) -> Manual:
    d, text = isa.definition, _Source(isa.definition)
    scope, initial = isa.scope, {r.name: r for r in isa.registers}
    parameters = tuple(Value(p.name, str(scope[p.name]), print_range(p), text.remark(p)) for p in d.parameters)
    constants = tuple(Value(c.name, _number(scope[c.name]), "" if isinstance(c.value, ast.Number)
                            else print_expr(c.value), text.remark(c)) for c in d.constants)
    registers = []
    for r in d.registers:
        size = initial[r.name].size
        many = "" if size is None else f"{size} registers"
        registers.append(Value(r.name, _number(initial[r.name].initial), many, text.remark(r)))
    buffers = []
    by_name = {b.name: b for b in d.buffers}
    for buffer in (*isa.buffers, *isa.views):  # without those that the parameters leave out
        declared = by_name[buffer.name]
        rows = len(declared.rows)
        base = ast.Type(tuple(ast.Number(n) for n in buffer.shape[rows:]), buffer.dtype)
        size = -(-element_type(buffer.dtype).bits * math.prod(buffer.shape) // 8)
        buffers.append(Storage(buffer.name, buffer.shape[:rows], print_type(base), size,
                               text.remark(declared) or f"a view of {declared.of}" * bool(declared.of)))
    return Manual(
        d.name, text.introduction(), parameters, constants, tuple(registers), tuple(buffers),
        tuple(_entry(i, isa.instructions[i.name].body, isa, text) for i in d.instructions
              if i.name in isa.instructions),
        tuple(Entry(b.name, "", tuple(Operand(p, ()) for p in b.parameters), text.above(b), (), (), (), (), (),
                    text.excerpt(b)) for b in d.definitions),
    )


def _number(value: int) -> str:
    return str(value) if abs(value) < 1 << 16 else f"{value:#x}"


# --- what an instruction does -------------------------------------------------------------------------------------


def _entry(i: ast.InstructionDecl, body: Sequence[ast.Statement], isa: Isa, text: _Source) -> Entry:
    effects = _Effects(frozenset(i.attributes), frozenset(r.name for r in isa.registers))
    effects.block(body, (), {a: frozenset([a]) for a in i.attributes})
    return Entry(
        i.name, text.section(i), tuple(Operand(a, tuple(effects.uses.get(a, {}))) for a in i.attributes), text.above(i),
        tuple(effects.asserts), _slices(effects.reads), _slices(effects.writes), tuple(effects.used),
        tuple(effects.assigned), text.excerpt(i),
        tuple(f"{a.name}({', '.join(a.attributes)})" for a in isa.definition.aliases if a.instruction == i.name),
    )


def _slices(touched: dict[str, dict[str, None]]) -> tuple[tuple[str, tuple[str, ...]], ...]:
    return tuple((buffer, tuple(slices)) for buffer, slices in touched.items())


@dataclass
class _Effects:
    """Walks a body; dictionaries keep the order in which things come."""

    attributes: frozenset[str]
    registers: frozenset[str]
    reads: dict[str, dict[str, None]] = field(default_factory=dict)
    writes: dict[str, dict[str, None]] = field(default_factory=dict)
    used: dict[str, None] = field(default_factory=dict)
    assigned: dict[str, None] = field(default_factory=dict)
    asserts: dict[str, None] = field(default_factory=dict)
    uses: dict[str, dict[str, None]] = field(default_factory=dict)

    def block(self, body: Sequence[ast.Statement], where: tuple[str, ...], roots: dict[str, frozenset[str]]) -> None:
        """``where`` are the conditions around the block, ``roots`` the attributes that each name depends on."""
        for s in body:
            for e in statement_expressions(s):
                self.used.update((n.name, None) for n in names(e) if n.name in self.registers)
            match s:
                case ast.Read(_, kind, piece):
                    self.touch(self.reads, piece, kind, roots)
                case ast.Write(_, written, piece):
                    self.touch(self.writes, piece, written, roots)
                case ast.Op():
                    self.note("extents", s.type.dims, roots)
                    self.note("values", [o for o in s.operands if not isinstance(o, ast.Tensor)], roots)
                case ast.Let():
                    roots[s.name] = _roots(s.value, roots)
                case ast.Assign():
                    self.assigned[s.register] = None
                    self.note(f"sets `{s.register}`", [s.value], roots)
                case ast.Assert():
                    rule = plain(print_expr(s.condition))
                    self.asserts[f"{rule}, where {' and '.join(where)}" if where else rule] = None
                case ast.If():
                    self.note("chooses what is done", [s.condition], roots)
                    shown = plain(print_expr(s.condition))
                    self.block(s.then, (*where, shown), roots)
                    self.block(s.otherwise, (*where, f"!({shown})"), roots)
                case ast.Repeat():
                    self.note("repetitions", [s.count], roots)
                    self.block(s.body, where, {**roots, s.variable: frozenset()})

    def touch(self, touched: dict[str, dict[str, None]], piece: ast.Slice, kind: ast.Type | None,
              roots: dict[str, frozenset[str]]) -> None:
        touched.setdefault(piece.buffer, {})[plain(print_slice(piece))] = None
        for axis in piece.axes:
            place = axis.index if isinstance(axis, ast.At) else axis.base if isinstance(axis, ast.Walk) else axis.start
            self.note(f"address in `${piece.buffer}`", [place] if place is not None else [], roots)
            if isinstance(axis, ast.Walk):
                self.note(f"strides in `${piece.buffer}`", [stride for _, stride in axis.entries], roots)
        self.note("extents", kind.dims if kind is not None else (), roots)

    def note(self, use: str, exprs: Sequence[ast.Expr], roots: dict[str, frozenset[str]]) -> None:
        for e in exprs:
            for attribute in _roots(e, roots):
                self.uses.setdefault(attribute, {})[use] = None


def _roots(e: ast.Expr, roots: dict[str, frozenset[str]]) -> frozenset[str]:
    return frozenset().union(*(roots.get(n.name, frozenset()) for n in names(e)))


# --- the text -----------------------------------------------------------------------------------------------------


class _Source:
    """Comments and excerpts of a description's text; descriptions that were built have neither comments nor lines."""

    def __init__(self, isa: ast.IsaDef) -> None:
        self.isa = isa
        self.lines = isa.source.split("\n") if isa.source else []
        self.texts = {file: text.split("\n") for file, text in isa.included}
        every = (isa.parameters, isa.constants, isa.buffers, isa.registers, isa.definitions, isa.instructions)
        self.top = next((n for n, line in enumerate(self.lines) if not line.startswith("#")), 0)
        """How many lines the comment at the top of the file has."""
        self.starts = sorted((node.position.file, node.position.line) for group in every for node in group)

    def around(self, node: ast.Node) -> list[str]:
        """The lines of the file in which a declaration stands."""
        return self.texts.get(node.position.file, self.lines)

    def introduction(self) -> tuple[str, ...]:
        return tuple(_comment(line) for line in self.lines[:self.top])

    def above(self, node: ast.Node) -> tuple[str, ...]:
        """The comment lines directly above a declaration."""
        return tuple(_comment(line) for line in self.comments_above(node) if not _SECTION.fullmatch(line.strip()))

    def comments_above(self, node: ast.Node) -> list[str]:
        at, lines = node.position.line - 1, self.around(node)
        top = self.top if lines is self.lines else 0
        block: list[str] = []
        while top < at <= len(lines) and lines[at - 1].lstrip().startswith("#"):
            at -= 1
            block.insert(0, lines[at])
        return block

    def remark(self, node: ast.Node) -> str:
        """The comment behind a declaration on its line, or the one above it."""
        lines = self.around(node)
        line = lines[node.position.line - 1] if 0 < node.position.line <= len(lines) else ""
        _, mark, text = line.partition("#")
        return text.strip() if mark else " ".join(t.strip() for t in self.above(node))

    def section(self, node: ast.Node) -> str:
        """The heading ``# --- heading ---`` above a declaration."""
        for line in reversed(self.around(node)[:max(0, node.position.line - 1)]):
            match = _SECTION.fullmatch(line.strip())
            if match:
                return match[1]
        return ""

    def excerpt(self, node: ast.Definition | ast.InstructionDecl) -> str:
        """The text of a declaration as it was written, or, where others share its lines, as it is printed."""
        file, first, lines = node.position.file, node.position.line, self.around(node)
        later = [n for where, n in self.starts if where == file and n > first]
        if not lines or self.starts.count((file, first)) > 1:
            return self.printed(node)
        block = lines[first - 1:(later[0] if later else len(lines) + 1) - 1]
        while len(block) > 1 and (not block[-1].strip() or block[-1].startswith("#")):
            block.pop()
        return "\n".join(line.rstrip() for line in block)

    def printed(self, node: ast.Definition | ast.InstructionDecl) -> str:
        alone = ast.IsaDef("x", definitions=(node,)) if isinstance(node, ast.Definition) else ast.IsaDef(
            "x", instructions=(node,))
        return print_isa(alone).split("\n", 3)[3].rstrip()


def _comment(line: str) -> str:
    text = line.strip()[1:]
    return text.removeprefix(" ").rstrip()


def paragraphs(comment: Sequence[str]) -> Iterator[tuple[bool, str]]:
    """The paragraphs of a comment, each with whether its lines are indented and so are to be kept as they are."""
    block: list[str] = []
    kept = False
    for line in [*comment, ""]:
        indented = line.startswith("  ") or (kept and bool(block) and line.startswith(" "))
        if block and (not line or indented != kept):
            yield kept, ("\n" if kept else " ").join(block)
            block = []
        if line:
            kept = indented
            block.append(line)
