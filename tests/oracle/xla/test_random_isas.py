"""Random programs of random ISAs: the interpreter, the raised oracle and the loops give the same bits."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from archloom.oracle import taidl
from archloom.oracle.assembly import parse
from archloom.oracle.taidl.operators import OPCODES
from archloom.oracle.xla import compile_stream
from archloom.oracle.xla.notation import substitution
from tests.support.examples import slow
from tests.support.oracle.agreement import agree, isa_of
from tests.support.oracle.random_programs.checks import STREAMS, check
from tests.support.oracle.random_programs.isas import random_isa
from tests.support.oracle.random_programs.kernels import arguments

CHAIN = Path(__file__).parents[2] / "data" / "oracle"
SHARDS = 20
PROGRAMS = 10_000


def test_every_operator_and_statement_is_drawn() -> None:
    texts = "\n".join(random_isa(seed).text for seed in range(PROGRAMS // STREAMS))
    missing = set(OPCODES) - set(re.findall(r"= (\w+)\(", texts))
    assert not missing
    for form in (r"\bIF\b", r"\bELSE\b", r"\bREPEAT\b", r"\blet\b", r"\bassert\b", r"\bdef\b", r"\bconst\b", ":: ?-1",
                 r"\]\(.*rows", r"bank\[", r": 0[,}]", r"\) = b\d;"):
        assert re.search(form, texts), form


def test_programs() -> None:
    tally = check(range(7, PROGRAMS, 2 * 934))
    assert tally.raised and tally.partly


@pytest.mark.slow
@pytest.mark.parametrize("shard", range(SHARDS))
def test_many_programs(shard: int) -> None:
    each = PROGRAMS // SHARDS
    tally = check(range(shard * each, (shard + 1) * each))
    assert len(tally.texts) == each and tally.raised > each // 5


# --- what they found ----------------------------------------------------------------------------------------------

BYTES = ".isa t\n.hbm 32\n.arg X int8[16] @0\n.result Y int8[16] @16\n"


def test_constants_divided_by_zero_do_not_end_the_process() -> None:
    isa = isa_of("""
[m](4)(4 x u8); [n](4)(4 x i32);
[go](i) {
    %x:1x4xu8 <- $m[i];
    %q:1x4xu8 = divide(%x, %x);
    %r:1x4xu8 = remainder(%x, %x);
    %s:1x4xu8 = subtract(%q, %r);
    %b:1x4xi8 = bitcast_convert(%s);
    %b -> $hbm[16 + i * 4 + {1 : 4, 4 : 1}];
    %y:1x4xi32 <- $n[i];
    %c:1x4xi32 = constant(-7);
    %t:1x4xi32 = divide(%c, %y);
    %u:1x4xi8 = convert(%t);
    %u -> $hbm[24 + {1 : 4, 4 : 1}];
}""")
    found = agree(BYTES + "loop i in 0..2 { go i=i }\n", isa, {"X": np.zeros(16, np.int8)})["Y"]
    assert found.tolist() == [-1] * 12 + [0] * 4


def test_truths_as_arguments_and_results() -> None:
    isa = isa_of("""
[m](4)(4 x i1);
[load](i) { %b:1x4xi8 <- $hbm[i * 4 + {1 : 4, 4 : 1}]; %x:1x4xi1 = convert(%b); %x -> $m[i]; }
[store](i) { %x:1x4xi1 <- $m[i]; %y:1x4xi1 = not(%x); %b:1x4xi8 = convert(%y);
             %b -> $hbm[16 + i * 4 + {1 : 4, 4 : 1}]; }""")
    x = np.random.default_rng(1).random(16) < 0.5
    text = ".isa t\n.hbm 32\n.arg X bool[16] @0\n.result Y bool[16] @16\nloop i in 0..3 { load i=i\nstore i=i }\n"
    found = agree(text, isa, {"X": x})["Y"]
    assert found.tolist() == [*(~x[:12]), *[False] * 4]


def test_elements_of_six_bits_lose_the_others() -> None:
    isa = isa_of("""
[m](4)(4 x f6e3m2fn);
[go](i) {
    %b:1x4xi8 <- $hbm[i * 4 + {1 : 4, 4 : 1}]; %x:1x4xf6e3m2fn = bitcast_convert(%b); %x -> $m[i];
    %y:1x4xf6e3m2fn <- $m[i]; %c:1x4xi8 = bitcast_convert(%y); %c -> $hbm[16 + i * 4 + {1 : 4, 4 : 1}];
}""")
    x = np.arange(-128, 128, 16, dtype=np.int8) + np.arange(16, dtype=np.int8)
    found = agree(BYTES + "loop i in 0..4 { go i=i }\n", isa, {"X": x})["Y"]
    assert found.tolist() == [int(v) & 63 for v in x]


def test_what_is_read_is_not_overwritten_before() -> None:
    """XLA fuses a value with the update that it makes, and forgets that it reads the same buffer elsewhere."""
    isa = isa_of("""
