"""Compiled networks on disk: :func:`save`, :func:`load` and :func:`load_report`. See docs/artifact.md for the files."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from archloom.mapper import cache
from archloom.mapper.search import Plan
from archloom.mapper.workload import Workload
from archloom.oracle.binary import decode, encode
from archloom.oracle.errors import ArchloomError, ArtifactError, MappingError
from archloom.oracle.records import typed
from archloom.oracle.stream import Stream
from archloom.tvm_backend import compiled as classes
from archloom.tvm_backend.artifact import files as artifact_files
from archloom.tvm_backend.artifact import host as artifact_host
from archloom.tvm_backend.artifact import workload_json
from archloom.tvm_backend.artifact.host import as_json, read_tensors
from archloom.tvm_backend.compiled import CompiledModel, Partition, Region, Step, Value, View
from archloom.tvm_backend.host.output_stage import ARRAYS, OutputStage
from archloom.tvm_backend.host.plan import HostPlan
from archloom.tvm_backend.programs import Stored
from archloom.tvm_backend.report.data import Report
from archloom.tvm_backend.targets.layouts import Layout, layout_of

NETWORK, PLANS, CONSTANTS, REPORT = "network.json", "plans.json", "constants.safetensors", "report.json"
NAMES, SPECS = tuple[str, ...], tuple[classes.TensorSpec, ...]
STAGE = "finish."
"""What the names of a step's constants begin with that its output stage on the host reads."""


@dataclass(frozen=True)
class Loaded:
    """What an artifact holds."""

    compiled: CompiledModel
    report: Report
    programs: "Stored | None"


def save(compiled: CompiledModel, report: Report, path: Path, programs: "Stored | None" = None) -> None:
    """Write a compiled network to ``path``: a zip if it ends in ``.zip``, else a directory; whole or not at all.

    ``programs`` are those of XLA that run it, as machine code.
    """
    artifact_files.write(path, files_of(compiled, report, programs))


def files_of(compiled: CompiledModel, report: Report, programs: "Stored | None" = None) -> dict[str, bytes]:
    """The files of an artifact without its manifest."""
    from safetensors.numpy import save as tensors

    constants = {f"{step.name}/{name}": np.ascontiguousarray(value)
                 for step in compiled.steps() for name, value in step.constants.items()}
    for step in compiled.steps():
        if step.output_stage is not None:
            constants |= {f"{step.name}/{STAGE}{name}": np.array(v) for name, v in step.output_stage.arrays.items()}
    streams, plans = _plans(compiled.plans)
    return {
        NETWORK: as_json(_network(compiled)), PLANS: as_json(plans), REPORT: as_json(report.to_json()),
        CONSTANTS: tensors(constants), **artifact_host.host_files(compiled.host), **streams,
        **(artifact_host.program_files(programs) if programs is not None else {}),
    }


def load(path: Path) -> Loaded:
    """Read what :func:`save` wrote. :class:`ArtifactError` names the file that is missing, damaged or of another kind.

    Nothing of the artifact is executed: its host part and programs are only run when the network is.
    """
    return from_files(artifact_files.read(path), path)


def from_files(files: artifact_files.Files, path: Path) -> Loaded:
    """What an artifact at ``path`` holds, from its files."""
    with _located(path, CONSTANTS):
        constants = read_tensors(files[CONSTANTS])
    with _located(path, artifact_host.HOST):
        host = artifact_host.read_host(files, files.own)
    with _located(path, NETWORK):
        partition = _partition(json.loads(files[NETWORK]), constants, *host)
    with _located(path, artifact_host.PROGRAMS):
        programs = artifact_host.read_programs(files, files.own)
    with _located(path, PLANS):
        plans = _read_plans(json.loads(files[PLANS]), partition, files)
    with _located(path, REPORT):
        report = Report.from_json(json.loads(files[REPORT]))
    return Loaded(CompiledModel.of(partition, plans), report, programs)


def load_report(path: Path) -> Report:
    """The report of an artifact, without reading more into objects than that."""
    files = artifact_files.read(path, (REPORT,))
    with _located(path, REPORT):
        return Report.from_json(json.loads(files[REPORT]))


@contextmanager
def _located(path: Path, name: str) -> Iterator[None]:
    """Say which file of the artifact a fault is in."""
    try:
        yield
    except KeyError as error:
        raise ArtifactError(f"{path}: {name}: {error} is missing") from error
    except (ArchloomError, ValueError, TypeError, AttributeError, LookupError, ArithmeticError,
            RecursionError) as error:
        raise ArtifactError(f"{path}: {name}: {error}") from error


# The network ------------------------------------------------------------------------------------------------------


def _network(partition: Partition) -> dict[str, Any]:
    return {
        "name": partition.name, "source": partition.source, "target": partition.target,
        "options": dict(partition.options), "inputs": [asdict(spec) for spec in partition.inputs],
        "outputs": [asdict(spec) for spec in partition.outputs],
        "regions": [_region(region) for region in partition.regions],
        "host": [asdict(op) for op in partition.host.ops],
    }


def _region(region: Region) -> dict[str, Any]:
    return {
        "symbol": region.symbol, "target": region.target,
        "values": [_value(v.name, v, v.nonzero_edges) for v in region.values],
        "inputs": region.inputs, "outputs": region.outputs, "steps": [_step(step) for step in region.steps],
    }


