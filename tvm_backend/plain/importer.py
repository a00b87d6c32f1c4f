"""ONNX networks as plain modules, operator by operator as TVM's importer reads them.

Only operators whose form in Relax is known exactly are read; any other raises
:class:`~tvm_backend.plain.nodes.Unsupported`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from tvm_backend.onnx_names import NAMED_OPERATORS, rename
from tvm_backend.onnx_skeleton import is_weight
from tvm_backend.plain.infer import infer
from tvm_backend.plain.nodes import (
    Binding,
    Call,
    Constant,
    Expr,
    Function,
    Module,
    Shape,
    TensorType,
    Tuple,
    Unsupported,
    Var,
    attributes,
)

if TYPE_CHECKING:
    import onnx

Attributes = Mapping[str, Any]
Inputs = list[Any]

def from_onnx(proto: "onnx.ModelProto") -> Module:
    """The network; every node's result is bound to a variable of the node's name."""
    opset = next((o.version for o in proto.opset_import if o.domain in ("", "ai.onnx")), 1)
    if opset < 13:
        raise Unsupported(f"operator set {opset}")
    try:
        return _Importer(proto.graph).module()
    except (KeyError, IndexError, ValueError, TypeError, AttributeError) as error:  # not a valid network
        raise Unsupported(f"{type(error).__name__}: {error}") from error


class _Importer:
    def __init__(self, graph: "onnx.GraphProto") -> None:
        self.graph = graph
        self.values: dict[str, Any] = {}
        self.body: list[Binding] = []
        self.taken: dict[str, int] = {}

    def module(self) -> Module:
        graph = self.graph
        for tensor in graph.initializer:
            self.values[tensor.name] = Constant(array(tensor))
        params = [self._parameter(info) for info in graph.input if info.name not in self.values]
        for node in graph.node:
            self._node(node)
        results = [self.values[o.name] for o in graph.output]
        if not all(isinstance(r, Var) for r in results):
            raise Unsupported("a constant as a result")
        return _finished(params, self.body, results)

    def _parameter(self, info: "onnx.ValueInfoProto") -> Var:
        from onnx import helper

        kind = info.type.tensor_type
        dtype = helper.tensor_dtype_to_np_dtype(kind.elem_type)
        name = info.name.replace(".", "_")
        if not name or not (name[0].isalpha() or name[0] == "_"):
            raise Unsupported(f"an input called {info.name!r}")
        var = Var(name, TensorType(tuple(d.dim_value for d in kind.shape.dim), str(dtype)))
        self.values[info.name] = var
        return var

    def _node(self, node: "onnx.NodeProto") -> None:
        convert = CONVERTERS.get(node.op_type)
        if convert is None or node.domain not in ("", "ai.onnx") or len(node.output) != 1:
            raise Unsupported(f"operator {node.op_type}")
        inputs = [self.values[name] if name else None for name in node.input]
        expr = convert(inputs, {a.name: _attribute(a) for a in node.attribute})
        self.values[node.output[0]] = self._named(expr, rename(node.name or node.op_type))

    def _named(self, expr: Any, name: str) -> Any:
        """Bind nested calls one by one; the heaviest operator, else the last, gets the node's own name."""
        if not isinstance(expr, Call):
            return expr
        anchor = next((o for o in _operators(expr) if o in NAMED_OPERATORS), expr.op)
        return self._emitted(expr, name, anchor)

    def _emitted(self, expr: Call, name: str, anchor: Any) -> Var:
        args = tuple(self._emitted(a, name, anchor) if isinstance(a, Call) else a for a in expr.args)
        call = Call(expr.op, args, expr.attrs, None)
        call.ty = infer(call)
        own = str(expr.op)
        var = Var(self._unique(name if own == anchor else f"{name}.{own.split('.')[-1]}"), call.ty)
        self.body.append(Binding(var, call))
        return var

    def _unique(self, name: str) -> str:
        """The name that TVM's builder gives: free of dots, numbered where it is taken."""
        base = name.replace(".", "_")
        if base not in self.taken:
            self.taken[base] = 0
            return base
        while True:
            self.taken[base] += 1
            numbered = f"{base}{self.taken[base]}"
            if numbered not in self.taken:
                self.taken[numbered] = 0
                return numbered


def _finished(params: list[Var], body: list[Binding], results: list[Var]) -> Module:
    """A module in TVM's canonical form: the one result is the variable ``gv``."""
    from tvm_backend.plain.access import ensure_dataflow

    result = results[0] if len(results) == 1 else Tuple(tuple(results))
    out = Var("gv", result.ty)
    main = Function(tuple(params), (*body, Binding(out, result)), out)
    return ensure_dataflow(Module({"main": main}))


