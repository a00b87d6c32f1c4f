"""Kernels compiled ahead of time, serialized, batched, sharded over devices, and composed."""

from __future__ import annotations

import os
import struct
import subprocess
import sys
import zlib
from pathlib import Path

import jax
import numpy as np
import pytest

import archloom
from archloom.oracle import taidl
from archloom.oracle.errors import ArtifactError, InputError
from archloom.oracle.kernel import Kernel
from tests.support.oracle.kernel_examples import arguments, floats, matmul_reference, tiled_matmul

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def matmul() -> Kernel:
    return tiled_matmul(4, 3)


@pytest.fixture(scope="module")
def blob(matmul: Kernel) -> bytes:
    return matmul.compile().serialize()


def float_kernel(tmp_path: Path) -> Kernel:
    """``Y = ((X0 . X0) + X1 . X1) + ...`` by the stream's order, rounded at each step."""
    machine = floats(tmp_path)

    @machine.kernel(arg={"start": 0, "shape": (6, 4, np.float32)}, res={"start": 96, "shape": (4, np.float32)})
    def squares() -> None:
        with machine.loop(6) as i:
            machine.api.ld(dram=16 * i, row=i % 2)
            machine.api.fma(dst=7, a=i % 2, b=i % 2)
        machine.api.st(dram=96, row=7)

    return squares


def test_compiling_tells_times_and_cost() -> None:
    kernel = tiled_matmul(8, 5)
    compiled = kernel.compile()
    assert compiled.compile_seconds == (
        compiled.resolve_seconds + compiled.lower_seconds + compiled.xla_seconds) > 0
    assert compiled.cost.argument_bytes == 40 * 8 * 2 + 64 and compiled.cost.result_bytes == 320
    assert compiled.cost.flops is not None and compiled.cost.flops >= 2 * 40 * 8 * 8 * 0.9
    given = arguments(kernel)
    assert np.array_equal(compiled.run(*given), matmul_reference(*given))
    (result,) = compiled.executable(*map(jax.numpy.asarray, given))
    assert np.array_equal(result, matmul_reference(*given))
    with pytest.raises(InputError, match=r"kernel matmul takes 3 arguments"):
        compiled.run()


@pytest.mark.slow
def test_a_loaded_kernel_computes_the_same(matmul: Kernel, blob: bytes, tmp_path: Path) -> None:
    (tmp_path / "matmul.kernel").write_bytes(blob)
    given = arguments(matmul)
    for source in (blob, tmp_path / "matmul.kernel", str(tmp_path / "matmul.kernel")):
        loaded = archloom.load_kernel(source)
        assert np.array_equal(loaded.run(*given), matmul_reference(*given))
    assert (loaded.name, loaded.isa, loaded.parameters["dim"]) == ("matmul", "gemmini", 4)
    assert loaded.arguments == matmul.arguments and loaded.results == matmul.results
    assert isinstance(loaded(*map(jax.numpy.asarray, given)), jax.Array)
    with pytest.raises(InputError, match=r"argument A of kernel matmul must be int8\[12, 4\], found int16\[12, 4\]"):
        loaded(given[0].astype(np.int16), *given[1:])


@pytest.mark.slow
def test_bit_patterns_are_part_of_what_is_loaded() -> None:
    gemmini = archloom.isa("gemmini", dim=4)

    @gemmini.kernel(size=64, arg={"start": 16, "shape": (4, 4, np.int8)}, res={"start": 32, "shape": (4, 4, np.int8)})
    def halved() -> None:
        gemmini.api.config_ld(0, 4, struct.unpack("<I", struct.pack("<f", 0.5))[0], 0, 4)
        gemmini.api.config_st(4, 0, gemmini.ONE, *[0] * 9)
        gemmini.api.mvin(16, 0, 4, 4)
        gemmini.api.mvout(32, 0, 4, 4)

    assert halved.oracle.bits.size
    x = np.arange(-8, 8, dtype=np.int8).reshape(4, 4)
    want = np.rint(x * 0.5).astype(np.int8)
    assert np.array_equal(archloom.load_kernel(halved.compile().serialize()).run(x), want)
    assert np.array_equal(halved.run(x), want) and np.array_equal(halved.batch(1).run(x[None])[0], want)


