"""The host part and the compiled programs of an artifact as files, and back."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import numpy as np

from archloom.oracle.errors import ArtifactError
from archloom.oracle.fallbacks import Fallback
from archloom.oracle.records import typed
from archloom.tvm_backend.compiled import HostPart
from archloom.tvm_backend.host.plan import HostCall, HostPlan
from archloom.tvm_backend.host.program import HostProgram, Signature
from archloom.tvm_backend.programs import Named, Stored

HOST, HOST_CONSTANTS, RELAX, PROGRAMS = "host.json", "host.safetensors", "relax.json", "programs.json"
CODE = "programs"
"""Folder of the machine code."""
_STORABLE = frozenset("biuf")
"""Kinds of NumPy's types that safetensors takes from it."""


def host_files(host: HostPart) -> dict[str, bytes]:
    """The plan with its programs as StableHLO and its constants; a Relax module where TVM runs a part of the host."""
    from safetensors.numpy import save as tensors

    plan = host.plan
    if plan is None:
        return {HOST: as_json({"relax": RELAX}), RELAX: host.module_json.encode()}
    files = {f"host/{number:03}.stablehlo": program.export() for number, program in enumerate(plan.programs)}
    table = {
        "inputs": plan.inputs, "outputs": plan.outputs, "fixed": sorted(plan.fixed.items()),
        "calls": [{"program": c.program, "region": c.symbol, "constants": c.constants, "inputs": c.inputs,
                   "outputs": c.outputs} for c in plan.calls],
        "programs": [{"key": program.key, "arguments": program.arguments, "file": name}
                     for program, name in zip(plan.programs, files, strict=True)],
        "constants": len(plan.constants),
        "dtypes": {str(i): str(c.dtype) for i, c in enumerate(plan.constants) if c.dtype.kind not in _STORABLE},
    }
    constants = {str(i): np.ascontiguousarray(c).reshape(c.shape).view(_stored_as(c.dtype))
                 for i, c in enumerate(plan.constants)}
    return {HOST: as_json(table), HOST_CONSTANTS: tensors(constants), **files}


def read_tensors(data: bytes, file: str = "") -> dict[str, np.ndarray]:
    """The arrays of a safetensors file; ArtifactError for anything else."""
    from safetensors import SafetensorError
    from safetensors.numpy import load

    try:
        found: dict[str, np.ndarray] = load(data)
        return found
    except SafetensorError as error:
        raise ArtifactError(f"{file}not a safetensors file: {error}") from error


def _stored_as(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """What a constant is stored as: bytes, or pairs of them, for types that safetensors does not take from NumPy."""
    return dtype if dtype.kind in _STORABLE else np.dtype(f"u{dtype.itemsize}")


def read_host(files: Mapping[str, bytes], own: bool) -> tuple[str | None, HostPlan | None]:
    """The text of a Relax module, or a plan; raises KeyError, ValueError or TypeError for files that hold neither.

    The keys of programs are taken from files of the user's ``own`` only: what others call by the key of another program
    must not be found, or kept, in its place.
    """
    data = json.loads(files[HOST])
    if "relax" in data:
        return files[str(data["relax"])].decode(), None
    import ml_dtypes  # noqa: F401  NumPy then knows bfloat16 and its like by name

    found = read_tensors(files[HOST_CONSTANTS], f"{HOST_CONSTANTS} is ")
    types = data.get("dtypes", {})
    programs = tuple(
        HostProgram(str(p["key"]) if own else _key(p, files),
                    typed(p["arguments"], Signature), exported=files[str(p["file"])])
        for p in data["programs"])
    calls = typed([{**call, "symbol": call["region"]} for call in data["calls"]], tuple[HostCall, ...])
    plan = HostPlan(
        typed(data["inputs"], int), typed(data["outputs"], tuple[int, ...]), calls, programs,
        tuple(found[str(i)].view(np.dtype(types[str(i)])) if str(i) in types else found[str(i)]
              for i in range(typed(data["constants"], int))),
        dict(typed(data["fixed"], tuple[tuple[int, int], ...])))
    _check(plan)
    return None, plan


def _key(program: Mapping[str, Any], files: Mapping[str, bytes]) -> str:
    """A key that follows from all that a program is."""
    return hashlib.sha256(repr(program["arguments"]).encode() + files[str(program["file"])]).hexdigest()


def _check(plan: HostPlan) -> None:
    """Every call reads what is there, and gives its program what that takes."""
    inputs, known = range(plan.inputs), set(plan.fixed)  # of inputs there may be as many as an integer can say
    numbers = range(len(plan.constants))
    for call in plan.calls:
        if not all(n in inputs or n in known for n in call.inputs) or any(n not in numbers for n in call.constants):
            raise ArtifactError("a call of the host part reads a tensor that is not there")
        if call.program is not None:
            taken = [(plan.constants[n].shape, str(plan.constants[n].dtype)) for n in call.constants]
            if call.program not in range(len(plan.programs)):
                raise ArtifactError(f"a call of the host part names program {call.program!r}, which is not there")
            expected = plan.programs[call.program].arguments
            if list(expected[:len(taken)]) != taken or len(expected) != len(taken) + len(call.inputs):
                raise ArtifactError(f"program {call.program} of the host part is called with other constants than it "
                                    "takes")
        known.update(call.outputs)
    outputs = all(n in inputs or n in known for n in plan.outputs)
    if not outputs or any(n not in numbers for n in plan.fixed.values()):
        raise ArtifactError("a result of the host part is not there")


def program_files(stored: "Stored") -> dict[str, bytes]:
    """The machine code, with what it belongs to."""
    table = {"platform": stored.platform, "host": {},  # pieces of the host are among the streams
             "streams": {key: [found.name, found.bits, [asdict(f) for f in found.fallbacks]]
                         for key, found in stored.programs.items()}}
    return {PROGRAMS: as_json(table), **{f"{CODE}/{name}.bin": data for name, data in stored.code.items()}}


def read_programs(files: Mapping[str, bytes], own: bool) -> "Stored | None":
    """The machine code, of the user's ``own`` files only."""
    if PROGRAMS not in files:
        return None
    if not own:
        return Stored("", {}, {}, own=False)
    data = json.loads(files[PROGRAMS])
    programs = {key: Named(typed(name, str), typed(bits, tuple[int, ...]),
                           tuple(f for of in noted for f in typed(of, tuple[Fallback, ...])))
                for key, (name, bits, *noted) in data["streams"].items()}
    programs |= {key: Named(name) for key, name in typed(data["host"], dict[str, str]).items()}
    return Stored(str(data["platform"]), programs,
                  {found.name: files[f"{CODE}/{found.name}.bin"] for found in programs.values()})


def as_json(value: Any) -> bytes:
    return json.dumps(value, indent=1, allow_nan=False).encode()
