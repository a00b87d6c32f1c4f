"""Networks on numbers of all kinds: near overflow, infinite, none at all, behind masks. The oracle and the interpreter
must agree to the last bit, up to which NaN it is, and with what the pages of the targets say (:mod:`.stated`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, numpy_helper

from archloom.tvm_backend.compiled import CompiledModel
from tests.fuzz.stated import Numbers, contradicts, largest, stated
from tests.tvm_backend.hostile.cases import constant, free, model, op, tensor

TARGETS: Mapping[str, Mapping[str, Any]] = {
    "mesh": {"x": 2, "y": 2}, "qkv": {},
    "triple_ring": {"rows": 2, "columns": 2}, "wormhole": {"rows": 2, "columns": 2}}
TYPES = {"float32": TensorProto.FLOAT, "float16": TensorProto.FLOAT16}
QKV_BARRED = -1e37
"""What a mask bars is no less than this in qkv's attention."""
KINDS = ("softmax", "product", "layer norm", "rms norm", "attention", "exp", "relu", "maximum")


def network(kind: str, rows: int, columns: int, mask: np.ndarray) -> onnx.ModelProto:
    """``kind`` behind an addition of ``mask``, whose type is the network's."""
    number = TYPES[mask.dtype.name]
    constants = [constant("mask", mask), constant("w", np.ones((columns, 16)), mask.dtype)]
    if kind == "attention":
        inputs = [tensor(name, [1, 2, rows, columns], number) for name in "xkv"]
        return model([
            op("Transpose", "k", "t", name="t", perm=[0, 1, 3, 2]), op("MatMul", "x t", "p", name="p"),
            op("Add", "p mask", "m", name="m"), op("Softmax", "m", "s", name="s", axis=-1),
            op("MatMul", "s v", name="o")], inputs, free(4, kind=number), constants)
    nodes = {
        "softmax": [op("Softmax", "m", "s", name="s", axis=-1), op("MatMul", "s w", name="o")],
        "product": [op("MatMul", "m w", name="o")], "exp": [op("Exp", "m", name="o")],
        "relu": [op("MatMul", "m w", "p", name="p"), op("Relu", "p", name="o")],
        "maximum": [op("ReduceMax", "m", name="o", axes=[-1])],
        "layer norm": [op("LayerNormalization", "m g", name="o")],
        "rms norm": [op("Mul", "m m", "q", name="q"), op("ReduceMean", "q", "r", name="r", axes=[-1]),
                     op("Sqrt", "r", "d", name="d"), op("Div", "m d", name="o")],
    }[kind]
    gains = constant("g", np.ones(columns), mask.dtype)
    return model([op("Add", "x mask", "m", name="m"), *nodes], tensor("x", [rows, columns], number),
                 free(2, kind=number), [*constants, gains])


def drawn(rng: Random, shape: Sequence[int], dtype: str, scale: float, odd: float) -> np.ndarray:
    """Normal numbers of a scale, a share of them replaced by what is no common number."""
    values = np.random.default_rng(rng.randrange(1 << 32))
    limits = np.finfo(dtype)
    found = (values.standard_normal(shape) * scale).astype(dtype)
    chosen = values.random(shape) < odd
    kinds = np.array([np.inf, -np.inf, np.nan, limits.max, limits.min, limits.tiny, -0.0], dtype)
    found[chosen] = kinds[values.integers(len(kinds), size=int(chosen.sum()))]
    return found


@np.errstate(all="ignore")
def differs(rng: Random) -> bool:
    """Whether the oracle gives other results than the interpreter, or than are stated, for a network and numbers that
    are drawn."""
    import archloom

    kind, dtype = rng.choice(KINDS), rng.choice(tuple(TYPES))
    rows, columns = rng.choice((4, 32, 40)), rng.choice((4, 32, 33))
    scale, odd = rng.choice((1.0, 1e3, 6e4) + (1e18, 3e38) * (dtype == "float32")), rng.choice((0.0, 0.01, 0.3))
    mask = np.zeros((rows, rows if kind == "attention" else columns), dtype)
    barred = rng.choice((-np.inf, float(np.finfo(dtype).min), -1e4))
    mask[np.random.default_rng(rng.randrange(1 << 32)).random(mask.shape) < rng.choice((0, 0.3, 1))] = barred
    target, proto = rng.choice(tuple(TARGETS)), network(kind, rows, columns, mask)
    exe = archloom.compile(archloom.load(proto), target=target, options=TARGETS[target])
    given = {spec.name: drawn(rng, spec.shape, spec.dtype, scale, odd) for spec in exe.compiled.inputs}
    (oracle,), (plain,) = exe.run(given).values(), exe.run(given, executor="interpreter").values()
    close = scale == 1 and odd == 0 and (barred == -np.inf or not mask.any())
    narrow = target != "qkv" or dtype == "float16"
    return (not np.array_equal(oracle, plain, equal_nan=True)
            or contradicts(oracle, outcomes(exe.compiled, proto, given, narrow), largest(proto, narrow), close))


def outcomes(
    compiled: CompiledModel, proto: onnx.ModelProto, given: Mapping[str, np.ndarray], narrow: bool
) -> list[Numbers]:
    """All results of a network that the page of a target leaves open."""
    attends = any("attention" in step.op for step in compiled.steps())
    if compiled.target != "qkv" or not attends:
        return list(stated(proto, given, narrow))
    barring = onnx.ModelProto()
    barring.CopyFrom(proto)
    for tensor_ in barring.graph.initializer:
        if tensor_.name == "mask":
            mask = numpy_helper.to_array(tensor_).astype(np.float32)
            tensor_.CopyFrom(numpy_helper.from_array(np.maximum(mask, np.float32(QKV_BARRED)), "mask"))
    return list(stated(barring, given, narrow))
