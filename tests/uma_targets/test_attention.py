"""Attention as one region on QKV: every form in which importers bring it, its kernel, and what does not fit."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

import archloom
from archloom.mapper.mapping import Mapping
from archloom.mapper.search import search
from archloom.mapper.workload import Epilogue, Workload, attention
from archloom.oracle import interpreter, taidl
from archloom.oracle.errors import MappingError
from archloom.oracle.xla import compile_stream
from archloom.tvm_backend.artifact import workload_json
from archloom.tvm_backend.ir.attention import AttentionShape
from archloom.uma_targets.oma import Oma
from archloom.uma_targets.qkv import Qkv, emit_head, fits
from benchmarks.mapper.exhaustive import simulated_cycles
from tests.support.examples import often, slow
from tests.support.oracle.flat_trace import flat_trace

B, H, Q, D = 2, 3, 9, 8
"""Batch, heads, length and depth of the networks."""
CAUSAL = torch.full((Q, Q), -math.inf).triu(1)


def projected(x: torch.Tensor, heads: int = H) -> torch.Tensor:
    """[batch, length, heads · depth] → [batch, heads, length, depth]."""
    return x.view(x.shape[0], x.shape[1], heads, -1).transpose(1, 2)


class Attend(nn.Module):
    """Projections, attention in some form, and what puts heads beside each other."""

    def __init__(self, form: Callable[..., torch.Tensor], heads: int = H, groups: int = H) -> None:
        super().__init__()
        self.form, self.heads, self.groups = form, heads, groups
        self.query = nn.Linear(16, heads * D)
        self.key, self.value = nn.Linear(16, groups * D), nn.Linear(16, groups * D)
        self.bias = nn.Parameter(torch.randn(1, heads, Q, Q))

    def forward(self, x: torch.Tensor, *others: torch.Tensor) -> torch.Tensor:
        y = others[0] if others and others[0].dim() == 3 else x
        mask = [o for o in others if o.dim() != 3]
        q, k, v = (projected(m(t), g) for m, t, g in (
            (self.query, x, self.heads), (self.key, y, self.groups), (self.value, y, self.groups)))
        out = self.form(self, q, k, v, *mask)
        return out.transpose(1, 2).reshape(x.shape[0], x.shape[1], -1)


def by_hand(scores: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    return scores.softmax(-1) @ v


def repeated(x: torch.Tensor, times: int) -> torch.Tensor:
    """As transformers repeats heads of keys and values."""
    b, g, n, d = x.shape
    return x[:, :, None].expand(b, g, times, n, d).reshape(b, g * times, n, d)


KEEP = torch.rand(B, 1, 1, Q, generator=torch.Generator().manual_seed(1)) > 0.3
KEEP[..., 0] = True
FORMS: dict[str, tuple[Callable[..., torch.Tensor], dict[str, Any], list[torch.Tensor]]] = {
    "fused": (lambda m, q, k, v: F.scaled_dot_product_attention(q, k, v), {}, []),
    "fused, own scale": (lambda m, q, k, v: F.scaled_dot_product_attention(q, k, v, scale=0.3), {}, []),
    "fused, causal": (lambda m, q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True), {}, []),
    "fused, boolean mask": (
        lambda m, q, k, v, keep: F.scaled_dot_product_attention(q, k, v, attn_mask=keep), {}, [KEEP]),
    "fused, relative bias": (lambda m, q, k, v: F.scaled_dot_product_attention(q, k, v, attn_mask=m.bias), {}, []),
    "fused, grouped heads": (lambda m, q, k, v: F.scaled_dot_product_attention(q, k, v, enable_gqa=True),
                             {"heads": 4, "groups": 2}, []),
    "scaled after": (lambda m, q, k, v: by_hand(q @ k.transpose(-1, -2) / math.sqrt(D), v), {}, []),
    "scaled before": (lambda m, q, k, v: by_hand((q * D**-0.5) @ k.transpose(-1, -2), v), {}, []),
    "scaled on both sides": (lambda m, q, k, v: by_hand((q * D**-0.25) @ (k * D**-0.25).transpose(-1, -2), v), {}, []),
    "not scaled": (lambda m, q, k, v: by_hand(q @ k.transpose(-1, -2), v), {}, []),
    "additive mask": (lambda m, q, k, v, keep: by_hand(
        q @ k.transpose(-1, -2) / math.sqrt(D) + (1 - keep.float()) * torch.finfo(torch.float32).min, v), {}, [KEEP]),
    "boolean mask": (lambda m, q, k, v, keep: by_hand(
        torch.where(keep, q @ k.transpose(-1, -2) * D**-0.5, -math.inf), v), {}, [KEEP]),
    "masked fill": (lambda m, q, k, v, keep: by_hand(
        (q @ k.transpose(-1, -2) * D**-0.5).masked_fill(~keep, -1e9), v), {}, [KEEP]),
    "causal": (lambda m, q, k, v: by_hand(q @ k.transpose(-1, -2) / math.sqrt(D) + CAUSAL, v), {}, []),
    "causal and mask": (lambda m, q, k, v, keep: by_hand(
        q @ k.transpose(-1, -2) / math.sqrt(D) + CAUSAL + torch.where(keep, 0.0, -1e9), v), {}, [KEEP]),
    "grouped heads": (lambda m, q, k, v: by_hand(
        q @ repeated(k, 2).transpose(-1, -2) / math.sqrt(D), repeated(v, 2)), {"heads": 4, "groups": 2}, []),
    "relative bias": (lambda m, q, k, v: by_hand(q @ k.transpose(-1, -2) / math.sqrt(D) + m.bias, v), {}, []),
    "relative bias before scale": (lambda m, q, k, v: by_hand((q @ k.transpose(-1, -2) + m.bias) * 0.5, v), {}, []),
    "cross": (lambda m, q, k, v: by_hand(q @ k.transpose(-1, -2) / math.sqrt(D), v), {}, [torch.randn(B, 14, 16)]),
    "fused, cross": (lambda m, q, k, v: F.scaled_dot_product_attention(q, k, v), {}, [torch.randn(B, 14, 16)]),
}


def network(name: str) -> tuple[nn.Module, tuple[torch.Tensor, ...]]:
    torch.manual_seed(0)
    form, sizes, others = FORMS[name]
    return Attend(form, **sizes).eval(), (torch.randn(B, Q, 16), *others)


def attentions(found: Any) -> list[str]:
    return [op.op for op in found.operators if op.op.startswith("attention") and op.taken_by == "qkv"]


OFTEN = ["fused, grouped heads", "scaled on both sides", "causal and mask", "cross"]


@pytest.mark.parametrize("name", often(FORMS, OFTEN))
def test_attention_is_one_operator(name: str) -> None:
    """One region, no softmax and no product on the host; nothing but cheap operators is left there."""
    module, inputs = network(name)
    found = archloom.coverage(module, "qkv", {"dim": 8}, example_inputs=inputs)
    assert len(attentions(found)) == 1, str(found)
    assert not {"nn.softmax", "matmul", "nn.attention", "nn.attention_bias"} & {
        op.op for op in found.operators if op.taken_by is None}, str(found)
    assert [op.op for op in found.operators].count("dense+bias") == 3


RUN = ["additive mask"]


@pytest.mark.slow
@pytest.mark.parametrize("name", often(FORMS, RUN))
def test_networks_equal_torch(name: str) -> None:
    module, inputs = network(name)
    compiled = archloom.compile(module, "qkv", {"dim": 8}, example_inputs=inputs)
    with torch.no_grad():
        expected = module(*inputs).numpy()
    found = np.asarray(compiled(*[x.numpy() for x in inputs]))
    assert np.abs(found - expected).max() <= 1e-3 * np.abs(expected).max()


@pytest.mark.slow
@pytest.mark.parametrize("name", [
    "causal", *map(slow, ("scaled after", "boolean mask", "grouped heads"))])
def test_onnx_networks_bring_it_too(name: str) -> None:
    """Both importers of ONNX, TVM's and the plain one of estimates, lead to it."""
    from archloom.tvm_backend.frontends.torch.export import to_onnx

    module, inputs = network(name)
    proto = to_onnx(module, inputs, "net", ["x", "mask"][:len(inputs)])
    assert len(attentions(archloom.coverage(proto, "qkv", {"dim": 8}))) == 1
    layers = [layer.op for layer in archloom.estimate(proto, "qkv", {"dim": 8}).accelerator_layers]
    assert sum(op.startswith("attention") for op in layers) == 1


