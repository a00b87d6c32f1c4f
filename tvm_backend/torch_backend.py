"""A backend of ``torch.compile``: each graph of a module that is used for inference, compiled for targets.

``torch.compile(module, backend="archloom", options={"target": "qkv", "dim": 8})``; entries of ``options`` beside
``target`` are the target's. Weights are constants of the network, as they were when the graph was compiled.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from archloom.oracle.errors import InputError
from archloom.tvm_backend.executable import CompiledNetwork, build, inputs_by_name
from archloom.tvm_backend.frontends.torch.export import load_module
from archloom.tvm_backend.targets.choice import spelled

GRAPHS: list[CompiledNetwork] = []
"""What this process has compiled, in order."""
DEFAULT_TARGET = "gemmini"


class _Fixed(torch.nn.Module):
    """A graph whose parameters are constants: ``constants`` by their position among its inputs."""

    def __init__(self, graph: torch.fx.GraphModule, constants: Mapping[int, torch.Tensor]) -> None:
        super().__init__()
        self.graph_module = graph
        self.positions = list(constants)
        for position, tensor in constants.items():
            self.register_buffer(f"constant_{position}", tensor.detach())

    def forward(self, *inputs: torch.Tensor) -> Any:
        given = iter(inputs)
        count = len(inputs) + len(self.positions)
        fixed = {position: getattr(self, f"constant_{position}") for position in self.positions}
        return self.graph_module(*(fixed[i] if i in fixed else next(given) for i in range(count)))


def compile_graph(
    graph: torch.fx.GraphModule, example_inputs: Sequence[Any], *, options: Mapping[str, Any] | None = None,
    mode: str | None = None,
) -> Callable[..., tuple[torch.Tensor, ...]]:
    """A function in the place of a graph, as dynamo calls backends: it gives the graph's results, without gradients.

    InputError for a graph with open dimensions, ArchloomErrors for what cannot be imported or compiled.
    """
    if mode is not None:
        raise InputError(f"torch.compile: mode: the backend has none, found {mode!r}")
    stated = dict(options or {})
    target = spelled(stated.pop("target", DEFAULT_TARGET))
    placeholders = [node for node in graph.graph.nodes if node.op == "placeholder"]
    for node, example in zip(placeholders, example_inputs, strict=True):
        if not isinstance(example, torch.Tensor):
            raise InputError(f"torch.compile: input {node.name!r} is of {type(example).__name__}, an open dimension: "
                             "expected tensors of static shapes (torch.compile(..., dynamic=False))")
    constants = {i: x for i, (node, x) in enumerate(zip(placeholders, example_inputs)) if _is_constant(node, x)}
    inputs = tuple(x.detach() for i, x in enumerate(example_inputs) if i not in constants)
    name = f"graph_{len(GRAPHS)}"
    network = build(load_module(_Fixed(graph, constants), inputs, name), target, stated)
    GRAPHS.append(network)
    names = [spec.name for spec in network.compiled.inputs]

    def run(*given: torch.Tensor) -> tuple[torch.Tensor, ...]:
        free = [x for i, x in enumerate(given) if i not in constants]
        results = network.run(inputs_by_name(names, free, {}))
        return tuple(torch.from_numpy(y) for y in results.values())

    return run


def _is_constant(node: torch.fx.Node, example: torch.Tensor) -> bool:
    """Whether an input of a graph is a parameter or a buffer of the module, which dynamo marks."""
    marked = node.meta.get("tensor_dict", {}).get("_dynamo_static_input_type") is not None
    return marked or isinstance(example, torch.nn.Parameter)
