"""Weights of torch networks that nothing reads: one number in place of what is on ``meta``, inputs in programs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.export.graph_signature import InputKind, InputSpec

from archloom.tvm_backend.ir.conversion import WEIGHT_ELEMENTS

_Held = tuple[dict[str, Any], str, torch.Tensor]
"""Where a tensor is held, under which name, and the tensor."""


def are_known(module: torch.nn.Module) -> bool:
    """Whether no tensor of a module is on ``meta``, where torch keeps shapes alone."""
    return not _on_meta(module)


@contextmanager
def filled(module: torch.nn.Module) -> Iterator[None]:
    """While it lasts, a module has numbers in place of its tensors on ``meta``: one each, seen in its shape, so that it
    can be exported together with tensors of a device that exists."""
    held = _on_meta(module)
    made: dict[int, torch.Tensor] = {}
    for holder, name, tensor in held:
        if id(tensor) not in made:  # tensors that are shared stay so
            made[id(tensor)] = _filled(tensor, len(made))
        holder[name] = made[id(tensor)]
    try:
        yield
    finally:
        for holder, name, tensor in held:
            holder[name] = tensor


def without(program: torch.export.ExportedProgram) -> frozenset[str]:
    """Make inputs of a program's weights, whose numbers TVM's importer would copy; their names."""
    specs, tensors = program.graph_signature.input_specs, {**program.constants, **program.state_dict}
    names = set()
    for position, spec in enumerate(specs):
        tensor = tensors.get(spec.target or "")
        if isinstance(tensor, torch.Tensor) and _is_weight(tensor):
            specs[position] = InputSpec(InputKind.USER_INPUT, spec.arg, None)
            program.constants.pop(spec.target or "", None)
            names.add(spec.arg.name)
    return frozenset(names)


def _is_weight(tensor: torch.Tensor) -> bool:
    """Floats, and what :func:`filled` made; numbers of other types may be indices, which shapes depend on."""
    return tensor.numel() > WEIGHT_ELEMENTS and (tensor.is_floating_point() or not any(tensor.stride()))


def _on_meta(module: torch.nn.Module) -> list[_Held]:
    holders = (holder for part in module.modules() for holder in (part._parameters, part._buffers, vars(part)))
    return [(holder, name, tensor) for holder in holders for name, tensor in holder.items()
            if isinstance(tensor, torch.Tensor) and tensor.is_meta]


def _filled(tensor: torch.Tensor, position: int) -> torch.Tensor:
    """Zeros of integers, which may be indices. Floats differ from each other, and from 0 and 1, lest torch.onnx takes
    them for one tensor, or for one that does nothing."""
    number = torch.full((), position + 2 if tensor.is_floating_point() else 0, dtype=tensor.dtype)
    values = number.expand(tensor.shape)
    return torch.nn.Parameter(values, requires_grad=False) if isinstance(tensor, torch.nn.Parameter) else values