def _step(step: Step) -> dict[str, Any]:
    return {
        "name": step.name, "op": step.op, "workload": workload_json.to_json(step.workload), "inputs": step.inputs,
        "output": step.output, "shape": step.shape, "constants": list(step.constants),
        "refused": [asdict(answer) for answer in step.refused],
        "views": {argument: _value(argument, view, view.zero_edges) for argument, view in step.views.items()},
        "finish": None if step.output_stage is None else step.output_stage.to_json(), "choice": step.choice,
    }


def _value(name: str, value: Value | View, edges: tuple[str, ...]) -> dict[str, Any]:
    return {"name": name, "shape": value.shape, "dtype": value.dtype, "layout": value.layout.name,
            "form": value.layout.numbers, "beyond": edges}


def _partition(
    data: Mapping[str, Any], constants: Mapping[str, np.ndarray], module: str | None, plan: "HostPlan | None"
) -> Partition:
    host = classes.HostPart(module, typed(data["host"], tuple[classes.HostOp, ...]), planned=lambda: plan)
    regions = tuple(Region(
        typed(r["symbol"], str), typed(r["target"], str), tuple(Value(v["name"], *_laid_out(v)) for v in r["values"]),
        typed(r["inputs"], NAMES), typed(r["outputs"], NAMES),
        tuple(_read_step(step, constants) for step in r["steps"])) for r in data["regions"])
    name, source, target = typed([data["name"], data["source"], data["target"]], tuple[str, str, str])
    for region in regions:
        _check_flow(region)
        _check_known([region.target], target.split(","), f"region {region.symbol!r} is on")
    inputs = typed(data["inputs"], SPECS)
    for spec in inputs:
        if min(spec.shape, default=1) < 1:
            raise ArtifactError(f"input {spec.name!r}: expected extents of at least 1, found shape {spec.shape}")
    return Partition(name, source, target, dict(data["options"]), inputs, typed(data["outputs"], SPECS), regions, host)


def _check_flow(region: Region) -> None:
    """ArtifactError unless each tensor of a region is stated, and computed or given before it is read."""
    stated, known = {value.name for value in region.values}, set(region.inputs)
    for step in region.steps:
        _check_known((name for _, name in step.inputs), known, f"region {region.symbol!r}: step {step.name!r} reads")
        known.add(step.output)
    _check_known(region.outputs, known, f"region {region.symbol!r} gives")
    _check_known(known, stated, f"region {region.symbol!r} states no")


def _check_known(names: Iterable[str], known: Collection[str], what: str) -> None:
    if unknown := sorted(set(names) - set(known)):
        raise ArtifactError(f"{what} {unknown[0]!r}: expected one of {', '.join(sorted(known))}")


def _laid_out(data: Mapping[str, Any]) -> tuple[tuple[int, ...], str, Layout, tuple[str, ...]]:
    """Shape, type, layout and edges of a value or a view."""
    layout = layout_of(typed(data["layout"], str), typed(data.get("form", ()), tuple[int, ...]))
    return (typed(data["shape"], tuple[int, ...]), typed(data["dtype"], str), layout,
            typed(data.get("beyond", ()), NAMES))


def _read_step(data: Mapping[str, Any], constants: Mapping[str, np.ndarray]) -> Step:
    name = data["name"]
    own = {argument: constants[f"{name}/{argument}"] for argument in data["constants"]}
    inputs = typed(data["inputs"], tuple[tuple[str, str], ...])
    stage = None
    if data.get("finish") is not None:
        arrays: dict[str, Any] = {array: constants[f"{name}/{STAGE}{array}"] for array in ARRAYS
                                  if f"{name}/{STAGE}{array}" in constants}
        stage = OutputStage(**data["finish"], **arrays)
    op, output, choice = typed([data["op"], data["output"], data.get("choice", "")], tuple[str, str, str])
    return Step(name, op, workload_json.from_json(data["workload"]), inputs, output,
                typed(data["shape"], tuple[int, ...]), own, typed(data.get("refused", ()), tuple[classes.Refused, ...]),
                output_stage=stage, choice=choice,
                views={argument: View(*_laid_out(view)) for argument, view in data.get("views", {}).items()})


# Plans ------------------------------------------------------------------------------------------------------------


def _plans(plans: Mapping[str, "Plan"]) -> tuple[dict[str, bytes], dict[str, Any]]:
    """Files of the distinct streams, and for each step its plan with the name of its stream's file."""
    names: dict[Any, str] = {}
    streams: dict[str, bytes] = {}
    table = {}
    for step, plan in plans.items():
        if plan.stream not in names:
            names[plan.stream] = f"streams/{len(names):04}.bin"
            streams[names[plan.stream]] = encode(plan.stream)
        table[step] = cache.to_json(plan) | {"stream": names[plan.stream]}
        del table[step]["energy"]  # the report has it
    return streams, table


def _read_plans(data: Mapping[str, Any], partition: Partition, files: Mapping[str, bytes]) -> "dict[str, Plan]":
    streams = {name: decode(blob, name) for name, blob in files.items() if name.startswith("streams/")}
    return {step.name: _read_plan(data[step.name], step.workload, streams[data[step.name]["stream"]])
            for step in partition.steps()}


def _read_plan(data: Mapping[str, Any], workload: "Workload", stream: "Stream") -> "Plan":
    try:
        entry = cache.from_json({"energy": None, "bound_cycles": 0} | dict(data))
        return Plan(**vars(entry), workload=workload, emit=lambda: stream)
    except (KeyError, TypeError, ValueError, MappingError) as error:
        raise ArtifactError(f"not a plan: {type(error).__name__}: {error}") from error
