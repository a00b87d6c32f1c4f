"""Other texts of an ISA with the same meaning, at random: sums and products written otherwise, blocks put in place,
integers without their names, buffers seen through views, other names."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from random import Random
from typing import Any

from archloom.oracle.taidl import ast
from archloom.oracle.taidl.evaluate import names
from archloom.oracle.taidl.inline import inline, rename
from archloom.oracle.taidl.isa import Isa, instantiate
from archloom.oracle.taidl.operators import OPCODES
from archloom.oracle.taidl.parser import parse
from archloom.oracle.taidl.printer import print_isa
from archloom.oracle.taidl.statements import every

Body = tuple[ast.Statement, ...]
SUMS = ("i16", "i32", "f32", "i64")
COMMUTATIVE = ("add", "multiply", "maximum", "minimum", "and", "or", "xor")
SEEN = {"i8": "u8", "i16": "u16", "i32": "f32", "f32": "i32"}
"""Types of as many bits, as which a buffer may be seen."""


class Rewriter:
    """One way to write a description otherwise. ``rounds``: fused sums became others or the reverse, so that floats
    may be rounded otherwise."""

    def __init__(self, random: Random) -> None:
        self.random, self.count, self.rounds = random, 0, False

    def isa(self, isa: Isa) -> Isa:
        """The ISA by way of its new text."""
        definition = isa.definition
        for step in (self.opened, self.written, self.without_lets, self.viewed, self.renamed):
            if step == self.written or self.random.random() < 0.5:
                definition = step(definition)
        return instantiate(parse(print_isa(definition)), dict(isa.parameters))

    # --- operators ---

    def written(self, definition: ast.IsaDef) -> ast.IsaDef:
        """Sums and products commuted, negated and subtracted, fused and taken apart."""
        def other(body: Body, _: tuple[str, ...]) -> Body:
            uses = Counter(o.name for s in every(body) for o in tensors_read(s))
            fused: set[str] = set()
            made = self.block(body, uses, products(body), fused)
            return tuple(s for s in made if not (isinstance(s, ast.Op) and s.dst in fused))

        return bodies(definition, other)

    def block(self, body: Body, uses: Counter[str], known: dict[str, ast.Op], fused: set[str]) -> Body:
        """``known`` products that are part of a sum now go to ``fused``."""
        return tuple(m for s in body for m in self.statement(s, uses, known, fused))

    def statement(
        self, s: ast.Statement, uses: Counter[str], known: dict[str, ast.Op], fused: set[str],
    ) -> Iterator[ast.Statement]:
        if isinstance(s, ast.If):
            then, otherwise = (self.block(branch, uses, known, fused) for branch in (s.then, s.otherwise))
            yield replace(s, then=then, otherwise=otherwise)
        elif isinstance(s, ast.Repeat):
            yield replace(s, body=self.block(s.body, uses, known, fused))
        elif not isinstance(s, ast.Op):
            yield s
        elif s.opcode == "fma" and not s.attributes and self.random.random() < 0.5:
            yield from self.apart(s)
        elif s.opcode == "add" and s.type.bits is None and s.type.dtype in SUMS:
            yield from self.sum(s, uses, known, fused)
        elif s.opcode in COMMUTATIVE and len(s.operands) == 2:
            yield replace(s, operands=self.random.choice([s.operands, s.operands[::-1]]))
        else:
            yield s

    def apart(self, s: ast.Op) -> Iterator[ast.Statement]:
        self.rounds = True
        a, b, c = s.operands
        yield (product := self.new(s, "multiply", a, b))
        yield replace(s, opcode="add", operands=(ast.Tensor(product.dst), c))

    def sum(
        self, s: ast.Op, uses: Counter[str], known: dict[str, ast.Op], fused: set[str],
    ) -> Iterator[ast.Statement]:
        a, b = s.operands if self.random.random() < 0.5 else s.operands[::-1]
        way = self.random.randrange(5)
        product = known.get(b.name) if isinstance(b, ast.Tensor) else None
        if way == 0 and product is not None and uses[product.dst] == 1 and s.type.dtype == "f32":
            self.rounds = True
            fused.add(product.dst)
            yield replace(s, opcode="fma", operands=(*product.operands, a))
        elif way == 1:
            yield (minus := self.new(s, "negate", b))
            yield replace(s, opcode="subtract", operands=(a, ast.Tensor(minus.dst)))
        elif way == 2:
            yield (minus := self.new(s, "negate", a))
            yield (less := self.new(s, "subtract", ast.Tensor(minus.dst), b))
            yield replace(s, opcode="negate", operands=(ast.Tensor(less.dst),))
        elif way == 3:
            yield (copy := self.new(s, "copy", a))
            yield replace(s, operands=(ast.Tensor(copy.dst), b))
        else:
            yield replace(s, operands=(a, b))

    def new(self, like: ast.Op, opcode: str, *operands: Any) -> ast.Op:
        self.count += 1
        return ast.Op(f"{like.dst}.r{self.count}", like.type, opcode, operands, ())

    # --- blocks, integers and names ---

    def opened(self, definition: ast.IsaDef) -> ast.IsaDef:
        """Blocks in place of their calls, in some instructions."""
        def mark(name: str) -> str:
            return name.replace("~", "_c")

        made = tuple(replace(i, body=with_names(inline(definition, i), mark, mark)) if self.random.random() < 0.5 else i
                     for i in definition.instructions)
        return replace(definition, instructions=made)

    def without_lets(self, definition: ast.IsaDef) -> ast.IsaDef:
        """The values of some names in their places."""
        changing = {r.name for r in definition.registers}

        def unnamed(body: Body, _: tuple[str, ...]) -> Body:
            known: dict[str, ast.Expr] = {}
            once = Counter(s.name for s in every(body) if isinstance(s, ast.Let))
            return tuple(without(body, known, lambda s: once[s.name] == 1 and changing.isdisjoint(
                n.name for n in names(s.value)) and self.random.random() < 0.7))

        return bodies(definition, unnamed)

    def viewed(self, definition: ast.IsaDef) -> ast.IsaDef:
        """What some buffers hold, read and written through views of another type."""
        seen = {b.name: SEEN[b.base.dtype] for b in definition.buffers if b.base.bits is None and b.of is None
                and b.base.dtype in SEEN and self.random.random() < 0.7}
        more = tuple(replace(b, name=f"{b.name}_seen", base=replace(b.base, dtype=seen[b.name]), of=b.name)
                     for b in definition.buffers if b.name in seen)
        made = bodies(definition, lambda body, _: tuple(self.through(body, seen)))
        return replace(made, buffers=(*made.buffers, *more))

    def through(self, body: Body, seen: dict[str, str]) -> Iterator[ast.Statement]:
        for s in body:
            if isinstance(s, ast.If):
                yield replace(s, then=tuple(self.through(s.then, seen)), otherwise=tuple(
                    self.through(s.otherwise, seen)))
            elif isinstance(s, ast.Repeat):
                yield replace(s, body=tuple(self.through(s.body, seen)))
            elif isinstance(s, ast.Read) and s.source.buffer in seen and s.type.bits is None:
                self.count += 1
                bits, view = f"{s.dst}.v{self.count}", replace(s.source, buffer=f"{s.source.buffer}_seen")
                yield ast.Read(bits, replace(s.type, dtype=seen[s.source.buffer]), view)
                yield ast.Op(s.dst, s.type, "bitcast_convert", (ast.Tensor(bits),), ())
            else:
                yield s

    def renamed(self, definition: ast.IsaDef) -> ast.IsaDef:
        """Other names of tensors, blocks and integers that are no attributes."""
        def tensor(name: str) -> str:
            return f"T{name}.n"

        def other(body: Body, given: tuple[str, ...]) -> Body:
            own = {*given} | {s.name for s in every(body) if isinstance(s, ast.Let)} | {
                s.variable for s in every(body) if isinstance(s, ast.Repeat)}
            return with_names(body, tensor, lambda name: f"{name}_n" if name in own else name, block)

        def block(name: str) -> str:
            return f"{name}_d"

        made = bodies(definition, lambda body, given: other(body, given))
        blocks = tuple(replace(d, name=block(d.name), parameters=tuple(
            f"%{tensor(p[1:])}" if p.startswith("%") else f"{p}_n" for p in d.parameters)) for d in made.definitions)
        return replace(made, definitions=blocks)


def bodies(definition: ast.IsaDef, form: Callable[[Body, tuple[str, ...]], Body]) -> ast.IsaDef:
    """The description with other bodies; ``form`` gets a body and the integers that may have other names there."""
    return replace(definition, definitions=tuple(replace(d, body=form(d.body, tuple(
        p for p in d.parameters if not p.startswith("%")))) for d in definition.definitions), instructions=tuple(
            replace(i, body=form(i.body, ())) for i in definition.instructions))


def tensors_read(s: ast.Statement) -> Iterator[ast.Tensor]:
    if isinstance(s, ast.Op | ast.Invoke):
        yield from (o for o in (s.operands if isinstance(s, ast.Op) else s.arguments) if isinstance(o, ast.Tensor))
    elif isinstance(s, ast.Write):
        yield ast.Tensor(s.src)


def products(body: Body) -> dict[str, ast.Op]:
    """The products of a body's outermost block, which are defined on every path behind."""
    return {s.dst: s for s in body if isinstance(s, ast.Op) and s.opcode == "multiply" and s.type.dtype == "f32"}


