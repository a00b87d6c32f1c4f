"""TVM's tools see regions by their names; reports of executables and libraries; RPC on the loopback."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tvm import rpc

import archloom
from archloom.tvm_backend.ir.compat import relax, tvm
from tests.support.tvm_backend import inside

X = inside.floats(4, 8)


@pytest.fixture(scope="module")
def executable() -> Any:
    return inside.compiled("gemmini", inside.quantized_mlp())


@pytest.mark.slow
def test_instruments_see_each_region_by_its_name(executable: Any) -> None:
    seen: list[tuple[str, bool]] = []
    machine = relax.VirtualMachine(executable, tvm.cpu())
    machine.set_instrument(lambda function, symbol, before, result, *arguments: seen.append((symbol, before)))
    machine["main"](X)
    own = [(symbol, before) for symbol, before in seen if not symbol.startswith("vm.builtin.")]
    assert own == [(s, before) for s in ("archloom_host_0", "gemmini_0", "archloom_host_1") for before in (True, False)]


@pytest.mark.slow
def test_an_instrument_can_skip_a_region(executable: Any) -> None:
    machine = relax.VirtualMachine(executable, tvm.cpu())
    machine.set_instrument(lambda function, symbol, before, *rest: relax.VMInstrumentReturnKind.SKIP_RUN
                           if symbol == "gemmini_0" else relax.VMInstrumentReturnKind.NO_OP)
    machine["main"](X)


def test_time_is_measured(executable: Any) -> None:
    machine = relax.VirtualMachine(executable, tvm.cpu())
    measured = machine.time_evaluator("main", tvm.cpu(), number=2, repeat=3)(tvm.runtime.tensor(X))
    assert len(measured.results) == 3 and min(measured.results) > 0


def test_reports(executable: Any, tmp_path: Path) -> None:
    network = archloom.compile(archloom.load(inside.quantized_mlp()), "gemmini")
    executable.export_library(str(tmp_path / "net.so"))
    library = tvm.runtime.load_module(str(tmp_path / "net.so"))
    for given in (executable, library):
        report = archloom.tvm.report(given)
        assert report.accelerator_cycles == network.report.accelerator_cycles and report.target == "gemmini"
        own, other = ([(layer.op, layer.cycles) for layer in r.layers if layer.where == "accelerator"]
                      for r in (report, network.report))
        assert own == other
        measured = archloom.tvm.report(given, X)
        host = {layer.name: layer.seconds for layer in measured.layers if layer.where == "host"}
        assert list(host) == ["archloom_host_0", "archloom_host_1"] and all(s and s > 0 for s in host.values())
        assert measured.accelerator_cycles == network.report.accelerator_cycles
        assert measured.host_seconds == pytest.approx(sum(host.values()))
        assert measured.seconds == measured.accelerator_seconds + measured.host_seconds


@pytest.mark.slow
def test_reports_measure_what_tvm_runs() -> None:
    module = inside.built({"x": [(4, 8)]}, lambda b, x: b.emit(relax.op.tanh(inside.dense(b, x, 4))))
    report = archloom.tvm.report(inside.compiled("qkv", module, host=False), X)
    (host,) = (layer for layer in report.layers if layer.where == "host")
    assert "tanh" in host.name and host.seconds is not None and host.seconds > 0


@pytest.mark.slow
def test_reports_of_several_entries() -> None:
    module = inside.mlp(3, "other", inside.mlp(0, "main", relax.BlockBuilder())).get()
    executable = inside.compiled("qkv", module)
    one = archloom.tvm.report(inside.compiled("qkv", inside.mlp()))
    assert archloom.tvm.report(executable).accelerator_cycles == 2 * one.accelerator_cycles
    assert archloom.tvm.report(executable, X, entry="other").accelerator_cycles == 2 * one.accelerator_cycles


# RPC ------------------------------------------------------------------------------------------------------------------


@pytest.fixture
def remote(executable: Any, tmp_path: Path) -> Iterator[Any]:
    """A session of a server on the loopback that has the library."""
    server = rpc.Server("127.0.0.1", 19190, 19290)
    try:
        session = rpc.connect("127.0.0.1", server.port)
        executable.export_library(str(tmp_path / "net.so"))
        session.upload(str(tmp_path / "net.so"))
        yield session
    finally:
        os.kill(server.proc._proc.pid, signal.SIGKILL)  # terminate() needs psutil
        server.proc._proc.wait()
        server.proc = None


@pytest.mark.slow
def test_rpc(executable: Any, remote: Any) -> None:
    """The server runs regions: its TVM has archloom's functions, too. Tensors go by way of the session."""
    device = remote.cpu(0)
    machine = relax.VirtualMachine(remote.load_module("net.so"), device)
    expected = inside.run(executable, X)
    given = tvm.runtime.tensor(X, device)
    inside.same(inside.arrays(machine["main"](given)), expected)
    machine.set_input("main", given)
    machine.invoke_stateful("main")
    inside.same(inside.arrays(machine.get_outputs("main")), expected)
    measured = machine.time_evaluator("invoke_stateful", device, number=2)("main")
    assert measured.mean > 0
    np.testing.assert_array_equal(given.numpy(), X)
