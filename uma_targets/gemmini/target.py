"""The UMA target ``gemmini``: what it takes, and how that becomes workloads for its mapper."""

from __future__ import annotations

from functools import partial
from typing import Any

from archloom.tvm_backend.targets.backend import UMABackend
from archloom.uma_targets.gemmini import predicates
from archloom.uma_targets.gemmini.accelerator import GEMMINI
from archloom.uma_targets.gemmini.strategies import conv2d
from archloom.uma_targets.kit import rules, strategies, sums
from archloom.uma_targets.kit.patterns import fused

FUSED = {"pool": ("conv2d",), "activation": ("conv2d", "matmul", "add"), "plain": ("conv2d", "matmul", "add")}
"""Forms of which the array makes int8 results, in the order in which they are tried, each with its operators."""

WIDE = {"wide_activation": "activation", "wide_plain": "plain", "int32": "int32", "sums": "sums"}
"""Patterns whose results the host makes, each with the form that it matches."""


class Gemmini(UMABackend):
    """Gemmini: a systolic array for int8 with weight- and output-stationary dataflow, scratchpad and accumulator."""

    def __init__(self) -> None:
        super().__init__()
        conv = rules.AllOf("nn.conv2d", predicates.CONV2D, predicates.CONV2D_SIZED)
        matmul = rules.AllOf("matmul", rules.INT8_MATMUL)
        add = rules.AllOf("add", predicates.ADD)
        taken: dict[str, tuple[rules.AllOf, Any]] = {
            "conv2d": (conv, conv2d), "matmul": (matmul, strategies.matmul), "add": (add, strategies.add)}
        for form, anchors in FUSED.items():
            for anchor in anchors:
                predicate, strategy = taken[anchor]
                self._register_pattern(f"{anchor}_{form}", partial(fused, anchor, form), predicate)
                self._register_operator_strategy(f"{anchor}_{form}", strategy, takes_options=anchor == "conv2d")
        self._offer_sums()
        self._register_codegen("stream", lambda: GEMMINI)

    def _offer_sums(self) -> None:
        """What one factor for all sums and zero points of 0 are not enough for: the host makes the results."""
        for anchor, own, strategy in (
            ("conv2d", rules.AllOf("nn.conv2d", sums.SUMS_CONV2D), sums.with_sums(conv2d)),
            ("matmul", rules.AllOf("matmul", sums.SUMS_MATMUL),
             sums.with_sums(lambda op, options: strategies.matmul(op))),
        ):
            for form, pattern in WIDE.items():
                name = f"{anchor}_{form}"
                self._register_pattern(name, partial(fused, anchor, pattern), own)
                self._register_operator_strategy(name, strategy, takes_options=True)

    @property
    def target_name(self) -> str:
        return "gemmini"
