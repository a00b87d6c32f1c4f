"""What is in an executable of TVM, or in a library that it saved: artifacts, and the report of the network."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import tvm
from tvm import relax

from archloom.mapper.search import Plan
from archloom.oracle.errors import ArtifactError, InputError
from archloom.tvm_backend.compiled import CompiledModel, HostPart, Partition
from archloom.tvm_backend.executable import CompiledNetwork
from archloom.tvm_backend.host import virtual_machine
from archloom.tvm_backend.inside import running
from archloom.tvm_backend.inside.running import Callee
from archloom.tvm_backend.inside.stubs import KINDS, contents
from archloom.tvm_backend.report.build import of_compiled, with_host_layers
from archloom.tvm_backend.report.data import Layer, Report
from archloom.tvm_backend.targets import registry
from archloom.tvm_backend.targets.choice import choose, named_options
from archloom.tvm_backend.targets.registry import HOST

MEASURED = "accelerator simulated; host functions measured in TVM's virtual machine"
RUNS = 5
"""How often a network is run to measure its host functions; the median counts."""


def callees(module: Any) -> dict[str, Callee]:
    """By code generator, the functions that an executable or a loaded library has of it; ``gemmini.open`` are those of
    open extents (:data:`stubs.KINDS`). ArtifactError for nothing of archloom's."""
    root = getattr(module, "mod", module)
    found = {}
    for name in (f"{codegen}{kind}" for codegen in (*registry.names(), HOST) for kind in KINDS):
        about = _function(root, contents(name))
        if about is not None:
            found[name] = running.kept(str(about()))
    if not found:
        raise ArtifactError("nothing in it was compiled by archloom: partition_for and RunCodegen, or Offload, come "
                            "before tvm.compile")
    return found


def artifacts(module: Any) -> dict[str, CompiledNetwork]:
    """The compiled networks behind those functions, by code generator; of functions of open extents those that they
    were last called with, by their symbols."""
    return {label or name: network for name, callee in callees(module).items()
            for label, network in callee.networks().items()}


def _function(module: Any, name: str) -> Any:
    """A function of a module or of what it imports; None if there is none."""
    waiting = [module]
    while waiting:
        one = waiting.pop()
        with suppress(AttributeError):  # implements_function is not known of modules of LLVM that were not linked
            return one.get_function(name)
        waiting += list(one.imports)
    return None


def report(module: Any, *inputs: Any, entry: str = "main") -> Report:
    """The report of a network that TVM compiled, or of a library that was loaded: simulated cycles of all regions.

    With ``inputs`` (arrays, in the order of ``entry``'s parameters) the network is run, and each function that the
    host runs is measured: XLA's by their symbols, TVM's own by the names of their operators. Regions of open extents
    are reported for those of their last call. ArtifactError if nothing in it is archloom's; InputError if all of it has
    open extents and was never called.
    """
    found = callees(module)
    regions = {symbol for name, callee in found.items() if not name.startswith(HOST) for symbol in callee.symbols}
    measured = _measured(module, inputs, entry, regions) if inputs else {}
    merged = of_compiled(_merged(artifacts(module)))
    if not inputs:
        return merged
    layers = [layer for layer in merged.layers if layer.where == "accelerator"]
    host = [Layer(name, name.rstrip("0123456789").rstrip("_"), "host", (), 0, seconds=seconds, note="measured")
            for name, seconds in measured.items()]
    return replace(with_host_layers(merged, (*layers, *host), MEASURED), host_profile=None)


def _measured(module: Any, inputs: Sequence[Any], entry: str, regions: set[str]) -> dict[str, float]:
    """Seconds of each function of the host in a run."""
    machine = relax.VirtualMachine(module, tvm.cpu())
    runs: dict[str, list[float]] = defaultdict(list)
    began: list[float] = []

    def instrument(function: Any, symbol: str, before: bool, result: Any, *arguments: Any) -> None:
        if symbol.startswith("vm.builtin.") or symbol in regions:
            return
        if before:
            began.append(time.perf_counter())
        else:
            total[symbol] += time.perf_counter() - began.pop()

    machine.set_instrument(instrument)
    given = [virtual_machine.to_tvm(np.asarray(x)) for x in inputs]
    for _ in range(RUNS + 1):
        total: dict[str, float] = defaultdict(float)
        machine[entry](*given)
        for symbol, seconds in total.items():
            runs[symbol].append(seconds)
    return {symbol: float(np.median(seconds[1:])) for symbol, seconds in runs.items()}


def _merged(found: Mapping[str, CompiledNetwork]) -> CompiledModel:
    """The parts of a network as one."""
    if not found:
        raise InputError("its regions have open extents: give inputs, or run it before it is reported")
    parts = [network.compiled for network in found.values()]
    named = {name: choice for part in parts if part.target for name, choice in _choices(part).items()}
    chosen = [named[name] for name in named]
    ops = sorted((op for part in parts for op in part.host.ops), key=lambda op: op.position)
    plans: dict[str, Plan] = {}
    regions = []
    for label, network in found.items():
        for region in network.compiled.regions:
            steps = []
            for step in region.steps:  # each artifact has names of its own
                name = step.name if step.name not in plans else f"{label}.{step.name}"
                plans[name] = network.compiled.plans[step.name]
                steps.append(replace(step, name=name))
            regions.append(replace(region, steps=tuple(steps)))
    regions.sort(key=lambda region: region.steps[0].position if region.steps else 0)
    of = Partition(
        " ".join(dict.fromkeys(part.name for part in parts)), "relax", ",".join(named), named_options(chosen),
        tuple(spec for part in parts for spec in part.inputs), tuple(spec for part in parts for spec in part.outputs),
        tuple(regions), HostPart(None, tuple(ops)), fallbacks=tuple(f for n in found.values() for f in n.fallbacks))
    return CompiledModel.of(of, plans)


def _choices(part: Partition) -> dict[str, Any]:
    return {c.name: c for c in choose(part.target, part.options)}


class Library:
    """A library that TVM saved: what ``archloom.load_compiled("net.so")`` gives.

    ``functions`` has the symbols of the functions that it calls, by code generator.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self.module = tvm.runtime.load_module(str(path))
            self.functions = {name: tuple(callee.symbols) for name, callee in callees(self.module).items()}
        except (RuntimeError, ValueError, ArtifactError) as error:  # the first two are TVM's
            raise ArtifactError(f"{path}: {error}") from error

    @property
    def artifacts(self) -> dict[str, CompiledNetwork]:
        """See :func:`artifacts`."""
        return artifacts(self.module)

    @property
    def report(self) -> Report:
        """The simulated cycles of its regions; :func:`report` also measures the host."""
        return report(self.module)

    @cached_property
    def machine(self) -> relax.VirtualMachine:
        return relax.VirtualMachine(self.module, tvm.cpu())

    def __call__(self, *inputs: Any, entry: str = "main") -> np.ndarray | tuple[np.ndarray, ...]:
        """Run the network on arrays, in TVM's virtual machine; one result is an array, several a tuple."""
        made = self.machine[entry](*[virtual_machine.to_tvm(np.asarray(x)) for x in inputs])
        return made.numpy() if hasattr(made, "numpy") else tuple(x.numpy() for x in made)

    def __repr__(self) -> str:
        return f"<Library {self.path}: {', '.join(s for symbols in self.functions.values() for s in symbols)}>"
