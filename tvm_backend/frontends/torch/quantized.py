"""Quantized programs of torch (pt2e's, torchao's) with TVM's operators, for TVM 0.27.

Static quantization is dequantize, operator, quantize as in ONNX. Where scales are computed from the numbers, products
are taken of the integers, and scaled afterwards.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from archloom.tvm_backend.frontends.torch.site import Site, constant, dtype_name
from archloom.tvm_backend.ir import expressions as ir

VALUE = "archloom.value"
"""Key of a weight's tensor in the notes of its node."""


def _quantize(site: Site) -> Any:
    """``quantize_per_tensor`` of programs quantized by pt2e; a narrower range than the dtype's is clipped."""
    x, scale, zero, low, high, dtype = (site.at(i) for i in range(6))
    name = dtype_name(dtype)
    result = site.emit("quantize", x, _parameter(scale, "float32"), _parameter(zero, name), axis=0, out_dtype=name)
    limits = np.iinfo(name)
    return result if (low, high) == (limits.min, limits.max) else site.emit("clip", result, low, high)


def _dequantize(site: Site) -> Any:
    x, scale, zero, _, _, dtype = (site.at(i) for i in range(6))
    scale, zero = _parameter(scale, "float32"), _parameter(zero, dtype_name(dtype))
    return site.emit("dequantize", x, scale, zero, axis=0, out_dtype="float32")


def _dequantize_channels(site: Site) -> Any:
    x, scale, zero, axis, _, _, dtype = (site.at(i) for i in range(7))
    name = dtype_name(dtype)
    zero = site.emit("astype", zero, name) if hasattr(zero, "ty") else constant(zero, name)
    return site.emit("dequantize", x, scale, zero, axis=int(axis), out_dtype="float32")


def _parameter(value: Any, dtype: str) -> Any:
    return value if hasattr(value, "ty") else constant(value, dtype)


def _real(site: Site, x: Any) -> Any:
    """Bytes as floats of the same values."""
    one, zero = constant(1, "float32"), constant(0, ir.dtype_of(x))
    return site.emit("dequantize", x, one, zero, axis=0, out_dtype="float32")


# scales that are computed -------------------------------------------------------------------------------------------


def _dequantize_computed(site: Site) -> Any:
    """``(x - zero point) * scale`` in float32, for those who do not take the integers."""
    x, scale, zero = (site.at(i) for i in range(3))
    real, offset = (site.emit("astype", value, "float32") for value in (x, zero))
    return site.emit("multiply", site.emit("subtract", real, offset), scale)


def linear_of_rows(site: Site) -> Any:
    """``linear`` of numbers whose scale is computed and constant weights: the int32 product of the bytes, less what the
    zero point adds, scaled. None for any other."""
    data, weights, bias = (_argument_node(site.node, i) for i in range(3))
    if _target(data) != "dequantize_per_tensor.tensor" or _target(weights) not in (
            "dequantize_per_tensor.default", "dequantize_per_channel.default"):
        return None
    channels = _target(weights) == "dequantize_per_channel.default"
    w, w_scale, w_zero = (_value(_argument_node(weights, i)) for i in range(3))
    if channels and Site(weights, site.importer).at(3, "axis") != 0:
        return None
    x, scale, zero = (Site(data, site.importer).at(i) for i in range(3))
    if w is None or w_scale is None or w_zero is None or np.any(w_zero) or w.dtype != np.int8:
        return None
    second = constant(np.ascontiguousarray(w.T))
    sums = site.emit("astype", site.emit("matmul", _real(site, x), _real(site, second)), "int32")
    moved = site.emit("multiply", site.emit("astype", zero, "int32"), constant(w.sum(1, dtype=np.int32)))
    real = site.emit("astype", site.emit("subtract", sums, moved), "float32")
    result = site.emit("multiply", real, site.emit("multiply", scale, constant(w_scale.astype(np.float32))))
    return result if bias is None else site.emit("add", result, site.importer.env[bias])


def _argument_node(node: Any, position: int) -> Any:
    """The fx node that is an argument, None for one that is left out."""
    return node.args[position] if len(node.args) > position else None


def _value(argument: Any) -> np.ndarray | None:
    """A number, or the numbers of a weight; None for what is computed."""
    if isinstance(argument, int | float):
        return np.asarray(argument)
    tensor = argument.meta.get(VALUE) if argument is not None else None
    return None if tensor is None else tensor.detach().numpy()


def with_values(program: Any) -> Any:
    """The program, whose nodes that are weights know their numbers: TVM's importer binds them after conversion."""
    signature = program.graph_signature
    tensors = {**program.constants, **program.state_dict}
    names = {**signature.inputs_to_parameters, **signature.inputs_to_buffers,
             **signature.inputs_to_lifted_tensor_constants}
    for node in program.graph_module.graph.nodes:
        if node.op == "placeholder" and names.get(node.name) in tensors:
            node.meta[VALUE] = tensors[names[node.name]]
    return program


def _target(node: Any) -> str:
    """The operator of a node without its package."""
    return str(getattr(node, "target", "")).partition(".")[2]


def decompositions() -> dict[Any, Callable[..., Any]]:
    """What computes scales, and what uses computed ones, as operators on tensors, in float32."""
    importlib.import_module("torch.ao.quantization.fx._decomposed")
    known = torch.ops.quantized_decomposed
    return {
        known.choose_qparams.tensor: _choose,
        known.choose_qparams_symmetric.tensor: _choose_symmetric,
        known.quantize_per_tensor.tensor: _quantize_computed,
        known.quantize_per_tensor.tensor2: _quantize_computed,
    }


def _choose(x: Tensor, low: int, high: int, eps: float, dtype: Any) -> tuple[Tensor, Tensor]:
    """The least scale and the zero point with which ``low`` to ``high`` cover the numbers and 0."""
    least, most = x.amin().clamp(max=0.0), x.amax().clamp(min=0.0)
    scale = ((most - least) / float(high - low)).clamp(min=eps)
    zero = (low - torch.round(least / scale)).clamp(low, high)
    return scale, zero.to(torch.int32)


def _choose_symmetric(x: Tensor, low: int, high: int, eps: float, dtype: Any) -> tuple[Tensor, Tensor]:
    """As :func:`_choose`, about 0."""
    reach = torch.maximum(x.amin().neg(), x.amax()).clamp(min=0.0)
    scale = (reach / (float(high - low) / 2)).clamp(min=eps)
    middle = 128 if dtype == torch.uint8 else 0
    return scale, torch.full((), middle, dtype=torch.int32)


def _quantize_computed(x: Tensor, scale: Tensor, zero: Tensor, low: Any, high: Any, dtype: Any) -> Tensor:
    return torch.clamp(torch.round(x * (1.0 / scale)) + zero.to(torch.float32), low, high).to(dtype)


CONVERTERS: Mapping[str, Callable[[Site], Any]] = {
    # int32 from bytes, in the form in which targets recognize products of bytes
    "_int_mm.default": lambda site: site.emit(
        "astype", site.emit("matmul", _real(site, site.at(0)), _real(site, site.at(1))), "int32"),
    "quantize_per_tensor.default": _quantize,
    "dequantize_per_tensor.default": _dequantize,
    "dequantize_per_channel.default": _dequantize_channels,
    "dequantize_per_tensor.tensor": _dequantize_computed,
}
