"""From the body of an instruction to closures that execute it on NumPy buffers.

A closure works on two frames: integers (registers, attributes, locals, by slot) and tensors (by name). It keeps every
check of the language: assertions, bounds, types. On request it also notes what it did on a tape, from which
:mod:`archloom.oracle.taidl.replay` repeats the instruction for equal integers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import copy
from functools import cache
from typing import Any, TypeAlias

from archloom.oracle.resolved import TensorType
from archloom.oracle.taidl import ast, evaluate
from archloom.oracle.taidl.evaluate import MAX_REPEATED, Compiled, Compiler, Frame, constant, float_literal, names
from archloom.oracle.taidl.inline import plain
from archloom.oracle.taidl.isa import HBM, Isa
from archloom.oracle.taidl.operators import OPCODES, fault, word
from archloom.oracle.taidl.printer import print_expr, print_slice
from archloom.oracle.taidl.regions import Bound, Violation, dtype_of
from archloom.oracle.taidl.replay import Place, Tape
from archloom.oracle.taidl.statements import every
from archloom.oracle.taidl.types import Array, numpy_dtype, of_numpy

Tensors: TypeAlias = dict[str, Any]
Step: TypeAlias = Callable[[Frame, Tensors], None]


_Axis: TypeAlias = tuple[Compiled, tuple[tuple[Compiled, Compiled], ...]]
"""Along one axis of a buffer: where it begins, and (extent, stride) for each axis of the tensor."""


class Translator:
    """Translates one instruction; locals get slots at the end of the frame."""

    def __init__(
        self, isa: Isa, buffers: Mapping[str, Array], registers: Mapping[str, int], frame: Frame, tape: Tape
    ) -> None:
        self.isa = isa
        self.buffers = buffers
        self.frame = frame
        self.tape = tape
        self.slots = dict(registers)
        self.compiler = Compiler(isa.scope, self.slots)
        self.sizes = {r.name: r.size for r in isa.registers}
        self.dtypes: dict[str, str | None] = {}
        """The element types of the tensors, which do not depend on the path; None where the width is open."""

    def slot(self, name: str) -> int:
        """The slot of a local; both branches of an IF share it."""
        if name not in self.slots:
            self.frame.append(0)
            self.slots[name] = len(self.frame) - 1
        return self.slots[name]

    def block(self, body: Sequence[ast.Statement]) -> list[Step]:
        return [self.statement(s) for s in body]

    def statement(self, s: ast.Statement) -> Step:
        return _STEPS[type(s)](self, s)

    # --- control ---

    def assign(self, s: ast.Assign) -> Step:
        value, tape = self.compiler.value(s.value), self.tape
        if s.index is None:
            slot = self.slots[s.register]

            def single(v: Frame, t: Tensors) -> None:
                v[slot] = value(v)
                tape.update(slot, v[slot])

            return single
        index, base, register = self.compiler.value(s.index), self.slots[f"{s.register}[0]"], s.register
        size = self.sizes[register] or 0

        def element(v: Frame, t: Tensors) -> None:
            i = index(v)
            if not 0 <= i < size:
                raise Violation(f"{evaluate.register_key(register, i)} is not one of the {size} elements")
            v[base + i] = value(v)
            tape.update(base + i, v[base + i])

        return element

    def let(self, s: ast.Let) -> Step:
        value, slot = self.compiler.value(s.value), self.slot(s.name)

        def step(v: Frame, t: Tensors) -> None:
            v[slot] = value(v)

        return step

    def assertion(self, s: ast.Assert) -> Step:
        condition, expr = self.compiler.value(s.condition), s.condition
        slots, known = self.slots, self.isa.scope

        def step(v: Frame, t: Tensors) -> None:
            if not condition(v):
                scope = {**known, **{name: v[i] for name, i in slots.items()}}
                values = {plain(print_expr(node)): evaluate.evaluate(node, scope) for node in names(expr)}
                shown = ", ".join(f"{name} = {value}" for name, value in values.items()) or "it is never true"
                raise Violation(f"assert({plain(print_expr(expr))}) fails: {shown}")

        return step

    def branch(self, s: ast.If) -> Step:
        condition = self.compiler.value(s.condition)
        then, otherwise = self.later(s.then), self.later(s.otherwise)

        def step(v: Frame, t: Tensors) -> None:
            for run in (then if condition(v) else otherwise)():
                run(v, t)

        return step

    def later(self, body: Sequence[ast.Statement]) -> Callable[[], list[Step]]:
        """The steps of a block, translated when it is first run: of most instructions a program takes few paths."""
        inside = copy(self)
        inside.dtypes = dict(self.dtypes)
        for s in every(body):
            if isinstance(s, (ast.Read, ast.Op)):
                self.dtypes[s.dst] = _held(s.type)
            elif isinstance(s, (ast.Let, ast.Repeat)):
                self.slot(s.name if isinstance(s, ast.Let) else s.variable)
        return cache(lambda: inside.block(body))

    def repeat(self, s: ast.Repeat) -> Step:
        count = self.compiler.value(s.count)
        slot = self.slot(s.variable)
        body = self.block(s.body)

        def step(v: Frame, t: Tensors) -> None:
            if (times := count(v)) > MAX_REPEATED:
                raise Violation(f"a REPEAT of {times} iterations makes this instruction longer than {MAX_REPEATED} "
                                "statements")
            for i in range(times):
                v[slot] = i
                for run in body:
                    run(v, t)

        return step

    # --- buffers ---

    def read(self, s: ast.Read) -> Step:
        place, declared, dst, tape = self.window(s.source), self.type(s.type), s.dst, self.tape
        self.dtypes[dst] = _held(s.type)

        def step(v: Frame, t: Tensors) -> None:
            where, kind = place(v), declared(v)
            if where.dtype != numpy_dtype(kind.dtype) or where.shape != kind.shape:
                raise Violation(_declared(s, kind, where))
            t[dst] = where.view().copy()
            tape.read(dst, where)

        return step

    def write(self, s: ast.Write) -> Step:
        place, src, tape = self.window(s.target), s.src, self.tape
        declared = self.type(s.type) if s.type else None
        held = self.dtypes[src]

        def step(v: Frame, t: Tensors) -> None:
            where, value = place(v), t[src]
            if where.dtype != value.dtype or where.shape != value.shape:
                raise Violation(_declared(s, _found(value, held), where))
            if declared is not None and (_found(value, held) != (kind := declared(v))):
                raise Violation(f"{s.position}: %{plain(src)} is {_found(value, held)}, but is written as {kind}")
            where.view()[...] = value
            tape.write(src, where)

        return step

    def shape(self, kind: ast.Type) -> Callable[[Frame], tuple[int, ...]]:
        dims = [self.compiler.value(d) for d in kind.dims]
        fixed = [self.compiler.fold(d) for d in kind.dims]
        if None not in fixed:
            return constant(tuple(fixed))
        return lambda v: tuple([d(v) for d in dims])

    def type(self, kind: ast.Type) -> Callable[[Frame], TensorType]:
        shape, dtype = self.shape(kind), kind.dtype
        if kind.bits is None:
            return lambda v: TensorType(shape(v), dtype)
        bits = self.compiler.value(kind.bits)
        return lambda v: TensorType(shape(v), dtype_of(dtype, bits(v), kind))

    def window(self, piece: ast.Slice) -> Callable[[Frame], Place]:
        """A closure that gives the place that a slice names, its bounds checked."""
        buffer = self.buffers[piece.buffer]
        axes = [self.axis(a, n) for a, n in zip(piece.axes, buffer.shape, strict=False)]
        axes += [(constant(0), ((constant(n), constant(1)),)) for n in buffer.shape[len(axes):]]
        walks = list(zip(axes, buffer.shape, buffer.strides, strict=True))
        moves = piece.buffer == HBM

        def place(v: Frame) -> Place:
            offset = last = 0
            shape: list[int] = []
            strides: list[int] = []
            for (base, entries), size, step in walks:
                first = last = base(v)
                for extent_of, stride_of in entries:
                    extent, stride = extent_of(v), stride_of(v)
                    shape.append(extent)
                    strides.append(stride * step)
                    if extent < 1 or stride < 0:
                        what = f"extent {extent}" if extent < 1 else f"stride {stride}"
                        raise Violation(f"{piece.position}: {plain(print_slice(piece))} has an axis of {what}")
                    last += (extent - 1) * stride
                if first < 0 or last >= size:
                    raise Violation(f"{piece.position}: {plain(print_slice(piece))} spans {first}..{last}, outside of "
                                    f"an axis of extent {size}")
                offset += first * step
            return Place(buffer, tuple(shape), offset, tuple(strides), last if moves else None)

        return place

    def axis(self, axis: ast.Axis, size: int) -> _Axis:
        compile_ = self.compiler.value
        if isinstance(axis, ast.At):
            return compile_(axis.index), ((constant(1), constant(1)),)
        if isinstance(axis, ast.Walk):
            return compile_(axis.base), tuple((compile_(e), compile_(s)) for e, s in axis.entries)
        start = compile_(axis.start) if axis.start is not None else constant(0)
        stop = compile_(axis.stop) if axis.stop is not None else constant(size)
        step = compile_(axis.step) if axis.step is not None else constant(1)
        if axis.step is None:
            return start, ((lambda v: stop(v) - start(v), step),)
        return start, ((lambda v: -((start(v) - stop(v)) // max(step(v), 1)), step),)

    # --- operators ---

    def operation(self, s: ast.Op) -> Step:
        declare, attributes, opcode = self.type(s.type), self.attributes(s), OPCODES[s.opcode]
        kernel, dst, tape = opcode.kernel, s.dst, self.tape
        sources = tuple(o.name for o in s.operands if isinstance(o, ast.Tensor))
        held = [self.dtypes[name] for name in sources]
        self.dtypes[dst] = _held(s.type)
        regions = any(a.kind == "function" for a in opcode.attributes)
        seen: set[Any] = set()

        def step(v: Frame, t: Tensors) -> None:
            declared = declare(v)
            operands = [t[name] for name in sources]
            types = [d or of_numpy(x.dtype.name) for x, d in zip(operands, held, strict=True)]
            values = {name: f(v) for name, f in attributes}
            key = None if regions else (declared, *types, *[x.shape for x in operands], *values.values())
            if key not in seen:
                given = [TensorType(x.shape, d) for x, d in zip(operands, types, strict=True)]
                if complaint := fault(s.opcode, declared, given, values):
                    raise Violation(f"{s.position}: %{plain(s.dst)}{complaint}")
                if key is not None:
                    seen.add(key)

            def compute(x: Sequence[Any]) -> Any:
                return kernel(declared, x, values, types)

            t[dst] = compute(operands)
            tape.operation(dst, sources, compute, t[dst])

        return step

    def attributes(self, s: ast.Op) -> list[tuple[str, Callable[[Frame], Any]]]:
        """A closure for each attribute of the operator, defaults included; ``value`` is that of a constant."""
        given = dict(s.attributes)
        compiled: list[tuple[str, Callable[[Frame], Any]]] = []
        if OPCODES[s.opcode].value:
            (value,) = [o for o in s.operands if not isinstance(o, ast.Tensor)]
            compiled.append(("value", self.number(value)))
        for attribute in OPCODES[s.opcode].attributes:
            written = given.get(attribute.name)
            if written is None:
                compiled.append((attribute.name, constant(attribute.default)))
            elif isinstance(written, ast.Group):
                compiled.append((attribute.name, self.group(written)))
            elif isinstance(written, ast.Region):
                compiled.append((attribute.name, self.region(written)))
            elif attribute.kind in ("word", "name"):
                assert isinstance(written, ast.Name)
                compiled.append((attribute.name, constant(word(written) if attribute.kind == "word" else written.name)))
            else:
                compiled.append((attribute.name, self.number(written)))
        return compiled

    def region(self, region: ast.Region) -> Callable[[Frame], Bound]:
        slots, known = self.slots, self.isa.scope
        return lambda v: Bound(region.name, region, {**known, **{name: v[i] for name, i in slots.items()}})

    def number(self, value: ast.Expr) -> Callable[[Frame], Any]:
        literal = float_literal(value)
        return self.compiler.value(value) if literal is None else constant(literal)

    def group(self, value: ast.Group) -> Callable[[Frame], tuple[int, ...]]:
        items = [self.compiler.value(i) for i in value.items]
        fixed = [self.compiler.fold(i) for i in value.items]
        return constant(tuple(fixed)) if None not in fixed else lambda v: tuple([i(v) for i in items])


_STEPS: dict[type[ast.Node], Callable[[Translator, Any], Step]] = {
    ast.Read: Translator.read, ast.Write: Translator.write, ast.Op: Translator.operation, ast.Assign: Translator.assign,
    ast.Let: Translator.let, ast.Assert: Translator.assertion, ast.If: Translator.branch, ast.Repeat: Translator.repeat,
}


# --- messages -----------------------------------------------------------------------------------------------------


def _declared(s: ast.Read | ast.Write, declared: TensorType, where: Place) -> str:
    tensor, piece = (s.dst, s.source) if isinstance(s, ast.Read) else (s.src, s.target)
    found = TensorType(where.shape, of_numpy(where.dtype.name))
    return f"{s.position}: %{plain(tensor)} is {declared}, but {plain(print_slice(piece))} is {found}"


# --- element types whose width is open ----------------------------------------------------------------------------


def _held(kind: ast.Type) -> str | None:
    return kind.dtype if kind.bits is None else None


def _found(value: Array, held: str | None) -> TensorType:
    """The type of a tensor; one whose width was open is known by its array."""
    return TensorType(value.shape, held or of_numpy(value.dtype.name))