@pytest.mark.slow
def test_a_loaded_kernel_needs_no_isa(tmp_path: Path) -> None:
    kernel = float_kernel(tmp_path)
    given = arguments(kernel)
    (tmp_path / "squares.kernel").write_bytes(kernel.compile().serialize())
    np.savez(tmp_path / "io.npz", given=given[0], want=kernel.run(*given))
    (tmp_path / "floats.taidl").unlink()
    code = """
import numpy as np
import archloom
kernel = archloom.load_kernel('squares.kernel')
io = np.load('io.npz')
print(kernel.isa, kernel.parameters, kernel.run(io['given']).tobytes() == io['want'].tobytes())
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path,
                          env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])})
    assert done.stdout.strip() == "floats {'width': 4} True", done.stderr


def test_every_broken_byte_is_found(blob: bytes) -> None:
    rng = np.random.default_rng(0)
    for position in [*range(24), *rng.integers(0, len(blob), 40)]:
        broken = bytearray(blob)
        broken[position] ^= 1 << int(rng.integers(8))
        with pytest.raises(ArtifactError):
            archloom.load_kernel(bytes(broken))
    for length in (0, 5, 21, 22, len(blob) - 1):
        with pytest.raises(ArtifactError, match="truncated"):
            archloom.load_kernel(blob[:length])


def _repacked(blob: bytes, version: int, change: tuple[bytes, bytes] | None = None) -> bytes:
    """``blob`` with another version or header, and a right checksum."""
    magic, _, head, _, _ = struct.unpack_from("<8sHIII", blob)
    payload = blob[22:]
    if change is not None:
        assert change[0] in payload[:head]
        new = payload[:head].replace(*change)
        head, payload = len(new), new + payload[head:]
    return struct.pack("<8sHIII", magic, version, head, len(payload), zlib.crc32(payload)) + payload


def test_files_of_another_kind_version_or_platform_are_refused(blob: bytes, tmp_path: Path) -> None:
    with pytest.raises(ArtifactError, match="kernel format 2 is newer than the format 1"):
        archloom.load_kernel(_repacked(blob, 2))
    with pytest.raises(ArtifactError, match="not a serialized kernel: expected the magic"):
        archloom.load_kernel(b"x" * 100)
    with pytest.raises(ArtifactError, match="made for tpu, and JAX runs on cpu here"):
        archloom.load_kernel(_repacked(blob, 1, (b'["cpu"]', b'["tpu"]')))
    with pytest.raises(ArtifactError, match="arguments and results are not those that its header states"):
        archloom.load_kernel(_repacked(blob, 1, (b"int8", b"uint8")))
    for change in ((b'"bits"', b'"bots"'), (b'"name"', b'"nome"'), (b"{", b"[")):
        with pytest.raises(ArtifactError):
            archloom.load_kernel(_repacked(blob, 1, change))
    with pytest.raises(ArtifactError, match="none.*: no such file"):
        archloom.load_kernel(tmp_path / "none")


def test_exporting_for_several_platforms(matmul: Kernel) -> None:
    loaded = archloom.load_kernel(matmul.compile().serialize(platforms=("cpu", "cuda")))
    assert loaded.platforms == ("cpu", "cuda")
    given = arguments(matmul)
    assert np.array_equal(loaded.run(*given), matmul_reference(*given))
    with pytest.raises(InputError, match=r"matmul cannot be serialized for platform 'abacus' \(valid: cpu, cuda"):
        matmul.compile().serialize(platforms=("abacus",))


@pytest.mark.parametrize("language", ["numpy", "jax"])
def test_custom_calls(language: str, tmp_path: Path) -> None:
    taidl.register_function("kernel_test_" + language, **{language: lambda x: x * 2})
    (tmp_path / "t.taidl").write_text(f"""isa t;
    [twice](dram, to) {{
        %X:4xi8 <- $hbm[dram + {{4 : 1}}];
        %Y:4xi8 = custom_call(%X, function=kernel_test_{language});
        %Y -> $hbm[to + {{4 : 1}}];
    }}""")
    machine = archloom.isa(tmp_path / "t.taidl")
    kernel = machine.kernel(arg={"start": 0, "shape": (4, np.int8)}, res={"start": 4, "shape": (4, np.int8)})(
        lambda: machine.api.twice(0, 4))
    x = np.array([1, -2, 3, 100], np.int8)
    assert np.array_equal(kernel.run(x), x * 2) and np.array_equal(kernel.interpret(x), x * 2)
    assert np.array_equal(kernel.batch(2).run(np.stack([x, -x])), np.stack([x * 2, x * -2]))
    if language == "jax":
        assert np.array_equal(archloom.load_kernel(kernel.compile().serialize()).run(x), x * 2)
    else:
        with pytest.raises(InputError, match=r"cannot be serialized \(a custom_call of a function in Python cannot"):
            kernel.compile().serialize()


@pytest.mark.slow
def test_a_batch_equals_single_runs_bit_for_bit(matmul: Kernel, tmp_path: Path) -> None:
    for kernel in (matmul, float_kernel(tmp_path)):
        given = arguments(kernel, batch=7)
        batch = kernel.batch(7)
        want = np.stack([kernel.interpret(*(x[n] for x in given)) for n in range(7)])
        for result in (batch.run(*given), batch.compile().run(*given),
                       archloom.load_kernel(batch.compile().serialize()).run(*given)):
            assert result.dtype == want.dtype and result.tobytes() == want.tobytes()
        with pytest.raises(InputError, match=r"\(batch of 7\) must be"):
            batch.run(*(x[0] for x in given))


def test_batches_that_are_none(matmul: Kernel) -> None:
    for size in (0, -1, 1.5, True):
        with pytest.raises(InputError, match="expected a batch of at least 1"):
            matmul.batch(size)  # type: ignore[arg-type]
    gemmini = archloom.isa("gemmini", dim=4)
    with pytest.raises(InputError, match="takes no arguments: there is nothing to batch"):
        gemmini.kernel(size=0)(lambda: None).batch(2).run()


@pytest.mark.slow
def test_kernels_run_over_several_devices() -> None:
    code = """
