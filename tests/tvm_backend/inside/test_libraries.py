"""Libraries that TVM saves: in a new process, several at once, damaged, and what archloom says of them."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import archloom
from archloom.tvm_backend.inside import running
from archloom.tvm_backend.inside.library import artifacts
from archloom.tvm_backend.ir.compat import relax, tvm
from tests.support.examples import slow
from tests.support.tvm_backend import inside

X = inside.floats(4, 8)
RUN = """
import sys
from pathlib import Path
import numpy as np
import tvm
from tvm import relax

folder = Path(sys.argv[1])
assert not [name for name in sys.modules if name.startswith("archloom.tvm_backend.inside.running")]
x = tvm.runtime.tensor(np.load(folder / "x.npy"))
machines = [(f, relax.VirtualMachine(tvm.runtime.load_module(str(f)), tvm.cpu())) for f in sorted(folder.glob("*.so"))]
for _ in range(2):
    for file, machine in machines:
        np.testing.assert_array_equal(machine["main"](x).numpy(), np.load(file.with_suffix(".npy")))
"""


def saved(folder: Path, name: str, target: str, module: Any, **options: Any) -> Path:
    """A library in a folder, with its result for X beside it."""
    executable = inside.compiled(target, module, **options)
    executable.export_library(str(folder / f"{name}.so"))
    np.save(folder / f"{name}.npy", inside.run(executable, X)[0])
    return folder / f"{name}.so"


def in_a_new_process(program: str, *arguments: Any) -> str:
    done = subprocess.run([sys.executable, "-c", program, *map(str, arguments)], capture_output=True, text=True,
                          cwd=Path(__file__).parents[3])
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
def test_libraries_run_in_a_new_process(tmp_path: Path) -> None:
    """Several at once, of which some have functions of the same names; only TVM is imported."""
    np.save(tmp_path / "x.npy", X)
    saved(tmp_path, "one", "gemmini", inside.quantized_mlp())
    saved(tmp_path, "other", "gemmini", inside.quantized_mlp(seed=7))
    saved(tmp_path, "same", "gemmini", inside.quantized_mlp(), dim=8)
    saved(tmp_path, "floats", "qkv", inside.mlp())
    saved(tmp_path, "of_tvm", "qkv", inside.mlp(), host=False)
    in_a_new_process(RUN, tmp_path)


@pytest.mark.slow
def test_libraries_run_beside_each_other_here(tmp_path: Path) -> None:
    files = [saved(tmp_path, f"n{seed}", "qkv", inside.mlp(seed)) for seed in (1, 2)]
    machines = [relax.VirtualMachine(tvm.runtime.load_module(str(f)), tvm.cpu()) for f in files]
    for _ in range(2):
        for file, machine in zip(files, machines):
            found = machine["main"](tvm.runtime.tensor(X)).numpy()
            np.testing.assert_array_equal(found, np.load(file.with_suffix(".npy")))


@pytest.mark.slow
def test_a_library_is_opened_as_what_it_is(tmp_path: Path) -> None:
    module = inside.quantized_mlp()
    library = archloom.load_compiled(saved(tmp_path, "net", "gemmini", module, dim=8))
    assert isinstance(library, archloom.tvm.Library) and repr(library).startswith("<Library ")
    assert "gemmini_0" in repr(library) and library.report.options["dim"] == 8
    network = archloom.compile(archloom.load(module), "gemmini", {"dim": 8})
    assert library.report.accelerator_cycles == network.report.accelerator_cycles
    inside.same(inside.arrays(library(X)), inside.alone(module, X))
    (found,) = (n for n in library.artifacts.values() if n.compiled.regions)
    assert [p.stream for p in found.compiled.plans.values()] == [p.stream for p in network.compiled.plans.values()]


def test_equal_operators_share_a_program() -> None:
    """Two products of the same shape in two regions: one program, with constants of each."""
    def make(builder: Any, x: Any) -> Any:
        y = builder.emit(relax.op.sin(inside.dense(builder, x, 8, 1)))
        return inside.dense(builder, y, 8, 2)

    executable = inside.compiled("qkv", inside.built({"x": [(8, 8)]}, make))
    (found,) = (n for n in artifacts(executable).values() if n.compiled.regions)
    assert len({replace(p.stream, name="") for p in found.compiled.plans.values()}) == 1 < len(found.compiled.plans)


DAMAGED = """
import sys
import numpy as np
import tvm
from tvm import relax
import archloom

