"""What instructions touch: order and accumulation."""

from __future__ import annotations

import pytest

from archloom.oracle import taidl
from archloom.oracle.accesses import accesses
from archloom.oracle.resolve import resolve
from archloom.oracle.resolved import Access
from tests.support.accelerators import gemmini_streams as g
from tests.support.oracle.strategies import Gemm
from tests.support.oracle.toy_isa import TOY, instructions, stream


def of_gemm(**choices: object) -> dict[str, list[tuple[str, str]]]:
    """For each mnemonic of a GEMM the (kind, buffer) of its accesses."""
    s = Gemm(4, 8, 8, 8, **choices).stream()  # type: ignore[arg-type]
    resolved = resolve(s, taidl.load("gemmini", **dict(s.parameters)))
    return {i.mnemonic: [(a.kind, a.window.buffer) for a in accesses(i)] for i in instructions(resolved)}


def test_accesses_of_a_weight_stationary_gemm() -> None:
    found = of_gemm(dataflow=g.WS)
    assert found["config_ex"] == found["preload"] == []
    assert found["mvin"] == [("read", "hbm"), ("write", "spad")]
    assert found["mvin3"] == [("read", "hbm"), ("write", "acc")]
    assert found["compute_preloaded"] == [
        ("read", "spad"), ("write", "pe"), ("read", "spad"), ("read", "pe"), ("accumulate", "acc")
    ]
    assert found["mvout"] == [("read", "acc"), ("write", "hbm")]


def test_accesses_of_an_output_stationary_gemm() -> None:
    found = of_gemm(dataflow=g.OS)
    assert found["compute_preloaded"] == [
        ("write", "pe"), ("read", "spad"), ("read", "spad"), ("accumulate", "pe"), ("read", "pe"), ("accumulate", "acc")
    ]


@pytest.mark.parametrize(
    ("body", "kinds"),
    [
        ("sum row=3, from=9", [("read", 9), ("accumulate", 3)]),
        # the old contents are added to themselves: read as an operand, and accumulated into
        ("sum row=3, from=3", [("read", 3), ("accumulate", 3)]),
        ("choose which=0, v=2\nsized dram=0, which=0", [("read", 0), ("read", 1)]),
    ],
)
def test_accumulations_swallow_the_read_of_the_old(body: str, kinds: list[tuple[str, int]]) -> None:
    instr = instructions(resolve(stream(body), TOY))[-1]
    found = [(a.kind, int(a.window.offsets[0])) for a in accesses(instr) if a.window.buffer == "mem"]
    assert found == kinds


def test_repeated_accesses_are_named_once() -> None:
    instr = instructions(resolve(stream("get dram=0, row=0, rows=2"), TOY))[0]
    assert accesses(instr) == tuple(dict.fromkeys(accesses(instr)))
    assert [type(a) for a in accesses(instr)] == [Access, Access]