[m](5)(1 x i8);
[load]() { %x:5x1xi8 <- $hbm[{5 : 1, 1 : 1}]; %x -> $m[0:5]; }
[turn](k, to) {
    %s:1x5xi8 <- $m[0, 0 + {5 : 0}];
    %t:5x1xi8 = reshape(%s);
    %t -> $m[0:5];
    %a:4x1xi8 <- $m[1:5];
    %r:4x1xi8 <- $m[0:4];
    %d:4x1xi8 = subtract(%a, %r);
    %u:2x1xi8 <- $m[3:5];
    %i:i8 = constant(k);
    %z:i8 = constant(0);
    %y:4x1xi8 = dynamic_update_slice(%d, %u, %i, %z);
    %y -> $m[1:5];
    %w:5x1xi8 <- $m[0:5];
    %w -> $hbm[to + {5 : 1, 1 : 1}];
}""")
    x = np.array([-5, *range(15)], np.int8)
    found = agree(BYTES + "load\nloop i in 0..2 { turn k=i, to=16 + 5*i }\n", isa, {"X": x})["Y"]
    assert found.tolist()[:10] == [-5, -5, -5, 0, 0, -5, 0, -5, -5, 0]


def test_constants_of_loops_in_whole_tensors() -> None:
    isa = isa_of("""
[go](i) {
    %c:4xi8 = constant(i);
    %u:2xi8 = constant(9);
    %k:i8 = constant(1);
    %y:4xi8 = dynamic_update_slice(%c, %u, %k);
    %y -> $hbm[16 + i * 4 : 20 + i * 4];
}""")
    found = agree(BYTES + "loop i in 0..4 { go i=i }\n", isa, {"X": np.zeros(16, np.int8)})["Y"]
    assert found.reshape(4, 4).tolist() == [[i, 9, 9, i] for i in range(4)]


def test_texts_are_those_of_their_numbers() -> None:
    assert random_isa(3).text == random_isa(3).text != random_isa(4).text
    assert taidl.parse(random_isa(3).text).buffers


FLOATS = ".isa t\n.hbm 32\n.arg X float32[4] @0\n.result Y float32[4] @16\n"


@pytest.mark.parametrize("body", ["go i=0", "loop i in 0..2 { go i=i }", "loop i in 0..5 { go i=i }"])
def test_negative_zeros_added_to_what_was_never_written(body: str) -> None:
    isa = isa_of("""
[s](1)(4 x f32);
[go](i) { %o:1x4xf32 <- $s; %b:1x4x4xi8 <- $hbm[{1 : 1, 4 : 4, 4 : 1}]; %x:1x4xf32 = bitcast_convert(%b);
          %n:1x4xf32 = add(%o, %x); %n -> $s; }
[out]() { %p:1x4xf32 <- $s; %d:1x4x4xi8 = bitcast_convert(%p); %d -> $hbm[16 + {1 : 1, 4 : 4, 4 : 1}]; }""")
    found = agree(f"{FLOATS}{body}\nout\n", isa, {"X": np.array([-0.0, 0.0, -0.0, 1], np.float32)})["Y"]
    assert not np.signbit(found).any()


@pytest.mark.parametrize("body", [slow("go i=0"), "loop i in 0..2 { go i=i }"])
@pytest.mark.parametrize("made", [
    "dot_general(%o, %x, lhs_contracting={0}, rhs_contracting={0}, rounding=fused)",
    slow("fma(%x, %o, %z)"), "fma(%o, %x, %z)", slow("fma(%z, %o, %x)"), "fma(%z, %z, %x)"])
def test_negative_zeros_fused_with_zeros_that_xla_finds(made: str, body: str) -> None:
    """XLA finds that an operand is 0.0, next to a sum of floats that is computed as a whole, and drops the addition."""
    shape = "1x4" if made[0] == "d" else "4"
    isa = isa_of(f"""
