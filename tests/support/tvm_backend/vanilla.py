"""An accelerator as a UMA author would bring it: the one of TVM's own UMA tests, for float32 and for int8."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from archloom.tvm_backend.ir.match import QuantizedOp
from archloom.tvm_backend.ir.patterns import DFPattern
from archloom.tvm_backend.targets.backend import UMABackend, UMAPhase, Verdict
from archloom.uma_targets.gemmini.target import GEMMINI
from archloom.uma_targets.kit import KitTarget, strategies
from archloom.uma_targets.qkv import Qkv


class VanillaAccelerator(KitTarget):
    """The vanilla accelerator: float32 convolutions and products."""

    kit = replace(Qkv.kit, name="vanilla_accelerator", description="the vanilla accelerator of the UMA tests")


def conv2d_pattern() -> DFPattern:
    from archloom.uma_targets.kit.patterns import conv2d, quantized

    return quantized(conv2d())


def unit_strides(op: QuantizedOp, options: Mapping[str, Any]) -> Verdict:
    """Convolutions of stride 1 alone."""
    return Verdict(tuple(op.attrs.get("strides", ())) == (1, 1), f"strides are {op.attrs.get('strides')}", "stride 1")


class VanillaInt8(UMABackend):
    """A vanilla accelerator that takes quantized convolutions of stride 1 and nothing else."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[str] = []
        self._register_target_attr("variant", "version1")
        self._register_relax_pass(UMAPhase.PRE_PARTITIONING, lambda m: (self.seen.append("before"), m)[1])
        self._register_pattern("conv2d", conv2d_pattern, unit_strides)
        self._register_operator_strategy("conv2d", strategies.conv2d)
        self._register_codegen("stream", lambda: GEMMINI)

    @property
    def target_name(self) -> str:
        return "vanilla_int8"
