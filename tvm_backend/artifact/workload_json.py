"""Workloads as JSON: the arguments of the functions of :mod:`archloom.mapper.workload` that make them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from typing import Any

from archloom.mapper import nests
from archloom.mapper.packing import Packing
from archloom.mapper.requantization import Requantization
from archloom.mapper.workload import Epilogue, Pool, Workload, add, attention, chain, conv2d, gemm, nest, sweep
from archloom.oracle.errors import ArtifactError, MappingError
from archloom.oracle.records import typed


def to_json(workload: Workload) -> dict[str, Any]:
    """A JSON object from which :func:`from_json` makes the equal workload."""
    data = {"kind": workload.kind, "name": workload.name, "epilogue": asdict(workload.epilogue),
            **_ARGUMENTS[workload.kind](workload), "constants": workload.constants}
    if any(t.packing for t in workload.inputs):
        data["packings"] = {t.name: asdict(t.packing) for t in workload.inputs if t.packing is not None}
    if from_json(data) != workload:
        raise ArtifactError(f"workload {workload.name!r} is not of a form that artifacts can hold: {workload}")
    return data


def _gemm(w: Workload) -> dict[str, Any]:
    sizes = {"m": w.extent("m"), "n": w.extent("n"), "k": w.extent("k"), "batch": w.extent("b")}
    if w.tile:
        shared = w.inputs[1].shape[0] == 1
        return {**sizes, "shared_b": shared, "dtype": w.inputs[0].dtype, "tile": w.tile, "transposed": w.transposed}
    own = {"shared_bias": False} if w.epilogue.bias and len(w.inputs[2].shape) > 1 else {}
    return {**sizes, "shared_b": len(w.inputs[1].shape) == 2, "dtype": w.inputs[0].dtype, **own}


def _conv2d(w: Workload) -> dict[str, Any]:
    if w.tile:
        kernel = {name: w.extent(name) for name in ("n", "c", "o", "kh", "kw")}
        return {**kernel, "h": w.image[0], "w": w.image[1], "stride": w.stride, "padding": w.padding,
                "dilation": w.dilation, "groups": w.groups, "tile": w.tile, "grid": w.grid}
    n, height, width, _ = w.inputs[0].shape
    kernel = {name: w.extent(name) for name in ("c", "o", "kh", "kw")}
    more = {"dilation": w.dilation, "groups": w.groups, "blocks": w.blocks, "dtype": w.inputs[0].dtype}
    return {"n": n, "h": height, "w": width, **kernel, "stride": w.stride, "padding": w.padding, **more}


def _attention(w: Workload) -> dict[str, Any]:
    names = {"batch": "b", "heads": "h", "queries": "q", "keys": "k", "depth": "d", "values": "e"}
    found: dict[str, Any] = {name: w.extent(dim) for name, dim in names.items()}
    return {**found, "tile": w.tile, "causal": w.causal} if w.tile else found


def _read_sweep(rest: Mapping[str, Any]) -> dict[str, Any]:
    from archloom.mapper.spatial.sweeps.elementwise import Elementwise, Operation
    from archloom.mapper.spatial.sweeps.reduction import Columns, Rows

    fields = dict(rest["fields"])
    if rest["work"] == "Elementwise":
        fields["operations"] = tuple(Operation(**op) for op in fields["operations"])
    makers: dict[str, Any] = {"Elementwise": Elementwise, "Rows": Rows, "Columns": Columns}
    return {"work": makers[rest["work"]](**fields), "name": rest["name"]}


def _read_chain(rest: Mapping[str, Any]) -> dict[str, Any]:
    from archloom.mapper.spatial.chain.space import Chain

    fields = dict(rest["fields"])
    return {"work": Chain(**{**fields, "biases": tuple(fields["biases"])}), "name": rest["name"]}


def _nest(w: Workload) -> dict[str, Any]:
    return {"nests": list(map(nests.to_json, w.nests)), "tensors": [(t.shape, t.dtype) for t in (*w.inputs, w.output)]}


def _read_nest(rest: Mapping[str, Any]) -> dict[str, Any]:
    return {**rest, "nests": tuple(map(nests.from_json, rest["nests"])),
            "tensors": tuple((tuple(shape), dtype) for shape, dtype in rest["tensors"])}


_ARGUMENTS: dict[str, Callable[[Workload], dict[str, Any]]] = {
    "gemm": _gemm, "conv2d": _conv2d, "attention": _attention, "add": lambda w: {"size": w.extent("i")}, "nest": _nest,
    "sweep": lambda w: {"work": type(w.sweep).__name__, "fields": asdict(w.sweep)},  # type: ignore[call-overload]
    "chain": lambda w: {"fields": asdict(w.chain)}}  # type: ignore[arg-type]
_MAKERS = {"gemm": gemm, "conv2d": conv2d, "add": add, "attention": attention, "sweep": sweep, "chain": chain,
           "nest": nest}


def from_json(data: Mapping[str, Any]) -> Workload:
    """The workload that ``data`` describes; :class:`ArtifactError` if it does not describe one."""
    try:
        rest = dict(data)
        kind, epilogue = rest.pop("kind"), dict(rest.pop("epilogue"))
        constants = tuple(rest.pop("constants", ()))
        packings = typed(rest.pop("packings", {}), dict[str, Packing])
        pool = epilogue.pop("pool")
        if pool is not None:
            pool = Pool(pool["size"], pool["stride"], tuple(pool["padding"]))
        rounding = epilogue.pop("requantization", None)
        if rounding is not None:
            rounding = Requantization(**{**rounding, "operand_zeros": tuple(rounding["operand_zeros"])})
        for name in ("stride", "padding", "dilation", "transposed", "grid"):
            if rest.get(name) is not None:
                rest[name] = tuple(rest[name])
        make: Any = _MAKERS[kind]
        if kind == "sweep":
            rest = _read_sweep(rest)
        if kind == "nest":
            rest = _read_nest(rest)
        if kind == "chain":
            rest = _read_chain(rest)
        if kind == "conv2d" and rest.pop("tile", 0):
            from archloom.mapper.spatial.layers import convolution as make
        made: Workload = make(epilogue=Epilogue(pool=pool, requantization=rounding, **epilogue), **rest)
        inputs = tuple(replace(t, packing=packings.get(t.name)) for t in made.inputs)
        return replace(made, inputs=inputs, constants=constants)
    except (KeyError, TypeError, ValueError, MappingError) as error:
        raise ArtifactError(f"not a workload: {type(error).__name__}: {error}") from error
