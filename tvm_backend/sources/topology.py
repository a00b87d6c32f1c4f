"""Tables of layers as networks: SCALE-Sim's topologies, and lists of matrix products (M, N, K a line).

A file has comma-separated values. With a head that names ``M``, ``N`` and ``K`` (in any order), or none and three
numbers a line, layers are products; with SCALE-Sim's head, convolutions without padding. A first column that is no
number is the layer's name.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import onnx
from onnx import helper

from archloom.oracle.errors import InputError
from archloom.oracle.reading import TEXT_BYTES, read_bytes
from archloom.tvm_backend.ir.numbers import Numbers
from archloom.tvm_backend.sources.operator_network import onnx_model
from archloom.tvm_backend.sources.operators import Operator, parse

PRODUCT = {"m": "m", "n": "n", "k": "k"}
CONVOLUTION = {"ifmap height": "h", "ifmap width": "w", "filter height": "k", "filter width": "kw", "channels": "c",
               "num filter": "o", "strides": "stride"}
"""Sizes of an operator by the heads of their columns."""

Layer = tuple[str, Operator]


def layers(path: Path) -> list[Layer]:
    """The layers of a file, with names of their own; InputError with the line of what is wrong."""
    try:
        text = read_bytes(path, TEXT_BYTES).decode("utf-8")
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: expected text, {error}") from error
    rows = [(number, [cell.strip() for cell in row]) for number, row in enumerate(csv.reader(text.splitlines()), 1)]
    rows = [(number, cells[:-1] if not cells[-1] else cells) for number, cells in rows if any(cells)]
    found = list(_read(path, rows))
    if not found:
        raise InputError(f"{path}: expected a layer in each line, found none")
    return found


def _read(path: Path, rows: Sequence[tuple[int, list[str]]]) -> Iterator[Layer]:
    columns: Mapping[int, str] | None = None
    names: dict[str, int] = {}
    for number, cells in rows:
        if columns is None:
            columns = _columns(cells, f"{path}:{number}")
            if not any(map(str.isdecimal, cells)):  # a head
                continue
        name = f"layer{len(names)}" if cells[0].isdecimal() else cells[0]
        names[name] = names.get(name, 0) + 1
        yield name if names[name] == 1 else f"{name}.{names[name]}", _operator(cells, columns, f"{path}:{number}")


def _columns(cells: list[str], where: str) -> Mapping[int, str]:
    """Which column has which size: by a head, or M, N, K after the name."""
    if any(map(str.isdecimal, cells)):
        first = 0 if cells[0].isdecimal() else 1
        return dict(enumerate("mnk", first))
    heads = [" ".join(cell.lower().split()) for cell in cells]
    for known in (PRODUCT, CONVOLUTION):
        if set(known) <= set(heads):
            return {heads.index(head): size for head, size in known.items()}
    raise InputError(f"{where}: expected columns {', '.join(PRODUCT).upper()}, or SCALE-Sim's "
                     f"{', '.join(CONVOLUTION)}; found {', '.join(cells)}")


def _operator(cells: list[str], columns: Mapping[int, str], where: str) -> Operator:
    if len(cells) <= max(columns):
        raise InputError(f"{where}: expected {max(columns) + 1} columns, found {len(cells)}")
    sizes = ",".join(f"{size}={cells[column]}" for column, size in columns.items())
    try:
        return parse(f"{'gemm' if 'm' in columns.values() else 'conv2d'}({sizes})")
    except InputError as error:
        raise InputError(f"{where}: {error}") from error


def network(found: Sequence[Layer], name: str, numbers: Numbers) -> onnx.ModelProto:
    """A network of layers side by side, each with inputs and a result of its own."""
    parts = [onnx.compose.add_prefix(onnx_model(operator, numbers=numbers), f"{layer}/") for layer, operator in found]
    graph = helper.make_graph(
        [node for part in parts for node in part.graph.node], name, [i for part in parts for i in part.graph.input],
        [o for part in parts for o in part.graph.output], [t for part in parts for t in part.graph.initializer])
    return helper.make_model(graph, opset_imports=parts[0].opset_import, producer_name="archloom",
                             ir_version=parts[0].ir_version)
