"""Kernels written by hand: what is recorded, how they are called, and what they compute."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import jax
import numpy as np
import pytest
import torch

import archloom
from archloom.mapper.mapping import Mapping
from archloom.mapper.workload import Epilogue, gemm
from archloom.oracle.affine import Affine
from archloom.oracle.assembly import to_text
from archloom.oracle.errors import ArtifactError, InputError, StreamError
from archloom.oracle.kernel import Kernel, isa, loop, parallel
from archloom.oracle.stream import HbmTensor, Instr, Loop, Parallel
from archloom.uma_targets.gemmini.emit import GemminiEmitter
from tests.support.examples import slow
from tests.support.oracle.flat_trace import flat_trace
from tests.support.oracle.kernel_examples import arguments, floats, matmul_reference, tiled_matmul

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


# --- calling --------------------------------------------------------------------------------------------------------


def test_numpy_in_numpy_out(matmul: Kernel) -> None:
    given = arguments(matmul)
    for result in (matmul.run(*given), matmul(*given), matmul.interpret(*given)):
        assert isinstance(result, np.ndarray) and np.array_equal(result, matmul_reference(*given))
    assert np.array_equal(matmul.run(given[0].T.copy().T, *given[1:]), matmul.run(*given))
    assert "res" not in str(matmul.report) and matmul.report.raised


def test_results_share_no_memory_with_arguments() -> None:
    copy = GEMMINI.kernel(arg={"start": 16, "shape": (4, 4, np.int8)}, res={"start": 16, "shape": (4, 4, np.int8)})(
        lambda: GEMMINI.api.fence())
    x = np.zeros((4, 4), np.int8)
    result, on_device, tensor = copy.run(x), copy.function(x)[0], copy(torch.from_numpy(x))
    x += 1
    assert not result.any() and not on_device.any() and not tensor.any()
    tensor += 2
    assert (x == 1).all()


def test_jax_in_jax_out(matmul: Kernel) -> None:
    given = arguments(matmul)
    on_device = [jax.numpy.asarray(x) for x in given]
    want = matmul_reference(*given)
    result = matmul(*on_device)
    assert isinstance(result, jax.Array) and np.array_equal(result, want)
    mixed = matmul(on_device[0], *given[1:])
    assert isinstance(mixed, jax.Array) and np.array_equal(mixed, want)
    jitted = jax.jit(lambda a, b, d: -matmul(a, b, d))(*on_device)
    assert np.array_equal(jitted, -want)
    # arrays that are known while another function is traced: computed then, and NumPy stays NumPy
    assert np.array_equal(jax.jit(lambda: matmul(*on_device))(), want)
    assert np.array_equal(jax.jit(lambda: matmul.function(*given)[0])(), want)
    assert np.array_equal(jax.jit(lambda x: x + matmul.run(*given).sum())(0), want.sum())
    (alone,) = matmul.function(*given)
    assert np.array_equal(alone, want) and isinstance(matmul.run(*on_device), np.ndarray)


def test_torch_in_torch_out(matmul: Kernel) -> None:
    given = arguments(matmul)
    tensors = [torch.from_numpy(x.copy()) for x in given]
    result = matmul(*tensors)
    assert isinstance(result, torch.Tensor) and np.array_equal(result.numpy(), matmul_reference(*given))
    result += 1  # it is the caller's own
    assert np.array_equal(matmul(tensors[0].t().contiguous().t(), *tensors[1:]).numpy(), matmul_reference(*given))
    assert np.array_equal(matmul.run(*tensors), matmul_reference(*given))
    with pytest.raises(InputError, match=r"argument A of kernel matmul must be int8\[12, 4\], found float32\[12, 4\]"):
        matmul(tensors[0].float(), *tensors[1:])


def test_torch_tensors_that_cannot_be_taken(matmul: Kernel) -> None:
    given = [torch.from_numpy(x) for x in arguments(matmul)]
    with pytest.raises(InputError, match="a PyTorch tensor of torch.int8 on meta cannot be taken over by JAX"):
        matmul(given[0].to("meta"), *given[1:])


def test_torch_has_bfloat16(tmp_path: Path) -> None:
    machine = floats(tmp_path)
    tensor = {"start": 0, "shape": (8,), "dtype": "bfloat16"}
    same = machine.kernel(arg=tensor, res=tensor)(lambda: machine.api.set(1))
    x = torch.arange(8).to(torch.bfloat16)
    assert same(x).dtype == torch.bfloat16 and torch.equal(same(x), x)
    assert str(same.run(x).dtype) == "bfloat16" == str(same.interpret(x).dtype)


def test_types_that_jax_lacks_are_refused() -> None:
    wide = GEMMINI.kernel(arg={"start": 0, "shape": (2, np.int64)})(lambda: GEMMINI.api.fence())
    with pytest.raises(InputError, match="arg0 of <lambda> .*int64"):
        wide.run(np.zeros(2, np.int64))
    assert wide.interpret(np.zeros(2, np.int64)) == ()


@pytest.mark.slow
def test_options_of_the_oracle(tmp_path: Path) -> None:
    gemmini = isa("gemmini", dim=4)
    plain = tiled_matmul(4, 3)
    loops = gemmini.wrap(plain.stream, raising=False)
    assert not loops.report.raised and plain.report.raised
    given = arguments(plain)
    assert np.array_equal(loops.run(*given), plain.run(*given))
    assert gemmini.wrap(plain.stream, reassociate=True).report.reassociated and not plain.report.reassociated


def test_vmap_equals_single_calls(matmul: Kernel) -> None:
    given = arguments(matmul, batch=5)
    want = np.stack([matmul.run(*(x[n] for x in given)) for n in range(5)])
    assert np.array_equal(jax.vmap(matmul)(*map(jax.numpy.asarray, given)), want)
    shared = jax.vmap(matmul, in_axes=(0, None, 0))(given[0], jax.numpy.asarray(given[1][0]), given[2])
    assert np.array_equal(shared, np.stack([matmul.run(a, given[1][0], d) for a, _, d in zip(*given)]))


def test_arguments_that_do_not_fit(matmul: Kernel) -> None:
    a, b, d = arguments(matmul)
    for call in (matmul.run, matmul, matmul.interpret):
        with pytest.raises(InputError, match=r"kernel matmul takes 3 arguments \(A, B, D\), found 1"):
            call(a)
        with pytest.raises(InputError, match=r"argument A of kernel matmul must be int8\[12, 4\], found int8\[4, 4\]"):
            call(b, b, d)
        with pytest.raises(InputError, match=r"argument D .* must be int8\[12, 4\], found int32\[12, 4\]"):
            call(a, b, d.astype(np.int32))
        with pytest.raises(InputError, match=r"argument D .* must be an array of int8\[12, 4\], found list"):
            call(a, b, d.tolist())
    with pytest.raises(InputError, match=r"argument B .* found int8\[12, 4\]"):
        matmul(jax.numpy.asarray(a), jax.numpy.asarray(d), d)


def test_results_come_in_order_and_several_as_a_tuple() -> None:
    def copy(results: list[dict[str, object]]) -> Kernel:
        def body() -> None:
            GEMMINI.api.config_ld(0, 4, GEMMINI.ONE, 0, 4)
            GEMMINI.api.config_st(4, 0, GEMMINI.ONE, *[0] * 9)
            GEMMINI.api.mvin(16, 0, 4, 4)
            GEMMINI.api.mvout(32, 0, 4, 4)
            GEMMINI.api.mvout(48, 0, 4, 4)

        return GEMMINI.kernel(size=64, arg={"start": 16, "shape": (4, 4, np.int8)}, res=results)(body)

    x = np.arange(16, dtype=np.int8).reshape(4, 4)
    two = copy([{"start": 48, "shape": (16, np.uint8)}, {"start": 32, "shape": (4, 4, np.int8)}])
    first, second = two.run(x)
    assert first.dtype == np.uint8 and np.array_equal(first, x.reshape(-1).view(np.uint8))
    assert np.array_equal(second, x) and len(two(jax.numpy.asarray(x))) == len(two.interpret(x)) == 2
    assert copy([]).run(x) == () == copy([])(jax.numpy.asarray(x))


@pytest.mark.slow
def test_floats_have_no_derivative(tmp_path: Path) -> None:
    machine = floats(tmp_path)

    @machine.kernel(arg=[{"start": 0, "shape": (4, np.float32)}], res=[{"start": 16, "shape": (4, np.float32)}])
    def square() -> None:
        machine.api.ld(dram=0, row=0)
        machine.api.fma(dst=1, a=0, b=0)
        machine.api.st(dram=16, row=1)

    x = np.linspace(-1, 2, 4, dtype=np.float32)
    assert np.array_equal(square.run(x), x * x)
    for act in (jax.grad(lambda v: square(v).sum()), jax.grad(jax.jit(lambda v: square(v).sum()))):
        with pytest.raises(InputError, match="kernel square has no derivative"):
            act(jax.numpy.asarray(x))
    assert np.array_equal(jax.grad(lambda v: (square(jax.lax.stop_gradient(v)) * v).sum())(x), x * x)
    with pytest.raises(InputError, match="kernels have no derivatives: .* requires no gradient"):
        square(torch.from_numpy(x).requires_grad_())


# --- files ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["matmul.asm", "matmul.bin"])
def test_streams_are_saved_and_loaded(matmul: Kernel, tmp_path: Path, name: str) -> None:
    matmul.save(tmp_path / name)
    again = GEMMINI.load(tmp_path / name)
    assert again.stream == matmul.stream
    given = arguments(matmul)
    assert np.array_equal(again.run(*given), matmul.run(*given))


def test_files_that_are_none(tmp_path: Path) -> None:
    with pytest.raises(ArtifactError, match="none.*: no such file"):
        GEMMINI.load(tmp_path / "none.asm")
    (tmp_path / "bad.asm").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(StreamError, match="expected assembly text or a binary stream"):
        GEMMINI.load(tmp_path / "bad.asm")
    with pytest.raises(ArtifactError, match="cannot be written"):
        GEMMINI.kernel(size=0)(lambda: None).save(tmp_path / "none" / "x.asm")
