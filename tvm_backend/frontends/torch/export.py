"""torch networks in: by ``torch.export`` to Relax, or to ONNX where they are to be quantized.

Attention, linear, normalizations and activations stay whole: TVM's default decompositions would scatter them into
dozens of element-wise operators.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from archloom.models.quiet import quiet
from archloom.oracle.errors import InputError, ModelError
from archloom.tvm_backend.frontends.torch import blocks, weights
from archloom.tvm_backend.frontends.torch.pt2_files import summary
from archloom.tvm_backend.frontends.torch.training import refuse_training
from archloom.tvm_backend.ir import expressions as ir
from archloom.tvm_backend.ir import nodes
from archloom.tvm_backend.model import Model, make_model

if TYPE_CHECKING:
    import onnx

    from archloom.tvm_backend.ir import compat

KEEP = frozenset({
    "scaled_dot_product_attention", "linear", "gelu", "layer_norm", "silu", "silu_", "relu6", "hardtanh", "batch_norm",
    "adaptive_avg_pool2d", "conv2d", "matmul", "softmax", "max_pool2d", "dropout", "im2col",
})
PROMOTING = frozenset({
    "add", "atan", "atan2", "bitwise_and", "bitwise_or", "bitwise_xor", "cos", "div", "exp", "floor_divide", "fmod",
    "log", "maximum", "minimum", "mul", "pow", "reciprocal", "remainder", "rsqrt", "rsub", "sigmoid", "sin", "sqrt",
    "sub", "tanh",
})
"""Element-wise operators of ATen whose operands may have different types, or give floats of integers."""
COMPARING = frozenset({"eq", "ge", "gt", "le", "lt", "ne"})
"""Those whose result does not have the type in which they compute."""


def load_module(
    module: torch.nn.Module, example_inputs: Any, name: str, input_names: Sequence[str] | None = None, *,
    with_weights: bool = True,
) -> Model:
    """Import a module in evaluation mode, exported on ``example_inputs`` (a tensor or a sequence of tensors).

    Without weights it is imported as :func:`load_program` says, which it is in any case where tensors are on ``meta``.
    """
    if with_weights and weights.are_known(module):
        return load_program(export(module, example_inputs, name), name, input_names)
    try:
        return _load_outline(module, example_tensors(example_inputs, name), name, input_names)
    except nodes.Unsupported as error:
        if weights.are_known(module):
            raise
        raise ModelError(f"{name}: cannot be read without its weights, which are on torch's meta device: "
                         f"{error}") from error


def _load_outline(
    module: torch.nn.Module, inputs: tuple[Any, ...], name: str, input_names: Sequence[str] | None
) -> Model:
    """A module without weights, equal blocks once."""
    with weights.filled(evaluated(module)), blocks.apart(module, inputs) as apart:
        functions = {f"{blocks.CALL}{number}": _function(export(block, block.inputs(), name), name)
                     for number, block in enumerate(apart.found)}
        with apart.taken_out():
            program = export(module, inputs, name)
        main = _function(program, name, functions)
    return replace(_model(program, nodes.Module({"main": main}), name, input_names), fallbacks=apart.fallbacks)


def evaluated(module: torch.nn.Module) -> torch.nn.Module:
    """A module in evaluation mode. The graphs that pt2e quantized are in the mode in which they were exported for good,
    and refuse to be asked."""
    try:
        return module.eval()
    except NotImplementedError:
        if not isinstance(module, torch.fx.GraphModule):
            raise
        return module


def export(module: torch.nn.Module, example_inputs: Any, name: str, dynamic_shapes: Any = None) -> Any:
    """``torch.export`` of a module in evaluation mode, with its static shapes but for those that are dynamic."""
    inputs = example_tensors(example_inputs, name)
    try:
        with (torch.no_grad(), warnings.catch_warnings(action="ignore"), quiet("torch"), weights.filled(module)):
            return torch.export.export(evaluated(module), inputs, dynamic_shapes=dynamic_shapes)
    except Exception as error:  # dynamo, functorch and the module's own code raise as they like
        raise ModelError(f"{name}: torch.export fails: {summary(error)}") from error


def example_tensors(example_inputs: Any, name: str) -> tuple[Any, ...]:
    """Example inputs as a tuple of tensors; NumPy arrays are taken too, and zeros for what is on ``meta``: pages that
    take no memory until they are written."""
    if example_inputs is None:
        raise InputError(
            f"{name}: a torch.nn.Module needs example_inputs: a tensor, or a tuple of tensors, of the shapes to "
            "compile for"
        )
    if isinstance(example_inputs, torch.Tensor | np.ndarray):
        example_inputs = (example_inputs,)
    tensors = []
    for position, value in enumerate(example_inputs):
        if not isinstance(value, torch.Tensor | np.ndarray):
            raise InputError(f"{name}: example_inputs[{position}]: expected a tensor, found {type(value).__name__}")
        tensor = torch.from_numpy(value) if isinstance(value, np.ndarray) else value
        tensors.append(_zeros(tensor) if tensor.is_meta else tensor)
    return tuple(tensors)


def _zeros(like: torch.Tensor) -> torch.Tensor:
    pages = torch.from_numpy(np.zeros(like.numel() * like.element_size(), np.uint8))
    return pages.view(like.dtype).reshape(like.shape)


def load_program(
    program: torch.export.ExportedProgram, name: str, input_names: Sequence[str] | None = None, *,
    with_weights: bool = True,
) -> Model:
    """Import an exported program; ``input_names`` are used in place of its own.

    Without weights, as plain expressions: enough to partition it, not to build it; no large tensor is looked at.
    Raises :class:`~archloom.tvm_backend.ir.nodes.Unsupported` for what these do not have.
    """
    if not with_weights:
        return _model(program, nodes.Module({"main": _function(program, name)}), name, input_names)
    return _model(program, _relax(program, name)[0], name, input_names)


def _function(
    program: torch.export.ExportedProgram, name: str, functions: Mapping[str, nodes.Function] = {}
) -> nodes.Function:
    """A program as plain expressions, without its weights; calls of blocks are written out."""
    from archloom.tvm_backend.ir import bare

    return bare.without_weights(*_relax(program, name, with_weights=False), functions)


def _relax(
    program: torch.export.ExportedProgram, name: str, *, with_weights: bool = True
) -> "tuple[compat.IRModule, frozenset[str]]":
    """A program by TVM's importer, and which of its inputs are weights."""
    from archloom.tvm_backend.frontends.torch import converters, decompositions, quantized
    from archloom.tvm_backend.ir import compat

    _refuse_open(program, name)
    refuse_training(program, name)
    try:
        with torch.no_grad(), warnings.catch_warnings(action="ignore"), quiet("torch"):
            table = compat.torch_decompositions(KEEP)
            for more in (decompositions.table(), quantized.decompositions()):
                table.update(more)
            decomposed = _promoted(program.run_decompositions(table))
            unread = frozenset[str]() if with_weights else weights.without(decomposed)
            return compat.from_exported_program(quantized.with_values(decomposed), converters.table()), unread
    except compat.IMPORT_ERRORS as error:
        raise ModelError(f"{name}: cannot be imported from torch: {summary(error)}") from error


