"""Host operators of QDQ networks round as onnxruntime's integer kernels do, ties included."""

from __future__ import annotations

from functools import cache

import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import TensorProto, helper

from archloom import load
from archloom.models import zoo
from archloom.tvm_backend.check.reference import integer_session, run
from archloom.tvm_backend.executable import CompiledNetwork
from archloom.tvm_backend.ir import compat
from tests.support.examples import examples
from tests.support.tvm_backend.networks import Net, executable, quantized, samples, split
from tests.support.tvm_backend.reference import ReferenceExecutor


def between_bytes(op: str, shape: tuple[int, ...], scale: float, **attributes: object) -> onnx.ModelProto:
    """One operator between dequantize and quantize of one scale, where every tie counts."""
    net = Net()
    s, z = net.constant("s", scale), net.constant("z", 0, np.int8)
    d = net.node("DequantizeLinear", [net.node("QuantizeLinear", [net.input("x", *shape), s, z], "q"), s, z], "d")
    y = net.node("QuantizeLinear", [net.node(op, [d], "op", **attributes), s, z], "qy")
    return net.model(net.node("DequantizeLinear", [y, s, z], "dy"))


@pytest.mark.first_case
@pytest.mark.parametrize("scale", [0.0371, 0.1234567])
@pytest.mark.parametrize("attributes", [
    {"kernel_shape": [2, 2], "strides": [2, 2]}, {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]},
    {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [0, 0, 1, 1], "count_include_pad": 1},
    {"kernel_shape": [5, 2]},
])
def test_average_pooling(scale: float, attributes: dict[str, object]) -> None:
    model = between_bytes("AveragePool", (1, 16, 20, 20), scale, **attributes)
    x = {"x": (np.random.default_rng(0).standard_normal((1, 16, 20, 20)) * 40 * scale).astype(np.float32)}
    expected = run(integer_session(model), x)["dy.out"]
    np.testing.assert_array_equal(executable(model)(x), expected)


@pytest.mark.slow
@given(old=st.tuples(*[st.integers(1, 9)] * 2), new=st.tuples(*[st.integers(1, 17)] * 2),
       place=st.sampled_from(("half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric")),
       mode=st.sampled_from(("linear", "nearest")), scale=st.floats(0.01, 1))
@examples(3, 300)
def test_resizing(old: tuple[int, int], new: tuple[int, int], place: str, mode: str, scale: float) -> None:
    net = Net()
    s, z, sizes = net.constant("s", scale), net.constant("z", 0, np.int8), net.constant("n", (1, 3, *new), np.int64)
    x = net.node("QuantizeLinear", [net.input("x", 1, 3, *old), s, z], "q")
    y = net.node("Resize", [net.node("DequantizeLinear", [x, s, z], "d"), "", "", sizes], "op", mode=mode,
                 coordinate_transformation_mode=place, nearest_mode="floor" if place == "asymmetric" else "ceil")
    again = net.node("QuantizeLinear", [y, s, z], "qy")
    model = net.model(net.node("DequantizeLinear", [again, s, z], "dy"), y)
    data = {"x": (np.random.default_rng(1).standard_normal((1, 3, *old)) * 60 * scale).astype(np.float32)}
    found = executable(model).run(data)
    for name, expected in run(integer_session(model, fused=False), data).items():
        np.testing.assert_array_equal(found[name], expected, err_msg=name)


def test_places_of_the_largest_are_divided() -> None:
    """They are int32 in TVM, and what they are divided by is int64."""
    net = Net()
    k, two = net.constant("k", [5], np.int64), net.constant("two", 2, np.int64)
    net.nodes.append(helper.make_node("TopK", [net.input("x", 3, 9), k], ["largest", "places"], "top"))
    model = net.model(net.node("Cast", [net.node("Div", ["places", two], "half")], "floats", to=TensorProto.FLOAT))
    data = samples(model, 1)[0]
    np.testing.assert_array_equal(executable(model)(data), run(integer_session(model), data)["floats.out"])


