"""Intel AMX: every dot product on every shape of tiles equals Intel's pseudocode, in the interpreter and in XLA."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from archloom.oracle import taidl
from archloom.oracle.errors import StreamError
from archloom.oracle.interpreter import run
from archloom.oracle.stream import HbmTensor, Instr, Node, Stream
from archloom.oracle.xla import compile_stream
from tests.support.accelerators.intel import PRODUCTS, Tile
from tests.support.examples import examples, slow

AMX = taidl.load("amx")
make = Instr.make
C, A, B = 0, 1, 2


def products(m: int, k: int, n: int, mnemonics: tuple[str, ...] = tuple(PRODUCTS)) -> Stream:
    """Each product once, of the same A (m rows of k dwords) and B (k rows of n dwords), added to the same C."""
    shapes = {C: (m, 4 * n), A: (m, 4 * k), B: (k, 4 * n)}
    body: list[Node] = [make("ldtilecfg", number=1)]
    body += [make("tilecfg", tile=t, tile_rows=r, tile_colsb=b) for t, (r, b) in shapes.items()]
    body += [make("tileloadd", dst=A, dram=1024, stride=4 * k), make("tileloaddt1", dst=B, dram=2048, stride=4 * n)]
    arguments = tuple(HbmTensor(name, 1024 * t, shapes[t], "int8") for t, name in ((C, "c"), (A, "a"), (B, "b")))
    results = []
    for number, mnemonic in enumerate(mnemonics):
        at = 3072 + 1024 * number
        body += [make("tileloadd", dst=C, dram=0, stride=4 * n), make(mnemonic, dst=C, src1=A, src2=B),
                 make("tilestored", src=C, dram=at, stride=4 * n)]
        results.append(HbmTensor(mnemonic, at, shapes[C], "int8"))
    return Stream("amx", (), arguments, tuple(results), 3072 + 1024 * len(mnemonics), tuple(body), "products")


def operands(m: int, k: int, n: int, seed: int, special: bool) -> dict[str, np.ndarray]:
    """Full-range bytes if ``special``, else floats of magnitudes that round, underflow and cancel."""
    rng = np.random.default_rng(seed)
    if special:
        made = {name: rng.integers(0, 256, shape).astype(np.uint8)
                for name, shape in (("a", (m, 4 * k)), ("b", (k, 4 * n)), ("c", (m, 4 * n)))}
        return {name: v.view(np.int8) for name, v in made.items()}

    def bf16(*shape: int) -> np.ndarray:
        values = (rng.standard_normal(shape) * 2.0 ** rng.integers(-70, -58, shape)).astype(np.float32)
        return (values.view(np.uint32) >> 16).astype(np.uint16).view(np.int8)

    c = (rng.standard_normal((m, n)) * 2.0 ** rng.integers(-130, -118, (m, n))).astype(np.float32)
    return {"a": bf16(m, 2 * k), "b": bf16(k, 2 * n), "c": c.view(np.int8)}


def expected(m: int, k: int, n: int, given: dict[str, np.ndarray], mnemonic: str) -> np.ndarray:
    tiles = {name: Tile.load(rows, cols, given[name].tobytes())
             for name, rows, cols in (("c", m, 4 * n), ("a", m, 4 * k), ("b", k, 4 * n))}
    PRODUCTS[mnemonic](tiles["c"], tiles["a"], tiles["b"])
    return tiles["c"].array()[:m, :4 * n]


def assert_same(mnemonic: str, found: np.ndarray, want: np.ndarray) -> None:
    """Bit for bit; where a float is no number, another one will do."""
    if mnemonic.endswith("16ps"):
        x, y = (np.ascontiguousarray(v).view(np.float32) for v in (found, want))
        both = np.isnan(x) & np.isnan(y)
        found, want = np.where(both, np.uint32(0), x.view(np.uint32)), np.where(both, np.uint32(0), y.view(np.uint32))
    np.testing.assert_array_equal(found, want)


@pytest.mark.slow
@pytest.mark.parametrize("special", [True, slow(False)])
@pytest.mark.parametrize(("m", "k", "n"), [(3, 16, 5), (16, 2, 1), slow(16, 16, 16), slow(1, 1, 1)])
def test_products_equal_intels_pseudocode(m: int, k: int, n: int, special: bool) -> None:
    stream, values = products(m, k, n), operands(m, k, n, m + 17 * n, special)
    found = run(stream, AMX, values, poison=1)
    compiled = compile_stream(stream, AMX)(*(values[t.name] for t in stream.arguments))
    for tensor, made in zip(stream.results, compiled, strict=True):
        want = expected(m, k, n, values, tensor.name)
        assert_same(tensor.name, found[tensor.name], want)
        assert_same(tensor.name, np.asarray(made), want)


@examples(8, 150)
@given(m=st.integers(1, 16), k=st.integers(1, 16), n=st.integers(1, 16), seed=st.integers(0, 999),
       mnemonic=st.sampled_from(sorted(PRODUCTS)), special=st.booleans())
def test_every_shape_of_tiles(m: int, k: int, n: int, seed: int, mnemonic: str, special: bool) -> None:
    values = operands(m, k, n, seed, special)
    found = run(products(m, k, n, (mnemonic,)), AMX, values, poison=seed)
    assert_same(mnemonic, found[mnemonic], expected(m, k, n, values, mnemonic))


@pytest.mark.slow
def test_loops_of_instructions_give_the_same() -> None:
    stream, values = products(7, 5, 3), operands(7, 5, 3, 4, True)
    found = run(stream, AMX, values)
    compiled = compile_stream(stream, AMX, raising=False)(*(values[t.name] for t in stream.arguments))
    for tensor, made in zip(stream.results, compiled, strict=True):
        assert_same(tensor.name, np.asarray(made), found[tensor.name])


def test_a_load_clears_what_the_configuration_leaves() -> None:
    body = (make("tileloadd", dst=3, dram=0, stride=64), make("tilecfg", tile=3, tile_rows=2, tile_colsb=12),
            make("tileloadd", dst=3, dram=0, stride=64), make("tilecfg", tile=3, tile_rows=16, tile_colsb=64),
            make("tilestored", src=3, dram=1024, stride=64))
    stream = Stream("amx", (), (HbmTensor("x", 0, (16, 64), "int8"),), (HbmTensor("y", 1024, (16, 64), "int8"),),
                    2048, body, "s")
    x = np.arange(1024, dtype=np.int64).astype(np.int8).reshape(16, 64) | np.int8(1)
    want = np.zeros_like(x)
    want[:2, :12] = x[:2, :12]
    np.testing.assert_array_equal(run(stream, AMX, {"x": x})["y"], want)
    np.testing.assert_array_equal(np.asarray(compile_stream(stream, AMX)(x)[0]), want)


FAULTS = [
    ([make("tdpbusd", dst=1, src1=1, src2=2)], "src1 = 1"),
    ([make("tdpbusd", dst=0, src1=2, src2=2)], "src1 = 2"),
    ([make("tilezero", dst=8)], "dst = 8"),
    ([make("ldtilecfg", number=1), make("tilezero", dst=0)], r"rows\[dst\] = 0"),
    ([make("tilerelease"), make("tilezero", dst=0)], "palette"),
    ([make("ldtilecfg", number=2)], "number = 2"),
    ([make("tilecfg", tile=0, tile_rows=17, tile_colsb=64)], "tile_rows = 17"),
    ([make("tilecfg", tile=0, tile_rows=1, tile_colsb=65)], "tile_colsb = 65"),
    ([make("tilecfg", tile=0, tile_rows=0, tile_colsb=4)], "tile_rows = 0"),
    ([make("tilecfg", tile=0, tile_rows=8, tile_colsb=64), make("tdpbusd", dst=0, src1=1, src2=2)], "rows"),
    ([make("tilecfg", tile=1, tile_rows=16, tile_colsb=60), make("tdpbf16ps", dst=0, src1=1, src2=2)], "colsb"),
    ([make("tileloadd", dst=0, dram=64, stride=64)], "outside"),
]


@pytest.mark.parametrize(("body", "words"), FAULTS)
def test_what_faults_is_refused(body: list[Node], words: str) -> None:
    stream = Stream("amx", (), (), (), 1024, tuple(body), "s")
    with pytest.raises(StreamError, match=words):
        run(stream, AMX, {})
    with pytest.raises(StreamError):
        compile_stream(stream, AMX)
