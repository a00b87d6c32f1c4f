"""What the oracle makes of small streams of every target: raised as they stand, and without fallbacks, but for these.

A target that gets worse fails; one that gets better has an entry too many, which fails as well.
"""

from __future__ import annotations

import pytest

import archloom
from archloom.oracle import taidl
from archloom.oracle.xla import compile_stream
from archloom.oracle.xla.notation.fallbacks import How
from tests.support.examples import every

OPTIONS = {"mesh": {"x": 2, "y": 2}, "triple_ring": {"rows": 2, "columns": 2}}
"""The smallest of the targets of many cores."""

EVEN, UNEVEN = "gemm(m=16,n=16,k=16)", "gemm(m=33,n=29,k=70,bias=1,relu=1)"
CONVOLUTION = "conv2d(n=1,c=8,h=8,w=8,o=8,k=3,stride=1,pad=1,bias=1,relu=1)"

OTHERWISE: dict[tuple[str, str], tuple[str, frozenset[How]]] = {
    ("eyeriss", UNEVEN): ("with recurrences", frozenset()),
    ("oma", UNEVEN): ("with recurrences", frozenset()),
    ("mesh", CONVOLUTION): ("as it stands", frozenset({How.GATHER})),
    ("triple_ring", CONVOLUTION): ("as it stands", frozenset({How.GATHER})),
    ("wormhole", CONVOLUTION): ("as it stands", frozenset({How.GATHER})),
}
"""The strategy that raises the stream of an operator, and how parts of it are computed otherwise than wanted."""


@pytest.mark.parametrize("target", every(5, [t.name for t in archloom.targets()]))
def test_targets_are_raised(target: str) -> None:
    found = {}
    for operator in (EVEN, UNEVEN, CONVOLUTION):
        compiled = archloom.compile(operator, target=target, options=OPTIONS.get(target)).compiled
        for plan in compiled.plans.values():
            isa = taidl.load(plan.stream.isa, **dict(plan.stream.parameters))
            report = compile_stream(plan.stream, isa).report
            assert not report.strategies[-1].reason, str(report)
            how = report.strategies[-1].strategy, frozenset(f.how for f in report.fallbacks)
            if how != ("as it stands", frozenset()):
                found[target, operator] = how
    assert found == {key: how for key, how in OTHERWISE.items() if key[0] == target}