try:
    module = tvm.runtime.load_module(sys.argv[1])
    relax.VirtualMachine(module, tvm.cpu())["main"](tvm.runtime.tensor(np.zeros((4, 8), np.float32)))
    print("ran")
except archloom.ArtifactError as error:
    print(error)
try:
    archloom.load_compiled(sys.argv[1])
    print("opened")
except archloom.ArtifactError as error:
    print(error)
"""


@pytest.fixture
def forgetful(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a process that has compiled nothing: libraries are read from their data."""
    monkeypatch.setattr(running, "_kept", {})


@pytest.mark.slow
def test_libraries_are_read_from_their_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = [saved(tmp_path, f"n{seed}", "gemmini", inside.quantized_mlp(seed)) for seed in (1, 2)]
    monkeypatch.setattr(running, "_kept", {})
    machines = [relax.VirtualMachine(tvm.runtime.load_module(str(f)), tvm.cpu()) for f in files]
    for file, machine in zip(files, machines):
        np.testing.assert_array_equal(machine["main"](X).numpy(), np.load(file.with_suffix(".npy")))


def damaged(file: Path, where: str) -> None:
    """Change one byte of the artifact in a library."""
    data = bytearray(file.read_bytes())
    first, directory, end = data.index(b"PK\x03\x04"), data.index(b"PK\x01\x02"), data.rindex(b"PK\x05\x06")
    at = {"head": first + 1, "middle": (first + directory) // 2, "directory": directory + 9, "end": end + 11}[where]
    data[at] ^= 0x55
    file.write_bytes(bytes(data))


@pytest.mark.slow
@pytest.mark.parametrize("where", [slow("head"), "middle", slow("directory"), "end"])
def test_damaged_libraries(tmp_path: Path, where: str, forgetful: None) -> None:
    file = saved(tmp_path, "net", "gemmini", inside.quantized_mlp())
    running._kept.clear()
    damaged(file, where)
    machine = relax.VirtualMachine(tvm.runtime.load_module(str(file)), tvm.cpu())
    message = r"artifact \w+ of the library: damaged: its content is another than it was saved with"
    with pytest.raises(archloom.ArtifactError, match=message):
        machine["main"](X)
    with pytest.raises(archloom.ArtifactError, match=f"{file}: {message}"):
        archloom.load_compiled(file)


@pytest.mark.slow
def test_damaged_libraries_in_a_new_process(tmp_path: Path) -> None:
    """No crash, and no result."""
    file = saved(tmp_path, "net", "gemmini", inside.quantized_mlp())
    damaged(file, "middle")
    lines = in_a_new_process(DAMAGED, file).splitlines()
    assert len(lines) == 2 and all("artifact " in line and "damaged" in line for line in lines), lines
    assert lines[1].startswith(str(file))


@pytest.mark.parametrize(("content", "message"), [
    (None, "cannot find file"), (b"no library", "net.so"),
])
def test_what_is_no_library(tmp_path: Path, content: bytes | None, message: str) -> None:
    file = tmp_path / "net.so"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(archloom.ArtifactError, match=message):
        archloom.load_compiled(file)


@pytest.mark.slow
def test_libraries_without_anything_of_archloom(tmp_path: Path) -> None:
    executable = tvm.compile(inside.mlp(), target="llvm")
    executable.export_library(str(tmp_path / "plain.so"))
    message = "nothing in it was compiled by archloom: partition_for and RunCodegen, or Offload, come before"
    with pytest.raises(archloom.ArtifactError, match=message):
        archloom.load_compiled(tmp_path / "plain.so")
    with pytest.raises(archloom.ArtifactError, match=message):
        archloom.tvm.report(executable)