def _model(
    program: torch.export.ExportedProgram, module: ir.IRModule, name: str, input_names: Sequence[str] | None
) -> Model:
    outputs = [str(o) for o in program.graph_signature.user_outputs if o is not None]
    results = len(ir.outputs_of(module["main"]))
    labels = outputs if len(outputs) == results else [f"output{i}" for i in range(results)]
    return make_model(module, name, "torch", None, input_names, labels)


def _refuse_open(program: torch.export.ExportedProgram, name: str) -> None:
    """ModelError for a program that leaves a dimension of an input open."""
    for node in program.graph.nodes:
        value = node.meta.get("val")
        shape = value.shape if node.op == "placeholder" and isinstance(value, torch.Tensor) else ()
        if not all(isinstance(size, int) for size in shape):
            raise ModelError(f"{name}: input {node.name!r} is {'x'.join(map(str, shape))}: expected a program that was "
                             "exported with static shapes, or dynamic=True")


def _promoted(program: Any) -> Any:
    """Cast operands to the type in which torch computes: TVM 0.27 computes in that of the first."""
    graph = program.graph_module.graph
    for node in list(graph.nodes):
        dtype = _computed_in(node)
        for operand in node.all_input_nodes if dtype is not None else ():
            value = operand.meta.get("val")
            if isinstance(value, torch.Tensor) and value.dtype != dtype:
                with graph.inserting_before(node):
                    cast = graph.call_function(torch.ops.aten._to_copy.default, (operand,), {"dtype": dtype})
                cast.meta["val"] = value.to(dtype)
                node.replace_input_with(operand, cast)
    return program


def _computed_in(node: torch.fx.Node) -> torch.dtype | None:
    """The type to which an element-wise operator brings its operands; None for others."""
    name, result = str(node.target).removeprefix("aten.").partition(".")[0], node.meta.get("val")
    if name in PROMOTING and isinstance(result, torch.Tensor):
        return result.dtype
    if name in COMPARING and isinstance(result, torch.Tensor):
        operands: list[Any] = [x.meta["val"] if isinstance(x, torch.fx.Node) else x for x in node.args[:2]]
        return torch.result_type(*operands)
    return None


def to_onnx(
    module: torch.nn.Module, example_inputs: Any, name: str = "network", input_names: Sequence[str] | None = None
) -> "onnx.ModelProto":
    """A float module as ONNX, which :func:`archloom.tvm_backend.quantization.quantize.quantize` takes."""
    proto: onnx.ModelProto = onnx_program(module, example_inputs, name, input_names).model_proto
    return proto


def onnx_program(
    module: torch.nn.Module, example_inputs: Any, name: str, input_names: Sequence[str] | None
) -> "torch.onnx.ONNXProgram":
    """What torch makes of a module; its ``model_proto`` has the weights."""
    from archloom.tvm_backend.frontends.torch import decompositions

    inputs, experts = example_tensors(example_inputs, name), decompositions.experts()
    try:
        with (torch.no_grad(), warnings.catch_warnings(action="ignore"), quiet("torch", "onnxscript"),
              weights.filled(module)):
            exported = torch.export.export(evaluated(module), inputs)
            if any(node.target in experts for node in exported.graph.nodes):
                exported = exported.run_decompositions(experts)
            program = torch.onnx.export(exported, dynamo=True, verbose=False, input_names=input_names)
    except Exception as error:  # any converter, the module's own code, or a missing onnxscript
        raise ModelError(f"{name}: torch.onnx cannot export it: {summary(error)}") from error
    assert program is not None  # without dynamo=True it would be written to a file
    return program
