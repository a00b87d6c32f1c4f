"""Operators written as text, and the networks and workloads made of them."""

import contextlib

import numpy as np
import onnxruntime
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import archloom
from archloom.oracle.errors import InputError, ModelError
from archloom.tvm_backend.sources import operators
from archloom.tvm_backend.sources.operator_network import onnx_model

ISSUES = ["gemm(m=512,n=512,k=512)", "conv2d(n=1,c=64,h=56,w=56,o=64,k=3,stride=1,pad=1)"]


@pytest.mark.parametrize("text", ISSUES)
def test_prints_and_parses_back(text: str) -> None:
    operator = operators.parse(text)
    assert operators.parse(str(operator)) == operator


def test_defaults_and_blanks() -> None:
    operator = operators.parse("  gemm ( m = 4 , n=5,k = 6 ) ")
    assert dict(operator.values) == {"m": 4, "n": 5, "k": 6, "batch": 1, "bias": 0, "relu": 0}


@pytest.mark.parametrize(("text", "message"), [
    ("gemm(m=512", r"operator:1:11: expected ',' or '\)', found the end of the text"),
    ("gemm(m=0,n=1,k=1)", r"operator:1:8: m must be an integer from 1 to 16777216, found 0"),
    ("gemm(m=3.5,n=1,k=1)", r"operator:1:8: m must be an integer .* found 3.5"),
    ("gemm(m=-2,n=1,k=1)", r"operator:1:8: m must be an integer .* found -2"),
    pytest.param(f"gemm(m={'9' * 5000},n=1,k=1)", r"operator:1:8: m must be an integer .* found 999", id="many digits"),
    ("gemmm(m=1)", r"unknown operator 'gemmm'; did you mean 'gemm'\?"),
    ("gemm(mm=1)", r"operator:1:6: unknown parameter 'mm' of gemm; did you mean 'm'"),
    ("gemm(m=1,n=1)", r"gemm needs k \(parameters: m, n, k"),
    ("gemm(m=1,m=2)", r"operator:1:10: parameter 'm' is given twice"),
    ("gemm(m=1,n=1,k=1) x", r"operator:1:19: expected the end of the text after '\)', found 'x'"),
    ("gemm()", r"operator:1:6: expected a parameter of gemm .*, found '\)'"),
    ("conv2d(c=1,h=2,w=2,o=1,k=3)", r"a kernel of 3×3 does not fit into the padded image of 2×2"),
    ("conv2d(c=1,h=4,w=4,o=1,k=3,relu=1,pool=3)", r"a pooling window of 3×3 does not fit into 2×2 results"),
    ("conv2d(c=1,h=9,w=9,o=1,k=3,pool=2)", r"only after ReLU: give relu=1"),
])
def test_errors(text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        operators.parse(text)


@given(st.text(alphabet="gemconvadd2(),=mnk 0123456789.-é", max_size=30))
def test_any_text_parses_or_is_refused(text: str) -> None:
    with contextlib.suppress(InputError):
        operators.parse(text)


def test_what_looks_like_an_operator() -> None:
    assert operators.looks_like_operator("gemm(m=1)")
    assert not operators.looks_like_operator("net.onnx")
    assert not operators.looks_like_operator("./nets (1)/a.onnx")


sizes = st.integers(1, 9)


@given(m=sizes, n=sizes, k=sizes, batch=st.integers(1, 2), bias=st.booleans(), relu=st.booleans())
@settings(max_examples=20, deadline=None)
def test_gemm_network_runs(m: int, n: int, k: int, batch: int, bias: bool, relu: bool) -> None:
    operator = operators.parse(f"gemm(m={m},n={n},k={k},batch={batch},bias={int(bias)},relu={int(relu)})")
    result = _run(operator)
    assert result.size == batch * m * n == np.prod(operators.workload(operator).output.shape)
    assert not relu or result.min() >= 0


@given(c=sizes, h=st.integers(4, 9), o=sizes, k=st.integers(1, 3), stride=st.integers(1, 3), pad=st.integers(0, 2))
@settings(max_examples=20, deadline=None)
def test_conv2d_network_has_the_workloads_shape(c: int, h: int, o: int, k: int, stride: int, pad: int) -> None:
    operator = operators.parse(f"conv2d(c={c},h={h},w={h + 1},o={o},k={k},stride={stride},pad={pad},bias=1)")
    n, height, width, channels = operators.workload(operator).output.shape
    assert _run(operator).shape == (n, channels, height, width)


def test_pooled_network_has_the_workloads_shape() -> None:
    operator = operators.parse("conv2d(c=3,h=12,w=9,o=4,k=3,relu=1,pool=3,pool_stride=2,pool_pad=1)")
    n, height, width, channels = operators.workload(operator).output.shape
    assert _run(operator).shape == (n, channels, height, width)


def test_add_network() -> None:
    assert _run(operators.parse("add(size=37)")).shape == (37,)


def _run(operator: operators.Operator) -> np.ndarray:
    session = onnxruntime.InferenceSession(onnx_model(operator).SerializeToString())
    rng = np.random.default_rng(0)
    feeds = {i.name: rng.standard_normal(i.shape).astype(np.float32) for i in session.get_inputs()}
    result: np.ndarray = session.run(None, feeds)[0]
    return result


def test_a_text_longer_than_names_of_files_is_an_operator() -> None:
    with pytest.raises(InputError, match=r"operator:1:8: m must be an integer"):
        archloom.estimate(f"gemm(m={'9' * 5000},n=1,k=1)")
    with pytest.raises(ModelError, match="no such file"):
        archloom.estimate("9" * 5000)
