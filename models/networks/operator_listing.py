"""Single operators by ONNX's names, with their sizes: entries of the catalogue beside the networks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from archloom.models.networks.listing import Network, Shapes, Sizes, make

_IMAGE = {"n": 1, "c": 64, "h": 56, "w": 56}


def _image(s: Sizes) -> Shapes:
    return {"X": (s["n"], s["c"], s["h"], s["w"])}


def _rows(s: Sizes) -> Shapes:
    return {"X": (s["m"], s["n"])}


def _pair(s: Sizes) -> Shapes:
    return {"A": (s["m"], s["n"]), "B": (s["m"], s["n"])}


def _attended(s: Sizes) -> Shapes:
    kv = (s["batch"], s["kv_heads"] or s["heads"], s["keys"] or s["queries"], s["depth"])
    return {"Q": (s["batch"], s["heads"], s["queries"], s["depth"]), "K": kv, "V": kv}


def _operator(
    name: str, summary: str, sizes: Sizes, where: str, inputs: Callable[[Sizes], Shapes], *taken: str, **fixed: Any
) -> Network:
    return Network(name, summary, sizes, {}, make(f"operators.{where}", *taken, **fixed), inputs)


_MATRIX = {"m": 128, "n": 128}
_UNARY = ("Relu", "Gelu", "Sigmoid", "Tanh", "Exp", "Erf", "Abs", "Neg", "HardSwish", "Swish")
_BINARY = ("Add", "Sub", "Mul", "Div", "Max", "Min")
_REDUCED = ("Softmax", "ReduceSum", "ReduceMean", "ReduceMax")
_WINDOW = ("k", "stride", "pad")

OPERATORS = (
    _operator("Gemm", "A[m, k] · W[k, n], weights constant; bias=1", {"m": 128, "n": 128, "k": 128, "bias": 0},
              "gemm", lambda s: {"A": (s["m"], s["k"])}, "k", "n", "bias"),
    _operator("MatMul", "A[batch, m, k] · B[batch, k, n], neither constant",
              {"batch": 1, "m": 128, "n": 128, "k": 128}, "matmul",
              lambda s: {"A": (s["batch"], s["m"], s["k"]), "B": (s["batch"], s["k"], s["n"])}),
    _operator("Conv", "o filters of k × k over an image; depthwise: group=c, o=c",
              {**_IMAGE, "o": 64, "k": 3, "stride": 1, "pad": 0, "dilation": 1, "group": 1, "bias": 0}, "conv", _image,
              "c", "o", *_WINDOW, "dilation", "group", "bias"),
    _operator("Attention", "queries at keys (as many, if 0) of kv_heads (as heads, if 0); decoding: queries=1",
              {"batch": 1, "heads": 8, "kv_heads": 0, "queries": 128, "keys": 0, "depth": 64, "causal": 0}, "attention",
              _attended, "heads", "kv_heads", "queries", "keys", "causal"),
    *(_operator(name, "along the rows of m × n numbers", _MATRIX, "along_rows", _rows, kind=name) for name in _REDUCED),
    *(_operator(name, "of the rows of m × n numbers", _MATRIX, "normalization", _rows, "n", kind=name)
      for name in ("LayerNormalization", "RMSNormalization")),
    *(_operator(name, "of each of m × n numbers", _MATRIX, "elementwise", _rows, kind=name) for name in _UNARY),
    *(_operator(name, "of two tensors of m × n numbers", _MATRIX, "elementwise", _pair, kind=name) for name in _BINARY),
    *(_operator(name, "windows of k × k of an image", {**_IMAGE, "k": 2, "stride": 2, "pad": 0}, "pooling", _image,
                *_WINDOW, kind=name) for name in ("MaxPool", "AveragePool")),
    _operator("GlobalAveragePool", "of an image", _IMAGE, "global_average", _image),
)
"""All single operators that a text can name by ONNX's names."""
