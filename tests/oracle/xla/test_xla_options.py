"""XLA's options: what is left without optimization has integers alone."""

from __future__ import annotations

import jax
import numpy as np
import pytest

from archloom.oracle import taidl
from archloom.oracle.assembly import parse
from archloom.oracle.resolve import resolve
from archloom.oracle.xla import oracle
from archloom.oracle.xla.options import EXACT, compiler_options, has_floats
from tests.support.oracle.agreement import agree, isa_of

HEAD = ".isa t\n.hbm 32\n.arg X int16[8] @0\n.result Y int16[8] @16\n"

LOAD = "%b:4x2xi8 <- $hbm[{4 : 2, 2 : 1}]; %x:4xi16 = bitcast_convert(%b);"
STORE = "%c:4x2xi8 = bitcast_convert(%y); %c -> $hbm[16 + {4 : 2, 2 : 1}];"

PARTS = {
    "integers": ("", "%y:4xi16 = negate(%x);", False),
    "a conversion": ("", "%f:4xbf16 = convert(%x); %y:4xi16 = convert(%f);", True),
    "a region of integers": ("def made(%v, %w) { %w:4xi16 = negate(%v); }", "%y:4xi16 = call(%x, function=made);",
                             False),
    "a region with floats": ("def made(%v, %w) { %f:4xbf16 = convert(%v); %w:4xi16 = bitcast_convert(%f); }",
                             "%y:4xi16 = call(%x, function=made);", True),
    "a function from outside": ("", "%y:4xi16 = custom_call(%x, function=options_test);", True),
}


@pytest.mark.parametrize("case", PARTS)
def test_floats_in_between_count(case: str) -> None:
    taidl.register_function("options_test", numpy=lambda x: x, jax=lambda x: x)
    before, made, floats = PARTS[case]
    isa = isa_of(f"{before}\n[go]() {{ {LOAD} {made} {STORE} }}")
    stream = resolve(parse(HEAD + "go\n"), isa)
    assert has_floats(stream) == has_floats(stream, EXACT) == floats
    options = compiler_options(stream)
    if jax.default_backend() == "cpu":
        assert options is not None
        assert options["xla_backend_optimization_level"] == (2 if floats else 0)
        assert options.get("xla_cpu_use_fusion_emitters", True) == floats


@pytest.mark.parametrize("body", ["go i=0", "loop i in 0..2 { go i=i }"])
def test_small_integers_next_to_bits_of_bf16_are_kept(body: str) -> None:
    """XLA moves them as bf16, of which they are subnormal numbers."""
    isa = isa_of("""
[m](2)(4 x i16);
[go](i) {
    %r:2x4xi16 <- $m[0:2]; %f:2x4xbf16 = convert(%r); %t:2x4xi16 = bitcast_convert(%f); %t -> $m[::-1];
    %b:1x4x2xi8 <- $hbm[{1 : 8, 4 : 2, 2 : 1}]; %x:1x4xi16 = bitcast_convert(%b); %x -> $m[1, ::-1];
}
[out]() { %x:1x4xi16 <- $m[1]; %b:1x4x2xi8 = bitcast_convert(%x); %b -> $hbm[16 + {1 : 8, 4 : 2, 2 : 1}]; }""")
    x = np.array([2, 29, 127, 1, 0, 0, 0, 0], np.int16)
    assert agree(f"{HEAD}{body}\nout\n", isa, {"X": x})["Y"].tolist()[:4] == [1, 127, 29, 2]


@pytest.mark.skipif(jax.default_backend() != "cpu", reason="an option for CPUs")
def test_programs_with_sums_use_whole_vectors(monkeypatch: pytest.MonkeyPatch) -> None:
    taken: list[bool] = []
    monkeypatch.setattr(oracle, "compiler_options", lambda *_, summed, **__: taken.append(summed))
    for made in ("%y:4xi16 = negate(%x);", "%y:4xi16 = dot(%w, %x, lhs_contracting={1}, rhs_contracting={0});"):
        isa = isa_of(f"[go]() {{ {LOAD} %w:4x4xi16 = iota(dim=0); {made} {STORE} }}")
        _ = oracle.compile_stream(parse(HEAD + "go\n"), isa).program.outermost
    assert taken == [False, True]
    assert (compiler_options(summed=True) or {})["xla_cpu_prefer_vector_width"] == 512
