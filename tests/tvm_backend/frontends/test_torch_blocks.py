"""Equal blocks are exported and imported once; what comes of it is what the whole network's import gives."""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

import archloom
from archloom.models.networks.decoder import Decoder, DecoderStep
from archloom.tvm_backend.frontends.onnx import skeleton
from archloom.tvm_backend.frontends.torch import blocks, export, skeletons, weights
from archloom.tvm_backend.ir import expressions as ir
from archloom.tvm_backend.model import Model
from tests.support.examples import examples

MANY = 1 << 30


class Layer(nn.Module):
    """A block whose second result, where there is one, others read; ``shift`` tells some apart."""

    def __init__(self, width: int, shift: float, pair: bool) -> None:
        super().__init__()
        self.shift, self.pair = shift, pair
        self.dense, self.norm = nn.Linear(width, width), nn.LayerNorm(width)

    def forward(self, x: torch.Tensor, scale: float = 1.0) -> Any:
        y = self.norm(x + self.dense(x) * scale) + self.shift
        return (y, torch.relu(y)) if self.pair else y


class Stack(nn.Module):
    """Layers one after the other, or ``beside`` the one before: on the same tensor, with weights of their own."""

    def __init__(self, shifts: list[float], scales: list[float], beside: list[bool], pair: bool) -> None:
        super().__init__()
        self.layers = nn.ModuleList(Layer(8, shift, pair) for shift in shifts)
        self.scales, self.beside, self.pair = scales, beside, pair

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        before = x
        for layer, scale, beside in zip(self.layers, self.scales, self.beside, strict=True):
            given = before if beside else x
            y = layer(given, scale=scale)
            y = y[0] + y[1] if self.pair else y
            before, x = given, x + y if beside else y
        return x


@st.composite
def stacks(draw: st.DrawFn) -> Stack:
    count = draw(st.integers(3, 6))
    shifts, scales = (draw(st.lists(st.sampled_from((1.0, 2.0)), min_size=count, max_size=count)) for _ in range(2))
    beside = draw(st.lists(st.booleans(), min_size=count, max_size=count))
    with torch.device("meta"):
        return Stack(shifts, scales, beside, draw(st.booleans())).eval()


def written(model: Model) -> list[tuple[str, str]]:
    """The bindings as text: name, operator, attributes and arguments, constants by their types."""
    def shown(arg: Any) -> str:
        return arg.name if ir.is_var(arg) else f"{ir.kind(arg)} {getattr(arg, 'ty', arg)}"

    return [(b.var.name, f"{ir.op_name(b.value)} {getattr(b.value, 'attrs', '')} "
             f"{[shown(a) for a in getattr(b.value, 'args', ())]}") for b in ir.bindings(model.module["main"])]


def assert_as_whole(module: nn.Module, *inputs: torch.Tensor) -> None:
    found = export.load_module(module, inputs, "net", with_weights=False)
    with patch.object(blocks, "LEAST", MANY):
        whole = export.load_module(module, inputs, "net", with_weights=False)
    assert written(found) == written(whole)
    assert found.inputs == whole.inputs
    # what a block gives is called as the call of the block
    assert [(spec.shape, spec.dtype) for spec in found.outputs] == [(spec.shape, spec.dtype) for spec in whole.outputs]


def assert_estimated_as_whole(module: nn.Module, *inputs: torch.Tensor) -> None:
    """As if quantized: by way of ONNX, where blocks are written out."""
    def layers() -> list[Any]:
        report = archloom.estimate(module, example_inputs=inputs, as_int8=True)
        assert not report.fallbacks
        return sorted((la.where, la.op, la.shape, la.macs, la.cycles or 0) for la in report.layers)

    found = layers()
    with patch.object(blocks, "LEAST", MANY):
        assert found == layers()


@pytest.mark.slow
@given(stacks())
@examples(1, 30)
def test_stacks_are_estimated_as_quantized_wholes(stack: Stack) -> None:
    assert_estimated_as_whole(stack, torch.zeros(2, 8))


def test_equal_blocks_on_one_tensor_have_weights_of_their_own() -> None:
    with torch.device("meta"):
        module = Stack([1.0] * 4, [1.0] * 4, [False, False, True, True], False).eval()
    found = skeleton.parse(skeletons.skeleton_of(module, (torch.zeros(2, 8),)).content)
    assert [node.op_type for node in found.graph.node].count("Gemm") == 4