import jax
import numpy as np
from functools import partial
from jax.sharding import NamedSharding, PartitionSpec as P
from tests.support.oracle.kernel_examples import arguments, tiled_matmul

mesh = jax.make_mesh((4,), ('device',), axis_types=(jax.sharding.AxisType.Auto,))
kernel = tiled_matmul(4, 8)
given = arguments(kernel, batch=8)
batch = kernel.batch(8)
want = batch.run(*given)
split = [jax.device_put(x, NamedSharding(mesh, P('device'))) for x in given]

# the elements of a batch on four devices: by the sharding of the arguments, and by shard_map
for result in (batch(*split), jax.jit(jax.shard_map(jax.vmap(kernel), mesh=mesh, in_specs=P('device'),
                                                    out_specs=P('device')))(*split)):
    assert len(result.sharding.device_set) == 4 and not result.is_fully_replicated
    assert np.array_equal(result, want)

# the rows of one product on four devices: XLA partitions the raised program
a, b, d = (x[0] for x in given)
rows, whole = NamedSharding(mesh, P('device')), NamedSharding(mesh, P())
one = jax.jit(lambda *x: kernel.function(*x)[0], in_shardings=(rows, whole, rows), out_shardings=rows)(a, b, d)
assert len(one.sharding.device_set) == 4 and np.array_equal(one, want[0])
print('equal on', jax.device_count())
"""
    env = {**os.environ, "XLA_FLAGS": "--xla_force_host_platform_device_count=4", "JAX_PLATFORMS": "cpu",
           "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, env=env)
    assert done.stdout.strip() == "equal on 4", done.stderr


