"""ATen operators that TVM 0.27 lacks or imports as other numbers, in terms of operators that it imports right.

Each function computes what the operator computes, on tensors of torch, and is traced in its place. One that gives
``NotImplemented`` leaves its operator as it is.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch._decomp import get_decompositions


def table() -> dict[Any, Callable[..., Any]]:
    """The functions by their operators."""
    aten = torch.ops.aten
    return {
        aten.adaptive_max_pool2d.default: _adaptive_max_pool2d,
        aten.avg_pool2d.default: _avg_pool2d,
        aten._cdist_forward.default: _cdist,
        aten.constant_pad_nd.default: _pad,
        aten.dot.default: lambda a, b: (a.unsqueeze(0) @ b.unsqueeze(-1)).reshape(()),
        aten.div.Scalar_mode: _divide,
        aten.div.Tensor_mode: _divide,
        aten.elu.default: _elu,
        aten._embedding_bag.default: _embedding_bag,
        aten._embedding_bag_forward_only.default: _embedding_bag,
        aten.floor_divide.default: _floor_divide,
        aten.histc.default: _histogram,
        aten.index_add.default: lambda x, dim, index, source, *, alpha=1: _put(x.movedim(dim, 0), index, (
            source if alpha == 1 else source * alpha).movedim(dim, 0), True).movedim(0, dim),
        aten.index_copy.default: lambda x, dim, index, source: _put(
            x.movedim(dim, 0), index, source.movedim(dim, 0), False).movedim(0, dim),
        aten.index_put.default: _index_put,
        aten.layer_norm.default: _layer_norm,
        aten.__lshift__.Scalar: lambda x, bits: x * 2 ** bits,
        aten.__rshift__.Scalar: lambda x, bits: aten.floor_divide.default(x, 2 ** bits),
        aten.min.dim: lambda x, dim, keepdim=False: (x.amin(dim, keepdim), x.argmin(dim, keepdim)),
        aten.mv.default: lambda matrix, x: (matrix @ x.unsqueeze(-1)).squeeze(-1),
        aten.native_group_norm.default: _group_norm,
        aten.prod.dim_int: _prod,
        aten.topk.default: _largest,
        aten._trilinear.default: _trilinear,
        aten.unfold.default: _unfold,
        aten.var_mean.correction: lambda x, dim=None, *, correction=None, keepdim=False: (
            aten.var.correction(x, dim, correction=correction, keepdim=keepdim), aten.mean.dim(x, dim, keepdim)),
        **experts(),
        **get_decompositions([aten.grid_sampler_2d.default]),
    }


def _adaptive_max_pool2d(x: Tensor, output_size: Sequence[int]) -> tuple[Tensor, Tensor]:
    """Windows from ⌊i · extent / places⌋ to ⌈(i + 1) · extent / places⌉; positions count over the whole image."""
    height, width = x.shape[-2:]
    largest, places = [], []
    for top, bottom in _spans(height, output_size[0]):
        for left, right in _spans(width, output_size[1]):
            window = x[..., top:bottom, left:right].flatten(-2)
            place = window.argmax(-1)
            largest.append(window.amax(-1))
            row = place // (right - left)
            places.append((row + top) * width + (place - row * (right - left)) + left)
    shape = (*x.shape[:-2], *output_size)
    return torch.stack(largest, -1).reshape(shape), torch.stack(places, -1).reshape(shape)


def _spans(extent: int, places: int) -> list[tuple[int, int]]:
    return [(i * extent // places, -(-(i + 1) * extent // places)) for i in range(places)]


def _avg_pool2d(
    x: Tensor, kernel: Sequence[int], stride: Sequence[int] = (), padding: Sequence[int] = (0,),
    ceil_mode: bool = False, count_include_pad: bool = True, divisor: int | None = None,
) -> Any:
    """Windows that a rounded-up size adds are divided by the elements (and padding) that they have."""
    if not ceil_mode:
        return NotImplemented
    kernels, paddings = _pair(kernel), _pair(padding)
    strides = _pair(stride) if stride else kernels
    beyond = []
    for extent, k, s, p in zip(x.shape[-2:], kernels, strides, paddings, strict=True):
        places = -(-(extent + 2 * p - k) // s) + 1
        if (places - 1) * s >= extent + p:
            places -= 1
        beyond.append(max(0, (places - 1) * s + k - extent - 2 * p))
    (h, w), (up, left) = x.shape[-2:], paddings
    pad = torch.nn.functional.pad
    padded = pad(pad(x, (left, left, up, up)), (0, beyond[1], 0, beyond[0]))
    means = torch.nn.functional.avg_pool2d(padded, kernels, strides)
    if divisor:
        return means * (kernels[0] * kernels[1] / divisor)
    counted = torch.ones(1, 1, h + 2 * up, w + 2 * left, dtype=x.dtype)
    if not count_include_pad:
        counted = pad(torch.ones(1, 1, h, w, dtype=x.dtype), (left, left, up, up))
    shares = torch.nn.functional.avg_pool2d(pad(counted, (0, beyond[1], 0, beyond[0])), kernels, strides)
    return means / (shares if x.dim() == 4 else shares[0])


def _pair(value: Sequence[int]) -> tuple[int, int]:
    return (value[0], value[0]) if len(value) == 1 else (value[0], value[1])


def _cdist(a: Tensor, b: Tensor, p: float, compute_mode: int | None = None) -> Any:
    difference = (a.unsqueeze(-2) - b.unsqueeze(-3)).abs()
    if p == 2:
        return difference.square().sum(-1).sqrt()
    return difference.sum(-1) if p == 1 else difference.amax(-1) if p == math.inf else NotImplemented


def _trilinear(
    a: Tensor, b: Tensor, c: Tensor, expand1: Sequence[int], expand2: Sequence[int], expand3: Sequence[int],
    sumdim: Sequence[int], unroll_dim: int = 1,
) -> Tensor:
    """The products of three tensors, each with new axes at its ``expand``, summed along some."""
    axes = "abcdefghijklmnopqrstuvwxyz"[:a.dim() + len(expand1)]
    terms = ["".join(axis for i, axis in enumerate(axes) if i not in left)
             for left in (expand1, expand2, expand3, sumdim)]
    return torch.einsum(f"{','.join(terms[:3])}->{terms[3]}", a, b, c)


def _pad(x: Tensor, pad: Sequence[int], value: float = 0) -> Any:
    """Less than no padding cuts off."""
    if min(pad, default=0) >= 0:
        return NotImplemented
    for axis, (before, after) in enumerate(zip(pad[::2], pad[1::2], strict=True)):
        start, cut = max(0, -before), max(0, -before) + max(0, -after)
        x = x.narrow(-1 - axis, start, x.shape[-1 - axis] - cut)
    rest = [max(0, p) for p in pad]
    return torch.ops.aten.constant_pad_nd.default(x, rest, value) if any(rest) else x.clone()


def _elu(x: Tensor, alpha: float = 1, scale: float = 1, input_scale: float = 1) -> Any:
    if scale == input_scale == 1:
        return NotImplemented
    return torch.where(x > 0, x * scale, (x * input_scale).expm1() * (alpha * scale))


def _divide(a: Tensor, b: Any, *, rounding_mode: str | None = None) -> Any:
    """By a number of Python's, whose type TVM 0.27 takes for int32 or float32."""
    if rounding_mode is None or isinstance(b, torch.Tensor):
        return NotImplemented
    return torch.ops.aten.div.Tensor_mode(*_of_one_type(a, b), rounding_mode=rounding_mode)


