"""Networks by name, with their sizes as parameters: ``mobilenet_v2``, ``mobilenet_v2(image=96,width=50)``; and single
operators by ONNX's names, ``Softmax(m=64,n=128)``.

Each is built from code with seeded random weights. Sizes that an architecture gives as fractions are per cent here.
"""

from __future__ import annotations

import math
import re
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from archloom.models.networks.listing import NETWORKS, Network, Sizes
from archloom.models.networks.operator_listing import OPERATORS
from archloom.models.quiet import TORCHAO, quiet
from archloom.models.spelling import Parameter, Spelling
from archloom.oracle.errors import InputError
from archloom.oracle.reading import data_bytes

if TYPE_CHECKING:
    import numpy as np
    import torch

LARGEST = 1 << 20
FLOAT_BYTES = 4
BY_NAME = {network.name: network for network in NETWORKS}
"""All networks of the catalogue."""
OPERATORS_BY_NAME = {operator.name: operator for operator in OPERATORS}
"""All single operators of the catalogue."""
_KNOWN = {**BY_NAME, **OPERATORS_BY_NAME}
TRAINED = {"digits_cnn": "a residual CNN, 98 % of digits right", "digits_vit": "a vision transformer, 95 %"}
"""Networks that are trained when they are asked for, in seconds, on scikit-learn's handwritten digits, with what they
are; both take ``image`` [1, 1, 8, 8]."""
CALIBRATION = 128
"""Images by which those are quantized."""


@dataclass(frozen=True, eq=False)
class Built:
    """A network's module in evaluation mode, with inputs to export it on, by name.

    ``samples`` gives as many inputs to quantize it by as are asked for, drawn from a seed (1 by default); those of a
    trained network are its own.
    """

    name: str
    module: "torch.nn.Module"
    inputs: "Mapping[str, torch.Tensor]"
    samples: "Callable[..., list[dict[str, np.ndarray]]]"


def is_spelled(text: object) -> bool:
    """Whether ``text`` names a network or an operator of the catalogue, with or without sizes, or a trained one."""
    match = re.fullmatch(r"\s*(\w+)\s*(?:\(.*\))?\s*", text, re.DOTALL) if isinstance(text, str) else None
    return text in TRAINED or (match is not None and match.group(1) in _KNOWN)


def parse(text: str) -> tuple[Network, dict[str, int]]:
    """``"vgg16(image=32)"`` → the network and all of its sizes; InputError for anything else."""
    name, sizes = Spelling(text, "network").read({name: parameters(known) for name, known in _KNOWN.items()})
    return _KNOWN[name], sizes


def parameters(network: Network) -> dict[str, Parameter]:
    """The sizes of a network or an operator; those whose default is 0 may be 0."""
    return {key: Parameter(size, min(size, 1), LARGEST) for key, size in network.sizes.items()}


def spelled(network: Network, sizes: Sizes) -> str:
    """The text that :func:`parse` reads as this; sizes that are the defaults are left out."""
    shown = ",".join(f"{k}={v}" for k, v in sizes.items() if v != network.sizes[k])
    return f"{network.name}({shown})" if shown else network.name


def tiny(name: str) -> str:
    """The text of the small form of a network."""
    network = BY_NAME[name]
    return spelled(network, {**network.sizes, **network.tiny})


def build(text: str, seed: int = 0) -> Built:
    """The network that ``text`` names, with seeded random weights unless it is trained."""
    if text in TRAINED:
        return _trained(text)
    network, sizes = parse(text)
    with _fitting(text), warnings.catch_warnings(action="ignore"):  # of layers without elements
        _refuse_large(text, network, sizes)
        return _built(network, sizes, seed)


def outline(text: str) -> Built:
    """The network that ``text`` names without weights: module and inputs are on torch's ``meta`` device, which keeps
    shapes alone. It has no samples."""
    import torch

    with torch.device("meta"):
        if text in TRAINED:
            module, inputs = _untrained(text), {"image": torch.empty(1, 1, 8, 8)}
        else:
            network, sizes = parse(text)
            with _fitting(text), warnings.catch_warnings(action="ignore"):  # of layers without elements
                module, text = network.module(sizes), spelled(network, sizes)
                inputs = {name: torch.empty(shape, dtype=torch.int64 if name in network.below else torch.float32)
                          for name, shape in network.inputs(sizes).items()}
    return Built(text, module.eval(), inputs, lambda *_: [])


@contextmanager
def _fitting(text: str) -> Iterator[None]:
    """What torch and transformers raise where layers do not fit each other, as an InputError."""
    try:
        with quiet(*TORCHAO):
            yield
    except (RuntimeError, ValueError, ArithmeticError, LookupError, TypeError, AssertionError) as error:
        reason = " ".join(str(error).split())[:200]
        raise InputError(f"{text}: no network has these sizes: {type(error).__name__}: {reason}") from error


def _refuse_large(text: str, network: Network, sizes: Sizes) -> None:
    """InputError for a network whose weights and inputs are more than this machine can work with."""
    module = outline(text).module
    count = sum(t.numel() for t in (*module.parameters(), *module.buffers()))
    count += sum(math.prod(shape) for shape in network.inputs(sizes).values())
    if FLOAT_BYTES * count > data_bytes():
        raise InputError(f"{text}: its weights and inputs have {FLOAT_BYTES * count:,} bytes; at most "
                         f"{data_bytes():,}, a quarter of this machine's memory, are taken")


def _built(network: Network, sizes: Sizes, seed: int) -> Built:
    """See :func:`build`."""
    import torch

    from archloom.models.networks.layers import perturbed, seeded

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)  # embeddings and other layers that torch and transformers fill themselves
        module = network.module(sizes)
    plain = not any(type(m).__module__.startswith("transformers.") for m in module.modules())
    fill = seeded if plain else perturbed

    def samples(count: int, seed: int = 1) -> "list[dict[str, np.ndarray]]":
        return [{k: v.numpy() for k, v in _draw(network, sizes, seed + i).items()} for i in range(count)]

    return Built(spelled(network, sizes), fill(module, seed), _draw(network, sizes, seed), samples)


def _untrained(name: str) -> "torch.nn.Module":
    from archloom.models import digits

    return digits.DigitsNet() if name == "digits_cnn" else digits.DigitsViT()


@cache
def _trained(name: str) -> Built:
    """A network of :data:`TRAINED`, trained once in a process."""
    import torch

    from archloom.models import data, digits

    split = data.digits()
    vit = digits.Training(epochs=20, learning_rate=3e-3, weight_decay=1e-2)
    module = digits.train(split) if name == "digits_cnn" else digits.trained(digits.DigitsViT, split, vit)
    images = [{"image": image[None]} for image in split.train_images[:CALIBRATION]]
    return Built(name, module, {"image": torch.from_numpy(images[0]["image"])}, lambda *_: images)


def _draw(network: Network, sizes: Sizes, seed: int) -> "dict[str, torch.Tensor]":
    import torch

    from archloom.models.data import random_images

    generator = torch.Generator().manual_seed(seed)
    found = {}
    for name, shape in network.inputs(sizes).items():
        below = dict(network.below).get(name)
        if below is not None:
            most = sizes[below] if isinstance(below, str) else below
            found[name] = torch.randint(most, shape, generator=generator) if most > 1 else torch.ones(
                shape, dtype=torch.int64)
        elif len(shape) == 4 and shape[1] == 3 and shape[2] == shape[3]:
            found[name] = torch.from_numpy(random_images(shape[0], shape[2], seed=seed))
        else:
            found[name] = torch.randn(shape, generator=generator)
    return found