[s](1)(4 x f32);
[go](i) {{ %b:4x4xi8 <- $hbm[{{4 : 4, 4 : 1}}]; %l:4xf32 = bitcast_convert(%b); %x:{shape}xf32 = reshape(%l);
           %k:f32 = constant(1.0); %o:{shape[:-2] or 4}xf32 = broadcast(%k); %r:1x4xf32 <- $s; %z:4xf32 = reshape(%r);
           %m:4xf32 = {made}; %t:4x1xf32 = reshape(%m); %n:4xf32 = reduce(%t, dim={{1}}, kind=add);
           %d:4x4xi8 = bitcast_convert(%n); %d -> $hbm[16 + {{4 : 4, 4 : 1}}]; }}""")
    found = agree(f"{FLOATS}{body}\n", isa, {"X": np.array([-0.0, 0.0, -0.0, 1], np.float32)})["Y"]
    assert not np.signbit(found).any()


def test_programs_that_differ_in_the_sign_of_a_zero() -> None:
    for zero in ("0.0", "-0.0", "0.0"):
        isa = isa_of(f"""
[go](i) {{ %k:2xf32 = constant({zero}); %e:4xf32 = pad(%k, low={{1}}, high={{1}}, value=-0.0);
           %d:4x4xi8 = bitcast_convert(%e); %d -> $hbm[16 + {{4 : 4, 4 : 1}}]; }}""")
        found = agree(f"{FLOATS}go i=0\n", isa, {"X": np.zeros(4, np.float32)})["Y"]
        assert np.signbit(found).tolist() == [True, zero[0] == "-", zero[0] == "-", True]


def test_scales_that_were_never_written_have_no_bit_set() -> None:
    isa = isa_of("""
[s](4)(4 x f8e8m0fnu);
[go](i) { %x:1x4xf8e8m0fnu <- $s[i]; %b:1x4xi8 = bitcast_convert(%x); %b -> $hbm[16 + 4 * i + {1 : 4, 4 : 1}];
          %c:1x4xf8e8m0fnu = constant(2); %c -> $s[i + 1]; }""")
    found = agree(BYTES + "go i=0\ngo i=2\n", isa, {"X": np.zeros(16, np.int8)})["Y"]
    assert found.tolist() == [0] * 16


def test_bitcasts_between_wide_types() -> None:
    """XLA joins one bitcast with the next, even where no single one does the same."""
    isa = isa_of("""
[go](i) {
    %b:2x4xi8 <- $hbm[i * 8 + {2 : 4, 4 : 1}];
    %w:2xi32 = bitcast_convert(%b);
    %h:2x2xi16 = bitcast_convert(%w);
    %r:2x2xi16 = reverse(%h, dim={1});
    %v:2xu32 = bitcast_convert(%r);
    %c:2x4xi8 = bitcast_convert(%v);
    %c -> $hbm[16 + i * 8 + {2 : 4, 4 : 1}];
}""")
    found = agree(BYTES + "loop i in 0..2 { go i=i }\n", isa, {"X": np.arange(16, dtype=np.int8)})["Y"]
    assert found.reshape(4, 4).tolist() == [[i + 2, i + 3, i, i + 1] for i in (0, 4, 8, 12)]


def test_first_halves_of_wider_arguments() -> None:
    isa = isa_of("""
[go](i) { %b:2x2xi8 <- $hbm[i * 8 + {2 : 4, 2 : 1}]; %h:2xi16 = bitcast_convert(%b); %n:2xi16 = negate(%h);
          %c:2x2xi8 = bitcast_convert(%n); %c -> $hbm[16 + i * 4 + {2 : 2, 2 : 1}]; }""")
    text = ".isa t\n.hbm 32\n.arg X int32[4] @0\n.result Y int16[8] @16\nloop i in 0..2 { go i=i }\n"
    found = agree(text, isa, {"X": np.array([5, -7, 1 << 20 | 9, 70000], np.int32)})["Y"]
    assert found.tolist() == [-5, 7, -9, -(70000 - 65536), 0, 0, 0, 0]


@pytest.mark.parametrize("dtype", ["f8e5m2fnuz", slow("f8e4m3fnuz"), slow("f8e4m3b11fnuz")])
def test_what_is_too_small_is_zero_without_a_sign(dtype: str) -> None:
    isa = isa_of(f"""
[go](i) {{ %b:4x4xi8 <- $hbm[{{4 : 4, 4 : 1}}]; %x:4xf32 = bitcast_convert(%b); %y:4x{dtype} = convert(%x);
           %z:4x{dtype} = multiply(%y, %y); %n:4x{dtype} = negate(%z);
           %c:4xi8 = bitcast_convert(%n); %c -> $hbm[16 + 4 * i : 20 + 4 * i]; }}""")
    x = np.array([-1e-12, 1e-3, -0.0, 1.0], np.float32)
    found = agree(".isa t\n.hbm 32\n.arg X float32[4] @0\n.result Y int8[16] @16\nloop i in 0..4 { go i=i }\n", isa,
                  {"X": x})["Y"]
    assert not found.reshape(4, 4)[:, :3].any()


def test_updates_of_tensors_without_axes() -> None:
    isa = isa_of("""