@pytest.mark.slow
def test_what_does_not_fit_is_two_products_with_the_hosts_softmax_and_the_reason_is_given() -> None:
    for name in ("fused, causal", "scaled after"):
        module, inputs = network(name)
        found = archloom.coverage(module, "qkv", {"dim": 8, "sum_rows": 16}, example_inputs=inputs)
        assert not attentions(found)
        assert sum(op.op == "batch_matmul" for op in found.operators) == 2
        (softmax,) = [op for op in found.operators if op.op == "nn.softmax"]
        (answer,) = softmax.refused
        assert answer.reason == "attention to 9 keys of depth 8 needs 24 sum_rows, of 16"
        assert "operand_rows=40 and sum_rows=24 would do" in answer.needs


@pytest.mark.slow
def test_what_does_not_fit_equals_torch() -> None:
    module, inputs = network("fused, causal")
    compiled = archloom.compile(module, "qkv", {"dim": 8, "sum_rows": 16}, example_inputs=inputs)
    with torch.no_grad():
        np.testing.assert_allclose(compiled(*inputs), module(*inputs), rtol=1e-4, atol=1e-5)


@pytest.mark.slow
def test_scores_that_others_read_stay_apart() -> None:
    class Both(nn.Module):
        def forward(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            shares = (q @ k.transpose(-1, -2)).softmax(-1)
            return shares @ v, shares

    given = tuple(torch.randn(1, 2, 5, 4) for _ in range(3))
    assert not attentions(archloom.coverage(Both(), "qkv", {"dim": 8}, example_inputs=given))


@pytest.mark.slow
def test_batches_without_heads() -> None:
    class Plain(nn.Module):
        def forward(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
            return by_hand(torch.bmm(q, k.transpose(1, 2)) * 0.5, v)

    given = (torch.randn(3, 5, 4), torch.randn(3, 7, 4), torch.randn(3, 7, 6))
    compiled = archloom.compile(Plain(), "qkv", {"dim": 4}, example_inputs=given)
    assert [s.op for s in compiled.compiled.steps()] == ["attention"]
    np.testing.assert_allclose(compiled(*given), Plain()(*given), rtol=1e-4, atol=1e-5)


# the kernel ---------------------------------------------------------------------------------------------------------

PARAMETERS = {"dim": 4, "operand_rows": 64, "sum_rows": 64}


def workload(b: int, h: int, q: int, k: int, d: int, e: int, bias: bool, scale: float = 0.5) -> Workload:
    return attention(b, h, q, k, d, e, epilogue=Epilogue(bias, scale, False, "float32"))


def reference(work: Workload, tensors: dict[str, np.ndarray]) -> np.ndarray:
    scores = np.einsum("bqhd,bkhd->bhqk", tensors["Q"].astype(np.float64), tensors["K"]) + tensors.get("bias", 0)
    powers = np.exp(work.epilogue.scale * (scores - scores.max(-1, keepdims=True)))
    result: np.ndarray = np.einsum("bhqk,bkhe->bqhe", powers / powers.sum(-1, keepdims=True), tensors["V"])
    return result


@pytest.mark.slow
@pytest.mark.parametrize(("sizes", "turns", "slots"), [
    slow((1, 2, 5, 7, 5, 3, True), 1, 4), slow((1, 1, 1, 1, 1, 1, False), 2, 2), slow((1, 1, 3, 1, 9, 2, True), 1, 16),
    slow((2, 3, 7, 11, 5, 3, True), 1, 4), slow((1, 2, 9, 13, 4, 8, False), 2, 8),
    ((2, 1, 4, 4, 4, 4, True), 2, 2),
])
def test_the_kernel_equals_its_mathematics(sizes: Any, turns: int, slots: int) -> None:
    work = workload(*sizes)
    mapping = Mapping("attention", "", (("q", 4), ("k", 4)), buffers=(("Q", turns), ("K", slots)))
    assert Mapping.from_json(mapping.to_json()) == mapping
    options = {**Qkv.kit.accelerator.resolve_options({"dim": 4}), "operand_rows": 64 + 16, "sum_rows": 64}
    stream = Qkv.kit.accelerator.emitter(options).emit(work, mapping)
    isa = taidl.load("qkv", **dict(stream.parameters))
    rng = np.random.default_rng(0)
    tensors = {t.name: rng.standard_normal(t.shape).astype(np.float32) for t in work.inputs}
    found = interpreter.run(stream, isa, tensors, poison=3)["O"]
    np.testing.assert_allclose(found, reference(work, tensors), rtol=1e-5, atol=1e-6)
    oracle = np.asarray(compile_stream(stream, isa)(*[tensors[a.name] for a in stream.arguments])[0])
    np.testing.assert_array_equal(oracle.view(np.uint32), np.asarray(found).view(np.uint32))


def test_tiles_of_keys_and_values_take_turns_over_scores_tiles_of_queries_and_heads() -> None:
    mapping = Mapping("attention", "", (("q", 4), ("k", 4)), buffers=(("Q", 2), ("K", 8)))
    stream = Qkv.kit.accelerator.emitter({"dim": 4}).emit(workload(1, 2, 9, 5, 8, 4, False), mapping)
    rows = [values["row"] for name, values in flat_trace(stream) if name == "load" and values["row"] < 8 * 4]
    assert len(rows) == 2 * 3 * (2 * 2 + 2)  # heads, tiles of queries; those of K, and of V
    assert rows == [n % 8 * 4 for n in range(len(rows))]


@pytest.mark.parametrize("sizes", [(1, 2, 64, 16, 128, 16, True), (1, 2, 80, 32, 16, 64, False)])
def test_attention_is_ranked_as_it_is_simulated(sizes: Any) -> None:
    work, configuration = workload(*sizes), Qkv.kit.accelerator.configure({})
    estimated, mapping_of = configuration.space(work).ranked()
    cycles = np.array([simulated_cycles(work, mapping_of(i), configuration) for i in range(len(estimated))])
    assert cycles[np.argmin(estimated)] == cycles.min()
    apart = cycles[:, None] > 1.2 * cycles
    assert apart.any() and (estimated[:, None] > estimated)[apart].all()


def test_attention_is_faster_than_its_products_and_uses_the_array() -> None:
    work = workload(1, 4, 128, 128, 64, 64, False)
    plan = search(work, Qkv.kit.accelerator, {})
    assert work.macs == 2 * 4 * 128 * 128 * 64
    assert work.macs / (plan.timing.cycles * 256) > 0.5


def test_workloads_are_kept_in_artifacts() -> None:
    work = workload(2, 3, 4, 5, 6, 7, True)
    assert workload_json.from_json(workload_json.to_json(work)) == work


def test_what_the_kernel_refuses() -> None:
    options = Qkv.kit.accelerator.resolve_options({"dim": 16})
    assert fits(AttentionShape(1, 12, 512, 512, 64, 64), options) is None
    misfit = fits(AttentionShape(1, 12, 1024, 1024, 64, 64), options)
    assert misfit is not None and misfit[0] == (
        "attention to 1024 keys of depth 64 needs 1120 operand_rows, of 1024 and 1088 sum_rows, of 1024")
    with pytest.raises(MappingError, match="none of 8 mappings fits; the smallest needs 1120 operand_rows"):
        search(workload(1, 1, 16, 1024, 64, 64, False), Qkv.kit.accelerator, {}, use_cache=False)
    mapping = Mapping("attention", "", (("q", 4), ("k", 4)), buffers=(("Q", 2), ("K", 16)))
    with pytest.raises(MappingError, match="2 turns and a ring of 16 tiles need 224 operand_rows, of 64, and"):
        emit_head(_head(), mapping, PARAMETERS)
    with pytest.raises(MappingError, match="expected a matrix product or a 1x1 convolution, found attention"):
        search(workload(1, 1, 4, 4, 4, 4, False), Oma.kit.accelerator)


def _head() -> Any:
    from archloom.oracle.affine import Affine
    from archloom.uma_targets.kit.attention import Head, Matrix

    at = Matrix(Affine(0), 64)
    return Head(40, 40, 40, 40, at, at, at, at, None, 1.0, Affine(0))