def _floor_divide(a: Tensor, b: Any) -> Any:
    return NotImplemented if isinstance(b, torch.Tensor) else torch.ops.aten.floor_divide.default(*_of_one_type(a, b))


def _of_one_type(a: Tensor, b: float) -> tuple[Tensor, Tensor]:
    """A tensor and a number in the type in which torch computes."""
    dtype = torch.result_type(a, b)
    return a.to(dtype), torch.full((), b, dtype=dtype)


def _embedding_bag(
    weight: Tensor, indices: Tensor, offsets: Tensor, scale_grad_by_freq: bool = False, mode: int = 0,
    sparse: bool = False, per_sample_weights: Tensor | None = None, include_last_offset: bool = False,
    padding_idx: int = -1,
) -> Any:
    """Sums (``mode`` 0), means (1) or maxima (2) of the rows of each bag; the other results are those of training."""
    starts = offsets[:-1] if include_last_offset else offsets
    places = torch.arange(indices.shape[0]).unsqueeze(1)
    begun = (places >= starts.unsqueeze(0)).to(torch.int64).sum(1)
    inside = begun.unsqueeze(0) == torch.arange(1, starts.shape[0] + 1).unsqueeze(1)  # [bags, indices]
    if padding_idx >= 0:
        inside = inside & (indices != padding_idx).unsqueeze(0)
    rows = weight.index_select(0, indices)
    if per_sample_weights is not None:
        rows = rows * per_sample_weights.unsqueeze(1)
    number = inside.to(rows.dtype).sum(1, keepdim=True)
    if mode == 2:
        least = torch.full((), -math.inf, dtype=rows.dtype)
        most = torch.where(inside.unsqueeze(2), rows.unsqueeze(0), least).amax(1)
        result = torch.where(number > 0, most, torch.zeros_like(most))
    else:
        result = torch.where(inside.unsqueeze(2), rows.unsqueeze(0), torch.zeros((), dtype=rows.dtype)).sum(1)
        result = result / number.clamp(min=1) if mode == 1 else result
    return result, begun, number.squeeze(1).to(torch.int64), torch.zeros_like(begun)


