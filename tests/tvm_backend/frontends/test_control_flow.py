"""Control flow that is written out: what networks compute stays the same, and what depends on data is named."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

import archloom
from archloom.oracle.errors import ModelError
from archloom.tvm_backend.frontends.onnx.control_flow import straight
from archloom.tvm_backend.frontends.onnx.editor import every_node
from tests.support.examples import examples
from tests.support.tvm_backend.networks import executable
from tests.support.tvm_backend.reference import ReferenceExecutor

SHAPE = (2, 3)
CONTROL = {"If", "Loop", "Scan"}


def tensor(name: str, shape: Sequence[int] = SHAPE, kind: int = TensorProto.FLOAT) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, kind, shape)


def constant(name: str, value: Any) -> onnx.TensorProto:
    return numpy_helper.from_array(np.array(value), name)


class Program:
    """Random statements on a state, in loops and branches; names are unique only where ONNX wants them to be."""

    def __init__(self, draw: st.DrawFn) -> None:
        self.draw, self.count = draw, 0

    def name(self) -> str:
        self.count += 1
        return f"t{self.count}"

    def block(self, state: str, index: str | None, depth: int) -> tuple[list[onnx.NodeProto], str]:
        """Nodes, and the state after them; ``index``: a number that is known in each iteration."""
        nodes: list[onnx.NodeProto] = []
        kinds = st.sampled_from(("add", "index", "if", "loop", "scan"))
        for kind in self.draw(st.lists(kinds, min_size=1, max_size=3)):
            written = getattr(self, f"_{kind}")(state, index, depth) if depth or kind in ("add", "index") else None
            if written is not None:
                nodes += written[0]
                state = written[1]
        return nodes, state

    def graph(self, body: "tuple[list[onnx.NodeProto], str]", inputs: Sequence[Any] = (), first: Sequence[Any] = (),
              more: Sequence[Any] = (), shape: Sequence[int] = SHAPE) -> onnx.GraphProto:
        nodes, state = body
        result = self.name()
        nodes = [*nodes, helper.make_node("Identity", [state], [result])]
        return helper.make_graph(nodes, self.name(), list(inputs), [*first, tensor(result, shape), *more])

    def _add(self, state: str, index: str | None, depth: int) -> Any:
        return [helper.make_node("Add", [state, "w"], [made := self.name()])], made

    def _index(self, state: str, index: str | None, depth: int) -> Any:
        if index is None:
            return None
        nodes = [helper.make_node("Cast", [index], [number := self.name()], to=TensorProto.FLOAT),
                 helper.make_node("Mul", [state, number], [made := self.name()])]
        return nodes, made

    def _if(self, state: str, index: str | None, depth: int) -> Any:
        condition = self.name()
        if index is None:
            size = helper.make_node("Size", ["x"], [number := self.name()])
            nodes = [size, helper.make_node("Less", [number, "seven"], [condition])]
        else:
            nodes = [helper.make_node("Less", [index, "one"], [condition])]
        branches = [self.graph(self.block(state, index, depth - 1)) for _ in range(2)]
        node = helper.make_node("If", [condition], [made := self.name()], then_branch=branches[0],
                                else_branch=branches[1])
        return [*nodes, node], made

    def _loop(self, state: str, index: str | None, depth: int) -> Any:
        i, before, given, goes_on, part = (self.name() for _ in range(5))
        nodes, after = self.block(given, i, depth - 1)
        limit = self.draw(st.sampled_from(("one", "seven")))
        nodes += [helper.make_node("Less", [i, limit], [goes_on]), helper.make_node("Relu", [after], [part])]
        body = self.graph((nodes, after), [tensor(i, (), TensorProto.INT64), tensor(before, (), TensorProto.BOOL),
                                           tensor(given)], [tensor(goes_on, (), TensorProto.BOOL)], [tensor(part)])
        count = self.draw(st.sampled_from(("one", "three")))
        node = helper.make_node("Loop", [count, self.draw(st.sampled_from(("", "yes"))), state],
                                [made := self.name(), rows := self.name()], self.draw(st.sampled_from(("", made))),
                                body=body)
        return [node, helper.make_node("ReduceMax", [rows, "first"], [best := self.name()], keepdims=0),
                helper.make_node("Add", [made, best], [both := self.name()])], both

    def _scan(self, state: str, index: str | None, depth: int) -> Any:
        held, row, part = (self.name() for _ in range(3))
        axis = self.draw(st.integers(0, 1))
        nodes = [helper.make_node("Add", [held, row], [total := self.name()]),
                 helper.make_node("Identity", [total], [part])]
        width = (SHAPE[1 - axis],)
        body = self.graph((nodes, total), [tensor(held, width), tensor(row, width)], (), [tensor(part, width)], width)
        way = self.draw(st.lists(st.integers(0, 1), min_size=2, max_size=2))
        node = helper.make_node("Scan", [f"zeros{width[0]}", state], [self.name(), made := self.name()], body=body,
                                num_scan_inputs=1, scan_input_axes=[axis], scan_output_axes=[axis],
                                scan_input_directions=way[:1], scan_output_directions=way[1:])
        return [node], made


@st.composite
def programs(draw: st.DrawFn) -> onnx.ModelProto:
    program = Program(draw)
    nodes, state = program.block("x", None, 2)
    constants = [constant("w", np.arange(6, dtype=np.float32).reshape(SHAPE)), constant("yes", True),
                 constant("first", np.array([0])), *(constant(f"zeros{n}", np.zeros(n, np.float32)) for n in SHAPE),
                 *(constant(name, np.int64(value)) for name, value in (("one", 1), ("three", 3), ("seven", 7)))]
    graph = helper.make_graph([*nodes, helper.make_node("Identity", [state], ["y"], "last")], "program",
                              [tensor("x")], [tensor("y")], constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)


@examples(15, 1000)
@given(programs())
def test_what_a_network_computes_stays_the_same(model: onnx.ModelProto) -> None:
    onnx.checker.check_model(model, full_check=True)
    before, x = model.SerializeToString(), np.linspace(-2, 2, 6, dtype=np.float32).reshape(SHAPE)
    made = straight(model)
    assert model.SerializeToString() == before
    onnx.checker.check_model(made, full_check=True)
    assert not CONTROL & {node.op_type for node in every_node(made.graph.node)}
    np.testing.assert_array_equal(*(run(each, x) for each in (made, model)))


def run(model: onnx.ModelProto, x: np.ndarray) -> np.ndarray:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return onnxruntime.InferenceSession(model.SerializeToString(), options).run(None, {"x": x})[0]


def branching(condition: onnx.NodeProto, *inputs: Any, constants: Sequence[Any] = ()) -> onnx.ModelProto:
    def branch(operator: str) -> onnx.GraphProto:
        return helper.make_graph([helper.make_node(operator, ["x"], [f"{operator}.y"], operator)], operator, [],
                                 [tensor(f"{operator}.y")])

    chosen = helper.make_node("If", ["c"], ["y"], "choose", then_branch=branch("Neg"), else_branch=branch("Relu"))
    graph = helper.make_graph([condition, chosen], "g", [tensor("x"), *inputs], [tensor("y")], list(constants))
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)


@pytest.mark.parametrize(("value", "operator"), [(True, "Neg"), (False, "Relu")])
def test_a_branch_takes_the_place_of_its_operator(value: bool, operator: str) -> None:
    made = straight(branching(helper.make_node("Constant", [], ["c"], value=constant("", value))))
    assert [(node.op_type, node.name, list(node.output)) for node in made.graph.node] == [(operator, operator, ["y"])]


def test_an_output_that_is_an_input_is_copied() -> None:
    body = helper.make_graph(
        [helper.make_node("Neg", ["s"], ["t"]), helper.make_node("Identity", ["c"], ["d"])], "body",
        [tensor("i", (), TensorProto.INT64), tensor("c", (), TensorProto.BOOL), tensor("s")],
        [tensor("d", (), TensorProto.BOOL), tensor("t")])
    loop = helper.make_node("Loop", ["n", "", "x"], ["y"], body=body)
    made = straight(helper.make_model(helper.make_graph(
        [loop], "g", [tensor("x")], [tensor("y")], [constant("n", np.int64(0))])))
    assert [(node.op_type, *node.input, *node.output) for node in made.graph.node] == [("Identity", "x", "y")]


@pytest.mark.slow
def test_a_loop_of_the_network_is_compiled() -> None:
    again = helper.make_graph(
        [helper.make_node("MatMul", ["s", "m"], ["t"], "product"), helper.make_node("Identity", ["c"], ["d"])], "body",
        [tensor("i", (), TensorProto.INT64), tensor("c", (), TensorProto.BOOL), tensor("s", (4, 4))],
        [tensor("d", (), TensorProto.BOOL), tensor("t", (4, 4))])
    weights = np.random.default_rng(0).standard_normal((4, 4)).astype(np.float32)
    graph = helper.make_graph([helper.make_node("Loop", ["n", "", "x"], ["y"], "again", body=again)], "g",
                              [tensor("x", (4, 4))], [tensor("y", (4, 4))],
                              [constant("n", np.int64(3)), constant("m", weights)])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    x = np.eye(4, dtype=np.float32)
    (y,) = executable(archloom.load(model)).run({"x": x}, executor=ReferenceExecutor()).values()
    np.testing.assert_allclose(y, weights @ weights @ weights, rtol=1e-5)
    assert archloom.estimate(model, "qkv").offloaded_macs == 3 * 64


@pytest.mark.parametrize(("model", "message"), [
    (branching(helper.make_node("Identity", ["b"], ["c"]), tensor("b", (), TensorProto.BOOL)),
     r"node 'choose' \(If\): its condition \('c'\) depends on input 'b'; only control flow that follows from"),
    (branching(helper.make_node("RandomUniformLike", ["x"], ["c"], "draw", dtype=TensorProto.FLOAT)),
     r"node 'choose' \(If\): its condition \('c'\) depends on input 'x'")])
def test_what_depends_on_data_is_named(model: onnx.ModelProto, message: str) -> None:
    with pytest.raises(ModelError, match=message):
        archloom.load(model)
    with pytest.raises(ModelError, match=message):
        archloom.estimate(model, "qkv")
