"""The paper's figures as TAIDL texts: each runs on the interpreter and on XLA as plain NumPy says."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from archloom.oracle import taidl
from archloom.oracle.errors import InputError, StreamError, TaidlError
from archloom.oracle.kernel import Kernel, KernelIsa, isa
from archloom.oracle.taidl.parser import parse
from archloom.oracle.taidl.slices import definite
from tests.support.examples import examples, slow

FIGURES = Path(__file__).parents[2] / "data" / "taidl_figures"
FILES = sorted(FIGURES.glob("*.taidl"))



def figure(name: str) -> KernelIsa:
    return isa(FIGURES / f"figure_{name}.taidl")


def both(kernel: Kernel, *arguments: np.ndarray) -> np.ndarray:
    """The only result of a kernel, which the interpreter and XLA agree on bit for bit."""
    expected, found = kernel.interpret(*arguments), kernel.run(*arguments)
    assert isinstance(expected, np.ndarray) and isinstance(found, np.ndarray)
    assert expected.dtype == found.dtype and expected.tobytes() == found.tobytes()
    return found


def int8(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).integers(-128, 127, shape, np.int8, endpoint=True)


def float32(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).standard_normal(shape, np.float32)


def test_every_figure_is_there() -> None:
    assert {p.stem.split("_")[1] for p in FILES} == {"4", "6", "7", "8", "9", "10", "11", "12", "13"}


def test_figure_6_pushes_weights_in_turn() -> None:
    tpu, size = figure("6"), 65536

    @tpu.kernel(arg={"start": 0, "shape": (4, 256, 256), "dtype": "int8"},
                res={"start": 4 * size, "shape": (4, 256, 256), "dtype": "int8"})
    def rotated() -> None:
        for k in range(4):
            tpu.api.read_weights(addr=size * (3 - k))
        for k in range(4):
            tpu.api.store_weights(slot=k, addr=size * (4 + k))

    x = int8(4, 256, 256)
    np.testing.assert_array_equal(both(rotated, x), x[::-1])


def test_figure_6_asserts_that_the_fifo_has_room() -> None:
    tpu = figure("6")

    @tpu.kernel(size=65536)
    def five() -> None:
        with tpu.loop(5):
            tpu.api.read_weights(addr=0)

    with pytest.raises(StreamError, match=r"read_weights.*assert.*occupancy < 4"):
        five.compile()


def test_figure_7_keeps_tiles_and_vectors() -> None:
    amx = figure("7")

    @amx.kernel(arg={"start": 0, "shape": (2, 16, 64), "dtype": "int8"},
                res={"start": 2048, "shape": (2, 16, 64), "dtype": "int8"})
    def swapped() -> None:
        for k in range(2):
            amx.api.load_tile(tile=k, addr=1024 * k)
        for k in range(2):
            amx.api.store_tile(tile=k, addr=2048 + 1024 * (1 - k))

    @amx.kernel(arg={"start": 0, "shape": (32, 16), "dtype": "float32"},
                res={"start": 2048, "shape": (32, 16), "dtype": "float32"})
    def vectors() -> None:
        for k in range(32):
            amx.api.load_zmm(register=31 - k, addr=64 * k)
        for k in range(32):
            amx.api.store_zmm(register=k, addr=2048 + 64 * k)

    x, y = int8(2, 16, 64), float32(32, 16)
    np.testing.assert_array_equal(both(swapped, x), x[::-1])
    np.testing.assert_array_equal(both(vectors, y), y[::-1])


@pytest.mark.parametrize(("version", "units"), [("2", 1), ("3", 2)])
def test_figure_8_reads_the_whole_fifo_of_a_unit(version: str, units: int) -> None:
    tpu, size = figure(f"8_tpu_v{version}"), 256 * 128 * 4

    @tpu.kernel(arg={"start": 0, "shape": (units, 256, 128), "dtype": "float32"},
                res={"start": units * size, "shape": (units, 256, 128), "dtype": "float32"})
    def through() -> None:
        for unit in range(units):
            tpu.api.fill(mxu_id=unit, addr=size * unit)
        for unit in range(units):
            tpu.api.drain(mxu_id=unit, addr=size * (2 * units - 1 - unit))

    x = float32(units, 256, 128)
    np.testing.assert_array_equal(both(through, x), x[::-1])


@pytest.mark.first_case
@pytest.mark.parametrize(("c", "h", "w"), [(8, 64, 16), (4, 3, 4), (8, 1, 4)])
def test_figure_9_switches_layouts(c: int, h: int, w: int) -> None:
    mlu, size = figure("9"), c * h * w

    @mlu.kernel(arg={"start": 0, "shape": (h, w, c), "dtype": "float32"},
                res={"start": 4 * size, "shape": (c, h, w), "dtype": "float32"})
    def switched() -> None:
        mlu.api.load(row=7, addr=0, rows=size // 4)
        mlu.api.switch_layout(addr=7, C=c, H=h, W=w)
        mlu.api.store(row=7, addr=4 * size, rows=size // 4)

    x = float32(h, w, c)
    np.testing.assert_array_equal(both(switched, x), x.transpose(2, 0, 1))


@pytest.mark.parametrize("dataflow", [0, 1])
def test_figure_10_computes_with_either_dataflow(dataflow: int) -> None:
    gemmini = figure("10")

    @gemmini.kernel(arg=[{"start": 0, "shape": (3, 4, 4), "dtype": "int8"},
                         {"start": 48, "shape": (4, 4), "dtype": "int8"}],
                    res={"start": 64, "shape": (4, 4), "dtype": "int32"})
    def product() -> None:
        gemmini.api.config_execute_dataflow(dataflow)
        gemmini.api.load(row=4, addr=48)
        gemmini.api.preload(row=4)
        with gemmini.loop(3) as i:
            gemmini.api.load(row=0, addr=16 * i)
            gemmini.api.matmul_compute_preloaded(rs1=0, rs2=4)
        gemmini.api.store(addr=64)

    a, b = int8(3, 4, 4), int8(4, 4)[::-1].copy()
    np.testing.assert_array_equal(both(product, a, b), sum(x.astype(np.int32) @ b for x in a))


@pytest.mark.slow  # test_amx has the same products, of tiles of any size
def test_figure_11_equals_the_product_of_its_bytes() -> None:
    amx = figure("11")

    @amx.kernel(arg=[{"start": 0, "shape": (16, 64), "dtype": "uint8"},
                     {"start": 1024, "shape": (16, 64), "dtype": "int8"},
                     {"start": 2048, "shape": (16, 16), "dtype": "int32"}],
                res={"start": 2048, "shape": (16, 16), "dtype": "int32"})
    def accumulated() -> None:
        amx.api.load_tile(tile=1, addr=0)
        amx.api.load_tile(tile=2, addr=1024)
        amx.api.load_tile(tile=0, addr=2048)
        amx.api.tdpbusd(dst=0, src0=1, src1=2)
        amx.api.store_tile(tile=0, addr=2048)

    a, b = int8(16, 64).view(np.uint8), int8(16, 64)[::-1].copy()
    c = np.random.default_rng(1).integers(-(2**31), 2**31, (16, 16), np.int32)
    quads = b.reshape(16, 16, 4).transpose(0, 2, 1).reshape(64, 16).astype(np.int32)
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(both(accumulated, a, b, c), c + a.astype(np.int32) @ quads)


@pytest.mark.slow
@pytest.mark.parametrize("by", [1, slow(32), 77, slow(511)])
def test_figure_12_rotates_a_register_as_bits(by: int) -> None:
    avx = figure("12")

    @avx.kernel(arg={"start": 0, "shape": (16,), "dtype": "uint32"},
                res={"start": 64, "shape": (16,), "dtype": "uint32"})
    def rotated() -> None:
        avx.api.load(register=3, addr=0)
        avx.api.rotate_bits(dst=5, src=3, by=by)
        avx.api.store(register=5, addr=64)

    x = np.random.default_rng(0).integers(0, 2**32, 16, np.uint32)
    bits = np.roll(np.unpackbits(x.view(np.uint8), bitorder="little"), by)
    np.testing.assert_array_equal(both(rotated, x), np.packbits(bits, bitorder="little").view(np.uint32))


def test_figure_13_rounds_to_the_printed_value() -> None:
    fp8 = figure("13")

    @fp8.kernel(arg={"start": 0, "shape": (), "dtype": "float16"}, res={"start": 2, "shape": (), "dtype": "float16"})
    def rounded() -> None:
        fp8.api.load(addr=0)
        fp8.api.to_e4m3()
        fp8.api.store(addr=2)

    x = np.array(0.395264, np.float16)
    assert f"{int(x.view(np.uint16)):016b}" == "0" + "01101" + "1001010011"
    found = both(rounded, x)
    assert float(found) == 0.40625
    assert f"{int(found.view(np.uint16)):016b}" == "0" + "01101" + "1010000000"


PLACES = [(0, (16, 64), np.int8), (1024, (16, 64), np.int8), (2048, (16, 16), np.int32)]
PAPER = [{"start": start, "shape": (*shape, dtype)} for start, shape, dtype in PLACES]
ARTIFACT = [{"addr": start, "shape": shape, "dtype": dtype} for start, shape, dtype in PLACES]


def of_the_paper(api: Any) -> None:
    api.tilezero(dst=0)
    api.tileload(dst=4, base=0, stride=64)
    api.tileload(dst=6, base=1024, stride=64)
    api.tdpbusd(dst=0, src0=4, src1=6)
    api.tilestored(src=0, base=2048, stride=64)


def of_the_artifact(api: Any) -> None:
    api.tilezero(0)
    api.tileloadd(dst=4, addr=0, stride=64)
    api.tileloadd(dst=6, addr=1024, stride=64)
    api.tdpbusd(0, 4, 6)
    api.tilestored(src=0, addr=2048, stride=64)


@pytest.mark.parametrize(("calls", "properties"), [
    (of_the_paper, {"size": 3072, "arg": PAPER[:2], "res": PAPER[2:]}),
    (of_the_artifact, {"hbm": 3072, "input": ARTIFACT[:2], "output": ARTIFACT[2:]}),
])
def test_figure_15_runs_on_the_shipped_amx(calls: Callable[[Any], None], properties: dict[str, Any]) -> None:
    amx = isa("amx")

    @amx.kernel(**properties)
    def matmul_amx() -> None:
        calls(amx.api)

    a, b = int8(16, 64), int8(16, 64)[::-1].copy()
    quads = b.reshape(16, 16, 4).transpose(0, 2, 1).reshape(64, 16).astype(np.int32)
    np.testing.assert_array_equal(both(matmul_amx, a, b), a.view(np.uint8).astype(np.int32) @ quads)


def test_a_property_of_a_kernel_has_one_name() -> None:
    amx = isa("amx")
    with pytest.raises(InputError, match="a kernel's 'size' is given twice, also as 'hbm'"):
        amx.kernel(size=64, hbm=64)
    with pytest.raises(InputError, match="a kernel has no property 'inputs'.*'input'"):
        amx.kernel(inputs=[])


# --- slices -------------------------------------------------------------------------------------------------------

SLICES = """isa slices;
param n = 4 in 2..8;
const two = 2;
[rows] (8) (4 x i8);
grow = 1;
[fill](dram) { %In:8x4xi8 <- $hbm[dram + {8 : 4, 4 : 1}]; %In -> $rows; }
"""


def sliced(tmp_path: Path, kind: str, piece: str, run: Callable[..., Any] = both) -> np.ndarray:
    """What a slice of an 8x4 buffer with the elements 0..31 reads, and what writing it back leaves the same."""
    path = tmp_path / "slices.taidl"
    shape = [int(d) for d in kind.split("x")[:-1]]
    strides = np.cumprod([1, *shape[:0:-1]])[::-1]
    window = ", ".join(f"{e} : {s}" for e, s in zip(shape, strides, strict=True))
    path.write_text(SLICES + f"""
