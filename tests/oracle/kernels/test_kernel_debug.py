"""Debug points: what they print, everywhere alike, and that they change nothing."""

from __future__ import annotations

from pathlib import Path

import jax
import numpy as np
import pytest

from archloom.oracle.errors import InputError, StreamError
from archloom.oracle.kernel import Kernel, isa, loop
from archloom.oracle.kernel.debugging import MAX_LINES
from archloom.oracle.xla.oracle import compile_resolved
from tests.support.oracle.kernel_examples import arguments, floats

GEMMINI = isa("gemmini", dim=4)
A, B, C = 64, 64 + 48, 128


def matmul(debug: bool, tiles: tuple[int, int, int] = (2, -1, -1)) -> Kernel:
    """``C = saturate(A . B)`` in three tiles, with debug points of every kind."""
    api = GEMMINI.api
    show = GEMMINI.debug if debug else lambda *_: None

    @GEMMINI.kernel(
        size=C + 48, arg=[{"start": A, "shape": (12, 4, np.int8)}, {"start": B, "shape": (4, 4, np.int8)}],
        res=[{"start": C, "shape": (12, 4, np.int8)}],
    )
    def matmul() -> None:
        api.config_ex(GEMMINI.WS, 0, 0, 0, 0, 1, 1, 0)
        api.config_ld(0, 4, GEMMINI.ONE, 0, 4)
        api.config_st(4, 0, GEMMINI.ONE, *[0] * 9)
        api.mvin(B, 8, 4, 4)
        show("B: ", GEMMINI.spad[8:12])
        show("strides: ", GEMMINI.ld_stride)
        show("second: ", GEMMINI.ld_stride[1])
        with loop("tile", *tiles) as i:
            show("out before: ", GEMMINI.out_addr)
            api.mvin(A + 16 * i, 0, 4, 4)
            api.preload(8, (1 << 31) + i, 4, 4, 4, 4)
            show("out after: ", GEMMINI.out_addr)
            api.compute_preloaded(0, GEMMINI.NONE, 4, 4, 4, 4)
            show("acc: ", GEMMINI.acc[i:i + 4, ::2])
            show("corner: ", GEMMINI.acc[i, 3])
            api.mvout(C + 16 * i, (1 << 31) + i, 4, 4)
            show("byte: ", GEMMINI.hbm[C + 16 * i])
            with loop("j", 2) as j:
                show("expression: ", 4 * i + j // 2)
        show("done")

    return matmul


@pytest.fixture(scope="module")
def kernels() -> tuple[Kernel, Kernel]:
    return matmul(False), matmul(True)


def expected(a: np.ndarray, b: np.ndarray, tiles: tuple[int, ...] = (2, 1, 0)) -> str:
    """What the debug points print, from the matrices."""
    acc = a.astype(np.int32) @ b.astype(np.int32)
    c = np.clip(acc, -128, 127).astype(np.int8)
    lines = ["B: " + np.array2string(b, prefix="B: "), "strides: ld_stride[0] = 4, ld_stride[1] = 0, ld_stride[2] = 0",
             "second: 0"]
    before = 0xFFFFFFFF
    for i in tiles:
        where, rows = f"[tile = {i}] ", slice(4 * i, 4 * i + 4)
        shown = np.array2string(acc[rows, ::2], prefix=f"{where}acc: ")
        lines += [f"{where}out before: {before}", f"{where}out after: {(1 << 31) + i}", f"{where}acc: {shown}",
                  f"{where}corner: {acc[4 * i, 3]}", f"{where}byte: {c[4 * i, 0]}"]
        lines += [f"[tile = {i}, j = {j}] expression: {4 * i}" for j in (0, 1)]
        before = (1 << 31) + i
    return "\n".join([*lines, "done"]) + "\n"


@pytest.mark.slow
def test_points_print_in_program_order(kernels: tuple[Kernel, Kernel], capsys: pytest.CaptureFixture[str]) -> None:
    _, kernel = kernels
    given = arguments(kernel)
    for call in (kernel.run, kernel.interpret, kernel, kernel.compile().run):
        call(*given)
        assert capsys.readouterr().out == expected(*given)


@pytest.mark.slow
def test_points_print_where_the_kernel_is_traced(
    kernels: tuple[Kernel, Kernel], capsys: pytest.CaptureFixture[str]
) -> None:
    plain, kernel = kernels
    given = [jax.numpy.asarray(x) for x in arguments(kernel)]
    twice = jax.jit(lambda a, b: kernel(kernel(a, b), b))
    result = twice(*given)
    jax.effects_barrier()
    middle = plain.run(*given)
    assert np.array_equal(result, plain.run(middle, given[1]))
    assert capsys.readouterr().out == expected(*map(np.asarray, given)) + expected(middle, np.asarray(given[1]))


def test_points_of_a_batch_name_the_element(
    kernels: tuple[Kernel, Kernel], capsys: pytest.CaptureFixture[str]
) -> None:
    plain, kernel = kernels
    given = arguments(kernel, batch=2)
    each = [expected(*(x[n] for x in given)) for n in range(2)]
    want = [f"[batch {n}] second: 0" for n in range(2)]
    results = plain.batch(2).run(*given)
    for call in (kernel.batch(2), jax.jit(jax.vmap(kernel))):
        result = call(*map(jax.numpy.asarray, given))
        jax.effects_barrier()
        out = capsys.readouterr().out
        assert np.array_equal(result, results)
        assert [line for line in out.splitlines() if "second" in line] == want
        assert len(out.splitlines()) == sum(len(e.splitlines()) for e in each)


def test_points_change_neither_results_nor_the_stream(kernels: tuple[Kernel, Kernel]) -> None:
    plain, kernel = kernels
    given = arguments(kernel, seed=3)
    assert plain.stream == kernel.stream and plain.debugged is None and kernel.debugged is not None
    assert np.array_equal(kernel.run(*given), plain.run(*given))
    assert plain.oracle.program is kernel.oracle.program
    assert kernel.compile().serialize() == plain.compile().serialize()


@pytest.mark.slow
def test_points_work_raised_and_as_loops() -> None:
    kernel = matmul(True, (0, 3, 1))
    assert kernel.debugged is not None
    raised = compile_resolved(kernel.debugged.resolved)
    loops = compile_resolved(kernel.debugged.resolved, raising=False)
    assert raised.raised and not loops.raised
    given = arguments(kernel, seed=4)
    lines = [list(kernel.debugged.lines([np.asarray(x) for x in o(*given)[1:]])) for o in (raised, loops)]
    assert lines[0] == lines[1]
    assert "\n".join([*lines[0], ""]) == expected(*given, (0, 1, 2))


def test_points_show_floats_and_masks(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    machine = floats(tmp_path)

    @machine.kernel(arg={"start": 0, "shape": (2, 4, np.float32)}, res={"start": 32, "shape": (4, np.float32)})
    def compare() -> None:
        with machine.loop(2) as i:
            machine.api.ld(16 * i, i)
            machine.api.tick(1)
            machine.debug("count: ", machine.count[1])
        machine.api.less(3, 0, 1)
        machine.debug("less: ", machine.mask[3])
        machine.debug("rows: ", machine.vec[:2])
        machine.debug("mode: ", machine.mode)
        machine.api.st(32, 1)

    x = np.array([[1, np.nan, -0.0, 4], [2, 1, 0, np.inf]], np.float32)
    for call in (compare.run, compare.interpret):
        assert np.array_equal(call(x), x[1])
        assert capsys.readouterr().out == (
            "[i = 0] count: 4\n[i = 1] count: 5\nless: [ True False False  True]\n"
            f"rows: {np.array2string(x, prefix='rows: ')}\nmode: 0\n")


@pytest.mark.first_case
@pytest.mark.parametrize("dtype, shown", [
    ("i1", "[ True False  True  True]"), ("i4", "[1 0 -1 3]"), ("u16", "[1 0 0 3]"), ("i32", "[ 1  0 -1  3]"),
    ("f4e2m1fn", "[ 1.  0. -1.  3.]"), ("f8e4m3fn", "[1 0 -1 3]"), ("bf16", "[1 0 -1 3]"),
    ("!quant.uniform<i8:f32, 0.5:3>", "[ 1.  0. -1.  3.]"),
])
def test_points_show_every_kind_of_element(
    dtype: str, shown: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    there = "uniform_quantize" if "quant" in dtype else "convert"
    (tmp_path / "t.taidl").write_text(f"""isa t;
    [held] (2) (4 x {dtype});
    [ld](dram, row) {{
        %X:1x4xi8 <- $hbm[dram + {{1 : 0, 4 : 1}}];
        %F:1x4xf32 = convert(%X);
        %Y:1x4x{dtype} = {there}(%F);
        %Y -> $held[row, 0:4];
    }}""")
    machine = isa(tmp_path / "t.taidl")

    @machine.kernel(arg={"start": 0, "shape": (4, np.int8)})
    def load() -> None:
        machine.api.ld(0, 1)
        machine.debug("", machine.held[1])

    for call in (load.run, load.interpret):
        assert call(np.array([1, 0, -1, 3], np.int8)) == ()
        assert capsys.readouterr().out == shown + "\n"


def test_a_fault_of_the_kernel_is_that_without_points() -> None:
    def bad(debug: bool) -> Kernel:
        @GEMMINI.kernel(size=64)
        def far() -> None:
            if debug:
                GEMMINI.debug("", GEMMINI.acc[0])
            GEMMINI.api.mvin(64, 0, 4, 4)

        return far

    said = []
    for debug in (False, True):
        with pytest.raises(StreamError) as caught:
            bad(debug).run()
        said.append(str(caught.value))
    assert said[0] == said[1] and "instr 0 mvin: reads bytes 64..67 of HBM, outside its 64 bytes" in said[0]


@pytest.mark.parametrize("data, message", [
    (lambda i: GEMMINI.acc[1024], r"axis 0 of acc: expected elements in 0..1024, found 1024:1025"),
    (lambda i: GEMMINI.acc[0, 0, 0], "acc has 2 axes, found 3 indices"),
    (lambda i: GEMMINI.acc[0:4:-1], "expected a step of at least 1, found -1"),
    (lambda i: GEMMINI.acc[4:4], "expected at least one element"),
    (lambda i: GEMMINI.acc[i:2 * i], "expected a slice of constant length"),
    (lambda i: GEMMINI.acc[1.5], "expected an integer, found 1.5"),
    (lambda i: GEMMINI.hbm[0:], "expected where the slice ends"),
    (lambda i: GEMMINI.ld_stride[3], r"ld_stride: expected an index in 0..2, found 3"),
    (lambda i: GEMMINI.ex_act[0], "ex_act is no array of registers"),
    (lambda i: "acc", "expected a buffer, a slice of one, a register or a loop variable, found 'acc'"),
])
def test_what_cannot_be_shown_is_refused(data: object, message: str) -> None:
    def kernel() -> None:
        with GEMMINI.loop(4) as i:
            GEMMINI.debug("x", data(i))  # type: ignore[operator]

    with pytest.raises(StreamError, match=message) as caught:
        GEMMINI.kernel(size=0)(kernel)
    assert "test_kernel_debug.py:" in str(caught.value)


def test_negative_indices_and_dots_are_numpys() -> None:
    assert GEMMINI.acc[-4:] == GEMMINI.acc[1020:1024, ...] and GEMMINI.acc[..., -1] == GEMMINI.acc[:, 3]


def test_a_part_that_leaves_its_buffer_in_some_iteration_names_the_line() -> None:
    @GEMMINI.kernel(size=64)
    def leaving() -> None:
        with GEMMINI.loop(4) as i:
            GEMMINI.debug("x", GEMMINI.acc[1000 + 8 * i:1004 + 8 * i])
            GEMMINI.debug("x", GEMMINI.hbm[32 + 16 * i])

    with pytest.raises(StreamError, match=r"test_kernel_debug.py:\d+: loop i / .*: reads rows .* of \$acc.*for i = 3"):
        leaving.run()


def test_hbm_is_that_of_the_kernel() -> None:
    @GEMMINI.kernel(size=64)
    def leaving() -> None:
        with GEMMINI.loop(4) as i:
            GEMMINI.debug("x", GEMMINI.hbm[32 + 16 * i])

    with pytest.raises(StreamError, match=r"test_kernel_debug.py:\d+: loop i / .*assert\(0 <= o0 .* 64\).*for i = 2"):
        leaving.run()


def test_what_would_print_without_end_is_refused() -> None:
    @GEMMINI.kernel(size=64)
    def much() -> None:
        with GEMMINI.loop(MAX_LINES + 1):
            GEMMINI.debug("x")

    with pytest.raises(InputError, match=f"would print {MAX_LINES + 1} times, expected at most {MAX_LINES}"):
        much.run()

    @GEMMINI.kernel(size=64)
    def large() -> None:
        with GEMMINI.loop(1 << 19):
            GEMMINI.debug("x", GEMMINI.acc)

    with pytest.raises(InputError, match=r"would record more than 268435456 bytes: name a smaller part of acc"):
        large.run()


def test_debug_outside_of_a_kernel_is_refused() -> None:
    with pytest.raises(StreamError, match="debug is called outside of a kernel function"):
        GEMMINI.debug("x", GEMMINI.acc)
