"""Every operator that XLA runs for the host computes what TVM's own code computes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest

import archloom
from archloom.oracle.errors import ModelError
from archloom.tvm_backend.host import virtual_machine
from archloom.tvm_backend.host.network import jitted
from archloom.tvm_backend.host.rules import macs, translatable
from archloom.tvm_backend.ir import compat
from archloom.tvm_backend.ir.nodes import TupleType
from archloom.tvm_backend.ir.operators import OPERATORS
from tests.support.examples import every
from tests.support.tvm_backend.networks import Net
from tests.support.tvm_backend.relax import parameter

Case = tuple[str, Callable[..., Any], list[Any]]
RNG = np.random.default_rng(0)


def real(*shape: int, low: float = -2.0, high: float = 2.0) -> np.ndarray:
    return RNG.uniform(low, high, shape).astype(np.float32)


def whole(*shape: int, low: int = -100, high: int = 100, dtype: str = "int32") -> np.ndarray:
    return RNG.integers(low, high, shape).astype(dtype)


def op(name: str, **attributes: Any) -> Callable[..., Any]:
    return lambda *args: compat.relax_op(name)(*args, **attributes)


IMAGE = real(2, 3, 7, 8)
SCALES = np.array([0.1, 0.02, 0.5], np.float32)
CASES: list[Case] = [
    *[(name, op(name), [real(3, 4)]) for name in (
        "abs", "negative", "square", "exp", "sin", "cos", "tanh", "erf", "sigmoid", "floor", "ceil", "nn.relu",
        "nn.silu", "nn.gelu", "nn.gelu_tanh", "sign",
    )],
    *[(name, op(name), [real(3, 4, low=0.1)]) for name in ("sqrt", "rsqrt", "log")],
    *[(name, op(name), [real(3, 4), real(4)]) for name in (
        "add", "subtract", "multiply", "divide", "maximum", "minimum", "less", "less_equal", "greater", "greater_equal",
    )],
    *[(name, op(name), [whole(3, 4, low=0, high=3), whole(4, low=0, high=3)]) for name in ("equal", "not_equal")],
    *[(name, op(name), [whole(3, 4), whole(3, 4, low=1)]) for name in ("floor_divide", "divide", "mod", "floor_mod")],
    *[(name, op(name), [real(3, 4), real(3, 4, low=0.1)]) for name in ("mod", "floor_mod")],
    *[(name, op(name), [whole(3, 4), whole(3, 4, low=0, high=31)]) for name in ("left_shift", "right_shift")],
    ("round", op("round"), [np.arange(-10, 11, dtype=np.float32) / 4]),
    ("power", op("power"), [real(3, 4, low=0.1), real(4)]),
    *[(name, op(name), [real(3, 4) > 0, real(4) > 0]) for name in (
        "logical_and", "logical_or", "logical_xor")],
    *[(name, op(name), [whole(3, 4), whole(4)]) for name in ("bitwise_and", "bitwise_or")],
    ("bitwise_not", op("bitwise_not"), [whole(3, 4)]),
    ("logical_not", op("logical_not"), [real(3, 4) > 0]),
    ("where", op("where"), [real(3, 4) > 0, real(3, 4), real(4)]),
    ("clip", lambda x: compat.relax_op("clip")(x, -0.5, 1), [real(3, 4)]),
    ("astype", lambda x: compat.relax_op("astype")(x, "int64"), [real(3, 4, high=50)]),
    ("nn.leakyrelu", op("nn.leakyrelu", alpha=0.2), [real(3, 4)]),
    *[(name, op(name, axis=axis, keepdims=keep), [real(3, 4, 5)])
      for name in ("sum", "mean", "max", "min", "prod", "variance")
      for axis, keep in (([1], True), ([0, 2], False), (None, False))],
    ("cumsum", op("cumsum", axis=1), [real(3, 4)]),
    *[(f"nn.{name}", op(f"nn.{name}", axis=-1), [real(3, 4)]) for name in ("softmax", "log_softmax")],
    ("nn.layer_norm", op("nn.layer_norm", axes=[-1]), [real(3, 8), real(8), real(8)]),
    ("nn.rms_norm", op("nn.rms_norm", axes=[-1]), [real(3, 8), real(8)]),
    ("nn.group_norm", op("nn.group_norm", num_groups=2, channel_axis=1, axes=[2, 3]),
     [real(2, 6, 3, 4), real(6), real(6)]),
    ("nn.instance_norm", op("nn.instance_norm", channel_axis=1, axes=[2, 3]), [IMAGE, real(3), real(3)]),
    ("nn.dropout", op("nn.dropout"), [real(3, 4)]),
    *[("nn.batch_norm", op("nn.batch_norm", axis=1, training=training),
       [IMAGE, real(3), real(3), real(3), real(3, low=0.5)]) for training in (False, True)],
    ("matmul", op("matmul"), [real(2, 3, 4), real(4, 5)]),
    ("matmul", lambda a, b: compat.relax_op("matmul")(a, b, "int32"),
     [whole(3, 9, dtype="int8"), whole(9, 5, dtype="int8")]),
    ("nn.conv1d", op("nn.conv1d", strides=2, padding=(1, 2)), [real(2, 3, 9), real(4, 3, 3)]),
    ("nn.conv2d", op("nn.conv2d", strides=(2, 1), padding=(1, 2, 0, 1)), [IMAGE, real(4, 3, 3, 2)]),
    ("nn.conv2d", op("nn.conv2d", groups=3, dilation=(1, 2)), [IMAGE, real(6, 1, 2, 2)]),
    ("nn.conv1d_transpose", op("nn.conv1d_transpose", strides=2, padding=(1, 0)), [real(2, 3, 9), real(3, 4, 3)]),
    ("nn.conv2d_transpose", op("nn.conv2d_transpose", strides=(2, 3), padding=(1, 0, 0, 1), output_padding=(1, 2)),
     [IMAGE, real(3, 4, 3, 2)]),
    ("nn.conv2d_transpose", op("nn.conv2d_transpose", groups=3, strides=(2, 2)), [IMAGE, real(3, 2, 2, 2)]),
    ("image.resize2d", lambda x: compat.relax_op("image.resize2d")(
        x, (5, 12), layout="NCHW", method="nearest_neighbor", coordinate_transformation_mode="asymmetric",
        rounding_method="floor"), [IMAGE]),
    *[("image.resize2d", lambda x, place=place: compat.relax_op("image.resize2d")(
        x, (5, 12), layout="NCHW", method="linear", coordinate_transformation_mode=place), [IMAGE])
      for place in ("half_pixel", "align_corners", "asymmetric")],
    ("nn.max_pool2d", op("nn.max_pool2d", pool_size=(3, 2), strides=(2, 2), padding=(1, 0, 1, 1)), [IMAGE]),
    ("nn.max_pool2d", op("nn.max_pool2d", pool_size=(2, 3), strides=(2, 2), ceil_mode=True), [IMAGE]),
    ("nn.avg_pool2d", op("nn.avg_pool2d", pool_size=(3, 3), strides=(2, 2), padding=(1, 1, 1, 1)), [IMAGE]),
    ("nn.avg_pool2d", op("nn.avg_pool2d", pool_size=(2, 3), padding=(1, 1, 0, 1), count_include_pad=True), [IMAGE]),
    ("nn.avg_pool3d", op("nn.avg_pool3d", pool_size=(3, 1, 2), padding=(1, 0, 0, 1, 0, 1)), [real(1, 2, 5, 4, 4)]),
    *[(f"nn.{kind}_pool1d", op(f"nn.{kind}_pool1d", pool_size=3, strides=2, padding=(1, 0)), [real(2, 3, 9)])
      for kind in ("max", "avg")],
    ("nn.max_pool3d", op("nn.max_pool3d", pool_size=(2, 1, 3), padding=(1, 0, 1, 0, 0, 1)), [real(1, 2, 5, 4, 4)]),
    ("nn.adaptive_avg_pool2d", op("nn.adaptive_avg_pool2d", output_size=(1, 1)), [IMAGE]),
    ("nn.adaptive_avg_pool2d", op("nn.adaptive_avg_pool2d", output_size=(3, 2)), [IMAGE]),
    ("nn.attention", op("nn.attention"), [real(2, 4, 3, 8), real(2, 6, 3, 8), real(2, 6, 3, 8)]),
    ("nn.attention", op("nn.attention", scale=compat.float_immediate(0.5), causal_mask="TopLeft"),
     [real(2, 4, 3, 8), real(2, 4, 3, 8), real(2, 4, 3, 5)]),
    ("nn.attention_bias", lambda q, k, v, b: compat.relax_op("nn.attention")(q, k, v, bias=b),
     [real(2, 4, 3, 8), real(2, 6, 3, 8), real(2, 6, 3, 8), real(2, 3, 4, 6)]),
    ("reshape", lambda x: compat.relax_op("reshape")(x, (4, -1)), [real(2, 4, 3)]),
    ("flatten", op("flatten"), [real(2, 4, 3)]), ("expand_dims", op("expand_dims", axis=[0, 2]), [real(3, 4)]),
    ("squeeze", op("squeeze", axis=[1]), [real(3, 1, 4)]),
    ("broadcast_to", lambda x: compat.relax_op("broadcast_to")(x, (2, 3, 4)), [real(3, 1)]),
    ("permute_dims", op("permute_dims", axes=[2, 0, 1]), [real(2, 3, 4)]),
    ("permute_dims", op("permute_dims"), [real(2, 3, 4)]),
    ("concat", lambda a, b: compat.relax_op("concat")([a, b], 1), [real(2, 3), real(2, 1)]),
    ("stack", lambda a, b: compat.relax_op("stack")([a, b], 1), [real(2, 3), real(2, 3)]),
    ("split", op("split", indices_or_sections=2, axis=1), [real(2, 4)]),
    ("split", op("split", indices_or_sections=[1, 3], axis=1), [real(2, 5)]),
    ("strided_slice", op("strided_slice", axes=[0, 2], begin=[1, 6], end=[3, 0], strides=[1, -2]), [real(4, 2, 8)]),
    ("take", op("take", axis=1), [real(2, 5), whole(3, low=0, high=5, dtype="int64")]),
    ("take", op("take", axis=0, mode="fast"), [real(2, 5), np.array([1, -3, 9, 0])]),
    ("take", op("take", mode="fast"), [real(5), np.array([1, -3, 9, 0])]),
    ("arange", lambda: compat.relax_op("arange")(2, 11, 3, dtype="float32"), []),
    ("index_tensor", lambda x, i, j: compat.relax_op("index_tensor")(x, [i, j]),
     [real(4, 5, 2), whole(3, 1, low=0, high=4, dtype="int64"), whole(2, low=0, high=5, dtype="int64")]),
    ("gather_nd", op("gather_nd"), [real(3, 5, 2), whole(4, 2, low=0, high=3, dtype="int64")]),
    ("isnan", op("isnan"), [np.array([[0, np.nan], [np.inf, 1]], np.float32)]),
    ("gather_elements", op("gather_elements", axis=1), [real(3, 5), whole(3, 2, low=0, high=5, dtype="int64")]),
    ("repeat", op("repeat", repeats=2, axis=1), [real(3, 4)]), ("tile", op("tile", repeats=(2, 3)), [real(3, 4)]),
    ("tril", op("tril", k=1), [real(4, 5)]), ("triu", op("triu", k=-1), [real(4, 5)]),
    ("nn.pad", op("nn.pad", pad_width=[0, 0, 0, 0, 1, 2, 3, 0], pad_value=1.5), [IMAGE]),
    *[("nn.pad", op("nn.pad", pad_width=[0, 0, 0, 0, 1, 2, 3, 0], pad_mode=mode), [IMAGE])
      for mode in ("reflect", "replicate", "circular")],
    ("quantize", lambda x, s, z: compat.relax_op("quantize")(x, s, z, axis=1, out_dtype="int8"),
     [IMAGE, SCALES, np.array([0, 3, -9], np.int8)]),
    ("quantize", lambda x, s, z: compat.relax_op("quantize")(x, s, z, axis=1, out_dtype="uint8"),
     [IMAGE, np.float32(0.25), np.uint8(100)]),
    ("dequantize", lambda x, s, z: compat.relax_op("dequantize")(x, s, z, axis=1, out_dtype="float32"),
     [whole(2, 3, 4, dtype="int8"), SCALES, np.array([0, 3, -9], np.int8)]),
]


def function(make: Callable[..., Any], arrays: list[Any]) -> compat.relax.Function:
    """A Relax function of one operator; scales and zero points of scalar shape are constants."""
    arrays = [np.asarray(a) for a in arrays]
    params = [parameter(f"x{i}", a.shape, str(a.dtype)) for i, a in enumerate(arrays) if a.ndim]
    left = iter(params)
    call = compat.normalized(make(*[next(left) if a.ndim else compat.constant(a) for a in arrays]))
    y = compat.new_var("y", call)
    ty = compat.type_of(call)
    count = len(ty.fields) if isinstance(ty, TupleType) else 0
    fields = [compat.tuple_get(y, i) for i in range(count)] if count else [y]
    return compat.make_function(params, [compat.bind(y, call)], fields)


@pytest.mark.first_case
@pytest.mark.parametrize(("name", "make", "arrays"), every(5, CASES), ids=[f"{i}-{c[0]}" for i, c in enumerate(CASES)])
def test_xla_equals_tvm(
    name: str, make: Callable[..., Any], arrays: list[Any], capfd: pytest.CaptureFixture[str]
) -> None:
    """And neither of them prints anything."""
    found = function(make, arrays)
    called = compat.bindings(found)[0].value
    assert compat.op_name(called) == name and translatable(called)
    inputs = [a for a in map(np.asarray, arrays) if a.ndim]
    executable = virtual_machine.build(compat.normalize(compat.module_of(found)))
    expected = virtual_machine.compile_vm(executable, {})(*map(virtual_machine.to_tvm, inputs))
    expected = [e.numpy() for e in ([expected] if hasattr(expected, "dtype") else expected)]
    results = [np.asarray(r) for r in jitted(found)(inputs)]
    for got, want in zip(results, expected, strict=True):
        assert got.shape == want.shape and got.dtype == want.dtype
        if np.issubdtype(want.dtype, np.floating):
            np.testing.assert_allclose(got, want, rtol=2e-4, atol=2e-5)
        else:
            np.testing.assert_array_equal(got, want)
    assert capfd.readouterr() == ("", "")


def test_every_translation_is_tested() -> None:
    assert {name for name, _, _ in CASES} == {name for name, known in OPERATORS.items() if known.xla}


def test_what_has_no_translation_is_left_to_tvm() -> None:
    make = op("nn.avg_pool2d", pool_size=(2, 2), strides=(2, 2), ceil_mode=True)
    assert OPERATORS["nn.avg_pool2d"].heavy
    assert not translatable(compat.bindings(function(make, [IMAGE]))[0].value)


def of_bfloat16(*, mixed: bool) -> onnx.ModelProto:
    """Clip and IsNaN, which TVM lacks of bfloat16; ``mixed``: beside an operator that XLA does not compute."""
    net = Net()
    x = net.input("x", 4, 16, dtype=onnx.TensorProto.BFLOAT16)
    bounds = [net.constant(name, value, ml_dtypes.bfloat16) for name, value in (("low", -0.5), ("high", 1.25))]
    results = [net.node("Clip", [x, *bounds], "clip"), net.node("IsNaN", [x], "nan")]
    if mixed:
        image = net.input("image", 1, 3, 7, 8)
        results.append(net.node("AveragePool", [image], "pool", kernel_shape=[2, 2], strides=[2, 2], ceil_mode=1))
    return net.model(*results, opset=20)


@pytest.mark.parametrize("mixed", [False, True])
def test_bfloat16_is_for_xla_alone(mixed: bool) -> None:
    x = np.linspace(-3, 3, 64, dtype=np.float32).reshape(4, 16).astype(ml_dtypes.bfloat16)
    x[0, :2] = np.nan, np.inf
    clipped, nan, *_ = archloom.compile(of_bfloat16(mixed=mixed), target="gemmini")(
        *[x, real(1, 3, 7, 8)][: 1 + mixed])
    assert clipped.dtype == x.dtype
    np.testing.assert_array_equal(clipped.astype(np.float32), np.clip(x.astype(np.float32), -0.5, 1.25))
    np.testing.assert_array_equal(nan, np.isnan(x))


def test_an_operator_that_nobody_computes_is_named() -> None:
    """Of bfloat16, where TVM is given it all the same."""
    found = function(op("isnan"), [real(3, 4).astype(ml_dtypes.bfloat16)])
    with pytest.raises(ModelError, match=r"\(isnan, bool\): expected operators that XLA or TVM .* isnan op"):
        virtual_machine.build(compat.normalize(compat.module_of(found)))


@pytest.mark.parametrize(("equation", "shapes", "expected"), [
    ("ij,kj->ik", [(3, 4), (5, 4)], 3 * 4 * 5), ("...ij,kj->...ik", [(2, 3, 4), (5, 4)], 2 * 3 * 4 * 5),
    ("ij->i", [(3, 4)], 0),
])
def test_multiply_accumulates_of_equations(equation: str, shapes: list[tuple[int, ...]], expected: int) -> None:
    operands = [parameter(f"x{i}", shape, "float32") for i, shape in enumerate(shapes)]
    assert macs(compat.normalized(compat.relax_op("einsum")(operands, equation))) == expected
