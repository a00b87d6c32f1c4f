"""Single operators written as text, ``"gemm(m=512,n=512,k=512)"``, in place of a network.

``estimate`` maps the operator's workload directly; the other commands get a QDQ ONNX network of that one operator with
seeded random weights, so that it takes the same way as any network.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from archloom.mapper.workload import Epilogue, Pool, Workload, add, conv2d, gemm
from archloom.oracle.errors import InputError, Position, render, suggest

_TOKEN = re.compile(r"\s*(?:(?P<name>[A-Za-z_]\w*)|(?P<number>[+-]?\d+(?:\.\d*)?)|(?P<sign>[(),=]))")
_START = re.compile(r"\s*[A-Za-z_]\w*\s*\(")


@dataclass(frozen=True)
class Parameter:
    """A parameter of an operator: smallest value, and default (``None``: it must be given)."""

    default: int | None = None
    least: int = 1
    most: int = 2**24


_FLAG = Parameter(0, 0, 1)
_PAD = Parameter(0, 0, 255)
OPERATORS: Mapping[str, Mapping[str, Parameter]] = {
    "gemm": {"m": Parameter(), "n": Parameter(), "k": Parameter(), "batch": Parameter(1), "bias": _FLAG, "relu": _FLAG},
    "conv2d": {
        "n": Parameter(1), "c": Parameter(), "h": Parameter(), "w": Parameter(), "o": Parameter(), "k": Parameter(),
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

    def __str__(self) -> str:
        shown = [f"{k}={v}" for k, v in self.values if v != OPERATORS[self.kind][k].default]
        return f"{self.kind}({','.join(shown)})"


def looks_like_operator(text: str) -> bool:
    """Whether ``text`` has the form ``name(...``; a path rarely has."""
    return _START.match(text) is not None


def spelled(model: Any) -> Operator | None:
    """The operator that ``model`` spells, if it is such a text and no file has that name."""
    if not isinstance(model, str) or not looks_like_operator(model) or Path(model).exists():
        return None
    return parse(model)


def parse(text: str) -> Operator:
    """The operator that ``text`` names; :class:`InputError` with the column of what is wrong."""
    return _Parser(text).operator()


class _Parser:
    """Recursive descent over ``name ( name = integer , ... )``."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0

    def fail(self, message: str, column: int) -> NoReturn:
        raise InputError(render(message, Position("operator", 1, column + 1), self.text))

    def next(self, kind: str, expected: str, sign: str = "") -> tuple[str, int]:
        match = _TOKEN.match(self.text, self.at)
        start = match.start(match.lastgroup) if match and match.lastgroup else self._skip_blanks()
        found = match.group(match.lastgroup) if match and match.lastgroup else self.text[start:start + 1]
        if match is None or match.lastgroup != kind or (sign and found not in sign):
            self.fail(f"expected {expected}, found {repr(found) if found else 'the end of the text'}", start)
        self.at = match.end()
        return found, start

    def _skip_blanks(self) -> int:
        return len(self.text) - len(self.text[self.at:].lstrip())

    def operator(self) -> Operator:
        kind, start = self.next("name", f"an operator ({', '.join(OPERATORS)})")
        if kind not in OPERATORS:
            self.fail(f"unknown operator {kind!r}{suggest(kind, list(OPERATORS))}", start)
        self.next("sign", "'('", "(")
        values = self.values(kind)
        if self.text[self.at:].strip():
            self.fail(f"expected the end of the text after ')', found {self.text[self.at:].strip()!r}",
                      self._skip_blanks())
        parameters = OPERATORS[kind]
        if missing := [k for k, p in parameters.items() if p.default is None and k not in values]:
            self.fail(f"{kind} needs {', '.join(missing)} (parameters: {', '.join(parameters)})", start)
        operator = Operator(kind, tuple((k, values.get(k, p.default or 0)) for k, p in parameters.items()))
        if fault := _misfit(operator):
            self.fail(fault, start)
        return operator

    def values(self, kind: str) -> dict[str, int]:
        values: dict[str, int] = {}
        parameters = OPERATORS[kind]
        while True:
            name, start = self.next("name", f"a parameter of {kind} ({', '.join(parameters)})")
            if name not in parameters:
                self.fail(f"unknown parameter {name!r} of {kind}{suggest(name, list(parameters))}", start)
            if name in values:
                self.fail(f"parameter {name!r} is given twice", start)
            self.next("sign", "'='", "=")
            values[name] = self.value(name, parameters[name])
            if self.next("sign", "',' or ')'", ",)")[0] == ")":
                return values

    def value(self, name: str, parameter: Parameter) -> int:
        text, start = self.next("number", f"an integer for {name!r}")
        if "." in text or not parameter.least <= int(text) <= parameter.most:
            self.fail(f"{name} must be an integer from {parameter.least} to {parameter.most}, found {text}", start)
        return int(text)


def _misfit(op: Operator) -> str | None:
    """Why the parameters of an operator do not fit each other, if they do not."""
    if op.kind != "conv2d":
        return None
    v = dict(op.values)
    size = [v["h"] + 2 * v["pad"], v["w"] + 2 * v["pad"]]
    if min(size) < v["k"]:
        return f"a kernel of {v['k']}×{v['k']} does not fit into the padded image of {size[0]}×{size[1]}"
    summed = [(s - v["k"]) // v["stride"] + 1 + 2 * v["pool_pad"] for s in size]
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
    terms = op["k"] if op.kind == "gemm" else op["c"] * op["k"] ** 2
    return Scales(1 / 32, 1 / 128, 1 / 32 * 1 / 128 * math.sqrt(terms) * DEVIATION)


def workload(op: Operator) -> Workload:
    """The workload that the network of :mod:`archloom.tvm_backend.frontends.operator_network` is partitioned into."""
    v = dict(op.values)
    relu, bias, scale = bool(v["relu"]), bool(v.get("bias")), scales(op).requantize
    if op.kind == "add":
        return add(v["size"], epilogue=Epilogue(False, scale, relu, "int8"))
    if op.kind == "gemm":
        return gemm(v["m"], v["n"], v["k"], batch=v["batch"], epilogue=Epilogue(bias, scale, relu, "int8"))
    pool = Pool(v["pool"], v["pool_stride"], (v["pool_pad"],) * 4) if v["pool"] else None
    return conv2d(v["n"], v["h"], v["w"], v["c"], v["o"], v["k"], v["k"], stride=(v["stride"],) * 2,
                  padding=(v["pad"],) * 4, epilogue=Epilogue(bias, scale, relu, "int8", pool))
