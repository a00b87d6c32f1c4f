"""Kernels written by hand: what is recorded of them, and what is refused."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import archloom
from archloom.mapper.mapping import Mapping
from archloom.mapper.workload import Epilogue, gemm
from archloom.oracle.affine import Affine
from archloom.oracle.assembly import to_text
from archloom.oracle.errors import InputError, StreamError
from archloom.oracle.kernel import Kernel, isa, loop, parallel
from archloom.oracle.stream import HbmTensor, Instr, Loop, Parallel
from archloom.uma_targets.gemmini.emit import GemminiEmitter
from tests.support.examples import slow
from tests.support.oracle.flat_trace import flat_trace
from tests.support.oracle.kernel_examples import arguments, matmul_reference, tiled_matmul

GEMMINI = isa("gemmini", dim=4)


@pytest.fixture(scope="module")
def matmul() -> Kernel:
    return tiled_matmul(4, 3)


# --- what is recorded -----------------------------------------------------------------------------------------------


def test_calls_become_the_streams_instructions(matmul: Kernel) -> None:
    mvin = matmul.stream.body[3]
    assert mvin == Instr.make("mvin", dram=112, local=8, cols=4, rows=4)
    nest = matmul.stream.body[4]
    assert isinstance(nest, Loop) and (nest.var, nest.start, nest.stop, nest.step) == ("i", 0, 3, 1)
    assert nest.body[0] == Instr.make("mvin", dram=Affine.variable("i") * 16 + 64, local=0, cols=4, rows=4)
    assert matmul.stream.arguments[2] == HbmTensor("D", 128, (12, 4), "int8")
    assert matmul.name == matmul.__name__ == "matmul"
    assert repr(matmul) == ("<kernel matmul of gemmini (A: int8[12, 4], B: int8[4, 4], D: int8[12, 4]) -> "
                            "(C: int8[12, 4])>")


def test_python_loops_are_unrolled(matmul: Kernel) -> None:
    flat = tiled_matmul(4, 3, loops=False)
    assert flat.stream.count() == matmul.stream.count() == len(flat.stream.body)
    given = arguments(flat)
    assert np.array_equal(flat.run(*given), matmul.run(*given))


def test_unrolled_loops_are_raised_as_loops_are() -> None:
    flat = tiled_matmul(4, 1000, loops=False)
    assert len(flat.stream.body) == 5004 and len(flat.resolved.body) == 5
    assert "raised to dot 4000x4x4 int8 x int8 -> i32" in str(flat.report)
    given = arguments(flat)
    assert np.array_equal(flat.run(*given), matmul_reference(*given))


@pytest.mark.slow
@pytest.mark.parametrize("size", [24, slow(48)])
def test_unrolled_products_with_two_buffers_in_turn_are_raised(size: int) -> None:
    work = gemm(size, size, size, epilogue=Epilogue(bias=False, scale=0.013, relu=False, out_dtype="int8"))
    sizes = tuple((d, 8) for d in "mnk")
    mapping = Mapping("gemm", "ws", sizes, ("m", "n"), (("A", "stream"), ("B", "stream")),
                      (("A", 2), ("B", 2), ("C", 2)))
    stream = GemminiEmitter(GEMMINI.isa.parameters).emit(work, mapping)
    flat = tuple(Instr.make(mnemonic, **values) for mnemonic, values in flat_trace(stream))
    unrolled = GEMMINI.wrap(replace(stream, body=flat))
    assert unrolled.report.raised and len(flat) == stream.count()
    given = arguments(unrolled)
    assert np.array_equal(unrolled.run(*given), GEMMINI.wrap(stream).run(*given))


def test_long_kernels_without_repetition_are_resolved() -> None:
    @GEMMINI.kernel(arg={"start": 64, "shape": (64, 4, np.int8)}, res={"start": 320, "shape": (64, 4, np.int8)})
    def shuffled() -> None:
        GEMMINI.api.config_ld(0, 4, GEMMINI.ONE, 0, 4)
        for n in range(5000):
            GEMMINI.api.mvin(64 + 4 * (n * n % 61), n * n % 59, 4, 1)

    assert shuffled.stream.count() == 5001 and len(shuffled.resolved.body) > 4096


def test_loops_take_bounds_names_and_steps() -> None:
    @GEMMINI.kernel(size=4096)
    def nest() -> None:
        with GEMMINI.loop("row", 8, 40, 8) as row, loop(2, 4) as j, loop(3) as k, parallel(2, "x") as core:
            at = 64 * (row // 8 - 1) + (j << 4) - k + 128 - -core
            GEMMINI.api.mvin(dram=at, local=(row >> 1) % 8, cols=4, rows=4)

    assert to_text(nest.stream).splitlines()[3:8] == [
        "loop row in 8..40 step 8 {", "  loop i in 2..4 {", "    loop j in 0..3 {",
        "      parallel k in 0..2 along x {",
        "        mvin dram=16*i - j + k + 64*(row // 8) + 64, local=((row // 2) % 8), cols=4, rows=4"]
    assert isinstance(nest.stream.body[0].body[0].body[0].body[0], Parallel)


def test_a_loop_without_instructions_is_left_out() -> None:
    @GEMMINI.kernel(size=0)
    def empty() -> None:
        with loop(4):
            pass
        GEMMINI.api.fence()

    assert empty.stream.body == (Instr.make("fence"),)


def test_names_of_the_isa() -> None:
    assert (GEMMINI.name, GEMMINI.dim, GEMMINI.NONE, GEMMINI.WS) == ("gemmini", 4, 0xFFFFFFFF, 1)
    assert GEMMINI.parameters["acc_rows"] == 1024 and GEMMINI.buffers["acc"].shape == (1024, 4)
    assert "mvin" in dir(GEMMINI.api) and {"acc", "ld_stride", "dim", "kernel"} <= set(dir(GEMMINI))
    assert "mvin(dram, local, cols, rows)" in str(GEMMINI.api.mvin.__doc__)
    assert not hasattr(GEMMINI, "accumulator") and not hasattr(GEMMINI.api, "mvin9")
    assert isinstance(archloom.isa("gemmini", dim=4).kernel(size=0)(lambda: None), Kernel)


def test_tensors_in_all_their_forms() -> None:
    forms = [{"start": 0, "shape": (2, 3, np.int16)}, {"addr": 16, "shape": (4,), "dtype": "bfloat16", "name": "x"},
             {"address": np.int64(32), "shape": [], "dtype": np.float32}, HbmTensor("whole", 40, (2,), "int8")]
    made = GEMMINI.kernel(arg=forms, name="named")(lambda: None)
    assert made.stream.arguments == (
        HbmTensor("arg0", 0, (2, 3), "int16"), HbmTensor("x", 16, (4,), "bfloat16"),
        HbmTensor("arg2", 32, (), "float32"), HbmTensor("whole", 40, (2,), "int8"))
    assert made.stream.hbm_bytes == 42 and made.name == "named"


# --- what is refused ------------------------------------------------------------------------------------------------


def _use(i: object) -> None:
    GEMMINI.api.mvin(dram=i, local=0, cols=4, rows=4)


REFUSED = {
    "unknown_attribute": (lambda: GEMMINI.api.mvin(dram=1, local=2, colz=3, rows=4),
                          "mvin: unknown attribute 'colz'; did you mean 'cols'"),
    "missing": (lambda: GEMMINI.api.mvin(1, local=2), r"mvin: attributes 'cols', 'rows' are missing \(expected dram,"),
    "one_missing": (lambda: GEMMINI.api.mvin(1, 2, 3), "mvin: attribute 'rows' is missing"),
    "too_many": (lambda: GEMMINI.api.mvin(1, 2, 3, 4, 5), "mvin: expected at most 4 attributes"),
    "twice": (lambda: GEMMINI.api.mvin(1, 2, 3, 4, dram=5), "expected at most 4|'dram' is given twice"),
    "twice_of_four": (lambda: GEMMINI.api.mvin(1, 2, 3, dram=5), "mvin: attribute 'dram' is given twice"),
    "mnemonic": (lambda: GEMMINI.api.mvinn(1), "ISA gemmini has no instruction 'mvinn'; did you mean 'mvin'"),
    "buffer": (lambda: GEMMINI.spda, "has no buffer, register, parameter or constant 'spda'; did you mean 'spad'"),
    "misplaced": (lambda: GEMMINI.mvin, "did you mean the instruction api.mvin"),
    "float": (lambda: _use(1.5), r"dram: expected an integer, found 1.5 \(float\)"),
    "other_isa": (lambda: isa("gemmini", dim=8).api.fence(), "is called in kernel .*, which is for gemmini with other"),
    "square": (lambda: _loops(lambda i, j: _use(i * j)), r"\(i\) \* \(j\) is not affine: one side must be a constant"),
    "compared": (lambda: _loops(lambda i, j: _use(4 if i == j else 0)), r"\(i\) == ... cannot be decided: a loop that"),
    "ordered": (lambda: _loops(lambda i, j: _use(max(i, 0))), "the order of .* cannot be decided"),
    "truth": (lambda: _loops(lambda i, j: _use(4 if i else 0)), r"the truth of \(i\) cannot be decided"),
    "number": (lambda: _loops(lambda i, j: _use([0, 4][i])), r"\(i\) is not a known number"),
    "bits": (lambda: _loops(lambda i, j: _use(i | 1 << 31)), r"\(i\) | ... is not affine \(\+ sets bits"),
    "fraction": (lambda: _loops(lambda i, j: _use(i / 2)), r"\(i\) / ... is no integer \(// is\)"),
    "divisor": (lambda: _loops(lambda i, j: _use(i // 0)), r"\(i\) // 0: a divisor must be at least 1"),
    "dividing": (lambda: _loops(lambda i, j: _use(8 // i)), r"a division by \(i\) is not affine"),
    "float_step": (lambda: _loops(lambda i, j: _use(i * 0.5)), r"\(i\) \* 0.5: expected an integer"),
    "bound": (lambda: _loops(lambda i, j: loop(i).__enter__()), "bound 0 of a loop: expected a constant, found"),
    "step": (lambda: loop(0, 4, 0).__enter__(), "loop i: step must not be 0"),
    "no_bounds": (lambda: loop().__enter__(), r"expected loop\(stop\), .* found 0 bounds"),
    "name": (lambda: loop("2x", 4).__enter__(), "expected an identifier as the name of a loop, found '2x'"),
    "same_name": (lambda: _loops(lambda i, j: loop("i", 4).__enter__()), "'i' is that of an enclosing loop already"),
    "cores": (lambda: parallel(0, "x").__enter__(), "expected at least one core along 'x', found 0"),
    "nested": (lambda: GEMMINI.kernel(size=0, name="inner")(lambda: None), "inner is traced within kernel .*outside"),
}


def _loops(body: object) -> None:
    with GEMMINI.loop(4) as i, GEMMINI.loop(4) as j:
        body(i, j)  # type: ignore[operator]


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_refused_names_the_line(case: str) -> None:
    act, message = REFUSED[case]
    with pytest.raises(StreamError, match=message) as caught:
        GEMMINI.kernel(size=256, name="outer")(lambda: act() and None)
    assert str(caught.value).startswith(("tests/oracle/kernels/test_kernel.py:", __file__))
    GEMMINI.kernel(size=0)(lambda: None)  # and leaves no trace


def test_a_variable_outside_of_its_loop_is_refused() -> None:
    def stale() -> None:
        with loop(4) as i:
            GEMMINI.api.fence()
        with loop(4):
            _use(i)

    with pytest.raises(StreamError, match="dram = i names a loop variable outside of its loop"):
        GEMMINI.kernel(size=256)(stale)


def test_calls_outside_of_kernels_are_refused() -> None:
    for act in (lambda: GEMMINI.api.fence(), lambda: loop(3).__enter__()):
        with pytest.raises(StreamError, match="called outside of a kernel function"):
            act()


def test_kernel_functions_take_no_parameters() -> None:
    with pytest.raises(InputError, match=r"kernel function <lambda> has parameters: expected none"):
        GEMMINI.kernel(size=0)(lambda n: None)  # type: ignore[arg-type, misc]


@pytest.mark.parametrize("spec, message", [
    ({"shape": (4, np.int8)}, "arg0: expected its address in bytes as 'start', found none"),
    ({"start": 0, "addr": 0, "shape": (4, np.int8)}, "found start, addr"),
    ({"start": 0}, "arg0: expected a 'shape'"),
    ({"start": 0, "shape": (4, 4)}, "arg0: expected a 'dtype'"),
    ({"start": 0, "shape": (4,), "dtype": "int7"}, "arg0: expected a NumPy dtype, found 'int7'"),
    ({"start": 0, "shape": (-4,), "dtype": "int8"}, "extents of at least 0"),
    ({"start": 1.0, "shape": (4,), "dtype": "int8", "name": "X"}, "X: expected an integer address, found 1.0"),
    ({"begin": 0, "shape": (4,), "dtype": "int8"}, "arg0: unknown key 'begin'"),
    ((4, 4), "arg0: expected a mapping such as"),
])
def test_tensors_that_are_none(spec: object, message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        GEMMINI.kernel(size=64, arg=[spec])
    assert "test_kernel.py:" in str(caught.value)


def test_tensors_outside_of_hbm_are_refused() -> None:
    made = GEMMINI.kernel(size=15, arg=[{"start": 0, "shape": (4, 4, np.int8)}])(lambda: None)
    with pytest.raises(StreamError, match=r"argument 'arg0': expected bytes in 0..15 \(hbm_bytes\), found 0..16"):
        made.run(np.zeros((4, 4), np.int8))


def test_rules_of_the_isa_name_the_line_the_iteration_and_the_values() -> None:
    def far() -> None:
        GEMMINI.api.config_ld(0, 4, GEMMINI.ONE, 0, 4)
        with loop(100) as i:
            GEMMINI.api.fence()
            GEMMINI.api.mvin(64 + 4 * i, 0, 4, 4)

    made = GEMMINI.kernel(size=256)(far)
    line = f"test_kernel.py:{far.__code__.co_firstlineno + 4}: "
    with pytest.raises(StreamError, match=f"{line}loop i / instr 2 mvin: reads bytes .* outside .*for i = 45"):
        made.compile()
    with pytest.raises(StreamError, match=rf"{line}instruction 92, mvin\(.*\) at i = 45: .*hbm"):
        made.interpret()


def test_a_fault_in_an_unrolled_loop_names_the_instruction_as_it_is_written() -> None:
    def far() -> None:
        GEMMINI.api.config_ld(0, 4, GEMMINI.ONE, 0, 4)
        for n in range(50):
            GEMMINI.api.mvin(64 + 4 * n, 0, 4, 4)

    with pytest.raises(StreamError, match=f"test_kernel.py:{far.__code__.co_firstlineno + 3}: instr 46 mvin: reads"):
        GEMMINI.kernel(size=256)(far).compile()


def test_assertions_name_the_line_and_the_values() -> None:
    made = GEMMINI.kernel(size=256)(lambda: GEMMINI.api.mvin(64, 0, 400, 4))
    with pytest.raises(StreamError, match=r"test_kernel.py:\d+: instr 0 mvin: assert\(1 <= cols .* cols = 400"):
        made.run()
