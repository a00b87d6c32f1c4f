"""Programs that are trained when they run, or draw random numbers: refused, as each run would give another result."""

from __future__ import annotations

from typing import Any

import torch

from archloom.oracle.errors import ModelError

MODES, RATES = ("train", "training"), ("p", "dropout_p", "dropout")
"""Names that ATen gives to arguments: whether an operator is trained, and the share of numbers that it leaves out."""


def refuse_training(program: torch.export.ExportedProgram, name: str) -> None:
    """ModelError for an operator that takes the statistics of its batch in place of those that it was trained with, or
    that draws random numbers."""
    for node in program.graph.nodes:
        if isinstance(node.target, torch._ops.OpOverload) and (why := _trained(node.target, _arguments(node))):
            raise ModelError(f"{name}: node {node.name!r} ({node.target.name()}): expected a network for inference, "
                             f"found {why}: export it in evaluation mode (module.eval())")


def _arguments(node: torch.fx.Node) -> dict[str, Any]:
    """What a call of an operator is given, by names, defaults included."""
    assert isinstance(node.target, torch._ops.OpOverload)
    taken = node.target._schema.arguments
    given = {argument.name: argument.default_value for argument in taken if argument.has_default_value()}
    return given | dict(zip([argument.name for argument in taken], node.args)) | dict(node.kwargs)


def _trained(operator: Any, given: dict[str, Any]) -> str:
    """Why an operator is not as in inference; empty where it is."""
    modes = [given[name] for name in MODES if name in given]
    if torch.Tag.nondeterministic_seeded in operator.tags:
        quiet = False in modes or any(given.get(name) == 0 for name in RATES)
        return "" if quiet else "an operator that draws random numbers"
    learns = True in modes or given.get("use_input_stats")
    return "training mode" if learns and given.get("running_mean") is not None else ""
