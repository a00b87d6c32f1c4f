"""Imported networks: what every frontend makes, and partitioning, compilation and ``check`` take."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from archloom.oracle.errors import ModelError
from archloom.oracle.fallbacks import Fallback
from archloom.tvm_backend.compiled import TensorSpec
from archloom.tvm_backend.ir.nodes import is_plain

if TYPE_CHECKING:
    from onnx import ModelProto

    from archloom.tvm_backend.ir.expressions import Function, IRModule
    from archloom.tvm_backend.sources.source import Source
    from archloom.tvm_backend.summary import Summary


@dataclass(frozen=True, eq=False, repr=False)
class Model:
    """An imported network: one Relax function ``main`` of static shapes, with constants inside.

    ``str()`` of it is a summary: inputs, outputs, operators, multiply-accumulates and bytes.

    ``source`` is the kind of what was read; ``onnx`` is the ONNX network where there was one (with the input shapes
    that were asked for), against which ``check`` compares, and ``floats`` the network that it was quantized from, where
    that is known.
    """

    name: str
    module: "IRModule"
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    source: Literal["onnx", "torch", "relax"]
    onnx: "ModelProto | None" = None
    floats: "ModelProto | None" = None
    fallbacks: tuple[Fallback, ...] = ()
    """what was read or rewritten in another way than meant"""
    given: "Source | None" = None
    """what was loaded, of a network that was not ONNX: estimates as if quantized begin with that"""
    tensors: Mapping[str, str] = field(default_factory=dict)
    """the tensor of the ONNX network that a variable holds, by the variable's name"""

    def __str__(self) -> str:
        return str(self._summary())

    def __repr__(self) -> str:
        from archloom.tvm_backend.summary import in_a_line

        return in_a_line(f"Model {self.name}", self.inputs, self.outputs)

    def _repr_html_(self) -> str:
        from archloom.oracle.pages import fragment

        return fragment(self._summary().page())

    def _summary(self) -> "Summary":
        from archloom.tvm_backend.summary import Summary

        return Summary.of(self)

    @property
    def has_weights(self) -> bool:
        """Whether the numbers of its weights are there: plain expressions have the shapes alone."""
        return not is_plain(self.module)


def make_model(
    module: "IRModule", name: str, source: Literal["onnx", "torch", "relax"], proto: "ModelProto | None",
    input_names: Sequence[str] | None, output_names: Sequence[str] | None,
) -> Model:
    """Fold constants, demand static shapes, and wrap an imported module."""
    from archloom.tvm_backend.ir import expressions as ir
    from archloom.tvm_backend.ir.bounds import refuse_impossible, refuse_oversized
    from archloom.tvm_backend.ir.names import is_made_up
    from archloom.tvm_backend.passes.constants import fold_constants

    module = ir.of(module).ensure_dataflow(module)
    _refuse_open(module["main"], name)
    refuse_oversized(module, name)
    module = fold_constants(module)
    refuse_impossible(module, name)
    main = module["main"]
    names = list(input_names) if input_names is not None else [p.name for p in main.params]
    inputs = tuple(TensorSpec(n, ir.shape_of(p), ir.dtype_of(p)) for n, p in zip(names, main.params, strict=True))
    results = ir.outputs_of(main)
    for what, value in [*((f"input {n!r}", p) for n, p in zip(names, main.params, strict=True)),
                        *((f"result {i}", r) for i, r in enumerate(results))]:
        if not ir.is_tensor(value):
            raise ModelError(f"{name}: {what}: expected a tensor, found {ir.type_of(value) or 'no tensor'}")
    labels = list(output_names) if output_names is not None else [
        r.name if ir.is_var(r) and len(results) == 1 and not is_made_up(r.name)
        else f"output{i}" if len(results) > 1 else "output" for i, r in enumerate(results)
    ]
    outputs = tuple(TensorSpec(n, ir.shape_of(r), ir.dtype_of(r)) for n, r in zip(labels, results, strict=True))
    return Model(name, module, inputs, outputs, source, proto)


def from_relax(module: "IRModule", name: str) -> Model:
    """Take a Relax module as it is; its ``main`` must have static shapes. Tuples of results are taken apart."""
    from archloom.tvm_backend.ir import expressions as ir
    from archloom.tvm_backend.passes.results import with_flat_results

    require_main(module, name)
    return make_model(with_flat_results(ir.of(module).ensure_dataflow(module)), name, "relax", None, None, None)


def require_main(module: "IRModule", name: str) -> None:
    """ModelError for a Relax module without ``main``."""
    if "main" not in [gv.name_hint for gv in module.functions]:
        raise ModelError(f"{name}: expected a Relax module with a function main, found none")


def _refuse_open(main: "Function", name: str) -> None:
    from archloom.tvm_backend.ir import expressions as ir
    from archloom.tvm_backend.ir.names import node

    for binding in ir.bindings(main):
        what = node(binding.var.name, ir.op_name(binding.value) or ir.kind(binding.value))
        if ir.kind(binding.value) == "branch":
            raise ModelError(f"{name}: {what} depends on a condition that is computed (If); only networks of known "
                             "control flow can be compiled")
        if not ir.has_static_type(binding.var):
            raise ModelError(
                f"{name}: the shape of {what} depends on the data or on an input's dimension "
                f"({ir.type_of(binding.var)}); only static shapes can be compiled. Where it is an input's dimension "
                "that is open, load with dynamic=True"
            )