[go](i) { %b:1xi8 <- $hbm[i : i + 1]; %r:i8 = reshape(%b); %e:f8e4m3b11fnuz = bitcast_convert(%r);
          %k:2xu4 = iota(dim=0); %f:f8e4m3b11fnuz = bitcast_convert(%k);
          %u:f8e4m3b11fnuz = dynamic_update_slice(%f, %e); %c:i8 = bitcast_convert(%u); %d:1xi8 = reshape(%c);
          %d -> $hbm[16 + i : 17 + i]; }""")
    found = agree(BYTES + "loop i in 0..4 { go i=i }\n", isa, {"X": np.arange(-3, 13, dtype=np.int8)})["Y"]
    assert found[:4].tolist() == [-3, -2, -1, 0]


@pytest.mark.parametrize("then", ["sort(%y, dim=0)", "subtract(%n, %r)"])
def test_updates_that_read_what_they_are_put_into(then: str) -> None:
    """Windows that overlap are put where XLA, in place, would overwrite them while it reads them."""
    isa = isa_of(f"""
[go](i) {{ %x:3x4x4xi8 <- $hbm[{{3 : 16, 4 : 4, 4 : 1}}]; %u:3x2x3xi8 <- $hbm[24 + {{3 : 4, 2 : 1, 3 : 1}}];
           %i:i8 = constant(1); %b:1xi8 <- $hbm[0 : 1]; %j:i8 = reshape(%b);
           %y:3x4x4xi8 = dynamic_update_slice(%x, %u, %i, %j, %i);
           %n:3x4x4xi8 = negate(%y); %r:3x4x4xi8 = reverse(%y, dim={{0, 1}});
           %z:3x4x4xi8 = {then}; %z -> $hbm[48 + {{3 : 16, 4 : 4, 4 : 1}}]; }}""")
    x = np.arange(48, dtype=np.int8)
    windows = np.lib.stride_tricks.sliding_window_view(x, 3)
    made = x.reshape(3, 4, 4).copy()
    made[:, :2, 1:] = np.stack([windows[24 + 4 * k:26 + 4 * k] for k in range(3)])
    want = np.sort(made, axis=0) if then[:2] == "so" else -made - made[::-1, ::-1]
    text = ".isa t\n.hbm 96\n.arg X int8[48] @0\n.result Y int8[48] @48\ngo i=0\n"
    assert agree(text, isa, {"X": x})["Y"].tolist() == want.ravel().tolist()


@pytest.mark.parametrize("kind", ["max", "min"])
@pytest.mark.parametrize(("shape", "dims"), [("4", ""), ("4x1", "1")])
def test_the_extreme_of_one_number_flushes_as_any_other(kind: str, shape: str, dims: str) -> None:
    isa = isa_of(f"""
[go](i) {{ %b:4x4xi8 <- $hbm[{{4 : 4, 4 : 1}}]; %v:4xf32 = bitcast_convert(%b); %x:{shape}xf32 = reshape(%v);
           %y:4xf32 = reduce(%x, dim={{{dims}}}, kind={kind}); %c:4x4xi8 = bitcast_convert(%y);
           %c -> $hbm[16 + {{4 : 4, 4 : 1}}]; }}""")
    x = np.array([1e-40, -1e-40, -2.5, 1e-37], np.float32)
    found = agree(".isa t\n.hbm 32\n.arg X float32[4] @0\n.result Y float32[4] @16\ngo i=0\n", isa, {"X": x})["Y"]
    assert found.tolist() == [0, 0, -2.5, np.float32(1e-37)]


def test_sums_within_sums_are_written_for_xla_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A random program that was a chain of a dozen products, each with a case distinction: rewriting one rewrote all
    below it, and took minutes instead of half a second."""
    import jax

    stream = parse((CHAIN / "chain_of_sums.asm").read_text(encoding="utf-8"))
    oracle = compile_stream(stream, taidl.load(CHAIN / "chain_of_sums.taidl"))
    assert oracle.raised
    rewritten, substituted = 0, substitution._substituted

    def counted(*given: Any) -> Any:
        nonlocal rewritten
        rewritten += 1
        return substituted(*given)

    monkeypatch.setattr(substitution, "_substituted", counted)
    jax.jit(oracle.program.function).lower(*arguments(stream, 0).values())
    assert 0 < rewritten < 100_000
