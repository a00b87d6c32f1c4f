"""Single operators written as text, ``"gemm(m=512,n=512,k=512)"``, in place of a network.

``estimate`` maps the operator's workload directly; the other commands get a QDQ ONNX network of that one operator with
seeded random weights, so that it takes the same way as any network.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from archloom.mapper.workload import Epilogue, Pool, Workload, add, conv2d, gemm
from archloom.models import catalogue
from archloom.models.spelling import Parameter, Spelling

_FLAG = Parameter(0, 0, 1)
_PAD = Parameter(0, 0, 255)
OPERATORS: Mapping[str, Mapping[str, Parameter]] = {
    "gemm": {"m": Parameter(), "n": Parameter(), "k": Parameter(), "batch": Parameter(1), "bias": _FLAG, "relu": _FLAG},
    "conv2d": {
        "n": Parameter(1), "c": Parameter(), "h": Parameter(), "w": Parameter(), "o": Parameter(), "k": Parameter(),
        "kw": Parameter(0, 0),  # columns of the kernel, as its rows if 0
        "stride": Parameter(1), "pad": _PAD, "bias": _FLAG, "relu": _FLAG, "pool": Parameter(0, 0, 3),
        "pool_stride": Parameter(1, 1, 3), "pool_pad": Parameter(0, 0, 3),
    },
    "add": {"size": Parameter(), "relu": _FLAG},
}


@dataclass(frozen=True)
class Operator:
    """A parsed operator: its kind and a value for every parameter."""

    kind: str
    values: tuple[tuple[str, int], ...]

    def __getitem__(self, name: str) -> int:
        return dict(self.values)[name]

    @property
    def kernel(self) -> tuple[int, int]:
        """Rows and columns of a convolution's kernel."""
        return self["k"], self["kw"] or self["k"]

    def __str__(self) -> str:
        shown = [f"{k}={v}" for k, v in self.values if v != OPERATORS[self.kind][k].default]
        return f"{self.kind}({','.join(shown)})"


def listed() -> dict[str, list[str]]:
    """All operators that can be written as text, those of the catalogue included, with the names of their sizes."""
    own = {name: list(sizes) for name, sizes in OPERATORS.items()}
    return own | {name: list(operator.sizes) for name, operator in catalogue.OPERATORS_BY_NAME.items()}


def looks_like_operator(text: str) -> bool:
    """Whether ``text`` has the form ``name(...``; a path rarely has."""
    return re.match(r"\s*[A-Za-z_]\w*\s*\(", text) is not None


def parse(text: str) -> Operator:
    """The operator that ``text`` names; InputError with the column of what is wrong."""
    spelling = Spelling(text, "operator")
    # those of the catalogue are taken before, and here only suggested
    kind, values = spelling.read({**OPERATORS, **{
        name: catalogue.parameters(operator) for name, operator in catalogue.OPERATORS_BY_NAME.items()}})
    operator = Operator(kind, tuple(values.items()))
    if fault := _misfit(operator):
        spelling.fail(fault, text.index(kind))
    return operator


def _misfit(op: Operator) -> str | None:
    """Why the parameters of an operator do not fit each other, if they do not."""
    if op.kind != "conv2d":
        return None
    v = dict(op.values)
    size, kernel = [v["h"] + 2 * v["pad"], v["w"] + 2 * v["pad"]], op.kernel
    if any(s < k for s, k in zip(size, kernel)):
        return f"a kernel of {kernel[0]}×{kernel[1]} does not fit into the padded image of {size[0]}×{size[1]}"
    summed = [(s - k) // v["stride"] + 1 + 2 * v["pool_pad"] for s, k in zip(size, kernel)]
    if min(summed) < v["pool"]:
        return f"a pooling window of {v['pool']}×{v['pool']} does not fit into {summed[0]}×{summed[1]} results"
    if v["pool_pad"] and v["pool_pad"] >= v["pool"]:
        return f"pool_pad must be less than the pooling window of {v['pool']}, found {v['pool_pad']}"
    if v["pool"] and not v["relu"]:
        return "pooling is part of the operator only after ReLU: give relu=1"
    return None


# Random int8 values of this standard deviation keep sums and results in range: see scales.
DEVIATION = 40.0


@dataclass(frozen=True)
class Scales:
    """Quantization of an operator: input, weight and output scales (zero points are 0)."""

    x: float
    w: float
    y: float

    @property
    def requantize(self) -> float:
        return float(np.float32(np.float32(np.float32(self.x) * np.float32(self.w)) / np.float32(self.y)))


def scales(op: Operator) -> Scales:
    """The quantization of the network of ``op``; the workload requantizes by the same."""
    if op.kind == "add":
        return Scales(1 / 32, 1.0, 1 / 16)
    terms = op["k"] if op.kind == "gemm" else op["c"] * math.prod(op.kernel)
    return Scales(1 / 32, 1 / 128, 1 / 32 * 1 / 128 * math.sqrt(terms) * DEVIATION)


def workload(op: Operator) -> Workload:
    """The workload that the network of :mod:`archloom.tvm_backend.sources.operator_network` is partitioned into."""
    v = dict(op.values)
    relu, bias, scale = bool(v["relu"]), bool(v.get("bias")), scales(op).requantize
    if op.kind == "add":
        return add(v["size"], epilogue=Epilogue(False, scale, relu, "int8"))
    if op.kind == "gemm":
        made = gemm(v["m"], v["n"], v["k"], batch=v["batch"], epilogue=Epilogue(bias, scale, relu, "int8"))
    else:
        pool = Pool(v["pool"], v["pool_stride"], (v["pool_pad"],) * 4) if v["pool"] else None
        made = conv2d(v["n"], v["h"], v["w"], v["c"], v["o"], *op.kernel, stride=(v["stride"],) * 2,
                      padding=(v["pad"],) * 4, epilogue=Epilogue(bias, scale, relu, "int8", pool))
    return replace(made, constants=tuple(t.name for t in made.inputs[1:]))
