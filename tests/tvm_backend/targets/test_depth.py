"""Long networks: what reads one may not call itself for each of its layers."""

from __future__ import annotations

import cProfile
import inspect
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st

import archloom
from archloom.tvm_backend.ir import compat
from archloom.tvm_backend.targets import registry
from tests.support.examples import examples
from tests.support.tvm_backend.networks import Net, split

FRAMES = 200
"""Calls within one another that are allowed, beyond those of the test."""
LAYERS = 300
Link = tuple[tuple[str, ...], ...]
LINKS: dict[str, Link] = {
    "activation": (("Relu", "x"),), "addition": (("Add", "x", "c"),), "factor": (("Mul", "x", "c"),),
    "attention": (("MatMul", "x", "x"), ("Softmax", "0"), ("MatMul", "1", "x")),
    "convolution": (("Conv", "x", "k"),), "mask": (("Where", "b", "x", "c"),), "product": (("MatMul", "x", "w"),),
    "normalization": (("LayerNormalization", "x", "g"),),
    "parts": (("Neg", "x"), ("Concat", "x", "0"), ("Slice", "1", "begin", "end", "axis")),
    "quantization": (("QuantizeLinear", "x", "scale", "zero"), ("DequantizeLinear", "0", "scale", "zero")),
    "residual": (("Neg", "x"), ("Add", "0", "x")),
    "shape": (("Reshape", "x", "flat"), ("Reshape", "0", "whole")), "transposition": (("Transpose", "x"),),
}
"""Layers of [1, 4, 8, 8], by the nodes of which they are made: operators of what comes in (x), of nodes before in the
layer, and of constants."""
ATTRIBUTES: dict[str, dict[str, Any]] = {"Concat": {"axis": 1}, "Transpose": {"perm": [0, 1, 3, 2]}}
CONSTANTS = {
    "c": np.full((8,), 0.5, np.float32), "k": np.ones((4, 4, 1, 1), np.float32), "b": np.eye(8, dtype=np.bool_),
    "g": np.ones(8, np.float32), "begin": np.array([0]), "end": np.array([4]), "axis": np.array([1]),
    "w": np.ones((8, 8), np.float32), "scale": np.float32(0.1), "zero": np.int8(0), "flat": np.array([1, 4, 64]),
    "whole": np.array([1, 4, 8, 8])}


def chain(kinds: Sequence[str], layers: int) -> onnx.ModelProto:
    """Layers of the kinds in turn."""
    net = Net()
    x = net.input("x", 1, 4, 8, 8)
    for name, value in CONSTANTS.items():
        net.constant(name, value, value.dtype.type)
    for i in range(layers):
        made: list[str] = []
        for operator, *operands in LINKS[kinds[i % len(kinds)]]:
            inputs = [x if name == "x" else made[int(name)] if name.isdigit() else name for name in operands]
            made.append(net.node(operator, inputs, f"y{i}.{len(made)}", **ATTRIBUTES.get(operator, {})))
        x = made[-1]
    return net.model(x, opset=17)


@contextmanager
def frames(most: int) -> Iterator[None]:
    usual = sys.getrecursionlimit()
    sys.setrecursionlimit(len(inspect.stack(0)) + most)
    try:
        yield
    finally:
        sys.setrecursionlimit(usual)


@pytest.mark.slow
@given(kinds=st.lists(st.sampled_from(sorted(LINKS)), min_size=1, max_size=3),
       target=st.sampled_from(("gemmini", "plasticine", "qkv", "wormhole")))
@examples(2, 100)
def test_depth_does_not_matter(kinds: list[str], target: str) -> None:
    backend = registry.get(target)
    split(chain(kinds, 2 * len(kinds)), backend)  # what is imported on the way
    with frames(FRAMES):
        split(chain(kinds, LAYERS), backend)


def quantized(layers: int) -> onnx.ModelProto:
    """Equal products of bytes, each with an activation."""
    net = Net()
    q = net.input("x", 4, 16, dtype=onnx.TensorProto.INT8)
    scale, zero = net.constant("scale", 0.05), net.constant("zero", 0, np.int8)
    for i in range(layers):
        weight = net.constant(f"w{i}", net.rng.integers(-9, 9, (16, 16)), np.int8)
        x, w = (net.node("DequantizeLinear", [v, scale, zero], f"{n}{i}") for n, v in (("x", q), ("w.", weight)))
        y = net.node("Relu", [net.node("MatMul", [x, w], f"y{i}")], f"r{i}")
        q = net.node("QuantizeLinear", [y, scale, zero], f"q{i}")
    return net.model(q)


def calls(layers: int) -> int:
    """How many calls of Python's functions compiling takes."""
    profile, model = cProfile.Profile(), quantized(layers)
    with patch.object(compat, "fuse_by_pattern", side_effect=AssertionError("TVM matches")):
        network = profile.runcall(archloom.compile, model, target="gemmini")
    assert len(network.compiled.plans) == layers
    return sum(entry.callcount for entry in profile.getstats())


@pytest.mark.slow
def test_compiling_takes_calls_in_proportion_to_depth() -> None:
    """What TVM's own passes take is not counted: those whose time grows with the square of the depth are not called."""
    calls(10)
    short, long = calls(500), calls(2000)
    assert long < 4.2 * short
