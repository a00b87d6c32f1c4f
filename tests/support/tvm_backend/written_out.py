"""Random ONNX networks that write things out: functions in arithmetic, the same twice, factors behind convolutions."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import TypeAlias

import numpy as np
import onnx

from tests.support.tvm_backend.networks import Net

ROWS, COLUMNS, CHANNELS = 4, 8, 4
Part: TypeAlias = Callable[[Net, str, str, Random], str]
"""Adds operators behind a tensor, called by a name; gives their result, of the tensor's shape."""


def _once(net: Net, name: str, value: object, dtype: type = np.float32) -> str:
    return name if any(t.name == name for t in net.constants) else net.constant(name, value, dtype)


def dense(net: Net, x: str, name: str, random: Random) -> str:
    """By a weight and a bias of its own, or those of others."""
    own = random.choice((f"{name}.", "shared."))
    weight = _once(net, f"{own}w", net.rng.standard_normal((COLUMNS, COLUMNS)))
    return net.node("Gemm", [x, weight, _once(net, f"{own}b", net.rng.standard_normal(COLUMNS))], name)


def gelu(net: Net, x: str, name: str, random: Random) -> str:
    root, half = net.constant(f"{name}.root", np.sqrt(2)), net.constant(f"{name}.half", 0.5)
    wave = net.node("Erf", [net.node("Div", [x, root], f"{name}.inner")], f"{name}.erf")
    factors = [x, half, net.node("Add", [wave, net.constant(f"{name}.one", 1)], f"{name}.wave")]
    random.shuffle(factors)
    product = net.node("Mul", factors[:2], f"{name}.first")
    return net.node("Mul", random.sample([product, factors[2]], 2), name)


def layer_norm(net: Net, x: str, name: str, random: Random) -> str:
    axes, two = net.constant(f"{name}.axes", [-1], np.int64), net.constant(f"{name}.two", 2)
    centred = net.node("Sub", [x, net.node("ReduceMean", [x, axes], f"{name}.mean")], f"{name}.centred")
    square = net.node(*random.choice((("Mul", [centred, centred]), ("Pow", [centred, two]))), f"{name}.square")
    variance = net.node("ReduceMean", [square, axes], f"{name}.variance")
    added = net.node("Add", [variance, net.constant(f"{name}.e", 1e-4)], f"{name}.added")
    normal = net.node("Div", [centred, net.node("Sqrt", [added], f"{name}.root")], f"{name}.normal")
    gamma, beta = (net.constant(f"{name}.{key}", net.rng.standard_normal(COLUMNS)) for key in ("gamma", "beta"))
    return net.node("Add", [net.node("Mul", [gamma, normal], f"{name}.scaled"), beta], name)


def shapes(net: Net, x: str, name: str, random: Random) -> str:
    """Several new shapes one after the other, of which one may be read elsewhere, too."""
    middle = random.choice(([2, 16], [1, 4, 8], [32, 1]))
    first = net.node("Reshape", [x, net.constant(f"{name}.dims", middle, np.int64)], f"{name}.first")
    flat = net.node("Flatten", [first], f"{name}.flat", axis=1)
    back = net.node("Reshape", [flat, net.constant(f"{name}.back", [ROWS, COLUMNS], np.int64)], name)
    again = net.node("Reshape", [first, f"{name}.back"], f"{name}.again")
    return net.node("Sub", [back, net.node("Tanh", [again], f"{name}.tanh")], f"{name}.sub") if random.random() < 0.5 \
        else back


def twice(net: Net, x: str, name: str, random: Random) -> str:
    """The same of the same, computed twice."""
    operator = random.choice(("Tanh", "Sigmoid", "Softplus"))
    return net.node("Add", [net.node(operator, [x], f"{name}.{i}") for i in range(2)], name)


def masked(net: Net, x: str, name: str, random: Random) -> str:
    zero = net.constant(f"{name}.zero", 0)
    low = net.node("Not", [net.node("Less", [x, zero], f"{name}.less")], f"{name}.not")
    return net.node("Where", random.choice(([low, x, zero], [low, zero, x])), name)


def convolution(net: Net, x: str, name: str, random: Random) -> str:
    """Of an image, with factors, summands and normalizations behind it."""
    weight = net.constant(f"{name}.w", net.rng.standard_normal((CHANNELS, CHANNELS, 3, 3)) / 4)
    bias = [_once(net, "image.b", net.rng.standard_normal(CHANNELS))] if random.random() < 0.5 else []
    x = net.node("Conv", [x, weight, *bias], name, pads=[1, 1, 1, 1])
    for number in range(random.randint(0, 3)):
        label = f"{name}.{number}"
        dims = random.choice(((), (CHANNELS, 1, 1), (1, CHANNELS, 1, 1), (6, 6), (1, 1, 1)))
        if random.random() < 0.25:
            row = [net.constant(f"{label}.{i}", net.rng.random(CHANNELS) + 0.5) for i in range(4)]
            x = net.node("BatchNormalization", [x, *row], label)
        else:
            factor = net.constant(f"{label}.c", net.rng.random(dims) + 0.5)
            x = net.node(random.choice(("Mul", "Add")), [x, factor], label)
    return net.node("Relu", [x], f"{name}.relu") if random.random() < 0.5 else x


def padded_maxima(net: Net, x: str, name: str, random: Random) -> str:
    """Windows over an image with zeros around it, which are among the numbers that are compared."""
    pads = net.constant(f"{name}.pads", [0, 0, 1, 1, 0, 0, 1, 1], np.int64)
    padded = net.node("Pad", [x, pads], f"{name}.padded")
    return net.node("MaxPool", [padded], name, kernel_shape=[3, 3])


OF_ROWS: tuple[Part, ...] = (dense, gelu, layer_norm, shapes, twice, masked)
OF_IMAGES: tuple[Part, ...] = (convolution, padded_maxima)


def network(random: Random) -> onnx.ModelProto:
    """Parts one after the other between products, on rows ``x`` and an image ``i``."""
    net = Net(random.randint(0, 99))
    x, i = net.input("x", ROWS, COLUMNS), net.input("i", 1, CHANNELS, 6, 6)
    for number, part in enumerate((dense, *random.choices(OF_ROWS, k=3), dense)):
        x = part(net, x, f"{part.__name__}{number}", random)
    for number, part in enumerate((convolution, *random.choices(OF_IMAGES, k=1))):
        i = part(net, i, f"{part.__name__}{number}", random)
    return net.model(x, i, opset=20)