def _operators(expr: Call) -> list[str]:
    """Operators of nested calls, inner ones first."""
    inner = [o for a in expr.args if isinstance(a, Call) for o in _operators(a)]
    return [*inner, str(expr.op)]


def array(tensor: "onnx.TensorProto") -> np.ndarray:
    """A constant; of weights only the shape."""
    from onnx import TensorProto, helper, numpy_helper

    shape = tuple(tensor.dims)
    if is_weight(tensor.data_type, shape):
        dtype = helper.tensor_dtype_to_np_dtype(tensor.data_type)
        return np.broadcast_to(np.zeros((), dtype), shape)
    if tensor.data_location == TensorProto.EXTERNAL:
        raise Unsupported("a small constant in an external file")
    return numpy_helper.to_array(tensor)


def _attribute(attribute: "onnx.AttributeProto") -> Any:
    from onnx import helper

    value = helper.get_attribute_value(attribute)
    return tuple(value) if isinstance(value, list) else value


# operators ----------------------------------------------------------------------------------------------------------


def call(op: str, *args: Any, **attrs: Any) -> Call:
    """A call whose type is found when it is bound."""
    return Call(op, args, attributes(**attrs), None)


def _typed(expr: Any) -> TensorType:
    ty = expr.ty if expr is not None and expr.ty is not None else None
    if ty is None and isinstance(expr, Call):
        ty = expr.ty = infer(expr)
    if not isinstance(ty, TensorType):
        raise Unsupported("an operand that is no tensor")
    return ty


def _at(inputs: Inputs, index: int) -> Any:
    return inputs[index] if len(inputs) > index else None


def _quantization(op: str) -> Callable[[Inputs, Attributes], Any]:
    def convert(inputs: Inputs, attrs: Attributes) -> Any:
        x, scale, zero = inputs[0], inputs[1], _at(inputs, 2)
        if any(attrs.get(name) for name in ("block_size", "output_dtype", "precision")) or zero is None:
            raise Unsupported(f"{op} with further attributes or without zero point")
        axis = attrs.get("axis", 1)
        axis = 0 if len(_typed(x).shape) <= 1 and axis == 1 else axis
        out = _typed(zero).dtype if op == "quantize" else "float32"
        return call(op, x, scale, zero, axis=axis, out_dtype=out)

    return convert


def _conv(inputs: Inputs, attrs: Attributes) -> Any:
    data, kernel, bias = inputs[0], inputs[1], _at(inputs, 2)
    n = len(_typed(data).shape) - 2
    if n not in (1, 2) or attrs.get("auto_pad", b"NOTSET") not in (b"NOTSET", b"VALID"):
        raise Unsupported("a convolution of this rank or padding")
    layout = "NCW" if n == 1 else "NCHW"
    pads = attrs.get("pads", (0,) * (2 * n))
    result = call(
        f"nn.conv{n}d", data, kernel, strides=attrs.get("strides", (1,) * n), padding=pads,
        dilation=attrs.get("dilations", (1,) * n), groups=attrs.get("group", 1), data_layout=layout,
        kernel_layout="OIW" if n == 1 else "OIHW", out_layout=layout, out_dtype=None,
    )
    if bias is None:
        return result
    channels = _typed(bias).shape[0]
    return call("add", result, call("reshape", bias, Shape((1, channels, *(1,) * n))))


def _pool(op: str) -> Callable[[Inputs, Attributes], Any]:
    def convert(inputs: Inputs, attrs: Attributes) -> Any:
        kernel = attrs.get("kernel_shape", ())
        if len(kernel) != 2 or attrs.get("auto_pad", b"NOTSET") != b"NOTSET" or attrs.get("storage_order"):
            raise Unsupported("a pooling of this rank or padding")
        return call(
            op, inputs[0], pool_size=kernel, strides=attrs.get("strides", (1, 1)),
            padding=attrs.get("pads", (0,) * 4), dilation=attrs.get("dilations", (1, 1)),
            ceil_mode=bool(attrs.get("ceil_mode", 0)), count_include_pad=bool(attrs.get("count_include_pad", 0)),
            layout="NCHW", out_layout="NCHW",
        )

    return convert


def _gemm(inputs: Inputs, attrs: Attributes) -> Any:
    a, b, c = inputs[0], inputs[1], _at(inputs, 2)
    if attrs.get("alpha", 1.0) != 1.0 or attrs.get("beta", 1.0) != 1.0:
        raise Unsupported("Gemm with alpha or beta")
    if attrs.get("transA", 0):
        a = call("permute_dims", a, axes=(1, 0))
    if attrs.get("transB", 0):
        b = call("permute_dims", b, axes=(1, 0))
    result = call("matmul", a, b, out_dtype=None)
    return result if c is None else call("add", result, c)


