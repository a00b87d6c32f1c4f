"""Changes of sound inputs: of bytes, of texts, of JSON, of ONNX networks, of archives; each by random numbers."""

from __future__ import annotations

import io
import json
import re
import zipfile
from collections.abc import Callable, Mapping
from copy import deepcopy
from random import Random
from typing import Any

import onnx

NUMBERS: tuple[Any, ...] = (
    0, 1, -1, 2, 3, 7, 255, 256, -128, 1 << 16, 1 << 31, (1 << 31) - 1, -(1 << 31), 1 << 40, (1 << 63) - 1, -(1 << 63),
    1 << 64, 10**30, 0.5, -0.0, 1e-45, 1e308, float("inf"), float("-inf"), float("nan"))
VALUES: tuple[Any, ...] = (
    *NUMBERS, None, True, False, "", "x", "a" * 3000, "\0", "\ud800", "../../etc/passwd", [], {}, [[]], [None], {"": 0})
WORDS = ("(", ")", "[", "]", "{", "}", "<", ">", ",", "=", ":", ";", "%", "$", "#", "\"", "->", "..", "\n", "\0", "é",
         "9" * 5000, "0x", "1e999999", "-", "--", "x" * 2000, "(" * 300, "{" * 300, "nan", "inf", "9223372036854775808")
_TOKEN = re.compile(r"\w+|\s+|[^\w\s]")
FIELDS = ("axis", "group", "strides", "pads", "perm", "to", "keepdims", "kernel_shape", "dilations", "mode", "value")
OPERATORS = ("Relu", "If", "Loop", "Reshape", "Conv", "MatMul", "Softmax", "BatchNormalization", "Dropout", "Mod",
             "Gather", "Slice", "Resize", "Pad", "LayerNormalization", "TopK", "Einsum", "Cast", "Attention", "LSTM")


def changed_bytes(rng: Random, content: bytes) -> bytes:
    """With one to eight places changed, removed, repeated or filled in."""
    found = bytearray(content)
    for _ in range(rng.randint(1, 8)):
        at, length = rng.randrange(len(found) + 1), rng.choice((0, 1, 1, 2, 4, 16))
        if rng.random() < 0.05:
            del found[at:]
        elif rng.random() < 0.2:
            found[at:at] = found[at:at + 64]
        else:
            found[at:at + length] = bytes(rng.randrange(256) for _ in range(rng.choice((0, length, length, 4))))
    return bytes(found)


def changed_text(rng: Random, text: str) -> str:
    """With one to four words replaced, removed, repeated or moved."""
    words: list[str] = _TOKEN.findall(text)
    for _ in range(rng.randint(1, 4)):
        at, kind = rng.randrange(len(words) + 1), rng.random()
        if kind < 0.35:
            words[at:at + 1] = [rng.choice((*WORDS, *map(str, NUMBERS)))]
        elif kind < 0.5:
            del words[at:at + rng.randint(1, 8)]
        elif kind < 0.75:
            words[at:at] = words[at:at + rng.randint(1, 40)] * rng.choice((1, 1, 2, 100))
        elif words:
            words[at:at] = [rng.choice(words)]
    return "".join(words)


def changed_json(rng: Random, content: bytes) -> bytes:
    """With one to three values replaced, removed or repeated, anywhere inside."""
    root = [json.loads(content)]
    for _ in range(rng.randint(1, 3)):
        holder, key = _place(rng, root)
        kind = rng.random()
        if kind < 0.6:
            holder[key] = deepcopy(rng.choice(VALUES))  # a later change may be inside it
        elif kind < 0.8 and holder is not root:
            del holder[key]
        elif isinstance(holder[key], list):
            holder[key] = holder[key] * rng.choice((2, 3, 50))
        else:
            holder[key] = [holder[key]]
    return json.dumps(root[0]).encode()


def _place(rng: Random, root: Any) -> tuple[Any, Any]:
    """A list or an object somewhere inside, and an index or a key of it."""
    holder, key = root, 0
    while isinstance(holder[key], dict | list) and holder[key] and rng.random() < 0.85:
        holder = holder[key]
        key = rng.choice(list(holder) if isinstance(holder, dict) else range(len(holder)))
    return holder, key


def changed_network(rng: Random, network: onnx.ModelProto) -> onnx.ModelProto:
    """With one to three fields changed."""
    copy = onnx.ModelProto()
    copy.CopyFrom(network)
    for _ in range(rng.randint(1, 3)):
        try:
            rng.choice(_spots(rng, copy))()
        except (IndexError, ValueError, TypeError):  # the field is not there any more, or takes no such value
            continue
    return copy


def _spots(rng: Random, made: onnx.ModelProto) -> list[Callable[[], object]]:
    """What can be changed of a network."""
    graph, text = made.graph, lambda: rng.choice(("", "x", "w", "y", "s", "none", "a" * 300))
    number = lambda: rng.choice((*(n for n in NUMBERS if isinstance(n, int)), rng.randint(-3, 300)))  # noqa: E731
    spots: list[Callable[[], object]] = [
        lambda: setattr(made, "ir_version", number()), lambda: setattr(made.opset_import[0], "version", number()),
        lambda: setattr(made.opset_import[0], "domain", text()), lambda: graph.node.extend(list(graph.node)),
        lambda: graph.ClearField("output"), lambda: graph.node.reverse(),
    ]
    for node in graph.node:
        spots += [
            lambda n=node: setattr(n, "op_type", rng.choice(OPERATORS)), lambda n=node: n.input.append(text()),
            lambda n=node: n.input.pop(), lambda n=node: n.output.append(text()),
            lambda n=node: n.attribute.add(name=rng.choice(FIELDS), type=rng.choice((1, 2, 6, 7)), i=number(), f=0.5,
                                           ints=[number() for _ in range(rng.randrange(5))]),
        ]
        spots += [lambda a=a: setattr(a, "i", number()) for a in node.attribute]
        spots += [lambda a=a: a.ints.append(number()) for a in node.attribute]
    for info in (*graph.input, *graph.output):
        kind = info.type.tensor_type
        spots += [
            lambda k=kind: setattr(k, "elem_type", rng.randint(-1, 40)),
            lambda k=kind: k.shape.dim.add(dim_value=number()),
            lambda k=kind: setattr(k.shape.dim[0], "dim_value", number()),
            lambda k=kind: setattr(k.shape.dim[0], "dim_param", text()),
        ]
    for constant in graph.initializer:
        spots += [
            lambda c=constant: setattr(c, "data_type", rng.randint(-1, 40)), lambda c=constant: c.dims.append(number()),
            lambda c=constant: setattr(c, "raw_data", rng.randbytes(rng.randrange(80))),
            lambda c=constant: setattr(c, "name", text()),
        ]
    return spots


def unpacked(content: bytes) -> dict[str, bytes]:
    """The files of a zip."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def packed(files: Mapping[str, bytes]) -> bytes:
    """A zip that stores files as they are."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return out.getvalue()


def changed_file(rng: Random, files: Mapping[str, bytes]) -> dict[str, bytes]:
    """With one file changed, by its kind, or left out."""
    name = rng.choice(sorted(files))
    rest = {other: data for other, data in files.items() if other != name}
    if rng.random() < 0.05:
        return rest
    as_json = name.endswith(".json") and rng.random() < 0.85
    return {**rest, name: (changed_json if as_json else changed_bytes)(rng, files[name])}