@cache
def of_64_bits() -> CompiledNetwork:
    """Whole numbers and floats through products, which XLA computes, and through TVM, which sorts."""
    net = Net()
    i, d = net.input("i", 1, 8, dtype=TensorProto.INT64), net.input("d", 1, 8, dtype=TensorProto.DOUBLE)
    turned = net.node("MatMul", [i, net.constant("turn", np.eye(8)[::-1], np.int64)], "turned")
    exact = net.node("MatMul", [d, net.constant("same", np.eye(8), np.float64)], "exact")
    top = [turned, net.constant("all", [8], np.int64)]
    net.nodes.append(helper.make_node("TopK", top, ["sorted", "places"], "top"))
    return executable(net.model(turned, exact, net.node("Identity", ["sorted"], "falling")))


@given(whole=st.lists(st.integers(-(2**62), 2**62), min_size=8, max_size=8),
       exact=st.lists(st.floats(-1e300, 1e300, allow_subnormal=False), min_size=8, max_size=8))
@examples(20, 500)
def test_numbers_of_64_bits_stay_whole(whole: list[int], exact: list[float]) -> None:
    """Where tensors pass between TVM and JAX, too, which has 32 bits unless it is asked."""
    i, d = np.array([whole], np.int64), np.array([exact], np.float64)
    found = of_64_bits().run({"i": i, "d": d})
    np.testing.assert_array_equal(found["turned.out"], i[:, ::-1])
    np.testing.assert_array_equal(found["exact.out"], d)
    np.testing.assert_array_equal(found["falling.out"], np.sort(i)[:, ::-1])


def test_quantization_divides_as_ieee_does() -> None:
    net = Net()
    x = net.node("Softmax", [net.input("x", 64, 512)], "softmax", axis=-1)
    s, z = net.constant("s", 0.0003), net.constant("z", -128, np.int8)
    q = net.node("QuantizeLinear", [x, s, z], "q")
    model = net.model(net.node("DequantizeLinear", [q, s, z], "d"))
    data = samples(model, 1)[0]
    np.testing.assert_array_equal(executable(model)(data), run(integer_session(model), data)["d.out"])


@pytest.mark.first_case
@pytest.mark.parametrize(("kind", "zero"), [(np.int8, 0), (np.int8, 5), (np.uint8, 128)])
def test_what_is_no_number_becomes_the_least(kind: type, zero: int) -> None:
    """As onnxruntime's kernels have it; infinities saturate."""
    net = Net()
    s, z = net.constant("s", 0.1), net.constant("z", zero, kind)
    q = net.node("QuantizeLinear", [net.node("Softmax", [net.input("x", 2, 21)], "softmax", axis=-1), s, z], "q")
    p = net.node("QuantizeLinear", ["x", s, z], "p")
    model = net.model(net.node("DequantizeLinear", [q, s, z], "d"), net.node("DequantizeLinear", [p, s, z], "e"))
    x = np.linspace(-30, 30, 42, dtype=np.float32).reshape(2, 21)
    x[0, 3], x[0, 5], x[1, 7] = np.nan, np.inf, -np.inf
    for name, expected in run(integer_session(model), {"x": x}).items():
        np.testing.assert_array_equal(executable(model).run({"x": x})[name], expected)


def test_sums_are_additions() -> None:
    net = Net()
    a, b, c = (net.input(n, 1, 4, 5, 5) for n in "abc")
    y = net.node("Sum", [net.node("Sum", [a, b, c], "three"), net.node("Sum", [a], "one")], "two")
    module = load(net.model(y)).module
    assert [compat.op_name(v.value) for v in compat.bindings(module["main"])].count("add") == 3
    assert [s.op for s in split(quantized(net.model(net.node("Sum", [a, b], "residual"))))[0].steps()] == ["add"]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["squeezenet", "shufflenet", "inception_v1", "inception_v2", "resnet50"])
def test_known_networks_equal_onnxruntime(name: str) -> None:
    model = quantized(zoo.load(f"light_{name}"))
    x = samples(model, 1, seed=0)[0]
    found = executable(model).run(x, executor=ReferenceExecutor())
    for output, expected in run(integer_session(model), x).items():
        np.testing.assert_array_equal(found[output], expected)