def _index_put(x: Tensor, indices: Sequence[Tensor | None], values: Tensor, accumulate: bool = False) -> Any:
    """Indexed axes, all first, are taken together, and numbers put along them."""
    indexed = [axis for axis, index in enumerate(indices) if index is not None]
    if any(index is not None and index.dtype in (torch.bool, torch.uint8) for index in indices):
        return NotImplemented
    order = indexed + [axis for axis in range(x.dim()) if axis not in indexed]
    extents = [x.shape[axis] for axis in indexed]
    given = torch.broadcast_tensors(*(indices[axis] for axis in indexed))  # type: ignore[arg-type]
    places = torch.zeros_like(given[0])
    for index, extent in zip(given, extents, strict=True):
        places = places * extent + torch.where(index < 0, index + extent, index)
    rest = [x.shape[axis] for axis in order[len(indexed):]]
    if indexed != list(range(indexed[0], indexed[0] + len(indexed))) or indexed[0] == 0:
        made = values.expand(*places.shape, *rest)
    else:  # what is chosen stands where its axes stood
        before = [x.shape[axis] for axis in range(indexed[0])]
        after = rest[len(before):]
        wide = values.expand(*before, *places.shape, *after)
        middle = list(range(len(before), len(before) + places.dim()))
        made = wide.permute(*middle, *range(len(before)), *range(len(before) + places.dim(), wide.dim()))
    flat = x.permute(order).reshape(math.prod(extents), *rest)
    result = _put(flat, places.reshape(-1), made.reshape(places.numel(), *rest), accumulate)
    inverse = [order.index(axis) for axis in range(x.dim())]
    return result.reshape(*extents, *rest).permute(inverse).clone()


def _put(x: Tensor, places: Tensor, values: Tensor, accumulate: bool) -> Tensor:
    """``x[places] = values`` along the first axis."""
    wide = places.reshape(-1, *[1] * (x.dim() - 1)).expand(values.shape)
    if accumulate:
        return torch.scatter_add(x, 0, wide, values)
    return torch.scatter(x, 0, wide, values)


def _layer_norm(
    x: Tensor, shape: Sequence[int], weight: Tensor | None = None, bias: Tensor | None = None,
    eps: float = 1e-5, cudnn_enable: bool = True,
) -> Any:
    if weight is not None and bias is not None:
        return NotImplemented
    return torch.ops.aten.layer_norm.default(x, shape, *_given(weight, bias, shape, x), eps)


