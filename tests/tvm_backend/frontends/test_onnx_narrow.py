"""Weights of few bits, of 8 bits with a floating point, and with scales of blocks: as onnxruntime runs them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

import archloom
from archloom import load
from archloom.oracle.errors import ModelError
from archloom.tvm_backend.check.reference import FOREIGN, integer_session, run
from archloom.tvm_backend.frontends.onnx.narrow import unpacked, widened
from archloom.tvm_backend.frontends.onnx.skeleton import NARROW_TYPES
from tests.tvm_backend.hostile.cases import constant, free, model, op, tensor

INTEGERS = {TensorProto.INT4: (-8, 8), TensorProto.UINT4: (0, 16), TensorProto.INT2: (-2, 2), TensorProto.UINT2: (0, 4),
            TensorProto.INT8: (-128, 128), TensorProto.UINT8: (0, 256)}
FLOATS = (TensorProto.FLOAT8E4M3FN, TensorProto.FLOAT8E5M2)
ROWS = 3


def typed(name: str, kind: int, values: Any) -> onnx.TensorProto:
    return numpy_helper.from_array(np.asarray(values).astype(helper.tensor_dtype_to_np_dtype(kind)), name)


def network(
    nodes: list[onnx.NodeProto], k: int, constants: list[onnx.TensorProto], rows: int = ROWS
) -> onnx.ModelProto:
    made = model(nodes, tensor("x", [rows, k]), free(2), constants)
    del made.opset_import[:]
    made.opset_import.extend([helper.make_opsetid("", 25), helper.make_opsetid("com.microsoft", 1)])
    made.ir_version = 11
    return made


def values(given: onnx.ModelProto, x: np.ndarray) -> np.ndarray:
    """What onnxruntime gives; joined with the product, weights of few bits would be multiplied by bytes."""
    return run(integer_session(given, 1, fused=False), {"x": x})["y"]


def weights(given: onnx.ModelProto) -> np.ndarray:
    """The product by the identity."""
    return values(given, np.eye(given.graph.input[0].type.tensor_type.shape.dim[1].dim_value, dtype=np.float32))


@st.composite
def products(draw: st.DrawFn) -> onnx.ModelProto:
    """A product by weights [k, n] that are dequantized: with one scale, one for each channel, or one for each block."""
    kind = draw(st.sampled_from([*INTEGERS, *FLOATS]))
    way = draw(st.sampled_from(("tensor", "channel", "block", "transposed")))
    n, block, blocks = draw(st.integers(1, 20)), draw(st.sampled_from((16, 32))), draw(st.integers(1, 4))
    k = block * blocks
    assume(kind not in FLOATS or way != "block")  # onnxruntime has no kernel for it
    rng = np.random.default_rng(draw(st.integers(0, 1 << 16)))

    def numbers(shape: tuple[int, ...]) -> Any:
        return rng.standard_normal(shape) if kind in FLOATS else rng.integers(*INTEGERS[kind], shape)

    parameters = {"channel": (n,), "block": (blocks, n)}.get(way, ())
    constants = [typed("w", kind, numbers((n, k) if way == "transposed" else (k, n))),
                 constant("s", rng.random(parameters) + 0.1, np.float32)]
    names = "w s"
    if kind in INTEGERS and draw(st.booleans()):
        constants.append(typed("z", kind, numbers(parameters)))
        names += " z"
    nodes = []
    if way == "transposed":
        nodes, names = [op("Transpose", "w", "t", name="t", perm=[1, 0])], names.replace("w", "t")
    axis = {"channel": {"axis": 1}, "block": {"axis": 0, "block_size": block}}.get(way, {})
    return network([*nodes, op("DequantizeLinear", names, "f", name="f", **axis), op("MatMul", "x f", name="mm")],
                   k, constants, rows=k)


@given(products())
def test_the_floats_are_those_of_onnxruntime(given: onnx.ModelProto) -> None:
    wide = widened(given, "network")
    assert NARROW_TYPES.isdisjoint(t.data_type for t in wide.graph.initializer)
    assert not any(a.name == "block_size" for node in wide.graph.node for a in node.attribute)
    expected, found = (weights(each) for each in (given, wide))
    np.testing.assert_array_equal(found, expected)


@st.composite
def packed(draw: st.DrawFn) -> onnx.ModelProto:
    """onnxruntime's product by packed weights, of which it unpacks 2 and 4 bits where their zeros are floats."""
    bits, block = draw(st.sampled_from((2, 4, 8))), draw(st.sampled_from((16, 32)))
    k, n = draw(st.integers(1, 80)), draw(st.integers(1, 20))
    blocks = -(-k // block)
    rng = np.random.default_rng(draw(st.integers(0, 1 << 16)))
    zeros = draw(st.sampled_from(("none", "packed") if bits == 8 else ("none", "packed", "float")))
    constants = [constant("w", rng.integers(0, 256, (n, blocks, block * bits // 8)), np.uint8),
                 constant("s", rng.random(n * blocks) + 0.1, np.float32)]
    if zeros == "packed":
        constants.append(constant("z", rng.integers(0, 256, n * -(-blocks * bits // 8)), np.uint8))
    if zeros == "float":
        constants.append(constant("z", rng.random(n * blocks) * (1 << bits), np.float32))
    names = ["x", "w", "s", "z" if zeros != "none" else "", ""]
    if draw(st.booleans()):
        constants.append(constant("b", rng.standard_normal(n), np.float32))
        names.append("b")
    node = helper.make_node("MatMulNBits", names, ["y"], "mm", domain="com.microsoft", K=k, N=n, bits=bits,
                            block_size=block)
    return network([node], k, constants, rows=k)


@given(packed())
def test_packed_weights_are_those_of_onnxruntime(given: onnx.ModelProto) -> None:
    wide = widened(given, "network")
    assert {node.op_type for node in wide.graph.node} <= {"MatMul", "Add"}
    expected, found = (weights(each) for each in (given, wide))
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-5)


@given(st.integers(1, 8), st.lists(st.integers(0, 255), min_size=1, max_size=9))
@example(3, [0b10_001_111, 0b1_010_011_0])
def test_numbers_are_unpacked_from_the_lowest_bit_on(bits: int, row: list[int]) -> None:
    whole = sum(byte << 8 * i for i, byte in enumerate(row))
    expected = [whole >> bits * i & (1 << bits) - 1 for i in range(8 * len(row) // bits)]
    assert unpacked(np.array([row], np.uint8), bits).tolist() == [expected]


def cast(kind: int, numbers: Any) -> onnx.ModelProto:
    """The product by an identity of weights that are cast to floats."""
    w = typed("w", kind, numbers)
    return network([op("Cast", "w", "f", name="f", to=TensorProto.FLOAT), op("MatMul", "x f", name="mm")], len(numbers),
                   [w], rows=len(numbers))


def test_types_are_foreign_that_onnxruntime_does_not_have() -> None:
    def is_foreign(kind: int) -> bool:
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4
        try:
            onnxruntime.InferenceSession(cast(kind, np.ones((2, 2))).SerializeToString(), options)
        except Exception:
            return True
        return False

    assert {kind for kind in NARROW_TYPES if is_foreign(kind)} == FOREIGN


def float4() -> tuple[np.ndarray, onnx.ModelProto]:
    """All numbers of a sign, two bits of exponent and one of the fraction, and the product by them."""
    numbers = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6])
    numbers = np.random.default_rng(0).permutation(np.concatenate([numbers, -numbers] * 16)).reshape(16, 16)
    return numbers, cast(TensorProto.FLOAT4E2M1, numbers)


def test_constants_of_float4_are_the_floats_that_they_are_in_references() -> None:
    numbers, given = float4()
    np.testing.assert_array_equal(weights(given), numbers)


@pytest.mark.slow
def test_weights_of_float4_are_checked() -> None:
    found = archloom.check(float4()[1], target="plasticine")
    assert found.passed and found.reference == "onnxruntime, of widened constants"
    assert [layer.op for layer in found.layers] == ["dense"]


def four_bits(k: int = 64, n: int = 32) -> onnx.ModelProto:
    rng = np.random.default_rng(0)
    return network([
        op("DequantizeLinear", "w s", "f", name="f", axis=0, block_size=16), op("MatMul", "x f", name="mm")], k, [
        typed("w", TensorProto.INT4, rng.integers(-8, 8, (k, n))),
        constant("s", rng.random((k // 16, n)) + 0.1, np.float32)])


@pytest.mark.parametrize(("target", "int8"), [("wormhole", False), ("gemmini", True)])
def test_such_a_network_is_compiled_and_estimated_alike(target: str, int8: bool) -> None:
    given = four_bits()
    x = {"x": np.random.default_rng(1).standard_normal((ROWS, 64), np.float32)}
    source = archloom.quantize(given, [x]) if int8 else given
    compiled = archloom.compile(source, target=target)
    assert compiled.run(x)["y"].shape == (ROWS, 32)
    estimated = archloom.estimate(given, target, as_int8=int8)
    assert [layer.cycles for layer in estimated.layers] == [layer.cycles for layer in compiled.report.layers]
    assert any(layer.where == "accelerator" for layer in estimated.layers)


def test_weights_that_are_left_out_have_their_shape() -> None:
    """An estimate reads no weights: the product is found all the same."""
    given = four_bits(k=4096, n=512)
    assert math.prod(given.graph.initializer[0].dims) > 1 << 20
    assert archloom.estimate(given, "wormhole").layers[0].macs == ROWS * 4096 * 512


def test_the_network_runs_as_it_was_given() -> None:
    given = four_bits()
    loaded = load(given)
    assert loaded.onnx is not None and any(t.data_type == TensorProto.INT4 for t in loaded.onnx.graph.initializer)
    assert values(loaded.onnx, np.ones((ROWS, 64), np.float32)).shape == (ROWS, 32)


SCALE, ZERO = constant("s", 0.5, np.float32), typed("z", TensorProto.INT4, 0)
BYTES, SCALES = constant("w", np.zeros((32, 4, 8)), np.uint8), constant("s", np.ones(128), np.float32)


def by_bits(constants: list[onnx.TensorProto], inputs: str = "x w s", **attributes: int) -> onnx.ModelProto:
    made = helper.make_node("MatMulNBits", inputs.split(), ["y"], "mm", domain="com.microsoft", **attributes)
    return network([made], 64, constants)


@pytest.mark.parametrize(("given", "said"), [
    (network([op("QuantizeLinear", "x s z", "q", name="q"), op("DequantizeLinear", "q s z", name="d")], 4,
             [SCALE, ZERO]),
     "node 'q' .*constants of int4 to be read by DequantizeLinear.*'z'"),
    (network([op("Cast", "x", "q", name="q", to=TensorProto.FLOAT8E5M2), op("Cast", "q", name="d", to=1)], 4, []),
     "node 'q' .*at least 8 bits, as constants alone may be of float8e5m2"),
    (by_bits([BYTES, SCALES], K=64, block_size=16), "K, N and block_size from 1"),
    (by_bits([BYTES, SCALES], K=64, N=32, block_size=16, bits=9), "bits from 1 to 8"),
    (by_bits([BYTES, SCALES], K=64, N=1 << 40, block_size=16), "a constant of 35184372088832 elements, found 1024"),
    (by_bits([BYTES], "x w x", K=64, N=32, block_size=16), "expected a constant of 128 elements, found none: 'x'"),
])
def test_what_cannot_be_read_is_refused_by_name(given: onnx.ModelProto, said: str) -> None:
    with pytest.raises(ModelError, match=said):
        load(given)
    with pytest.raises(ModelError, match=said):
        archloom.estimate(given, "wormhole")
