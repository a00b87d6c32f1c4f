"""Operators of torch one by one, beside torch itself."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch.nn import functional as F

import archloom
from archloom.tvm_backend.compile import partition_model
from tests.support.examples import every, slow
from tests.support.tvm_backend.torch_functions import Of, all_same, random, same


def assigned(x: torch.Tensor) -> torch.Tensor:
    y = x.clone()
    y[:, 1, 2:4] = 0.5
    return y


def assigned_from_the_end(x: torch.Tensor) -> torch.Tensor:
    y = x.clone()
    y[..., -2] = x[..., 0]
    return y


def assigned_along_one_axis(x: torch.Tensor) -> torch.Tensor:
    y = x.clone()
    y[:, [3, -4]] = x[:, 1:3]
    return y


def assigned_along_two_axes(x: torch.Tensor) -> torch.Tensor:
    y = x.clone()
    y[:, torch.tensor([[1], [2]]), torch.tensor([0, -5])] += 1.5
    return y


def assigned_apart(x: torch.Tensor) -> torch.Tensor:
    y = x.clone()
    y[torch.tensor([0, 1]), :, torch.tensor([-1, 2])] = x[:, :, 0]
    return y


MENDED: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "bags of rows": lambda x: F.embedding_bag(torch.tensor([[0, 5, 2], [1, 1, 4]]), x[0].reshape(-1, 8), mode="sum"),
    "bags of their own lengths": lambda x: F.embedding_bag(
        torch.tensor([0, 5, 2, 1, 3]), x[0].reshape(-1, 8), torch.tensor([0, 2, 2]), mode="mean", padding_idx=1),
    "largest of bags": lambda x: F.embedding_bag(
        torch.tensor([0, 5, 2, 1]), x[0].reshape(-1, 8), torch.tensor([0, 3, 4]), mode="max", include_last_offset=True),
    "places of triangles": lambda x: (
        x[0][:, *torch.tril_indices(6, 8, -1)] + x[0][:, *torch.triu_indices(6, 5, 1)][:, :1]),
    "histogram": lambda x: x + torch.histc(x, 5, -1, 1.5).sum() + torch.histc(x, 4, -1, 1)[2],
    "largest in any order": lambda x: torch.topk(x, 3, sorted=False)[0].sum(-1),
    "cumsum of floats as integers": lambda x: torch.cumsum((4 * x).round(), 1, dtype=torch.int32),
    "arange, down": lambda x: x + torch.arange(7, -1, -1),
    "arange, down by twos": lambda x: x + torch.arange(16, 0, -2),
    "arange, down by threes": lambda x: x[..., :3] + torch.arange(7, -1, -3),
    "min along an axis": lambda x: x.min(-1, keepdim=True)[0],
    "var_mean": lambda x: torch.var_mean(x, -1)[0],
    "prod": lambda x: x.prod(1),
    "floor division of integers": lambda x: (x * 10).to(torch.int64) // 3,
    "selu": lambda x: F.selu(x),
    "group norm without weights": lambda x: F.group_norm(x, 2),
    "layer norm without weights": lambda x: F.layer_norm(x, (6, 8)),
    "pad by less than nothing": lambda x: F.pad(x, (-1, 2)),
    "average pool, rounded up": lambda x: F.avg_pool2d(x, 3, 2, 0, ceil_mode=True),
    "adaptive max pool": lambda x: F.adaptive_max_pool2d(x, (2, 4)),
    "grid sample": lambda x: F.grid_sample(x, torch.tanh(x[:, :2].permute(0, 2, 3, 1)), align_corners=False),
    "fold": lambda x: F.fold(F.unfold(x, 2, stride=2), (6, 8), 2, stride=2),
    "unfold of a tensor": lambda x: x.unfold(-1, 3, 2),
    "cdist": lambda x: torch.cdist(x[:, 0], x[:, 1]),
    "bilinear": lambda x: F.bilinear(x, 1 - x, torch.arange(128.0).reshape(2, 8, 8) / 99, torch.ones(2)),
    "shift": lambda x: (x * 9).to(torch.int32) << 2,
    "scatter_add": lambda x: torch.zeros(2, 4, 6, 8).scatter_add(1, x.argmax(1, keepdim=True), x[:, :1]),
    "index_put": lambda x: x.index_put((torch.tensor([0, 1]), torch.tensor([-1, 2])), torch.zeros(())),
    "index_copy": lambda x: x.index_copy(1, torch.tensor([3, 0]), x[:, :2]),
    "assignment": assigned,
    "assignment from the end": assigned_from_the_end,
    "index_add": lambda x: x.index_add(1, torch.tensor([3, 0]), x[:, :2]),
    "integers added to floats": lambda x: x + torch.arange(8),
    "booleans by integers": lambda x: (x > 0) * 3,
    "average pool, rounded up, of the elements alone":
        lambda x: F.avg_pool2d(x, 3, 2, 1, ceil_mode=True, count_include_pad=False),
    "average pool, rounded up, by a divisor": lambda x: F.avg_pool2d(x, (2, 3), 2, 1, True, True, 5),
    "average pool, rounded up, of one image": lambda x: F.avg_pool2d(x[0], (3, 2), (2, 3), (1, 0), True),
    "places of adaptive max pool": lambda x: F.adaptive_max_pool2d(x, (2, 3), return_indices=True)[1],
    "assignment along one axis": assigned_along_one_axis,
    "assignment along two axes": assigned_along_two_axes,
    "assignment at two axes apart": assigned_apart,
    "prod of integers": lambda x: (x * 3).to(torch.int32).prod(-1, keepdim=True),
    "integers divided toward zero": lambda x: torch.div((x * 9).to(torch.int64), 4, rounding_mode="trunc"),
    "elu, scaled": lambda x: torch.ops.aten.elu(x, 0.5, 2.0, 3.0),
}
"""What TVM 0.27 lacks or imports as other numbers; of a tensor of 2 x 4 x 6 x 8."""

OPERATORS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "arange_f": lambda x: x + torch.arange(0, 4, 0.5),
    "arange_odd": lambda x: x[..., :5] + torch.arange(1, 10, 2),
    "linspace": lambda x: x + torch.linspace(-1, 1, 8),
    "roll": lambda x: torch.roll(x, (1, -2), (2, 3)),
    "roll_flat": lambda x: torch.roll(x, 3),
    "flip": lambda x: x.flip(1, -1),
    "slice_neg": lambda x: x[:, :, -3:, -5:-1],
    "slice_step": lambda x: x[:, ::2, 1::3],
    "slice_big": lambda x: x[:, :100, 2:100],
    "narrow": lambda x: x.narrow(-1, 2, 3),
    "chunk_un": lambda x: x.chunk(3, -1)[2],
    "split_un": lambda x: x.split([1, 5, 2], 3)[1],
    "split7": lambda x: x.split(5, -1)[1],
    "tensor_split": lambda x: x.tensor_split(3, -1)[1],
    "unbind": lambda x: x.unbind(1)[-1],
    "gather": lambda x: x.gather(-1, torch.tensor([1, 0, 7]).expand(2, 4, 6, 3)),
    "gather_d0": lambda x: x.gather(1, torch.zeros(2, 1, 6, 8, dtype=torch.int64) + 2),
    "index_select": lambda x: x.index_select(2, torch.tensor([5, 0, 2])),
    "take_along": lambda x: torch.take_along_dim(x, x.argsort(-1), -1),
    "topk": lambda x: x.topk(3, -1)[0],
    "topk_i": lambda x: x.topk(3, 1)[1],
    "sort_desc": lambda x: x.sort(1, descending=True)[0],
    "argsort": lambda x: x.argsort(2),
    "argmax": lambda x: x.argmax(-1),
    "argmax_keep": lambda x: x.argmax(1, keepdim=True),
    "argmax_flat": lambda x: x.argmax(),
    "argmin": lambda x: x.argmin(2),
    "max_dim": lambda x: x.max(1)[0],
    "max_dim_i": lambda x: x.max(1)[1],
    "maximum": lambda x: torch.maximum(x, x.flip(0)),
    "var": lambda x: x.var(-1),
    "var_b": lambda x: x.var((1, 2), unbiased=False, keepdim=True),
    "std": lambda x: x.std(1),
    "cumsum": lambda x: x.cumsum(2),
    "logsumexp": lambda x: x.logsumexp((1, 3)),
    "norm": lambda x: x.norm(dim=-1),
    "norm1": lambda x: x.norm(1, dim=1),
    "lnorm": lambda x: torch.linalg.vector_norm(x, dim=(2, 3)),
    "normalize": lambda x: F.normalize(x, dim=1),
    "fmod": lambda x: torch.fmod(x, 0.7),
    "remainder": lambda x: torch.remainder(x, 0.7),
    "floor_div": lambda x: x // 0.7,
    "div_trunc": lambda x: torch.div(x, 0.3, rounding_mode='trunc'),
    "int_rem": lambda x: (x * 10).to(torch.int64) % 3,
    "int_div": lambda x: (x * 10).to(torch.int32) / 3,
    "rsub": lambda x: 1 - x,
    "pow": lambda x: x.abs() ** 1.7,
    "pow2": lambda x: x ** 3,
    "rpow": lambda x: 2 ** x,
    "rsqrt": lambda x: (x * x + 1).rsqrt(),
    "round": lambda x: (x * 2).round() + (x * 0 + 2.5).round(),
    "trunc": lambda x: (3 * x).trunc(),
    "frac": lambda x: (3 * x).frac(),
    "sign": lambda x: x.sign(),
    "erf": lambda x: x.erf(),
    "expm1": lambda x: x.expm1(),
    "log1p": lambda x: x.abs().log1p(),
    "atan2": lambda x: torch.atan2(x, x.flip(0)),
    "clamp_t": lambda x: torch.clamp(x, x.flip(0) - 1, x.flip(0) + 0.5),
    "clamp_min": lambda x: x.clamp_min(0.1),
    "lerp": lambda x: torch.lerp(x, x.flip(1), 0.3),
    "addcmul": lambda x: torch.addcmul(x, x, x, value=0.5),
    "addcdiv": lambda x: torch.addcdiv(x, x, x.abs() + 1, value=2),
    "gelu_t": lambda x: F.gelu(x, approximate='tanh'),
    "elu": lambda x: F.elu(x, 0.5),
    "celu": lambda x: F.celu(x, 0.7),
    "prelu": lambda x: F.prelu(x, torch.tensor([0.1, 0.2, 0.3, 0.4])),
    "leaky": lambda x: F.leaky_relu(x, 0.2),
    "hardsig": lambda x: F.hardsigmoid(x),
    "hardswish": lambda x: F.hardswish(x),
    "mish": lambda x: F.mish(x),
    "softplus": lambda x: F.softplus(x, 2.0, 3.0),
    "softsign": lambda x: F.softsign(x),
    "tanhshrink": lambda x: F.tanhshrink(x),
    "softshrink": lambda x: F.softshrink(x, 0.3),
    "hardshrink": lambda x: F.hardshrink(x, 0.3),
    "threshold": lambda x: F.threshold(x, 0.1, -3.0),
    "hardtanh": lambda x: F.hardtanh(x, -0.5, 0.7),
    "logsig": lambda x: F.logsigmoid(x),
    "glu": lambda x: F.glu(x, 1),
    "softmax0": lambda x: x.softmax(1),
    "logsoftmax": lambda x: x.log_softmax(2),
    "softmin": lambda x: F.softmin(x, dim=1),
    "in": lambda x: F.instance_norm(x),
    "lrn": lambda x: F.local_response_norm(x, 3),
    "rms": lambda x: F.rms_norm(x, (8,)),
    "linear of a vector": lambda x: F.linear(x[0, 0, 0], torch.arange(24.0).reshape(3, 8)),
    "bn": lambda x: F.batch_norm(x, torch.tensor([0.1, 0.2, 0.3, 0.4]), torch.tensor([1.0, 2, 3, 4])),
    "pad_c": lambda x: F.pad(x, (1, 2, 0, 3), value=0.5),
    "pad_r": lambda x: F.pad(x, (1, 2, 2, 1), mode='reflect'),
    "pad_e": lambda x: F.pad(x, (1, 2, 2, 1), mode='replicate'),
    "maxp": lambda x: F.max_pool2d(x, 3, 2, 1, ceil_mode=True),
    "maxp_d": lambda x: F.max_pool2d(x, 2, 1, 0, 2),
    "avgp": lambda x: F.avg_pool2d(x, 3, 2, 1),
    "avgp_ni": lambda x: F.avg_pool2d(x, 3, 2, 1, count_include_pad=False),
    "aap": lambda x: F.adaptive_avg_pool2d(x, (3, 5)),
    "aap1": lambda x: F.adaptive_avg_pool2d(x, 1),
    "maxp1d": lambda x: F.max_pool1d(x[:, 0], 3, 2),
    "avgp1d": lambda x: F.avg_pool1d(x[:, 0], 3, 2, 1),
    "aap1d": lambda x: F.adaptive_avg_pool1d(x[:, 0], 3),
    "lppool": lambda x: F.lp_pool2d(x.abs(), 2, 2),
    "up_near": lambda x: F.interpolate(x, scale_factor=2),
    "up_near_s": lambda x: F.interpolate(x, size=(7, 11)),
    "up_bil": lambda x: F.interpolate(x, scale_factor=2, mode='bilinear'),
    "up_bil_ac": lambda x: F.interpolate(x, size=(9, 5), mode='bilinear', align_corners=True),
    "up_bic": lambda x: F.interpolate(x, scale_factor=2, mode='bicubic'),
    "up_lin": lambda x: F.interpolate(x[:, 0], scale_factor=2, mode='linear'),
    "pixsh": lambda x: F.pixel_shuffle(x, 2),
    "pixun": lambda x: F.pixel_unshuffle(x, 2),
    "chsh": lambda x: F.channel_shuffle(x, 2),
    "up1d": lambda x: F.interpolate(x[:, 0], scale_factor=2),
    "unfold": lambda x: F.unfold(x, 3, 1, 1, 2),
    "conv1d": lambda x: F.conv1d(x[:, 0], torch.ones(3, 6, 3) * 0.1, padding='same'),
    "conv_same_even": lambda x: F.conv2d(x, torch.ones(5, 4, 2, 4) * 0.1, padding='same'),
    "convT": lambda x: F.conv_transpose2d(x, torch.ones(4, 3, 3, 3) * 0.1, stride=2, padding=1, output_padding=1),
    "convTg": lambda x: F.conv_transpose2d(x, torch.ones(4, 3, 2, 3) * 0.1, stride=(2, 3), groups=2, dilation=(1, 2)),
    "convT1": lambda x: F.conv_transpose1d(x[:, 0], torch.ones(6, 2, 4) * 0.1, stride=2, padding=1),
    "einsum": lambda x: torch.einsum('bchw,bcHw->bhH', x, x),
    "einsum2": lambda x: torch.einsum('bchw,ck->bkhw', x, torch.ones(4, 3)),
    "bmm": lambda x: torch.bmm(x[:, 0], x[:, 1].mT),
    "addmm": lambda x: torch.addmm(torch.ones(8), x[0, 0], torch.ones(8, 8), beta=0.5, alpha=2.0),
    "baddbmm": lambda x: torch.baddbmm(x[:, 0, :, :6], x[:, 0], x[:, 1].mT, beta=0.5, alpha=0.3),
    "outer": lambda x: torch.outer(x[0, 0, 0], x[0, 0, 1]),
    "mv": lambda x: x[0, 0] @ x[0, 1, 0],
    "dot": lambda x: x[0, 0, 0] @ x[0, 1, 0],
    "tensordot": lambda x: torch.tensordot(x, torch.ones(6, 8, 3), 2),
    "cos": lambda x: F.cosine_similarity(x, x.flip(0), dim=-1),
    "matpow": lambda x: x[0, 0] @ x[0, 0].T @ x[0, 0],
    "cross": lambda x: torch.linalg.cross(x[..., :3], x[..., 3:6]),
    "where": lambda x: torch.where(x > 0, x, -2 * x),
    "mfill": lambda x: x.masked_fill(x < 0, -1000000000.0),
    "mscat": lambda x: x.masked_fill(torch.ones(6, 8, dtype=torch.bool).tril(), 0.0),
    "tril": lambda x: x.tril(-1),
    "triu": lambda x: x.triu(1),
    "diag": lambda x: x[0, 0, :, :6].diagonal(),
    "eye": lambda x: x[..., :6] + torch.eye(6),
    "one_hot": lambda x: F.one_hot(x.argmax(-1), 8),
    "nonfin": lambda x: torch.nan_to_num(x),
    "isnan": lambda x: x.isnan(),
    "any": lambda x: (x > 2).any(-1),
    "all": lambda x: (x > -9).all(1),
    "logical": lambda x: (x > 0) ^ (x < 1),
    "bitand": lambda x: (x * 9).to(torch.int32) & 3,
    "not": lambda x: ~(x > 0),
    "eqs": lambda x: x.round() == 1,
    "neg_int": lambda x: -(x * 3).to(torch.int8),
    "scatter": lambda x: torch.zeros(2, 4, 6, 8).scatter(1, x.argmax(1, keepdim=True), 1.0),
    "slice_scatter": lambda x: torch.slice_scatter(x, x[:, :, :2], 2, -2),
    "select_scatter": lambda x: torch.select_scatter(x, x[:, 0], 1, -1),
    "repeat": lambda x: x.repeat(1, 2, 1, 3),
    "repeat_pre": lambda x: x[0, 0].repeat(2, 1, 3),
    "rep_int": lambda x: x.repeat_interleave(2, 1),
    "tile": lambda x: x.tile(2, 1),
    "expand": lambda x: x[:, :1].expand(-1, 3, -1, -1),
    "movedim": lambda x: x.movedim(1, -1),
    "swap": lambda x: x.swapaxes(1, 3),
    "T": lambda x: x.mT,
    "flatten": lambda x: x.flatten(1, 2),
    "unflatten": lambda x: x.unflatten(-1, (2, -1)),
    "stack": lambda x: torch.stack([x, x * 2], -1),
    "hstack": lambda x: torch.hstack([x, x]),
    "meshgrid": lambda x: x[0, 0] + torch.meshgrid(torch.arange(6.0), torch.arange(8.0), indexing='ij')[1],
    "squeeze": lambda x: x[:, :1].squeeze(),
    "squeeze_n": lambda x: x[:, :1].squeeze(-3),
    "to_u8": lambda x: (x * 40).to(torch.int32).to(torch.uint8),
    "to_i8": lambda x: (x * 10).to(torch.int8),
    "half": lambda x: x.half().float(),
    "bf16": lambda x: x.bfloat16().float(),
    "f64": lambda x: x.double() * 3,
    "bool": lambda x: x.round().bool(),
    "mean_i": lambda x: (x * 9).to(torch.int32).float().mean(),
    "sum_b": lambda x: (x > 0).sum(),
    "cumsum_i": lambda x: (x > 0).long().cumsum(-1),
    "full": lambda x: x + torch.full((8,), 2.5),
    "new": lambda x: x.new_ones(3) + x[0, 0, 0, :3],
    "empty_like": lambda x: torch.zeros_like(x) + 1,
    "scalar_t": lambda x: x * torch.tensor(2),
    "bucket": lambda x: torch.bucketize(x, torch.tensor([-1.0, 0, 1])),
}
"""What TVM imports as it is."""


PRODUCTS: dict[str, tuple[Callable[[torch.Tensor], torch.Tensor], int]] = {
    "mv": (OPERATORS["mv"], 6 * 8), "dot": (OPERATORS["dot"], 8),
    "linear of a vector": (OPERATORS["linear of a vector"], 8 * 3),
    "bilinear": (lambda x: F.bilinear(x[0, 0], x[1, 0], torch.ones(2, 8, 8)), 6 * 8 * 8 * 2 + 6 * 2 * 8),
    "einsum": (lambda x: torch.einsum("chw,cd,dk->hk", x[0], x[1, :, 0, :5], x[1, 0, :5, :3]), 4 * 5 * 3 + 6 * 4 * 3),
    "volume": (lambda x: F.conv3d(x[:, None], torch.ones(2, 1, 3, 3, 3)), 2 * 2 * 2 * 4 * 6 * 27),
    "transposed, of a volume": (
        lambda x: F.conv_transpose3d(x[:, None], torch.ones(1, 3, 2, 2, 2)), 2 * 4 * 6 * 8 * 3 * 8),
}
"""Operators with their multiply-accumulates, wherever they run."""


@pytest.mark.parametrize("target", ["gemmini", "qkv"])
def test_multiply_accumulates(target: str) -> None:
    class Every(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
            return tuple(function(x) for function, _ in PRODUCTS.values())

    report = archloom.estimate(torch.export.export(Every(), (random(2, 4, 6, 8),)), target)
    assert report.macs == sum(macs for _, macs in PRODUCTS.values())


@pytest.mark.parametrize("part", every(4, range(4)))
def test_mended(part: int) -> None:
    """In parts, each of which is imported and compiled as one network."""
    all_same({name: MENDED[name] for name in list(MENDED)[part::4]}, random(2, 4, 6, 8))


@pytest.mark.parametrize("part", [
    list(MENDED)[::4], *(slow([name]) for name in (*MENDED, *OPERATORS))], ids=lambda part: part[0])
def test_estimates_have_the_operators_of_what_is_compiled(part: list[str]) -> None:
    """Read without weights, and by TVM."""
    program = torch.export.export(Of([{**MENDED, **OPERATORS}[name] for name in part]), (random(2, 4, 6, 8),))
    compiled, estimated = partition_model(archloom.load(program), "qkv"), archloom.estimate(program, "qkv")
    assert sorted((op.name, op.op, op.macs) for op in estimated.host) == sorted(
        (op.name, op.op, op.macs) for op in compiled.host.ops)
    assert estimated.offloaded_macs == compiled.offloaded_macs


@pytest.mark.slow
@pytest.mark.parametrize("name", OPERATORS)
def test_operator(name: str) -> None:
    same(OPERATORS[name], random(2, 4, 6, 8))