def _group_norm(
    x: Tensor, weight: Tensor | None, bias: Tensor | None, n: int, c: int, area: int, groups: int, eps: float
) -> Any:
    if weight is not None and bias is not None:
        return NotImplemented
    return torch.ops.aten.native_group_norm.default(x, *_given(weight, bias, (c,), x), n, c, area, groups, eps)


def _given(weight: Tensor | None, bias: Tensor | None, shape: Sequence[int], x: Tensor) -> tuple[Tensor, Tensor]:
    """Factors and shifts, neutral ones where there are none."""
    return (torch.ones(shape, dtype=x.dtype) if weight is None else weight,
            torch.zeros(shape, dtype=x.dtype) if bias is None else bias)


def _prod(x: Tensor, dim: int, keepdim: bool = False, *, dtype: Any = None) -> Any:
    """By halves."""
    if dtype is not None:
        x = x.to(dtype)
    elif not x.is_floating_point():
        x = x.to(torch.int64)
    while x.shape[dim] > 1:
        half = x.shape[dim] // 2
        product = x.narrow(dim, 0, half) * x.narrow(dim, half, half)
        odd = x.shape[dim] % 2
        x = torch.cat([product, x.narrow(dim, 2 * half, 1)], dim) if odd else product
    return x if keepdim else x.squeeze(dim)


def _unfold(x: Tensor, dim: int, size: int, step: int) -> Any:
    """Windows of an axis; their elements become the last axis."""
    dim %= x.dim()
    windows = torch.arange(0, x.shape[dim] - size + 1, step).unsqueeze(1) + torch.arange(size)
    chosen = x.index_select(dim, windows.reshape(-1)).unflatten(dim, windows.shape)
    return chosen.movedim(dim + 1, -1)


# mixtures of experts, whose rows go to experts by number, with shapes that do not depend on numbers: every row passes
# every expert, and each row keeps what its own made of it. An accelerator then has one product for each expert: that is
# as many products as there are experts for each one that a router chose.


def experts() -> dict[Any, Callable[..., Any]]:
    """The functions of products of rows by the weights of experts, which ONNX lacks, too."""
    operators = [torch.ops.aten._grouped_mm.default]
    if own := getattr(torch.ops.transformers, "grouped_mm_fallback", None):  # known once transformers has been imported
        operators.append(own.default)
    return dict.fromkeys(operators, _grouped_product)


def _histogram(x: Tensor, bins: int = 100, min: float = 0, max: float = 0) -> Any:
    """How many numbers lie in each of ``bins`` parts of ``min`` to ``max``; the last part has its end."""
    if not min < max:  # the limits are those of the numbers
        return NotImplemented
    numbers = x.reshape(-1, 1)
    place = torch.floor((numbers - min) * (bins / (max - min))).clamp(max=bins - 1)
    inside = (numbers >= min) & (numbers <= max)
    return ((place == torch.arange(bins).to(x.dtype)) & inside).to(x.dtype).sum(0)


def _largest(x: Tensor, k: int, dim: int = -1, largest: bool = True, sorted: bool = True) -> Any:
    """Where any order will do, the sorted one."""
    return NotImplemented if sorted else torch.topk(x, k, dim, largest, True)


def _grouped_product(
    x: Tensor, weight: Tensor, offs: Tensor | None = None, bias: Tensor | None = None, out_dtype: Any = None
) -> Any:
    """[s, k] and [experts, k, n] to [s, n]: rows from ``offs[e - 1]`` to ``offs[e]`` by the weights of expert e."""
    if offs is None or bias is not None or x.dim() != 2 or weight.dim() != 3:
        return NotImplemented
    rows, ends = torch.arange(x.shape[0]), offs.to(torch.int64)
    total = torch.zeros(x.shape[0], weight.shape[2], dtype=x.dtype)
    for expert in range(weight.shape[0]):
        own = rows < ends[expert]
        if expert:
            own = own & (rows >= ends[expert - 1])
        total = torch.where(own.unsqueeze(1), torch.mm(x, weight[expert]), total)
    return total if out_dtype is None else total.to(out_dtype)
