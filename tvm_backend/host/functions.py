"""Relax functions as JAX functions, in a form that functions alike share.

The layers of a network have their host operators alike, but for weights and scales: a program takes those
as arguments, and its ``key`` says whatever else it depends on, so that one program of XLA serves all of them.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, TypeAlias

import numpy as np

from archloom.tvm_backend.host.integer import integer_operator
from archloom.tvm_backend.host.operators import byte_table, looked_up, translation
from archloom.tvm_backend.ir import expressions as ir
from archloom.tvm_backend.ir.nodes import TensorType, TupleType

Environment: TypeAlias = list[Any]
"""The values of a function's variables, in the order of their definition."""
Reference: TypeAlias = Callable[[Environment, Sequence[Any]], Any]
"""Reads an argument out of the environment and the constants."""

Translated: TypeAlias = tuple[str, tuple[Any, ...], Callable[..., Any], list[np.ndarray]]
"""What a :class:`~archloom.tvm_backend.host.program.HostProgram` is made of, and the constants that it takes first."""

LITERAL = 16
"""Up to how many elements a constant is written into the program; larger ones XLA folds slowly."""


def translate(function: ir.Function) -> Translated:
    """The program of a Relax function whose operators :mod:`archloom.tvm_backend.host.operators` all has."""
    return _Translator(function).program()


class _Translator:
    def __init__(self, source: ir.Function) -> None:
        self.source = source
        self.constants: list[np.ndarray] = []
        self.slots: dict[Any, int] = {p: i for i, p in enumerate(self.source.params)}
        self.bound = ir.bound_in(self.source)
        self.steps: list[tuple[Callable[..., Any], list[Reference]]] = []
        self.digest = hashlib.sha256()

    def program(self) -> Translated:
        given = [[(ty.shape, ty.dtype) for ty in ir.fields_of(ir.type_of(p)) if isinstance(ty, TensorType)]
                 for p in self.source.params]
        inputs = tuple(tensor for tensors in given for tensor in tensors)
        fields = [len(tensors) if isinstance(ir.type_of(p), TupleType) else 0
                  for p, tensors in zip(self.source.params, given, strict=True)]
        self.note(inputs, fields)
        for binding in ir.bindings(self.source):
            self.step(binding.value)
            self.slots[binding.var] = len(self.slots)
        self.note("results")
        results = [self.reference(r) for r in ir.outputs_of(self.source)]
        steps, count = self.steps, len(self.constants)

        def run(*given: Any) -> tuple[Any, ...]:
            constants, environment = given[:count], _grouped(given[count:], fields)
            for rule, arguments in steps:
                environment.append(rule(*[a(environment, constants) for a in arguments]))
            found = [r(environment, constants) for r in results]
            return tuple(x for y in found for x in (y if isinstance(y, tuple | list) else (y,)))

        taken = tuple((c.shape, str(c.dtype)) for c in self.constants)
        return self.digest.hexdigest(), (*taken, *inputs), run, self.constants

    def note(self, *what: object) -> None:
        """Make the key depend on ``what``."""
        for item in what:
            if isinstance(item, np.ndarray):
                self.digest.update(f"{item.dtype}{item.shape}".encode() + np.ascontiguousarray(item).tobytes())
            elif dataclasses.is_dataclass(item):
                self.note(type(item).__name__, *(getattr(item, f.name) for f in dataclasses.fields(item)))
            elif isinstance(item, Mapping):
                self.note(*(part for pair in sorted(item.items()) for part in pair))
            elif isinstance(item, tuple | list):
                self.note(f"({len(item)}", *item)
            elif item is None or isinstance(item, str | int | float):
                self.digest.update(f"{item!r};".encode())

    def step(self, value: Any) -> None:
        name = ir.op_name(value)
        if name is None:  # another name of a value, or a field of a tuple
            self.note("as it is")
            self.add(lambda x: x, [self.reference(value)])
            return
        integer = integer_operator(value, self.bound.get) if name == "quantize" else None
        if integer is not None:
            self.note("integer", *integer.content)
            rule = partial(_typed, ir.dtype_of(value), integer.run)
            self.add(rule, [self.constant(o) if isinstance(o, np.ndarray) else self.reference(o)
                            for o in integer.operands])
            return
        self.note(name, str(value.attrs), str(value.ty))
        if name == "dequantize" and self._by_bytes(value):
            data, scale, zero = value.args
            table = byte_table(ir.dtype_of(data), ir.const_value(scale), ir.const_value(zero))
            self.add(partial(_typed, ir.dtype_of(value), looked_up), [self.reference(data), self.constant(table)])
            return
        scale = 1 if name == "quantize" else None  # where it is, to be shared by those that differ in it alone
        arguments = [self.constant(ir.const_value(a)) if i == scale and ir.is_constant(a)
                     else self.reference(a) for i, a in enumerate(value.args)]
        rule = partial(translation(name), value)
        single = ir.is_single(value)
        self.add(partial(_typed, ir.dtype_of(value), rule) if single else rule, arguments)

    def add(self, rule: Callable[..., Any], arguments: list[Reference]) -> None:
        self.steps.append((rule, arguments))

    @staticmethod
    def _by_bytes(call: ir.Call) -> bool:
        data, scale, zero = call.args
        return (ir.dtype_of(data) in ("int8", "uint8") and ir.is_constant(scale) and ir.is_constant(zero)
                and ir.const_value(scale).size == 1)

    def constant(self, array: np.ndarray) -> Reference:
        """A constant as an argument of the program."""
        self.note("constant", str(array.dtype), array.shape)
        self.constants.append(array)
        position = len(self.constants) - 1
        return lambda environment, constants: constants[position]

    def reference(self, expr: Any) -> Reference:
        if ir.is_constant(expr):
            array = ir.const_value(expr)
            if array.size > LITERAL:
                return self.constant(array)
            self.note("literal", array)
            return lambda environment, constants: array
        if ir.is_var(expr):
            slot = self.slots[expr]
            self.note("value", slot)
            return lambda environment, constants: environment[slot]
        fields = ir.tuple_fields(expr)
        if fields is not None:
            self.note("tuple", len(fields))
            parts = [self.reference(f) for f in fields]
            return lambda environment, constants: tuple(p(environment, constants) for p in parts)
        access = ir.is_tuple_get(expr)
        if access is not None:
            self.note("field", access[1])
            source, index = self.reference(access[0]), access[1]
            return lambda environment, constants: source(environment, constants)[index]
        shape = ir.shape_values(expr)
        value = shape if shape is not None else ir.scalar_of(expr)
        self.note("number", value, str(expr.ty))
        return lambda environment, constants: value


def _grouped(values: Sequence[Any], fields: Sequence[int]) -> list[Any]:
    """Parameters of tensors that come one by one: those of a tuple (of so many fields) taken together."""
    rest = iter(values)
    return [tuple(next(rest) for _ in range(count)) if count else next(rest) for count in fields]


def _typed(dtype: str, rule: Callable[..., Any], *arguments: Any) -> Any:
    return rule(*arguments).astype(dtype)
