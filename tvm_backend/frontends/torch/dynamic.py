"""Open dimensions of exported programs, and programs of static shapes made of those.

A program is exported again on inputs of the shapes that are asked for. Its own checks are traced along, so that shapes
that it does not take are refused by torch.
"""

from __future__ import annotations

import copy
import re
import warnings
from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch.utils import _pytree as pytree

from archloom.models.quiet import quiet
from archloom.oracle.errors import InputError, ModelError
from archloom.tvm_backend.dynamic.extents import Extent, OpenInput, OpenShapes, Symbol, symbols_of
from archloom.tvm_backend.frontends.torch.pt2_files import summary

_SIZE = re.compile(r"\.size\(\)\[(\d+)\]$")


def open_shapes(program: torch.export.ExportedProgram, label: str) -> OpenShapes:
    """The inputs with the names that ``torch.export.Dim`` gave their open dimensions, and the bounds of the program.

    Files keep no names, and ``Dim.AUTO`` has none: such a dimension is ``INPUT.AXIS``, after the first place where it
    stands. ModelError for a dimension that is no sum of multiples of others.
    """
    tensors = [(node.name, node.meta["val"]) for node in _user_inputs(program)]
    inputs = [OpenInput(name, str(value.dtype).removeprefix("torch."), tuple(
        _dim(size, f"{label}: input {name!r}: dimension {axis}") for axis, size in enumerate(value.shape)))
        for name, value in tensors if isinstance(value, torch.Tensor)]
    names = _names(inputs, [value for _, value in tensors])
    bounds = {str(symbol): found for symbol, found in program.range_constraints.items()}

    def symbol(own: str) -> Symbol:
        found = bounds.get(own)
        low, high = (None, None) if found is None else (_whole(found.lower), _whole(found.upper))
        return Symbol(names[own], max(1, low or 1), high)

    renamed = tuple(OpenInput(i.name, i.dtype, tuple(
        d if isinstance(d, int) else d.renamed(names) for d in i.dims)) for i in inputs)
    return OpenShapes(label, renamed, symbols_of(inputs, symbol))


def static_program(
    program: torch.export.ExportedProgram, shapes: Mapping[str, tuple[int, ...]], label: str
) -> torch.export.ExportedProgram:
    """The program for inputs of these shapes; InputError where it states that it does not take them."""
    nodes = {node.name: node for node in _user_inputs(program)}
    values: list[Any] = []
    for spec in program.graph_signature.input_specs:
        if spec.kind == torch.export.graph_signature.InputKind.USER_INPUT:
            name = spec.arg.name
            values.append(torch.zeros(shapes[name], dtype=nodes[name].meta["val"].dtype) if name in shapes
                          else getattr(spec.arg, "value", None))
    assert program.call_spec.in_spec is not None
    args, kwargs = pytree.tree_unflatten(values, program.call_spec.in_spec)
    demanding = copy.copy(program)
    demanding.example_inputs = (args, kwargs)  # without any, as in files, torch leaves the program's checks out
    try:
        with torch.no_grad(), warnings.catch_warnings(action="ignore"), quiet("torch"):
            return torch.export.export(demanding.module(), args, kwargs)
    except Exception as error:  # torch raises whatever its parts raise
        shown = ", ".join(f"{name}: {'x'.join(map(str, shape)) or 'scalar'}" for name, shape in shapes.items())
        said = next((line for line in str(error).splitlines() if line.startswith("Guard failed")), summary(error))
        raise InputError(f"{label}: the program does not take inputs of these shapes ({shown}): {said}") from error


def _user_inputs(program: torch.export.ExportedProgram) -> Iterator[torch.fx.Node]:
    wanted = set(program.graph_signature.user_inputs)
    return (n for n in program.graph.nodes if n.op == "placeholder" and n.name in wanted)


def _dim(size: Any, where: str) -> "int | Extent":
    if isinstance(size, int):
        return size
    try:
        return Extent.parse(str(size.node.expr))
    except ValueError as error:
        raise ModelError(f"{where}: expected a sum of multiples of symbols, found {error}") from error


def _names(inputs: list[OpenInput], values: list[Any]) -> dict[str, str]:
    """What users call the program's symbols."""
    stated: Mapping[str, str] = {}
    for value in values:
        for size in value.shape if isinstance(value, torch.Tensor) else ():
            if not isinstance(size, int):
                stated = getattr(size.node.shape_env, "source_name_to_debug_name", {})
    found: dict[str, str] = {}
    dims = {(i.name, axis): dim for i in inputs for axis, dim in enumerate(i.dims) if isinstance(dim, Extent)}
    for source, text in stated.items():
        dim, name = dims.get(_place(source)), re.findall(r"[A-Za-z_]\w*", text)
        if dim is not None and len(dim.names) == 1 and len(name) == 1:
            found.setdefault(dim.names[0], name[0])
    for is_symbol in (True, False):  # a place where it stands alone names it best
        for (tensor, axis), dim in dims.items():
            if dim.is_symbol == is_symbol:
                for own in dim.names:
                    found.setdefault(own, f"{tensor}.{axis}" if is_symbol else own)
    if len(set(found.values())) < len(found):  # of two Dims with one name, say
        return {own: own for own in found}
    return found


def _place(source: str) -> tuple[str, int]:
    """Input and axis of ``L['d']['k'].size()[0]``: ``d_k``, 0."""
    size = _SIZE.search(source)
    return ("", 0) if size is None else ("_".join(re.findall(r"\['?(\w+)'?\]", source[:size.start()])), int(size[1]))


def _whole(bound: Any) -> int | None:
    """A bound, where it is a number."""
    try:
        return int(bound) if abs(int(bound)) < 1 << 62 else None
    except (TypeError, ValueError, OverflowError, AttributeError):
        return None