def without(body: Body, known: dict[str, ast.Expr], drop: Callable[[ast.Let], bool]) -> Iterator[ast.Statement]:
    """Statements with values in place of the names that are dropped."""
    for s in body:
        s = with_names((s,), str, str, value=lambda e: rename(e, known))[0]
        if isinstance(s, ast.Let) and drop(s):
            known[s.name] = s.value
        elif isinstance(s, ast.If):
            yield replace(s, then=tuple(without(s.then, known, drop)), otherwise=tuple(
                without(s.otherwise, known, drop)))
        elif isinstance(s, ast.Repeat):
            yield replace(s, body=tuple(without(s.body, known, drop)))
        else:
            yield s


def with_names(
    body: Body, tensor: Callable[[str], str], integer: Callable[[str], str], block: Callable[[str], str] = str,
    value: Callable[[ast.Expr], ast.Expr] | None = None,
) -> Body:
    """A body with other names of tensors, integers and blocks; or with what ``value`` makes of its expressions, but for
    those of blocks within it."""
    def expr(e: ast.Expr) -> ast.Expr:
        if value is not None:
            return value(e)
        if isinstance(e, ast.Name):
            return replace(e, name=integer(e.name))
        return e if isinstance(e, ast.Number) else ast.with_parts(e, expr)

    def attribute(opcode: str, name: str, given: Any) -> Any:
        kind = next((a.kind for a in OPCODES[opcode].attributes if a.name == name), "")
        if kind == "function":
            return ast.Name(block(given.name))
        if kind in ("word", "name") or isinstance(given, ast.Region):
            return given
        return ast.with_parts(given, expr) if isinstance(given, ast.Group) else expr(given)

    def one(s: ast.Statement) -> ast.Statement:
        if isinstance(s, ast.Op):
            operands = tuple(replace(o, name=tensor(o.name)) if isinstance(o, ast.Tensor) else expr(o)
                             for o in s.operands)
            return replace(s, dst=tensor(s.dst), type=ast.with_parts(s.type, expr), operands=operands, attributes=tuple(
                (name, attribute(s.opcode, name, given)) for name, given in s.attributes))
        made = ast.with_parts(s, expr)
        match made:
            case ast.Read():
                return replace(made, dst=tensor(made.dst))
            case ast.Write():
                return replace(made, src=tensor(made.src))
            case ast.Let():
                return replace(made, name=integer(made.name))
            case ast.Invoke():
                return replace(made, name=block(made.name), arguments=tuple(
                    replace(a, name=tensor(a.name)) if isinstance(a, ast.Tensor) else a for a in made.arguments))
            case ast.If() if value is None:
                return replace(made, then=tuple(map(one, made.then)), otherwise=tuple(map(one, made.otherwise)))
            case ast.Repeat() if value is None:
                return replace(made, variable=integer(made.variable), body=tuple(map(one, made.body)))
        return made

    return tuple(map(one, body))