@pytest.mark.slow
def test_decoders_are_estimated_as_quantized_wholes() -> None:
    with torch.device("meta"):
        module = Decoder(32, 3, 50, 4, 2, 48).eval()
    assert_estimated_as_whole(module, torch.zeros(1, 6, dtype=torch.int64))


@pytest.mark.slow
@given(stacks())
@examples(1, 30)
def test_stacks_are_imported_as_wholes(stack: Stack) -> None:
    assert_as_whole(stack, torch.zeros(2, 8))
    assert all("forward" not in vars(part) for part in stack.modules())


@pytest.mark.parametrize("step", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_decoders_are_imported_as_wholes(step: bool) -> None:
    with torch.device("meta"):
        module = (DecoderStep if step else Decoder)(32, 3, 50, 4, 2, 48).eval()
    cache = torch.zeros(3, 1, 2, 6, 8)
    tokens = torch.zeros(1, 1 if step else 6, dtype=torch.int64)
    assert_as_whole(module, tokens, *([cache, cache] if step else []))


@pytest.mark.slow
def test_a_block_is_gone_through_once() -> None:
    calls: list[int] = []

    class Counted(Layer):
        def forward(self, x: torch.Tensor, scale: float = 1.0) -> Any:
            calls.append(1)
            return super().forward(x, scale)

    with torch.device("meta"):
        module = nn.Sequential(*(Counted(8, 1.0, False) for _ in range(12))).eval()
    model = export.load_module(module, (torch.zeros(2, 8),), "net", with_weights=False)
    assert sum(ir.op_name(b.value) == "matmul" for b in ir.bindings(model.module["main"])) == 12
    assert len(calls) < 6


@pytest.mark.slow
def test_attributes_that_nobody_reads_do_not_tell_blocks_apart() -> None:
    class Numbered(Layer):
        def __init__(self, number: int, shift: float) -> None:
            super().__init__(8, shift, False)
            self.number = number

    with torch.device("meta"):
        module = nn.Sequential(*(Numbered(i, shift) for i, shift in enumerate((1.0, 1.0, 2.0, 1.0)))).eval()
    kinds = {type(part) for part in module.modules()}
    with weights.filled(module), blocks.apart(module, (torch.zeros(2, 8),)) as apart:
        assert [block.module for block in apart.found] == [module[0], module[2]]
        with apart.taken_out():
            assert not list(module.parameters())
    assert len(list(module.parameters())) == 16 and {type(part) for part in module.modules()} == kinds
    assert_as_whole(module, torch.zeros(2, 8))


@pytest.mark.slow
def test_what_else_is_asked_of_blocks_keeps_their_tensors() -> None:
    class Tied(nn.Sequential):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return super().forward(x) @ self[1].dense.weight

    with torch.device("meta"):
        module = Tied(*(Layer(8, 1.0, False) for _ in range(3))).eval()
    assert_as_whole(module, torch.zeros(2, 8))


def test_a_module_that_shapes_alone_do_not_run_is_exported_whole_and_reported() -> None:
    class Checked(nn.Sequential):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            if not torch.compiler.is_exporting() and float(x.max()) > 100:
                raise ValueError("too large")
            return super().forward(x)

    with torch.device("meta"):
        module = Checked(*(Layer(8, 1.0, False) for _ in range(3))).eval()
    for target, as_int8 in (("qkv", False), ("gemmini", True)):
        report = archloom.estimate(module, target, example_inputs=(torch.zeros(2, 8),), as_int8=as_int8)
        (fallback,) = report.fallbacks
        assert fallback.where == "Checked" and "cannot be run with shapes alone" in fallback.why
        assert len(report.accelerator_layers) == 3 and "Checked: it cannot be run" in str(report)


@pytest.mark.slow
def test_what_gives_no_tensors_or_takes_more_is_gone_through() -> None:
    class Growing(Layer):
        def forward(self, x: torch.Tensor, kept: list[torch.Tensor]) -> Any:  # type: ignore[override]
            kept.append(x)
            return super().forward(sum(kept))

    class Loop(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = nn.ModuleList(Growing(8, 1.0, False) for _ in range(3))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            kept: list[torch.Tensor] = []
            for layer in self.layers:
                x = layer(x, kept)
            return x

    with torch.device("meta"):
        module = Loop().eval()
    assert_as_whole(module, torch.zeros(2, 8))
