"""Every operator of XLA is one of TAIDL's, or refused by name with the reason."""

from __future__ import annotations

import pytest

from archloom.oracle.errors import TaidlError
from archloom.oracle.taidl.operators import OPCODES, SPELLED, named
from archloom.oracle.taidl.operators.refused import REFUSED
from tests.support.oracle.agreement import isa_of

HLO = """
abs acos acosh add add-dependency after-all all-gather all-gather-done all-gather-start all-reduce all-reduce-done
all-reduce-start all-to-all and asin asinh async-done async-start async-update atan atan2 atanh batch-norm-grad
batch-norm-inference batch-norm-training bitcast bitcast-convert broadcast call cbrt ceil cholesky clamp
count-leading-zeros collective-broadcast collective-permute collective-permute-done collective-permute-start
collective-reduce compare complex concatenate conditional constant convert convolution copy copy-done copy-start cosine
cosh custom-call divide domain dot dynamic-reshape dynamic-slice dynamic-update-slice erf exponential
exponential-minus-one fft floor fusion gather get-dimension-size get-tuple-element imag infeed iota is-finite log
log-plus-one logistic map maximum minimum mulhi multiply negate not opt-barrier or outfeed pad parameter partition-id
popcnt power ragged-all-to-all ragged-dot real recv recv-done reduce reduce-precision reduce-scatter reduce-window
remainder replica-id reshape reverse rng rng-bit-generator rng-get-and-update-state round-nearest-afz
round-nearest-even rsqrt scaled-dot scan scatter select select-and-scatter send send-done set-dimension-size shift-left
shift-right-arithmetic shift-right-logical shuffle sign sine sinh slice sort sqrt stochastic-convert subtract tan tanh
topk transpose triangular-solve tuple while xor
"""
"""The opcodes of HLO: xla/hlo/ir/hlo_opcode.h in November 2026."""


def opcodes() -> set[str]:
    """XLA's operators: HLO's, and those of the dialects of the JAX that is installed."""
    from jaxlib.mlir.dialects import chlo, stablehlo

    found = {name.replace("-", "_") for name in HLO.split()}
    for dialect in (stablehlo, chlo):
        classes = [getattr(dialect, name) for name in dir(dialect) if name.endswith("Op")]
        found |= {c.OPERATION_NAME.split(".")[1].replace("-", "_") for c in classes}
    return found


def test_every_operator_of_xla_is_there_or_refused() -> None:
    known = opcodes()
    assert {name for name in known if named(name) not in OPCODES} <= set(REFUSED)
    assert not {name for name in REFUSED if named(name) in OPCODES}


def test_other_names_tell_operators_and_attributes_apart() -> None:
    assert not set(SPELLED) & set(OPCODES)
    assert len(SPELLED) == sum(len(op.spelled) for op in OPCODES.values())
    for op in OPCODES.values():
        names = [name for a in op.attributes for name in (a.name, *a.spelled)]
        assert len(set(names)) == len(names), op.name


@pytest.mark.parametrize("name", REFUSED)
def test_refusals_say_why(name: str) -> None:
    with pytest.raises(TaidlError) as error:
        isa_of(f"[go]() {{ %x:4xi8 = {name}(); }}")
    assert f"{name}: {REFUSED[name]}" in str(error.value)
