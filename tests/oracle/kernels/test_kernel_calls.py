"""Kernels that are called: with arrays of NumPy, JAX and torch, batched, as streams in files; what they refuse."""

from __future__ import annotations

from pathlib import Path

import jax
import numpy as np
import pytest
import torch

from archloom.oracle.errors import ArtifactError, InputError, StreamError
from archloom.oracle.kernel import Kernel, isa
from tests.support.oracle.kernel_examples import arguments, floats, matmul_reference, tiled_matmul

GEMMINI = isa("gemmini", dim=4)


@pytest.fixture(scope="module")
def matmul() -> Kernel:
    return tiled_matmul(4, 3)


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
