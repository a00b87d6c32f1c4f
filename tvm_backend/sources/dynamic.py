"""Networks with open dimensions of what a user gives: the counterpart of :meth:`~.source.Source.load`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from archloom.oracle.errors import InputError, ModelError
from archloom.tvm_backend.dynamic.extents import Extent, OpenInput, OpenShapes, Symbol, symbols_of
from archloom.tvm_backend.dynamic.model import DynamicModel
from archloom.tvm_backend.sources.source import Source

if TYPE_CHECKING:
    import onnx
    import torch

    from archloom.tvm_backend.ir.expressions import IRModule


def load_dynamic(source: Source) -> DynamicModel:
    """Read the network and what is open in it; a file is read once.

    InputError for what has no open dimensions by its kind, and for ``input_shapes``, which would close them; ModelError
    as for static networks. A network that happens to have none gives a model without symbols.
    """
    _refuse_options(source)
    if source.kind == "dynamic":
        found: DynamicModel = source.given
        return found
    if source.kind == "onnx":
        from archloom.tvm_backend.frontends.onnx.files import check_onnx, read_onnx

        proto = read_onnx(source.given) if isinstance(source.given, Path) else source.given
        if proto is source.given:
            check_onnx(proto, source.label)
        return _of_onnx(replace(source, given=proto, name=source.title), proto, source.label)
    if source.kind == "relax":
        return _of_relax(source)
    return _of_program(*_program(source))


def shapes_alone(source: Source) -> DynamicModel:
    """:func:`load_dynamic` for estimates: no weights of an ONNX network are read, and nothing of it is checked yet."""
    if source.kind != "onnx":
        return load_dynamic(source)
    from archloom.tvm_backend.frontends.onnx import skeleton
    from archloom.tvm_backend.frontends.onnx.files import read_onnx, skeleton_of

    _refuse_options(source)
    if not isinstance(source.given, Path):
        return _of_onnx(source, source.given, source.label)
    try:
        return _of_onnx(source, skeleton.parse(skeleton_of(source.given)), source.label)
    except skeleton.NoSkeleton:
        return _of_onnx(source, read_onnx(source.given), source.label)


def _refuse_options(source: Source) -> None:
    if source.kind in ("name", "operator", "model"):
        kinds = {"name": "a network by name", "operator": "an operator as text", "model": "a loaded network"}
        raise InputError(f"{kinds[source.kind]} has no open dimensions; expected an ONNX network, a program or module "
                         "of torch, or a Relax module")
    if source.input_shapes:
        raise InputError("input_shapes: not taken with dynamic=True or symbols, which leave dimensions open")


def _of_onnx(source: Source, proto: "onnx.ModelProto", label: str) -> DynamicModel:
    from archloom.tvm_backend.frontends.onnx.dynamic import open_shapes
    shapes = open_shapes(proto, label)
    is_open = bool(shapes.symbols)
    return DynamicModel(source.title, shapes,
                        lambda extents: replace(source, input_shapes=shapes.at(extents) if is_open else None))


def _program(source: Source) -> "tuple[torch.export.ExportedProgram, str]":
    from archloom.tvm_backend.frontends.torch import export

    given, name = source.given, source.name
    if source.kind == "module":
        name = name or type(given).__name__
        if source.dynamic_shapes is None:
            raise InputError(f"{name}: a torch.nn.Module with open dimensions needs dynamic_shapes, as torch.export "
                             "takes them, such as {'x': {0: torch.export.Dim('batch')}}")
        return export.export(given, source.example_inputs, name, source.dynamic_shapes), name
    if not isinstance(given, Path):
        return given, name or "program"
    from archloom.tvm_backend.frontends.torch.pt2_files import read_program

    return read_program(given, open_sizes=True), name or given.stem


def _of_program(program: "torch.export.ExportedProgram", name: str) -> DynamicModel:
    from archloom.tvm_backend.frontends.torch.dynamic import open_shapes, static_program

    shapes = open_shapes(program, name)

    def static(extents: Mapping[str, int]) -> Source:
        given = static_program(program, shapes.at(extents), name) if shapes.symbols else program
        return Source(given, "program", name=name)

    return DynamicModel(name, shapes, static)


def _of_relax(source: Source) -> DynamicModel:
    from archloom.tvm_backend.ir import compat
    from archloom.tvm_backend.model import require_main

    module: IRModule = source.given
    name = source.name or "network"
    require_main(module, name)
    try:
        inputs = tuple(OpenInput(tensor, dtype, tuple(Extent.parse(dim) for dim in dims))
                       for tensor, dtype, dims in compat.open_inputs(module))
    except ValueError as error:
        raise ModelError(f"{name}: {error}") from error
    lower, upper = compat.extent_bounds(module)
    symbols = symbols_of(inputs, lambda symbol: Symbol(symbol, max(1, lower.get(symbol, 1)), upper.get(symbol)))

    def static(extents: Mapping[str, int]) -> Source:
        try:
            given = compat.at_extents(module, extents) if extents else module
        except compat.IMPORT_ERRORS as error:
            raise ModelError(f"{name}: its symbols cannot be bound to {dict(extents)}: {error}") from error
        return Source(given, "relax", name=name)

    return DynamicModel(name, OpenShapes(name, inputs, symbols), static)
