"""I-BERT's encoder as Gemmini kernels: interpreter, oracle, plain JAX and the paper's formulas agree bit for bit."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from benchmarks.oracle.oracle_suites.ibert import native
from examples.ibert_kernels import Encoder, Scales, Size, gelu, main, norm, scores, shares
from tests.support.accelerators import ibert_model as ibert
from tests.support.examples import slow

SCALES = replace(Scales(), query=3e-3, value=3e-3, out=3e-3, inner=3e-3, last=3e-3)
"""For sums over few elements."""
PADDED = Size(layers=2, sequence=16, width=24, heads=3, inner=32, dim=16)
"""Heads of 8 on an array of 16: the array's other rows hold zeros."""
SIZES = [
    slow(PADDED),
    Size(layers=1, sequence=19, width=20, heads=2, inner=21, dim=8),  # rows and columns are left over everywhere
    # less of everything than the array has
    slow(Size(layers=1, sequence=5, width=6, heads=6, inner=3, dim=16)),
    # heads deeper than the array, many tiles to a row
    slow(Size(layers=1, sequence=9, width=32, heads=2, inner=12, dim=4)),
]


def by_the_paper(size: Size, x: np.ndarray, *weights: np.ndarray) -> np.ndarray:
    """The encoder by I-BERT's formulas."""
    own = {name: getattr(SCALES, name) for name in ("query", "value", "share", "out", "norm", "inner", "last")}
    made = x.astype(np.int64)
    for n in range(size.layers):
        made = ibert.encoder_layer(
            made, [w[n] for w in weights], size.heads, {**own, "gelu_out": SCALES.gelu_out},
            ibert.exponential_constants(SCALES.score), ibert.gelu_constants(SCALES.gelu))
    return made


@pytest.mark.slow
@pytest.mark.parametrize("size", SIZES, ids=lambda s: f"{s.sequence}x{s.width}x{s.inner}_h{s.heads}_dim{s.dim}")
def test_encoder(size: Size) -> None:
    import jax

    encoder = Encoder(size, SCALES)
    given = encoder.inputs(np.random.default_rng(size.width))
    result = np.asarray(jax.jit(encoder.function)(*given)[0])
    assert encoder.raised
    np.testing.assert_array_equal(result, by_the_paper(size, *given))
    np.testing.assert_array_equal(result, np.asarray(jax.jit(lambda *a: native(size, SCALES, *a))(*given)[0]))
    np.testing.assert_array_equal(result, encoder.interpret(*given))
    assert len(np.unique(result)) >= 3


@pytest.mark.slow
def test_the_demo(capsys: pytest.CaptureFixture[str]) -> None:
    main()
    shown = capsys.readouterr().out
    assert shown.count("raised to") == 9 and "loops" not in shown and "equal to the interpreter's" in shown


@pytest.mark.slow
def test_a_layer_of_the_paper_s_size() -> None:
    """512 x 768 on an array of 256: as the interpreter and the formulas have it."""
    import jax

    size = Size(layers=1)
    encoder = Encoder(size, SCALES)
    given = encoder.inputs(np.random.default_rng(1))
    result = np.asarray(jax.jit(encoder.function)(*given)[0])
    np.testing.assert_array_equal(result, by_the_paper(size, *given))
    np.testing.assert_array_equal(result, encoder.interpret(*given))


def operations(size: Size) -> dict[str, tuple[str, ...]]:
    return {name: k.report.results[0].operations for name, k in Encoder(size).kernels.items()}


@pytest.mark.slow
def test_what_is_raised_does_not_grow_with_the_number_of_tiles() -> None:
    """A kernel is as many operations at full size, on an array of 16 as of 256: one contraction, one window each."""
    whole = Size(layers=1)
    for size in (whole, replace(whole, dim=16)):
        found = operations(size)
        assert found["query"] == ("dot 512x768x768 int8 x int8 -> i32",)
        assert found["shares"] == ("dot 12 x 512x64x512 int8 x int8 -> i32",)
        assert set(found["scores"]) == {"dot 12 x 512x512x64 int8 x int8 -> i32", "sum over 512"}
        assert len(found["scores"]) == 4 and len(found["norm"]) == 3 and found["gelu"] == ()


def test_equal_kernels_share_a_program_whatever_their_scales() -> None:
    kernels = Encoder(PADDED).kernels
    programs = {name: kernel.oracle.program for name, kernel in kernels.items()}
    assert programs["query"] is programs["value"] is programs["out"]
    assert len({id(p) for p in programs.values()}) == 7


def test_instructions_of_the_paper_s_encoder() -> None:
    """They are counted without being written down: 12 layers, attention included."""
    streams = {name: kernel.stream for name, kernel in Encoder().kernels.items()}
    # 3 + 1 + 6 commands and stores for a row, and what 2 x 2 tiles of scores take for each of 12 heads
    assert streams["scores"].count() == 5 + 12 * (512 * 6 + 2 * (2 + 1 + 2 * 3))
    assert Encoder().count() == 12 * (sum(s.count() for s in streams.values()) + streams["query"].count()
                                      + streams["norm"].count())


@pytest.mark.slow
@pytest.mark.parametrize("dim", [slow(4), 8, slow(16)])
def test_heads_by_themselves(dim: int) -> None:
    """Scores and shares of full-range queries, keys and values."""
    size = Size(layers=1, sequence=11, width=18, heads=3, inner=1, dim=dim)
    random = np.random.default_rng(dim)
    q, k, v = (random.integers(-128, 128, (11, 18), dtype=np.int8) for _ in range(3))
    exponential = Scales().exponential
    p = scores(size, exponential).run(q, k)
    made = shares(size, 0.01).run(p, v)
    for head in range(3):
        own = slice(6 * head, 6 * head + 6)
        sums = q[:, own].astype(np.int64) @ k[:, own].T.astype(np.int64)
        np.testing.assert_array_equal(p[head], ibert.softmax(sums, ibert.exponential_constants(1e-3)))
        mixed = p[head].astype(np.int64) @ v[:, own].astype(np.int64)
        np.testing.assert_array_equal(made[:, own], ibert.to_int8(mixed, np.float32(0.01)))


def test_constants_of_the_functions_are_the_paper_s() -> None:
    s = Scales()
    exp, erf = ibert.exponential_constants(s.score), ibert.gelu_constants(s.gelu)
    assert s.exponential == {"ln2": exp.ln2, "ln2_inv": exp.ln2_inv, "b": exp.b, "c": exp.c}
    assert s.gelu_constants == {"b": erf.b, "c": erf.c}


@pytest.mark.slow
@pytest.mark.parametrize(("rows", "cols"), [slow(1, 1), (9, 17), slow(33, 8)])
def test_gelu_and_norm_by_themselves(rows: int, cols: int) -> None:
    random = np.random.default_rng(rows)
    x, y = (random.integers(-128, 128, (rows, cols), dtype=np.int8) for _ in range(2))
    k, s = ibert.gelu_constants(0.03), Scales()
    np.testing.assert_array_equal(gelu(8, rows, cols, s.gelu_constants, s.gelu_out).run(x),
                                  ibert.to_int8(ibert.gelu(x.astype(np.int64), k), np.float32(s.gelu_out)))
    total = x.astype(np.int64) + y
    np.testing.assert_array_equal(norm(8, rows, cols, 21.0).run(x, y),
                                  ibert.to_int8(ibert.layer_norm(total), np.float32(21)))
