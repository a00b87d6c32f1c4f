"""Plain functions as values for JSON and back: a network that was imported before needs no importer again.

Variables and constants are numbers of where they stand in the function and in a table; a constant whose numbers
are all the same is one of them with the shape. What is read is equal to what was written, names and types included.
"""

from __future__ import annotations

import base64
from types import SimpleNamespace
from typing import Any, TypeAlias

import numpy as np

from archloom.tvm_backend.ir import nodes
from archloom.tvm_backend.ir.conversion import is_blank

Json: TypeAlias = Any
_LEAVES = (str, int, float, bool, type(None))
_BLANK, _EQUAL, _NUMBERS = "blank", "equal", "numbers"
"""How the numbers of a constant are given: as a weight's that were not read, as one in all places, one by one."""


def written(function: nodes.Function) -> Json:
    """A JSON value that :func:`function_of` makes the function of; Unsupported for what has no form in JSON."""
    return _Writer().function(function)


def function_of(data: Json) -> nodes.Function:
    """The function that :func:`written` wrote."""
    return _Reader(data).function()


class _Writer:
    def __init__(self) -> None:
        self.variables: dict[nodes.Var, int] = {}
        self.constants: dict[nodes.Constant, int] = {}

    def function(self, function: nodes.Function) -> Json:
        if function.attrs:
            raise nodes.Unsupported(f"a function with attributes ({', '.join(function.attrs)})")
        params = [[self._define(param), _type(param.ty)] for param in function.params]
        body = [self._binding(binding) for binding in function.body]
        result = self.variables[function.result]
        return {"params": params, "body": body, "result": result, "constants": [*map(_constant, self.constants)]}

    def _define(self, var: nodes.Var) -> str:
        self.variables[var] = len(self.variables)
        return var.name

    def _binding(self, binding: nodes.Binding) -> Json:
        if binding.var.ty != binding.value.ty:
            raise nodes.Unsupported(f"variable {binding.var.name!r} of another type than its value")
        value = self._expr(binding.value)
        return [self._define(binding.var), value]

    def _expr(self, expr: Any) -> Json:
        """See :func:`written`."""
        match expr:
            case nodes.Var():
                return {"var": self.variables[expr]}
            case nodes.Constant():
                return {"constant": self.constants.setdefault(expr, len(self.constants))}
            case nodes.Shape():
                return {"shape": list(expr.values)}
            case nodes.Tuple():
                return {"tuple": [*map(self._expr, expr.fields)]}
            case nodes.TupleGet():
                return {"field": expr.index, "of": self._expr(expr.tuple_value)}
            case nodes.Call() if isinstance(expr.op, str):
                attrs = {name: _value(value) for name, value in vars(expr.attrs).items()}
                return {"op": expr.op, "args": [*map(self._expr, expr.args)], "attrs": attrs, "type": _type(expr.ty)}
            case nodes.Call():
                raise nodes.Unsupported(f"a call of {expr.op}")
            case tuple():
                return [*map(self._expr, expr)]
        return _value(expr)


def _value(value: Any) -> Json:
    """A Python number or text, or a tuple of such."""
    if type(value) is tuple:
        return [*map(_value, value)]
    if type(value) not in _LEAVES:
        raise nodes.Unsupported(f"{value!r} as an argument")
    return value


def _type(ty: nodes.Type) -> Json:
    match ty:
        case nodes.TensorType():
            return [ty.dtype, *ty.shape]
        case nodes.TupleType():
            return {"fields": [*map(_type, ty.fields)]}
        case nodes.ShapeType():
            return {"values": list(ty.values)}
        case None:
            return None
    raise nodes.Unsupported(f"a shape that is not static ({ty})")


def _constant(constant: nodes.Constant) -> Json:
    """How its numbers are given, their type and shape, and the bytes of all, or of the one in all places."""
    array = constant.value
    if array.dtype.kind not in "biuf":  # bfloat16 and its like have a name only where they are imported
        raise nodes.Unsupported(f"a constant of {array.dtype}")
    content = array[(0,) * array.ndim].tobytes() if is_blank(array) else array.tobytes()
    form = _NUMBERS
    if is_blank(array):
        form = _BLANK
    elif array.size and content == content[:array.itemsize] * array.size:
        form, content = _EQUAL, content[:array.itemsize]
    return [form, array.dtype.str, list(array.shape), base64.b64encode(content).decode()]


class _Reader:
    def __init__(self, data: Json) -> None:
        self.data = data
        self.constants = [_constant_of(constant) for constant in data["constants"]]
        self.variables: list[nodes.Var] = []

    def function(self) -> nodes.Function:
        params = tuple([self._define(name, _type_of(ty)) for name, ty in self.data["params"]])
        body = tuple([self._binding(name, value) for name, value in self.data["body"]])
        return nodes.Function(params, body, self.variables[self.data["result"]])

    def _define(self, name: str, ty: nodes.Type) -> nodes.Var:
        self.variables.append(nodes.Var(name, ty))
        return self.variables[-1]

    def _binding(self, name: str, data: Json) -> nodes.Binding:
        value = self._expr(data)
        return nodes.Binding(self._define(name, value.ty), value)

    def _expr(self, data: Json) -> Any:
        match data:
            case {"var": number}:
                return self.variables[number]
            case {"constant": number}:
                return self.constants[number]
            case {"shape": values}:
                return nodes.Shape(tuple(values))
            case {"tuple": fields}:
                return nodes.Tuple(tuple(map(self._expr, fields)))
            case {"field": index, "of": value}:
                return nodes.TupleGet(self._expr(value), index)
            case {"op": op, "args": args, "attrs": attrs, "type": ty}:
                attributes = SimpleNamespace(**{name: _value_of(value) for name, value in attrs.items()})
                return nodes.Call(op, tuple(map(self._expr, args)), attributes, _type_of(ty))
            case list():
                return tuple(map(self._expr, data))
        return data


def _value_of(data: Json) -> Any:
    return tuple(map(_value_of, data)) if isinstance(data, list) else data


def _type_of(data: Json) -> nodes.Type:
    match data:
        case [dtype, *shape]:
            return nodes.TensorType(tuple(shape), dtype)
        case {"fields": fields}:
            return nodes.TupleType(tuple(map(_type_of, fields)))
        case {"values": values}:
            return nodes.ShapeType(tuple(values))
    return None


def _constant_of(data: Json) -> nodes.Constant:
    form, dtype, shape, text = data
    numbers = np.frombuffer(base64.b64decode(text), dtype)
    if form == _BLANK:
        return nodes.Constant(np.broadcast_to(numbers[0], tuple(shape)))
    return nodes.Constant(np.full(shape, numbers[0]) if form == _EQUAL else numbers.reshape(shape))
