"""The networks of the ``onnx`` package's light test data, with random weights in place of their constants.

Those files hold the true graphs of well-known networks, but every weight is one constant, so that their outputs mean
nothing. Here each weight is drawn from a seeded generator with the scale that keeps activations in range.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
from onnx import numpy_helper

from archloom.models.data import random_images

FOLDER = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"


def names() -> list[str]:
    """Networks that :func:`load` knows, such as ``"light_squeezenet"``."""
    return sorted(path.stem for path in FOLDER.glob("light_*.onnx"))


def load(name: str, seed: int = 0) -> onnx.ModelProto:
    """The network ``name``: each ``ConstantOfShape`` of a constant shape becomes an initializer of seeded random
    weights, and only the image is left as an input.

    The last Softmax is dropped, so that outputs are logits and small differences stay visible.
    """
    path = FOLDER / f"{name}.onnx"
    if not path.exists():
        raise ValueError(f"unknown network {name!r} (valid: {', '.join(names())})")
    result = onnx.load(path)
    # before version 4 every initializer had to be an input too
    result.ir_version = max(result.ir_version, 4)
    graph = result.graph
    _drop_final_softmax(graph)
    rng = np.random.default_rng(seed)
    shapes = {t.name: numpy_helper.to_array(t) for t in graph.initializer}
    roles = _roles(graph)
    kept = []
    for node in graph.node:
        if node.op_type != "ConstantOfShape" or node.input[0] not in shapes:
            kept.append(node)
            continue
        shape = tuple(int(n) for n in shapes[node.input[0]])
        value = _draw(rng, shape, roles.get(node.output[0], ("", 0)))
        graph.initializer.append(numpy_helper.from_array(value, node.output[0]))
    del graph.node[:]
    graph.node.extend(kept)
    _drop_unused(graph)
    onnx.checker.check_model(result)
    return result


def samples(model: onnx.ModelProto, count: int, seed: int = 1) -> list[dict[str, np.ndarray]]:
    """Random inputs of such a network, which takes one image."""
    (image,) = model.graph.input
    batch, channels, size, _ = (d.dim_value for d in image.type.tensor_type.shape.dim)
    return [{image.name: random_images(batch, size, channels, seed + i)} for i in range(count)]


def _drop_final_softmax(graph: onnx.GraphProto) -> None:
    for node in graph.node:
        if node.op_type == "Softmax" and node.output[0] == graph.output[0].name:
            producer = next(n for n in graph.node if node.input[0] in n.output)
            producer.output[list(producer.output).index(node.input[0])] = node.output[0]
            graph.node.remove(node)
            return


def _roles(graph: onnx.GraphProto) -> dict[str, tuple[str, int]]:
    """For each tensor the operator and operand position that it feeds, through reshapes of weights."""
    roles: dict[str, tuple[str, int]] = {}
    for node in reversed(graph.node):
        for position, name in enumerate(node.input):
            through = node.op_type in ("Unsqueeze", "Reshape") and position == 0
            roles[name] = roles.get(node.output[0], ("", 0)) if through else (node.op_type, position)
    return roles


def _fan_in(shape: tuple[int, ...]) -> int:
    return max(1, int(np.prod(shape[1:])))


# operator and operand position → (generator, shape) → values
_DRAWS: dict[tuple[str, int], Callable[[np.random.Generator, tuple[int, ...]], np.ndarray]] = {
    ("Conv", 1): lambda rng, s: rng.standard_normal(s) * np.sqrt(2 / _fan_in(s)),
    ("Gemm", 1): lambda rng, s: rng.standard_normal(s) * np.sqrt(2 / _fan_in(s)),
    ("BatchNormalization", 1): lambda rng, s: rng.uniform(0.6, 1.0, s),
    ("BatchNormalization", 3): lambda rng, s: rng.standard_normal(s) * 0.1,
    ("BatchNormalization", 4): lambda rng, s: rng.uniform(0.8, 1.25, s),
    ("Mul", 1): lambda rng, s: rng.uniform(0.8, 1.2, s),
}


def _draw(rng: np.random.Generator, shape: tuple[int, ...], role: tuple[str, int]) -> np.ndarray:
    draw = _DRAWS.get(role, lambda g, s: g.standard_normal(s) * 0.1)
    return draw(rng, shape).astype(np.float32)


def _drop_unused(graph: onnx.GraphProto) -> None:
    """Remove initializers that nothing reads any more, and graph inputs that are initializers."""
    used = {name for node in graph.node for name in node.input}
    weights = [t for t in graph.initializer if t.name in used]
    held = {t.name for t in weights}
    inputs = [i for i in graph.input if i.name in used and i.name not in held]
    for field, values in ((graph.initializer, weights), (graph.input, inputs)):
        del field[:]
        field.extend(values)