def _binary(op: str) -> Callable[[Inputs, Attributes], Any]:
    def convert(inputs: Inputs, _attrs: Attributes) -> Any:
        if all(isinstance(i, Constant) for i in inputs):
            raise Unsupported(f"{op} of constants")
        return call(op, *inputs)

    return convert


def _unary(op: str) -> Callable[[Inputs, Attributes], Any]:
    return lambda inputs, _attrs: call(op, inputs[0])


def _clip(inputs: Inputs, _attrs: Attributes) -> Any:
    limits = np.finfo("float32")
    if _typed(inputs[0]).dtype != "float32":
        raise Unsupported("Clip of other numbers than float32")
    bounds = []
    for position, default in ((1, limits.min), (2, limits.max)):
        given = _at(inputs, position)
        if given is None:
            bounds.append(float(default))
        elif isinstance(given, Constant) and given.value.size == 1 and np.isfinite(given.value).all():
            bounds.append(float(given.value.reshape(())))
        else:
            raise Unsupported("Clip to bounds that are not constant")
    return call("clip", inputs[0], *bounds)


def _global_average(inputs: Inputs, _attrs: Attributes) -> Any:
    rank = len(_typed(inputs[0]).shape)
    return call("mean", inputs[0], axis=tuple(range(2, rank)), keepdims=True)


def _flatten(inputs: Inputs, attrs: Attributes) -> Any:
    shape = _typed(inputs[0]).shape
    axis = attrs.get("axis", 1) % (len(shape) + 1) if attrs.get("axis", 1) >= 0 else attrs["axis"] + len(shape)
    return call("reshape", inputs[0], Shape((math.prod(shape[:axis]), math.prod(shape[axis:]))))


def _reshape(inputs: Inputs, attrs: Attributes) -> Any:
    data, wanted = inputs[0], inputs[1]
    if isinstance(data, Constant) or not isinstance(wanted, Constant) or attrs.get("allowzero", 0):
        raise Unsupported("a reshape of a constant or to a computed shape")
    old = _typed(data).shape
    shape = [old[i] if d == 0 else int(d) for i, d in enumerate(wanted.value.tolist())]
    if -1 in shape:
        rest = math.prod(d for d in shape if d != -1)
        shape[shape.index(-1)] = math.prod(old) // max(rest, 1)
    return call("reshape", data, Shape(tuple(shape)))


def _transpose(inputs: Inputs, attrs: Attributes) -> Any:
    if isinstance(inputs[0], Constant):
        raise Unsupported("a transposed constant")
    return call("permute_dims", inputs[0], axes=attrs.get("perm"))


def _softmax(inputs: Inputs, attrs: Attributes) -> Any:
    return call("nn.softmax", inputs[0], axis=attrs.get("axis", -1))


def _concat(inputs: Inputs, attrs: Attributes) -> Any:
    if any(isinstance(i, Constant) for i in inputs):
        raise Unsupported("a concatenation with constants")
    return call("concat", Tuple(tuple(inputs)), axis=attrs.get("axis", 0))


def _hard_swish(inputs: Inputs, _attrs: Attributes) -> Any:
    x = inputs[0]
    if _typed(x).dtype != "float32":
        raise Unsupported("HardSwish of other numbers than float32")
    three, six = (Constant(np.asarray(v, np.float32)) for v in (3, 6))
    return call("multiply", x, call("divide", call("clip", call("add", x, three), 0.0, 6.0), six))


def _identity(inputs: Inputs, _attrs: Attributes) -> Expr:
    kept: Expr = inputs[0]
    return kept


CONVERTERS: dict[str, Callable[[Inputs, Attributes], Any]] = {
    "QuantizeLinear": _quantization("quantize"), "DequantizeLinear": _quantization("dequantize"), "Conv": _conv,
    "MaxPool": _pool("nn.max_pool2d"), "AveragePool": _pool("nn.avg_pool2d"), "GlobalAveragePool": _global_average,
    "Gemm": _gemm, "MatMul": lambda inputs, _: call("matmul", inputs[0], inputs[1], out_dtype=None),
    "Add": _binary("add"), "Sub": _binary("subtract"), "Mul": _binary("multiply"), "Div": _binary("divide"),
    "Relu": _unary("nn.relu"), "Sigmoid": _unary("sigmoid"), "Tanh": _unary("tanh"), "Erf": _unary("erf"),
    "Sqrt": _unary("sqrt"), "Exp": _unary("exp"), "Clip": _clip, "Flatten": _flatten, "Reshape": _reshape,
    "Transpose": _transpose, "Softmax": _softmax, "Concat": _concat, "HardSwish": _hard_swish,
    "Identity": _identity,
}
