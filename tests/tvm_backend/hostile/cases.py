"""Networks that nobody means well with: each a function that makes one, and what the message must say (None: it works).

``write(folder)`` writes them as ``NAME.onnx`` beside the files that their tensors name.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

Make = Callable[[], onnx.ModelProto]
FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64
HUGE = 1 << 40
CASES: dict[str, tuple[Make, str | None]] = {}


def tensor(name: str, shape: Sequence[Any], kind: int = FLOAT) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, kind, shape)


def constant(name: str, value: Any, dtype: Any = None) -> onnx.TensorProto:
    return numpy_helper.from_array(np.asarray(value, dtype), name)


def ints(name: str, *values: int) -> onnx.TensorProto:
    return constant(name, values, np.int64)


def ones(*shape: int) -> onnx.TensorProto:
    return constant("w", np.ones(shape, np.float32))


def free(rank: int, name: str = "y", kind: int = FLOAT) -> onnx.ValueInfoProto:
    """A result of open extents."""
    return tensor(name, [f"{name}{i}" for i in range(rank)], kind)


def model(
    nodes: Sequence[onnx.NodeProto], x: onnx.ValueInfoProto | Sequence[onnx.ValueInfoProto], y: Any,
    constants: Sequence[onnx.TensorProto] = (), *, opset: int = 17, domain: str = "", functions: Any = (),
) -> onnx.ModelProto:
    inputs, outputs = ([v] if isinstance(v, onnx.ValueInfoProto) else list(v) for v in (x, y))
    imports = [helper.make_opsetid("", opset), *([helper.make_opsetid(domain, 1)] if domain else [])]
    made = helper.make_model(helper.make_graph(list(nodes), "net", inputs, outputs, list(constants)),
                             opset_imports=imports, functions=list(functions))
    made.ir_version = 9
    return made


def op(kind: str, inputs: str, outputs: str = "y", name: str = "it", **attributes: Any) -> onnx.NodeProto:
    return helper.make_node(kind, inputs.split(" "), outputs.split(" "), name, **attributes)


ROW, OUT = tensor("x", [1, 4]), tensor("y", [1, 4])


def changed(made: onnx.ModelProto, change: Callable[[onnx.ModelProto], object]) -> onnx.ModelProto:
    change(made)
    return made


def product(weights: Any = None, x: onnx.ValueInfoProto = ROW, y: Any = None) -> onnx.ModelProto:
    w = ones(4, 4) if weights is None else constant("w", weights, np.float32)
    return model([op("MatMul", "x w", name="mm")], x, y or free(2), [w])


def relu(x: onnx.ValueInfoProto = ROW, y: Any = OUT, **options: Any) -> onnx.ModelProto:
    return model([op("Relu", "x")], x, y, **options)


def conv(x: Sequence[int] = (1, 3, 8, 8), weights: tuple[int, ...] = (4, 3, 3, 3), **attributes: Any
         ) -> onnx.ModelProto:
    return model([op("Conv", "x w", name="cv", **attributes)], tensor("x", x), free(4), [ones(*weights)])


def grown(
    kind: str, inputs: str, rank: int, *constants: onnx.TensorProto, x: Sequence[int] = (1,), kind_of_x: int = FLOAT
) -> onnx.ModelProto:
    return model([op(kind, inputs, name="grow")], tensor("x", x, kind_of_x), free(rank), constants)


def outside(location: str, offset: Any = 0, length: Any = 64) -> onnx.ModelProto:
    """A weight in a file of its own."""
    made = product()
    weight = made.graph.initializer[0]
    weight.ClearField("raw_data")
    weight.data_location = TensorProto.EXTERNAL
    for key, value in (("location", location), ("offset", offset), ("length", length)):
        weight.external_data.add(key=key, value=str(value))
    return made


def branch() -> onnx.ModelProto:
    then = helper.make_graph([op("Relu", "x", "t")], "then", [], [tensor("t", [1, 4])])
    other = helper.make_graph([op("Neg", "x", "e")], "else", [], [tensor("e", [1, 4])])
    return model([op("ReduceSum", "x", "s", keepdims=0), op("Cast", "s", "c", to=TensorProto.BOOL),
                  op("If", "c", then_branch=then, else_branch=other)], ROW, OUT)


def loop() -> onnx.ModelProto:
    body = helper.make_graph(
        [op("Add", "v v", "v2"), op("Identity", "c", "c2")], "body",
        [tensor("i", [], INT64), tensor("c", [], TensorProto.BOOL), tensor("v", [1, 4])],
        [tensor("c2", [], TensorProto.BOOL), tensor("v2", [1, 4])])
    return model([op("Cast", "x", "xi", to=INT64), op("ReduceSum", "xi", "n", keepdims=0),
                  helper.make_node("Loop", ["n", "", "x"], ["y"], "again", body=body)], ROW, OUT)


def normalization(outputs: int = 1, opset: int = 17, **attributes: Any) -> onnx.ModelProto:
    constants = [constant(name, np.ones(3), np.float32) for name in "gbmv"]
    made = op("BatchNormalization", "x g b m v", "y s t u w"[:2 * outputs - 1], **attributes)
    return model([made], tensor("x", [2, 3, 2, 2]), free(4), constants, opset=opset)


def dropout(constants: Sequence[onnx.TensorProto], inputs: Sequence[onnx.ValueInfoProto] = ()) -> onnx.ModelProto:
    return model([op("Dropout", "x r t")], [ROW, *inputs], OUT, [constant("r", 0.5, np.float32), *constants])


def called(recursive: bool = False, depth: int = 1, given: Sequence[str] = ("x",)) -> onnx.ModelProto:
    """Functions of the network's own: one that calls itself, or a chain in which each calls the next one twice;
    ``given``: what the first is called with, which takes one."""
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("own", 1)]
    functions = []
    for i in range(depth):
        inner, domain = ("Relu", "") if i == 0 else (f"F{i - 1}", "own")
        if recursive:
            inner, domain = "F0", "own"
        functions.append(helper.make_function("own", f"F{i}", ["a"], ["b"], [
            helper.make_node(inner, ["a"], ["t"], "l", domain=domain),
            helper.make_node(inner, ["t"], ["b"], "r", domain=domain)], imports))
    node = helper.make_node(f"F{depth - 1}", given, ["y"], "call", domain="own")
    return model([node], ROW, OUT, domain="own", functions=functions)


def mode_of_function(default: bool = False, operand: bool | None = None, within: bool = False) -> onnx.ModelProto:
    """A function of the network's own that normalizes in training mode, as its attribute says: the call states it, or
    it is the ``default``, or it stands ``within`` a branch; with an ``operand``: that drops out as its operand says."""
    imports = [helper.make_opsetid("", 17)]
    body = [helper.make_node("Constant", [], ["r"], value=constant("r", 0.5, np.float32)), op("Dropout", "x r g", "o")]
    if operand is None:
        body = [op("BatchNormalization", "x g b m v", "o")]
        body[0].attribute.append(onnx.AttributeProto(
            name="training_mode", ref_attr_name="mode", type=onnx.AttributeProto.INT))
    if within:
        branch = helper.make_graph(body, "branch", [], [tensor("o", [2, 3, 2, 2])])
        body = [helper.make_node("Constant", [], ["c"], value=constant("c", True)),
                op("If", "c", "i", then_branch=branch, else_branch=branch)]
    function = helper.make_function("own", "F", list("xgbmv"), [body[-1].output[0]], body, imports, (
        [] if default else ["mode"]))
    if default:
        function.attribute_proto.append(helper.make_attribute("mode", 1))
    call = helper.make_node("F", list("xgbmv"), ["y"], "call", domain="own", **({} if default else {"mode": 1}))
    first = [constant("g", np.ones(3), np.float32) if operand is None else constant("g", operand)]
    return model([call], tensor("x", [2, 3, 2, 2]), free(4), [
        *first, *(constant(name, np.ones(3), np.float32) for name in "bmv")], domain="own", functions=[function])


def referring(made: onnx.ModelProto, attribute: str) -> onnx.ModelProto:
    """With an attribute of the first node that is an attribute of a function, of which there is none."""
    made.graph.node[0].attribute.add(name=attribute, ref_attr_name="mode", type=onnx.AttributeProto.INT)
    return made


def doubling(depth: int) -> onnx.ModelProto:
    """Functions that each call the next one twice, in branches."""
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("own", 1)]
    relu = helper.make_node("Relu", ["a"], ["b"])
    functions = [helper.make_function("own", "F0", ["a", "c"], ["b"], [relu], imports)]
    for i in range(1, depth):
        branches = [helper.make_graph([
            helper.make_node(f"F{i - 1}", ["a", "c"], [f"{side}0"], domain="own"),
            helper.make_node(f"F{i - 1}", [f"{side}0", "c"], [side], domain="own"),
        ], side, [], [tensor(side, [1, 4])]) for side in ("t", "e")]
        functions.append(helper.make_function("own", f"F{i}", ["a", "c"], ["b"], [
            helper.make_node("If", ["c"], ["b"], then_branch=branches[0], else_branch=branches[1])], imports))
    call = helper.make_node(f"F{depth - 1}", ["x", "c"], ["y"], "call", domain="own")
    return model([call], [ROW, tensor("c", [], TensorProto.BOOL)], OUT, domain="own", functions=functions)


def quantized(scale: float) -> onnx.ModelProto:
    s, z = constant("s", scale, np.float32), constant("z", 0, np.int8)
    return model([
        op("QuantizeLinear", "x s z", "q", "qx"), op("DequantizeLinear", "q s z", "d", "dx"),
        op("DequantizeLinear", "w s z", "wd", "dw"), op("MatMul", "d wd", "m", "mm"),
        op("QuantizeLinear", "m s z", "mq", "qm"), op("DequantizeLinear", "mq s z", "y", "dm"),
    ], tensor("x", [2, 4]), tensor("y", [2, 4]), [s, z, constant("w", np.ones((4, 4)), np.int8)])


def sparse() -> onnx.ModelProto:
    made = product(y=OUT)
    del made.graph.initializer[:]
    made.graph.sparse_initializer.append(helper.make_sparse_tensor(
        helper.make_tensor("w", FLOAT, [1], [3.0]), helper.make_tensor("wi", INT64, [1], [5]), [4, 4]))
    return made


def nested(depth: int) -> onnx.ModelProto:
    graph = helper.make_graph([op("Relu", "x", "y0")], "g0", [], [tensor("y0", [1, 4])])
    for i in range(1, depth):
        other = helper.make_graph([op("Relu", "x", f"z{i}")], f"e{i}", [], [tensor(f"z{i}", [1, 4])])
        graph = helper.make_graph([op("If", "c", f"y{i}", then_branch=graph, else_branch=other)], f"g{i}", [],
                                  [tensor(f"y{i}", [1, 4])])
    return model([op("If", "c", then_branch=graph, else_branch=graph)], [ROW, tensor("c", [], TensorProto.BOOL)], OUT)


def chain(length: int) -> onnx.ModelProto:
    nodes = [op("Relu", "x" if i == 0 else f"v{i - 1}", f"v{i}", f"r{i}") for i in range(length)]
    return model(nodes, ROW, tensor(f"v{length - 1}", [1, 4]))


def case(name: str, make: Make, message: str | None) -> None:
    CASES[name] = make, message


# operators and control flow
case("unknown operator", lambda: model([op("FrobnicateX", "x")], ROW, OUT), "FrobnicateX.*it OpType")
case("unknown domain", lambda: model([helper.make_node("Foo", ["x"], ["y"], "foo", domain="acme")], ROW, OUT,
                                     domain="acme"), "node 'foo': operator 'Foo' of domain 'acme' is not supported")
case("computed branch", branch, "condition .* depends on input .x.; only control flow")
case("computed loop", loop, "node .again. .Loop.: its number of iterations .* depends on input .x.")
case("computed shape", lambda: model([op("NonZero", "x")], ROW, tensor("y", [2, "n"], INT64)),
     "depends on the data")
case("computed shape inside", lambda: model(
    [op("NonZero", "x", "z"), op("Cast", "z", "f", to=FLOAT), op("MatMul", "w f")], tensor("x", [4, 4]), free(2),
    [ones(3, 2)]), "depends on the data")
case("computed reshape", lambda: model([op("Reshape", "x s")], [ROW, tensor("s", [2], INT64)], free(2)),
     "computed reshape.onnx: ")
case("nested branches", lambda: nested(10), "its condition .* depends on input .c.")
case("long chain", lambda: chain(2000), None)
case("function", called, None)
case("recursive function", lambda: called(True), "recursive|Cycle detected")
case("function with too many operands", lambda: called(given=("x", "x")), "function 'F0' takes 1 operands, found 2")
case("functions that double", lambda: called(depth=30), f"at most {1 << 20} operators, found {1 << 30}")
case("functions that double in branches", lambda: doubling(31), f"at most {1 << 20} operators, found")
case("functions that grow", lambda: helper.make_model(helper.make_graph(
    [op("ConstantOfShape", "s", "c", "grow"), helper.make_node("F0", ["x"], ["h"], domain="own"), op("Neg", "c")],
    "net", [ROW], [free(2)], [ints("s", 1 << 20, 1 << 20)]), functions=called().functions, ir_version=9,
    opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid("own", 1)]), "1048576x1048576")
case("absurd sequence", lambda: model(
    [helper.make_node("LSTM", ["x", "w", "r"], ["y"], "rnn", hidden_size=4)], tensor("x", [1 << 24, 1, 4]), free(4),
    [constant("w", np.ones((1, 16, 4)), np.float32), constant("r", np.ones((1, 16, 4)), np.float32)]),
    f"node 'rnn' \\(LSTM\\): expected at most 16384 frames, found {1 << 24}")
# training
case("normalization in training", lambda: normalization(outputs=3, training_mode=1), "'it'.*training_mode=1")
case("normalization that gives statistics", lambda: normalization(outputs=5, opset=9), "'it'.*it gives statistics")
case("normalization of a test", lambda: normalization(opset=9), None)
case("normalization of old", lambda: normalization(opset=6), "'it'.*is_test=0")
case("dropout in training", lambda: dropout([constant("t", True)]), "'it' .Dropout.*'t' is true")
case("dropout by an input", lambda: dropout([], [tensor("t", [], TensorProto.BOOL)]), "'it' .Dropout.*'t' is computed")
case("dropout of a test", lambda: dropout([constant("t", False)]), None)
case("dropout of old", lambda: model([op("Dropout", "x")], ROW, OUT, opset=6), "'it'.*is_test=0")
case("training by a function's attribute", mode_of_function, "'it.*training_mode=1")
case("training by default", lambda: mode_of_function(default=True), "'it.*training_mode=1")
case("training in a function's branch", lambda: mode_of_function(within=True), "'it.*training_mode=1")
case("dropout by a function's operand", lambda: mode_of_function(operand=True), "'it.*'g' is true")
case("dropout of a test by a function's operand", lambda: mode_of_function(operand=False), None)
case("mode of no function", lambda: referring(normalization(), "training_mode"),
     "'it' .*training_mode: expected a value, found 'mode' of a function")
case("groups of no function", lambda: referring(conv(), "group"), "'cv' .*group: expected a value")
# numbers
case("weight not a number", lambda: product(np.diag([1, np.nan, 1, 1])), r"\(matmul\).*4x4 has 1 that is not a number")
case("infinite weight", lambda: product(np.full((4, 4), np.inf)), r"expected finite weights, found 16 infinite")
case("scale zero", lambda: quantized(0.0), r"node 'q\w+' \((de)?quantize\): expected a positive scale, found 0")
case("scale negative", lambda: quantized(-1.0), "expected a positive scale, found -1")
case("scale infinite", lambda: quantized(np.inf), "expected a positive scale, found inf")
case("scale not a number", lambda: quantized(np.nan), "is not a number")
case("scale that overflows", lambda: quantized(1e38), None)
case("scale that vanishes", lambda: quantized(1e-45), None)
case("division by zero", lambda: model(
    [op("Div", "a b", "d"), op("Add", "x d")], tensor("x", [1], INT64), free(1, kind=INT64),
    [ints("a", 4), ints("b", 0)]), "division by zero.onnx: ")
# types
case("strings", lambda: model([op("Identity", "x")], tensor("x", [2], TensorProto.STRING),
                              tensor("y", [2], TensorProto.STRING)), "input 'x': expected numbers, found string")
case("complex numbers", lambda: model([op("Add", "x x")], tensor("x", [2], TensorProto.COMPLEX64),
                                      tensor("y", [2], TensorProto.COMPLEX64)), "expected numbers, found complex64")
case("string constant", lambda: model([op("Identity", "s")], ROW, tensor("y", [1], TensorProto.STRING), [
    helper.make_tensor("s", TensorProto.STRING, [1], [b"a"])]), "string constant.onnx: ")
case("type undefined", lambda: relu(tensor("x", [1, 4], 0)), "expected numbers, found undefined")
case("type unknown", lambda: changed(relu(), lambda m: setattr(m.graph.input[0].type.tensor_type, "elem_type", 999)),
     "expected numbers, found the unknown type 999")
case("type of weight unknown", lambda: changed(product(), lambda m: setattr(
    m.graph.initializer[0], "data_type", 999)), "type of weight unknown.onnx: ")
case("types that differ", lambda: product(x=tensor("x", [1, 4], TensorProto.INT32)), "node name: mm.*elem type")
case("a sequence", lambda: changed(relu(), lambda m: setattr(
    m.graph.input[0].type.sequence_type.elem_type.tensor_type, "elem_type", 1)),
    "input 'x': expected a tensor, found sequence_type")
case("sparse weight", sparse, "sparse weight.onnx: ")
# versions
case("operator set of the future", lambda: relu(opset=999), r"expected an operator set from 1 to \d+, found 999")
case("no operator set", lambda: changed(relu(), lambda m: m.ClearField("opset_import")), "opset_import")
case("version of the future", lambda: changed(relu(), lambda m: setattr(m, "ir_version", 999)), "version.*999")
# names
case("cycle", lambda: model([op("Add", "x b", "a", "first"), op("Relu", "a", "b"), op("Neg", "b")], ROW, OUT),
     "topologically sorted.*'b'.*first")
case("own input", lambda: model([op("Add", "x y")], ROW, OUT), "topologically sorted.*'y'")
case("result twice", lambda: model([op("Relu", "x"), op("Neg", "x")], ROW, OUT), "'y' has been used|named 'y'")
case("constant twice", lambda: model([op("MatMul", "x w")], ROW, OUT, [ones(4, 4), ones(4, 4)]),
     "w.*not unique|named 'w'")
case("input twice", lambda: relu([ROW, ROW]), "'x' has been used|named 'x'")  # type: ignore[arg-type]
case("output twice", lambda: relu(y=[OUT, OUT]), "two outputs are named 'y'")
case("no weight", lambda: model([op("MatMul", "x w", name="mm")], ROW, OUT), "'w'.*mm")
case("no such output", lambda: model([op("Relu", "x", "z")], ROW, OUT), "'y'")
case("no outputs", lambda: relu(y=[]), "expected a network with outputs, found none")
case("no inputs", lambda: model([op("Relu", "w")], [], OUT, [ones(1, 4)]), None)
case("too few operands", lambda: model([op("MatMul", "x", name="mm")], ROW, free(2)), "mm.*has input size 1")
case("empty names", lambda: model([op("Relu", "", name="")], ROW, OUT), "empty names.onnx: ")
case("names of control characters", lambda: model(
    [op("Relu", "x\0\n/../", "y\u202e", "n\0")], tensor("x\0\n/../", [1, 4]), tensor("y\u202e", [1, 4])), None)
# sizes
case("no rows", lambda: relu(tensor("x", [0, 4]), tensor("y", [0, 4])), "'x' is 0x4 with open dimension 0")
case("no columns", lambda: product(np.ones((4, 0))), "expected a tensor with elements, found shape 1x0")
case("empty slice", lambda: model(
    [op("Slice", "x s e", "z", "cut"), op("MatMul", "z w")], tensor("x", [3, 2]), free(2),
    [ints("s", 0), ints("e", 0), ones(2, 4)]), "found shape 0x2")
case("absurd input", lambda: relu(tensor("x", [HUGE, HUGE]), tensor("y", [HUGE, HUGE])), f"input 'x'.*{HUGE}x{HUGE}")
case("absurd extent", lambda: relu(tensor("x", [(1 << 63) - 1]), free(1)), f"input 'x'.*{(1 << 63) - 1}")
case("absurd rows", lambda: product(x=tensor("x", [HUGE, 4])), f"input 'x'.*{HUGE}x4")
case("absurd constant", lambda: grown("ConstantOfShape", "s", 2, ints("s", 1 << 20, 1 << 20)),
     "node 'grow'.*1048576x1048576")
case("absurd expand", lambda: grown("Expand", "x s", 1, ints("s", HUGE)), f"node 'grow'.*{HUGE}")
case("absurd tile", lambda: model([op("Tile", "w r", "t", "grow"), op("Add", "x t")], tensor("x", [1]), free(1),
                                  [ones(4), ints("r", HUGE)]), "at most.*found shape")
case("absurd pad", lambda: grown("Pad", "x p", 1, ints("p", 0, HUGE)), "node 'grow'.*found shape")
case("absurd range", lambda: model(
    [op("Range", "a b c", "r", "grow"), op("Add", "x r")], tensor("x", [1]), free(1),
    [constant("a", 0, np.float32), constant("b", 1e12, np.float32), constant("c", 1, np.float32)]), "found shape")
case("absurd one-hot", lambda: grown("OneHot", "x d v", 2, constant("d", HUGE, np.int64), constant(
    "v", [0, 1], np.float32), x=[4], kind_of_x=INT64), f"node 'grow'.*4x{HUGE}")
case("absurd resize", lambda: model([helper.make_node("Resize", ["x", "", "", "s"], ["y"], "grow")],
                                    tensor("x", [1, 1, 4, 4]), free(4), [ints("s", 1, 1, 1 << 30, 1 << 30)]),
     "node 'grow'.*1x1x1073741824x1073741824")
case("weight of other size", lambda: changed(product(), lambda m: m.graph.initializer[0].dims.__setitem__(0, HUGE)),
     "w.*too small|constant 'w'")
case("weight cut short", lambda: changed(product(), lambda m: setattr(m.graph.initializer[0], "raw_data", b"123")),
     "w.*raw_data size")
case("weight of negative size", lambda: changed(product(), lambda m: m.graph.initializer[0].dims.__setitem__(0, -4)),
     "Negative dimension.*w")
case("shapes that differ", lambda: product(x=tensor("x", [1, 5])), "mm.*Incompatible dimensions")
case("reshape to another size", lambda: grown("Reshape", "x s", 2, ints("s", 3, -1), x=[1, 4]), "grow")
case("reshape to nowhere", lambda: grown("Reshape", "x s", 2, ints("s", -1, -1), x=[1, 4]), "grow")
case("no such axis", lambda: grown("Transpose", "x", 2, x=[1, 4]), None)
case("no such axis of concat", lambda: model([op("Concat", "x x", name="cc", axis=9)], ROW, free(2)), "cc.*axis")
case("index out of range", lambda: model(
    [op("Gather", "w i", "g", "pick"), op("Add", "x g")], tensor("x", [4]), free(1),
    [ones(4, 4), constant("i", 99, np.int64)]), "index out of range.onnx: ")
case("split of other sizes", lambda: model([op("Split", "x s", "y z", "cut", axis=1)], ROW, [free(2), free(2, "z")], [
    ints("s", 3, 3)]), "cut")
# convolutions
case("no groups", lambda: conv(group=0), "no groups.onnx: ")
case("groups that do not divide", lambda: conv(group=2), "groups that do not divide.onnx: ")
case("stride of zero", lambda: conv(strides=[0, 0]), "cv.*strides")
case("absurd stride", lambda: conv(strides=[HUGE, HUGE]), f"node 'cv'.*strides: .*found {HUGE}")
case("dilation of zero", lambda: conv(dilations=[0, 0]), "cv.*dilations")
case("absurd dilation", lambda: conv(dilations=[HUGE, HUGE]), "node 'cv'.*dilations: ")
case("negative padding", lambda: conv(pads=[-5] * 4), "cv.*pads")
case("absurd padding", lambda: conv(pads=[HUGE] * 4), "node 'cv'.*found shape 1x4x2199")
case("kernel of other size", lambda: conv(kernel_shape=[7, 7]), "node 'cv'.*kernel 7x7, found 4x3x3x3")
case("image below the kernel", lambda: conv((1, 3, 2, 2)), "expected a tensor with elements, found shape 1x4x0x0")
case("image without batch", lambda: conv((3, 8, 8)), "cv")
case("unknown padding", lambda: conv(auto_pad="BOGUS"), "node 'cv'.*auto_pad: expected one of NOTSET.*BOGUS")
case("window of zero", lambda: model([op("MaxPool", "x", name="p", kernel_shape=[0, 0])], tensor("x", [1, 3, 8, 8]),
                                     free(4)), "kernel_shape")
# files of tensors
case("path that climbs", lambda: outside("../../etc/passwd"), "points outside|outside the directory")
case("absolute path", lambda: outside("/etc/passwd"), "relative path")
case("device", lambda: outside("/dev/zero"), "relative path")
case("symbolic link", lambda: outside("link.bin"), "symbolic link")
case("pipe", lambda: outside("pipe.bin"), "not regular file")
case("folder", lambda: outside("folder"), "not regular file")
case("no such file", lambda: outside("nope.bin"), "nope.bin")
case("empty path", lambda: outside(""), "should not be empty|empty")
case("file cut short", lambda: outside("short.bin"), "short.bin|exceeds|length")
case("negative offset", lambda: outside("zeros.bin", offset=-5), "offset|-5")
case("offset that is no number", lambda: outside("zeros.bin", offset="zz"), "zz")
case("absurd length", lambda: outside("zeros.bin", length=1 << 45), str(1 << 45))
case("good file", lambda: outside("zeros.bin"), None)


def write(folder: Path) -> None:
    """All networks, and the files beside them."""
    (folder / "short.bin").write_bytes(b"x" * 10)
    (folder / "zeros.bin").write_bytes(bytes(64))
    (folder / "folder").mkdir()
    (folder / "link.bin").symlink_to("/etc/passwd")
    os.mkfifo(folder / "pipe.bin")
    for name, (make, _) in CASES.items():
        (folder / f"{name}.onnx").write_bytes(make().SerializeToString())
