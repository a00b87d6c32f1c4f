"""The base class of targets and the registry: registration, its errors, and a target of a third party."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from archloom import load
from archloom.mapper import workload as wl
from archloom.oracle.errors import InputError, TargetError
from archloom.tvm_backend.ir import compat, expressions
from archloom.tvm_backend.ir.match import QuantizedOp
from archloom.tvm_backend.targets import registry
from archloom.tvm_backend.targets.backend import Lowered, UMABackend, UMAPhase, Verdict
from archloom.tvm_backend.targets.choice import choose
from archloom.tvm_backend.targets.layouts import ROW_MAJOR
from archloom.tvm_backend.targets.partition import partition
from archloom.uma_targets.gemmini.target import GEMMINI
from archloom.uma_targets.kit.patterns import fused
from archloom.uma_targets.kit.strategies import conv2d
from tests.support.tvm_backend.networks import Net, only, quantized, residual_cnn, split
from tests.support.tvm_backend.registered import forget


class Adder(UMABackend):
    """Takes additions of equal shape, and nothing else."""

    def __init__(self) -> None:
        super().__init__()
        self._register_target_attr("largest", 1000)
        self._register_pattern("add", self._pattern, self._small)
        self._register_operator_strategy("add", self._strategy)
        self._register_codegen("stream", lambda: GEMMINI)

    @property
    def target_name(self) -> str:
        return "adder"

    @staticmethod
    def _pattern() -> compat.DFPattern:
        return fused("add", "plain")

    @staticmethod
    def _small(op: QuantizedOp, options: Mapping[str, Any]) -> Verdict:
        size = int(np.prod(op.shape))
        return Verdict(size <= int(options.get("largest", 1000)), f"it has {size} elements")

    @staticmethod
    def _strategy(op: QuantizedOp) -> Lowered:
        work = wl.add(int(np.prod(op.shape)), epilogue=wl.Epilogue(False, 1.0, False, "int8"), name=op.name)
        return Lowered(work, "add", (("A", 0), ("B", 1)), {}, ROW_MAJOR)


def plain_addition() -> Any:
    net = Net()
    return quantized(net.model(net.node("Add", [net.input("a", 4, 30), net.input("b", 4, 30)], "sum")))


def test_a_third_party_target_partitions_by_its_own_rules() -> None:
    part, _, _ = split(plain_addition(), Adder())
    assert [(s.name, s.op) for s in part.steps()] == [("sum", "add")]
    part, _, _ = split(residual_cnn(), Adder())
    assert not list(part.steps())


def test_predicates_see_the_options() -> None:
    module = load(plain_addition()).module
    found = partition(module, only(Adder(), {"largest": 100}))
    assert [r.reason for answers in found.refused.values() for r in answers] == ["it has 120 elements"]
    assert not partition(module, only(Adder(), {"largest": 120})).refused


def test_partition_gives_a_module_with_region_functions() -> None:
    module = partition(load(quantized(residual_cnn())).module, choose("gemmini")).module
    codegens = {gv.name_hint: expressions.codegen_of(f) for gv, f in module.functions.items()}
    assert codegens["main"] is None and codegens["gemmini_0"] == codegens["gemmini_1"] == "gemmini"


def test_passes_run_at_their_phases() -> None:
    seen: list[tuple[str, int]] = []

    class Watching(Adder):
        def __init__(self) -> None:
            super().__init__()
            for phase in UMAPhase:
                self._register_relax_pass(phase, lambda m, p=phase: (seen.append((p.name, len(m.functions))), m)[1])

    split(plain_addition(), Watching())
    assert [name for name, _ in seen] == ["PRE_PARTITIONING", "POST_PARTITIONING_0", "POST_PARTITIONING_1"]
    assert [count for _, count in seen] == [1, 2, 5]  # main, the composite, its region and two pieces of the host


def test_exceptions_of_a_predicate_pass_through() -> None:
    class Failing(Adder):
        @staticmethod
        def _small(op: QuantizedOp, options: Mapping[str, Any]) -> Verdict:
            raise InputError("the predicate's own error")

    with pytest.raises(InputError, match="the predicate's own error"):
        split(plain_addition(), Failing())


@pytest.mark.parametrize(("register", "message"), [
    (lambda t: t._register_target_attr("largest", 1), "target 'adder': attribute 'largest' is registered twice"),
    (lambda t: t._register_target_attr("", 1), "expected a name for the attribute, found ''"),
    (lambda t: t._register_target_attr("other", None), "attribute 'other': expected a default that is a number"),
    (lambda t: t._register_pattern("add", fused("conv2d", "plain")), "pattern 'add' is registered twice"),
    (lambda t: t._register_operator_strategy("add", conv2d), "operator strategy 'add' is registered twice"),
    (lambda t: t._register_operator_strategy("ad", conv2d), "strategy for 'ad': no such pattern; did you mean 'add'"),
    (lambda t: t._register_relax_pass("PRE", lambda m: m), "expected a phase of UMAPhase"),
    (lambda t: t._register_codegen("stream", lambda: GEMMINI), "codegen 'stream' is registered twice"),
    (lambda t: [t._register_join(lambda a, b, options: None) for _ in range(2)], "'adder': a join is registered twice"),
    (lambda t: t._register_codegen("c", lambda: GEMMINI), "codegen format 'c': expected 'stream'"),
])
def test_registration_errors(register: Any, message: str) -> None:
    with pytest.raises(TargetError, match=message):
        register(Adder())


def test_a_pattern_needs_a_strategy(clean_registry: None) -> None:
    target = Adder()
    target._register_pattern("conv", fused("conv2d", "plain"))
    with pytest.raises(TargetError, match="target 'adder': pattern 'conv' has no operator strategy"):
        target.register()


def test_names_do_not_clash(clean_registry: None) -> None:
    first = Adder()
    first.register()
    first.register()
    assert registry.get("adder") is first and "adder" in registry.names()
    with pytest.raises(TargetError, match="target 'adder' is registered already"):
        Adder().register()


def test_built_in_names_are_taken(clean_registry: None) -> None:
    class Impostor(Adder):
        @property
        def target_name(self) -> str:
            return "gemmini"

    forget("gemmini")
    with pytest.raises(TargetError, match="target 'gemmini' is built in"):
        Impostor().register()


def test_unknown_targets_are_named_with_the_valid_ones() -> None:
    with pytest.raises(TargetError, match=r"unknown target 'gemini'; did you mean 'gemmini'\? \(valid: .*gemmini"):
        registry.get("gemini")


def test_bad_names_are_refused(clean_registry: None) -> None:
    class Nameless(Adder):
        @property
        def target_name(self) -> str:
            return "no name"

    with pytest.raises(TargetError, match="found 'no name'"):
        Nameless().register()


class _Offer:
    """An entry point of another package."""

    def __init__(self, name: str, value: str, loads: Any) -> None:
        self.name, self.value, self._loads = name, value, loads

    def load(self) -> Any:
        if isinstance(self._loads, Exception):
            raise self._loads
        return self._loads


def test_entry_points_offer_targets(clean_registry: None, monkeypatch: pytest.MonkeyPatch) -> None:
    offers = [
        _Offer("adder", "somewhere:Adder", Adder), _Offer("broken", "nowhere:Broken", ImportError("no such module")),
        _Offer("liar", "somewhere:Adder", Adder),
    ]
    monkeypatch.setattr(registry, "entry_points", lambda group: offers)
    assert registry.names() == sorted(["adder", "broken", "liar", *registry.BUILT_IN])
    assert isinstance(registry.get("adder"), Adder)
    with pytest.raises(TargetError, match=r"'broken' \(nowhere:Broken\): cannot be loaded: ImportError: no such"):
        registry.get("broken")
    with pytest.raises(TargetError, match=r"entry point 'liar'.*expected a target of that name, found 'adder'"):
        registry.get("liar")