[take](dram) {{ %T:{kind} <- $rows[{piece}]; %T -> $hbm[dram + {{{window}}}]; }}
[give]() {{ %T:{kind} <- $rows[{piece}]; %T -> $rows[{piece}]; }}
""")
    s = isa(path)

    @s.kernel(arg={"start": 0, "shape": (8, 4), "dtype": "int8"}, res={"start": 32, "shape": shape, "dtype": "int8"})
    def take() -> None:
        s.api.fill(dram=0)
        s.api.give()
        s.api.take(dram=32)

    found = run(take, np.arange(32, dtype=np.int8).reshape(8, 4))
    assert isinstance(found, np.ndarray)
    return found


@pytest.mark.first_case
@pytest.mark.parametrize(("kind", "piece", "numpy"), [
    ("1x4xi8", "3", np.s_[3:4]),
    ("3x4xi8", "2", np.s_[2:5]),                       # as long as the type says
    ("2x2xi8", "3, 1", np.s_[3:5, 1:3]),
    ("1x4xi8", "-1", np.s_[-1:]),
    ("2x4xi8", "-two", np.s_[-2:]),
    ("4x4xi8", "-n:", np.s_[-4:]),
    ("5x1xi8", "1:-2, -3", np.s_[1:-2, -3:-2]),
    ("4x4xi8", "::2", np.s_[::2]),
    ("3x2xi8", "1::3, :-2", np.s_[1::3, :-2]),
])
def test_slices_are_as_in_numpy(tmp_path: Path, kind: str, piece: str, numpy: Any) -> None:
    np.testing.assert_array_equal(sliced(tmp_path, kind, piece), np.arange(32).reshape(8, 4)[numpy])


@pytest.mark.first_case
@pytest.mark.parametrize(("kind", "piece", "numpy"), [
    ("8x4xi8", "::-1", np.s_[::-1]),
    ("4x4xi8", "::-2", np.s_[::-2]),
    ("2x4xi8", "5:1:-2", np.s_[5:1:-2]),
    ("3x2xi8", "-2:-5:-1, 2:0:-1", np.s_[-2:-5:-1, 2:0:-1]),
])
def test_slices_that_go_backwards_are_as_in_numpy(tmp_path: Path, kind: str, piece: str, numpy: Any) -> None:
    np.testing.assert_array_equal(sliced(tmp_path, kind, piece), np.arange(32).reshape(8, 4)[numpy])


def part(text: int | None) -> str:
    return "" if text is None else str(text)


@pytest.mark.slow
@given(st.none() | st.integers(-8, 7), st.none() | st.integers(-8, 8), st.none() | st.integers(-4, 4).filter(bool))
@examples(16, 200)
def test_random_slices_are_as_in_numpy(tmp_path: Path, start: int | None, stop: int | None, step: int | None) -> None:
    expected = np.arange(32).reshape(8, 4)[slice(start, stop, step)]
    assume(len(expected))
    piece = f"{part(start)}:{part(stop)}" + (f":{step}" if step is not None else "")
    np.testing.assert_array_equal(sliced(tmp_path, f"{len(expected)}x4xi8", piece, Kernel.interpret), expected)


def test_an_index_is_not_stretched_by_a_register_that_changed_in_between() -> None:
    tree = parse(SLICES + "[i](a) { %T:{grow}x4xi8 <- $rows[a]; grow = grow + 1; %T -> $rows[0]; }")
    write = definite(tree, tree.instructions[-1].body)[-1]
    assert write == tree.instructions[-1].body[-1]


@pytest.mark.parametrize(("statement", "message"), [
    ("%T:1x4xi8 <- $rows[-9];", r"\$rows\[8 - 9\] spans -1\.\.-1, outside of an axis of extent 8"),
    ("%T:3x4xi8 <- $rows[6];", r"\$rows\[6:6 \+ 3\] spans 6\.\.8, outside of an axis of extent 8"),
    ("%T:4xi8 <- $hbm[-4];", r"\$hbm\[-4:-4 \+ 4\] spans -4\.\.-1, outside"),
])
def test_slices_outside_of_their_buffer(statement: str, message: str) -> None:
    with pytest.raises(TaidlError, match=message):
        taidl.check(parse(f"{SLICES}[i]() {{ {statement} }}"))
