"""Tensors pass by DLPack, and nothing is read or written after a call."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from archloom.tvm_backend.ir.compat import relax, tvm
from tests.support.examples import slow
from tests.support.tvm_backend import inside

X = inside.floats(4, 8)


@pytest.fixture(scope="module")
def executable() -> Any:
    return inside.compiled("gemmini", inside.quantized_mlp())


@pytest.fixture(scope="module")
def expected() -> list[np.ndarray]:
    return inside.alone(inside.quantized_mlp(), X)


def shifted(array: np.ndarray, by: int) -> np.ndarray:
    """A copy whose memory begins so many elements after a multiple of 64 bytes."""
    buffer = np.zeros(array.size + 64, array.dtype)
    start = -buffer.ctypes.data % 64 // array.itemsize + by
    found = buffer[start:start + array.size].reshape(array.shape)
    found[...] = array
    return found


@pytest.mark.slow
def test_arrays_of_numpy_are_taken_as_they_are(executable: Any, expected: Any) -> None:
    inside.same(inside.arrays(relax.VirtualMachine(executable, tvm.cpu())["main"](X)), expected)


def test_aligned_tensors_are_not_copied(executable: Any, expected: Any) -> None:
    tensor = tvm.runtime.from_dlpack(shifted(X, 0))
    inside.same(inside.arrays(relax.VirtualMachine(executable, tvm.cpu())["main"](tensor)), expected)


def test_tvm_takes_no_tensors_that_are_not_aligned() -> None:
    with pytest.raises(RuntimeError, match="Data is not aligned to 64 bytes"):
        tvm.runtime.from_dlpack(shifted(X, 1))


@pytest.mark.parametrize("by", [1, slow(3), slow(8)])
def test_views_that_are_not_aligned(executable: Any, expected: Any, by: int) -> None:
    """A part of a tensor of TVM begins anywhere."""
    whole = tvm.runtime.tensor(np.concatenate([np.zeros(by, np.float32), X.ravel(), np.zeros(8, np.float32)]))
    view = whole._create_view([4, 8], "float32", by * 4)
    inside.same(inside.arrays(relax.VirtualMachine(executable, tvm.cpu())["main"](view)), expected)


@pytest.mark.slow
def test_tensors_of_torch(executable: Any, expected: Any) -> None:
    import torch

    with pytest.raises(RuntimeError, match="Tensor is not contiguous"):
        tvm.runtime.from_dlpack(torch.tensor(X.T.copy()).T)
    given = torch.from_numpy(shifted(X, 0))
    result = relax.VirtualMachine(executable, tvm.cpu())["main"](tvm.runtime.from_dlpack(given))
    inside.same([torch.from_dlpack(result).numpy()], expected)


def test_each_call_gives_a_result_of_its_own(executable: Any) -> None:
    machine = relax.VirtualMachine(executable, tvm.cpu())
    tensor = tvm.runtime.tensor(X)
    results = []
    for i in range(20):
        tensor.copyfrom(X + i)
        results.append(machine["main"](tensor))
        tensor.copyfrom(np.full_like(X, 99))  # nothing reads an input after the call
    for i, result in enumerate(results):
        inside.same(inside.arrays(result), inside.run(executable, X + i))


@pytest.mark.slow
def test_results_are_no_input_but_where_tvm_hands_one_on() -> None:
    def make(builder: Any, x: Any) -> Any:
        return [x, builder.emit(relax.op.nn.relu(x)), inside.dense(builder, x, 4)]

    module = inside.built({"x": [(4, 8)]}, make)
    aliases = []
    for made in (inside.compiled("qkv", module), tvm.compile(module, target="llvm")):
        tensor = tvm.runtime.tensor(np.abs(X))
        results = relax.VirtualMachine(made, tvm.cpu())["main"](tensor)
        before = inside.arrays(results)
        tensor.copyfrom(np.full_like(X, 7))
        aliases.append([not np.array_equal(x, y) for x, y in zip(inside.arrays(results), before)])
    assert aliases == [[True, False, False]] * 2


@pytest.mark.slow
def test_tensors_that_a_caller_only_shows(executable: Any) -> None:
    """As compiled functions of TIR hand over buffers: tensors that the callee does not own."""
    from tvm.script import tirx

    ready = inside.generated(inside.archloom.tvm.partition_for("qkv", inside.mlp()))
    region = ready.attrs["external_mods"][0].get_function("qkv_0")
    tvm.register_global_func("tests.region", region, override=True)

    @tirx.prim_func
    def outer(a: tirx.handle, b: tirx.handle) -> None:
        given = tirx.match_buffer(a, (4, 8), "float32")
        result = tirx.match_buffer(b, (4, 4), "float32")
        tirx.evaluate(tirx.call_packed("tests.region", given, result))

    made = tvm.compile(tvm.IRModule({"outer": outer.with_attr("global_symbol", "outer")}), target="llvm")
    out = tvm.runtime.tensor(np.zeros((4, 4), np.float32))
    made["outer"](tvm.runtime.tensor(X), out)
    inside.same([out.numpy()], inside.alone(inside.mlp(), X))


def test_machines_in_threads(executable: Any) -> None:
    """One virtual machine is not for several threads; each has its own."""
    given = [inside.floats(4, 8, seed=i) for i in range(4)]
    expected = [inside.run(executable, x) for x in given]

    def work(number: int) -> None:
        machine = relax.VirtualMachine(executable, tvm.cpu())
        for _ in range(20):
            inside.same(inside.arrays(machine["main"](tvm.runtime.tensor(given[number]))), expected[number])

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(4)))
