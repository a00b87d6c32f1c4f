"""Slices as Python and the paper's figures write them, made definite: each axis a start and extents with strides.

``$b[i]`` is the start of a range as long as the tensor's declared axis (Figures 8 and 9 of the paper), ``$b[-2:]``
counts from the end, ``$b[7:3:-1]`` goes backwards: the window is taken forwards and the tensor reversed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from archloom.oracle.taidl import ast
from archloom.oracle.taidl.evaluate import names

_ONE = ast.Number(1)


def definite(isa: ast.IsaDef, body: tuple[ast.Statement, ...]) -> tuple[ast.Statement, ...]:
    """The inlined body of an instruction with definite slices."""
    extents = {b.name: b.rows + b.base.dims for b in isa.buffers}
    fixed = frozenset(n.name for group in (isa.parameters, isa.constants) for n in group)
    return tuple(_Slices(extents, fixed).block(body, {}))


@dataclass
class _Slices:
    extents: Mapping[str, tuple[ast.Expr, ...]]
    """Extents of each buffer but HBM."""
    fixed: frozenset[str]
    """Names whose values no instruction changes: parameters and constants."""
    reversals: int = field(default=0)

    def block(self, body: tuple[ast.Statement, ...], types: dict[str, ast.Type]) -> Iterator[ast.Statement]:
        """The statements; ``types`` are the declared types of the tensors, as far as they still hold."""
        for s in body:
            match s:
                case ast.Read():
                    types[s.dst] = s.type
                    yield from self.read(s)
                case ast.Write():
                    yield from self.write(s, s.type or types.get(s.src))
                case ast.Op():
                    types[s.dst] = s.type
                    yield s
                case ast.Assign():
                    # a type that names the register is no longer what it was when the tensor was defined
                    named = (n for n, t in types.items() if any(x.name == s.register for d in t.dims for x in names(d)))
                    for name in list(named):
                        del types[name]
                    yield s
                case ast.If():
                    then, otherwise = dict(types), dict(types)
                    s = replace(s, then=tuple(self.block(s.then, then)),
                                otherwise=tuple(self.block(s.otherwise, otherwise)))
                    types.clear()
                    types.update({n: t for n, t in then.items() if otherwise.get(n) == t})
                    yield s
                case ast.Repeat():
                    yield replace(s, body=tuple(self.block(s.body, dict(types))))
                case _:
                    yield s

    def read(self, s: ast.Read) -> Iterator[ast.Statement]:
        source, backwards = self.slice(s.source, s.type)
        if not backwards:
            yield replace(s, source=source)
            return
        forwards = self.forwards(s.dst)
        yield replace(s, dst=forwards, source=source)
        yield _reverse(s.dst, s.type, forwards, backwards, s)

    def write(self, s: ast.Write, kind: ast.Type | None) -> Iterator[ast.Statement]:
        target, backwards = self.slice(s.target, kind)
        if not backwards or kind is None:
            yield replace(s, target=target)
            return
        forwards = self.forwards(s.src)
        yield _reverse(forwards, kind, s.src, backwards, s)
        yield replace(s, src=forwards, target=target)

    def forwards(self, name: str) -> str:
        """A name that no other tensor has."""
        self.reversals += 1
        return f"{name}~0{self.reversals}"

    # --- axes ---

    def slice(self, piece: ast.Slice, kind: ast.Type | None) -> tuple[ast.Slice, list[int]]:
        """The definite slice, and the axes of the tensor along which it goes backwards."""
        axes: list[ast.Axis] = []
        backwards: list[int] = []
        extents = self.extents.get(piece.buffer, ())
        if kind is not None and len(kind.dims) != _rank(piece, extents):
            kind = replace(kind, dims=())  # which is refused: as it is written, an index is one place
        at = 0
        for i, axis in enumerate(piece.axes):
            extent = extents[i] if i < len(extents) else None
            declared = kind.dims[at] if kind is not None and at < len(kind.dims) else None
            if isinstance(axis, ast.Range):
                made, back = self.range(axis, extent)
                axes.append(made)
                backwards += [at] if back else []
            else:
                axes.append(self.start(axis, extent, declared) if isinstance(axis, ast.At) else axis)
            at += len(axis.entries) if isinstance(axis, ast.Walk) else 1
        if backwards and (kind is None or not kind.dims):
            # without the type there is nothing to reverse: the check names the step
            return piece, []
        return replace(piece, axes=tuple(axes)), backwards

    def start(self, axis: ast.At, extent: ast.Expr | None, declared: ast.Expr | None) -> ast.Axis:
        index = self.counted(axis.index, extent)
        if declared is None or declared == _ONE:
            return replace(axis, index=index)
        return ast.Range(index, _sum(index, declared), None, position=axis.position)

    def range(self, axis: ast.Range, extent: ast.Expr | None) -> tuple[ast.Axis, bool]:
        start, stop = (self.counted(e, extent) if e is not None else None for e in (axis.start, axis.stop))
        step = self.negative(axis.step)
        if step is None:
            return replace(axis, start=start, stop=stop), False
        if start is None and extent is None:
            return axis, False
        first = start if start is not None else _difference(extent, _ONE)
        length = _difference(first, stop) if stop is not None else _sum(first, _ONE)
        count = ast.Call("cdiv", (length, step), position=axis.position)
        way = ast.Binary("*", _difference(count, _ONE), step, position=axis.position)
        return ast.Walk(_difference(first, way), ((count, step),), position=axis.position), True

    def counted(self, index: ast.Expr, extent: ast.Expr | None) -> ast.Expr:
        """An index that is written as negative and depends on nothing that changes counts from the end."""
        distance = self.negative(index)
        return index if distance is None or extent is None else _difference(extent, distance)

    def negative(self, e: ast.Expr | None) -> ast.Expr | None:
        """``x`` of ``-x`` where that depends on numbers, parameters and constants alone."""
        if isinstance(e, ast.Unary) and e.operator == "-" and all(n.name in self.fixed for n in names(e)):
            return e.operand
        return None


def _sum(a: ast.Expr, b: ast.Expr) -> ast.Expr:
    return ast.Binary("+", a, b, position=a.position)


def _difference(a: ast.Expr | None, b: ast.Expr) -> ast.Expr:
    assert a is not None
    return ast.Binary("-", a, b, position=a.position)


def _reverse(dst: str, kind: ast.Type, src: str, axes: list[int], s: ast.Node) -> ast.Op:
    group = ast.Group(tuple(ast.Number(a) for a in axes), position=s.position)
    return ast.Op(dst, kind, "reverse", (ast.Tensor(src, position=s.position),), (("dim", group),), position=s.position)


def _rank(piece: ast.Slice, extents: tuple[ast.Expr, ...]) -> int:
    """How many axes a slice of a buffer has."""
    named = sum(len(axis.entries) if isinstance(axis, ast.Walk) else 1 for axis in piece.axes)
    return named + max(0, len(extents) - len(piece.axes))
