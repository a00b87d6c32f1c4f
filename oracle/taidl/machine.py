"""A machine that executes instructions of an ISA one by one on NumPy buffers: the core of the interpreter.

An instruction's body is translated once into a list of closures over two frames: integers (registers, attributes,
locals) and tensors. The closures keep every check of the language: assertions, bounds, types.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from oracle.errors import StreamError, TaidlError
from oracle.taidl import ast
from oracle.taidl.evaluate import Compiled, Compiler, Frame, evaluate, names, register_key
from oracle.taidl.isa import Isa, Register
from oracle.taidl.kernels import KERNELS, Array, numpy_dtype
from oracle.taidl.opcodes import DTYPES, OPCODES, Shaped, fault, word
from oracle.taidl.printer import print_expr, print_slice

Tensors: TypeAlias = dict[str, Any]
Step: TypeAlias = Callable[[Frame, Tensors], None]


class Violation(Exception):
    """A rule broken by an instruction instance; :meth:`Machine.step` adds which one."""


class Machine:
    """Registers, buffers and the translated instructions; ``buffers`` are updated in place."""

    def __init__(self, isa: Isa, buffers: Mapping[str, Array]) -> None:
        self.isa = isa
        self.buffers = dict(buffers)
        self.executed = 0
        initial = isa.initial_registers()
        self._slots = {key: i for i, key in enumerate(initial)}
        self._frame: Frame = list(initial.values())
        self._translated: dict[str, tuple[tuple[str, ...], list[int], list[Step]]] = {}

    def registers(self) -> dict[str, int]:
        """The values of all control registers by key."""
        return {key: self._frame[i] for key, i in self._slots.items()}

    def step(self, mnemonic: str, attributes: tuple[tuple[str, int], ...], loops: Mapping[str, int]) -> None:
        """Execute one instruction; StreamError, naming it and the values of the loops, for a broken rule."""
        try:
            known, slots, steps = self._translated.get(mnemonic) or self._translate(mnemonic)
            frame = self._frame
            given = tuple([name for name, _ in attributes])
            if given != known:
                raise Violation(_attribute_fault(known, given))
            for slot, (_, value) in zip(slots, attributes, strict=True):
                frame[slot] = value
            tensors: Tensors = {}
            for run in steps:
                run(frame, tensors)
        except (Violation, TaidlError) as error:
            raise StreamError(f"{self._place(mnemonic, attributes, loops)}: {error}") from None
        self.executed += 1

    def _place(self, mnemonic: str, attributes: tuple[tuple[str, int], ...], loops: Mapping[str, int]) -> str:
        call = f"{mnemonic}({', '.join(f'{k}={v}' for k, v in attributes)})"
        at = f" at {', '.join(f'{k} = {v}' for k, v in loops.items())}" if loops else ""
        return f"instruction {self.executed}, {call}{at}"

    def _translate(self, mnemonic: str) -> tuple[tuple[str, ...], list[int], list[Step]]:
        instruction = self.isa.instruction(mnemonic)
        translator = _Translator(self.isa, self.buffers, self._slots, self._frame)
        slots = [translator.slot(name) for name in instruction.attributes]
        translated = (instruction.attributes, slots, translator.block(instruction.body))
        self._translated[mnemonic] = translated
        return translated


def _attribute_fault(known: tuple[str, ...], given: tuple[str, ...]) -> str:
    return f"expected the attributes ({', '.join(known)}), found ({', '.join(given)})"


@dataclass(frozen=True)
class _AxisWindow:
    """Along one axis of a buffer: where it begins, and (extent, stride) for each axis of the tensor."""

    base: Compiled
    entries: tuple[tuple[Compiled, Compiled], ...]


class _Translator:
    """Translates one instruction; locals get slots at the end of the machine's frame."""

    def __init__(self, isa: Isa, buffers: Mapping[str, Array], registers: Mapping[str, int], frame: Frame) -> None:
        self.isa = isa
        self.buffers = buffers
        self.frame = frame
        self.slots = dict(registers)
        self.compiler = Compiler(isa.scope, self.slots)
        self.registers: dict[str, Register] = {r.name: r for r in isa.registers}

    def slot(self, name: str) -> int:
        """The slot of a local; both branches of an IF share it."""
        if name not in self.slots:
            self.frame.append(0)
            self.slots[name] = len(self.frame) - 1
        return self.slots[name]

    def block(self, body: Sequence[ast.Statement]) -> list[Step]:
        return [self.statement(s) for s in body]

    def statement(self, s: ast.Statement) -> Step:
        match s:
            case ast.Read():
                return self.read(s)
            case ast.Write():
                return self.write(s)
            case ast.Op():
                return self.operation(s)
            case ast.Assign():
                return self.assign(s)
            case ast.Let():
                value = self.compiler.compile(s.value)
                return _store(self.slot(s.name), value)
            case ast.Assert():
                return self.assertion(s)
            case ast.If():
                return self.branch(s)
            case ast.Repeat():
                return self.repeat(s)
        raise AssertionError(s)

    # --- control ---

    def assign(self, s: ast.Assign) -> Step:
        value = self.compiler.compile(s.value)
        if s.index is None:
            return _store(self.slots[s.register], value)
        index, base, register = self.compiler.compile(s.index), self.slots[f"{s.register}[0]"], s.register
        size = self.registers[register].size or 0

        def step(v: Frame, t: Tensors) -> None:
            i = index(v)
            if not 0 <= i < size:
                raise Violation(f"{register_key(register, i)} is not one of the {size} elements")
            v[base + i] = value(v)

        return step

    def assertion(self, s: ast.Assert) -> Step:
        condition, expr = self.compiler.compile(s.condition), s.condition
        slots, known = self.slots, self.isa.scope

        def step(v: Frame, t: Tensors) -> None:
            if not condition(v):
                scope = {**known, **{name: v[i] for name, i in slots.items()}}
                raise Violation(f"assert({print_expr(expr)}) fails: {_values(expr, scope)}")

        return step

    def branch(self, s: ast.If) -> Step:
        condition = self.compiler.compile(s.condition)
        then, otherwise = self.block(s.then), self.block(s.otherwise)

        def step(v: Frame, t: Tensors) -> None:
            for run in then if condition(v) else otherwise:
                run(v, t)

        return step

    def repeat(self, s: ast.Repeat) -> Step:
        count = self.compiler.compile(s.count)
        slot = self.slot(s.variable)
        body = self.block(s.body)

        def step(v: Frame, t: Tensors) -> None:
            for i in range(count(v)):
                v[slot] = i
                for run in body:
                    run(v, t)

        return step

    # --- tensors ---

    def read(self, s: ast.Read) -> Step:
        view, shape, dst = self.window(s.source), self.shape(s.type), s.dst
        dtype, statement = numpy_dtype(s.type.dtype), s

        def step(v: Frame, t: Tensors) -> None:
            piece = view(v)
            if piece.dtype != dtype or piece.shape != shape(v):
                raise Violation(_declared(statement, shape(v), piece))
            t[dst] = piece.copy()

        return step

    def write(self, s: ast.Write) -> Step:
        view, src, statement = self.window(s.target), s.src, s
        shape = self.shape(s.type) if s.type else None
        dtype = numpy_dtype(s.type.dtype) if s.type else None

        def step(v: Frame, t: Tensors) -> None:
            piece, value = view(v), t[src]
            if piece.dtype != value.dtype or piece.shape != value.shape:
                raise Violation(_declared(statement, value.shape, piece, value.dtype))
            if shape is not None and (value.dtype != dtype or value.shape != shape(v)):
                raise Violation(_declared(statement, shape(v), value))
            piece[...] = value

        return step

    def shape(self, kind: ast.Type) -> Callable[[Frame], tuple[int, ...]]:
        dims = [self.compiler.compile(d) for d in kind.dims]
        fixed = [self.compiler.fold(d) for d in kind.dims]
        if None not in fixed:
            shape = tuple([int(d) for d in fixed if d is not None])
            return lambda v: shape
        return lambda v: tuple([d(v) for d in dims])

    def window(self, piece: ast.Slice) -> Callable[[Frame], Any]:
        """A closure that gives the view of a buffer that a slice names, its bounds checked."""
        buffer = self.buffers[piece.buffer]
        axes = [self.axis(a, n) for a, n in zip(piece.axes, buffer.shape, strict=False)]
        axes += [_whole(n) for n in buffer.shape[len(axes):]]
        steps = buffer.strides
        sizes, dtype = buffer.shape, buffer.dtype

        def view(v: Frame) -> Any:
            offset = 0
            shape: list[int] = []
            strides: list[int] = []
            for axis, size, step in zip(axes, sizes, steps, strict=True):
                first = last = axis.base(v)
                for extent_of, stride_of in axis.entries:
                    extent, stride = extent_of(v), stride_of(v)
                    shape.append(extent)
                    strides.append(stride * step)
                    if extent < 1 or stride < 0:
                        raise Violation(_bad_extent(piece, extent, stride))
                    last += (extent - 1) * stride
                if first < 0 or last >= size:
                    raise Violation(_outside(piece, first, last, size))
                offset += first * step
            return np.ndarray(shape, dtype, buffer, offset, strides)

        return view

    def axis(self, axis: ast.Axis, size: int) -> _AxisWindow:
        compile_ = self.compiler.compile
        if isinstance(axis, ast.At):
            return _AxisWindow(compile_(axis.index), ((_fixed(1), _fixed(1)),))
        if isinstance(axis, ast.Walk):
            return _AxisWindow(compile_(axis.base), tuple((compile_(e), compile_(s)) for e, s in axis.entries))
        start = compile_(axis.start) if axis.start is not None else _fixed(0)
        stop = compile_(axis.stop) if axis.stop is not None else _fixed(size)
        step = compile_(axis.step) if axis.step is not None else _fixed(1)
        if axis.step is None:
            return _AxisWindow(start, ((lambda v: stop(v) - start(v), step),))
        return _AxisWindow(start, ((lambda v: -((start(v) - stop(v)) // max(step(v), 1)), step),))

    def operation(self, s: ast.Op) -> Step:
        opcode, shape = OPCODES[s.opcode], self.shape(s.type)
        kernel, dtype, dst = KERNELS[s.opcode], numpy_dtype(s.type.dtype), s.dst
        sources = [o.name for o in s.operands if isinstance(o, ast.Tensor)]
        attributes = self.attributes(s)
        seen: set[Any] = set()
        statement = s

        def step(v: Frame, t: Tensors) -> None:
            declared = shape(v)
            operands = [t[name] for name in sources]
            values = {name: f(v) for name, f in attributes}
            if not opcode.value:
                key = (declared, *[(x.shape, x.dtype) for x in operands], *values.values())
                if key not in seen:
                    _check_types(statement, Shaped(declared, statement.type.dtype), operands, values)
                    seen.add(key)
            t[dst] = kernel(declared, dtype, operands, values)

        return step

    def attributes(self, s: ast.Op) -> list[tuple[str, Callable[[Frame], Any]]]:
        """A closure for each attribute of the operator, defaults included; ``value`` is that of a constant."""
        given: dict[str, ast.Expr | ast.Group] = dict(s.attributes)
        compiled: list[tuple[str, Callable[[Frame], Any]]] = []
        if OPCODES[s.opcode].value:
            (value,) = [o for o in s.operands if not isinstance(o, ast.Tensor)]
            compiled.append(("value", self.number(value)))
        for attribute in OPCODES[s.opcode].attributes:
            written = given.get(attribute.name)
            if written is None:
                compiled.append((attribute.name, _fixed(attribute.default)))
            elif isinstance(written, ast.Group):
                compiled.append((attribute.name, self.group(written)))
            elif attribute.kind == "word":
                compiled.append((attribute.name, _fixed(word(written))))
            else:
                compiled.append((attribute.name, self.number(written)))
        return compiled

    def number(self, value: ast.Expr) -> Callable[[Frame], Any]:
        negative = isinstance(value, ast.Unary) and value.operator == "-"
        literal = value.operand if isinstance(value, ast.Unary) else value
        if isinstance(literal, ast.Number) and isinstance(literal.value, float):
            return _fixed(-literal.value if negative else literal.value)
        return self.compiler.compile(value)

    def group(self, value: ast.Group) -> Callable[[Frame], tuple[int, ...]]:
        items = [self.compiler.compile(i) for i in value.items]
        fixed = [self.compiler.fold(i) for i in value.items]
        return _fixed(tuple(fixed)) if None not in fixed else lambda v: tuple([i(v) for i in items])


def _fixed(value: Any) -> Callable[[Frame], Any]:
    return lambda v: value


def _store(slot: int, value: Compiled) -> Step:
    def step(v: Frame, t: Tensors) -> None:
        v[slot] = value(v)

    return step


def _whole(size: int) -> _AxisWindow:
    return _AxisWindow(_fixed(0), ((_fixed(size), _fixed(1)),))


def _values(expr: ast.Expr, scope: Mapping[str, int]) -> str:
    shown: dict[str, int] = {}
    for node in names(expr):
        shown[print_expr(node).split("~")[0]] = evaluate(node, scope)
    return ", ".join(f"{name} = {value}" for name, value in shown.items()) or "it is never true"


def _check_types(s: ast.Op, declared: Shaped, operands: list[Any], values: Mapping[str, Any]) -> None:
    types = [Shaped(x.shape, _name(x.dtype)) for x in operands]
    complaint = fault(s.opcode, declared, types, values)
    if complaint:
        raise Violation(f"{s.position}: %{s.dst.split('~')[0]}{complaint}")


def _name(dtype: np.dtype[Any]) -> str:
    return next(name for name in DTYPES if numpy_dtype(name) == dtype)


def _declared(s: ast.Read | ast.Write, shape: tuple[int, ...], piece: Any, dtype: Any = None) -> str:
    tensor = (s.dst if isinstance(s, ast.Read) else s.src).split("~")[0]
    place = print_slice(s.source if isinstance(s, ast.Read) else s.target)
    kind = _name(dtype) if dtype is not None else s.type.dtype if s.type else ""
    return f"{s.position}: %{tensor} is {Shaped(shape, kind)}, but {place} is {Shaped(piece.shape, _name(piece.dtype))}"


def _bad_extent(piece: ast.Slice, extent: int, stride: int) -> str:
    what = f"extent {extent}" if extent < 1 else f"stride {stride}"
    return f"{piece.position}: {print_slice(piece)} has an axis of {what}"


def _outside(piece: ast.Slice, first: int, last: int, size: int) -> str:
    return f"{piece.position}: {print_slice(piece)} spans {first}..{last}, outside of an axis of extent {size}"


