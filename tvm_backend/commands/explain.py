"""``explain``: the plan of a layer as a loop nest, with what its loops move and where its cycles go."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from archloom.oracle.fallbacks import as_field, titled
from archloom.tvm_backend.commands import Outcome, arguments, layers
from archloom.tvm_backend.compiled import Partition
from archloom.tvm_backend.progress import Progress, bar
from archloom.tvm_backend.report.data import Layer
from archloom.tvm_backend.report.table import count
from archloom.tvm_backend.targets.choice import choose

if TYPE_CHECKING:
    from archloom.mapper.mapping import Mapping
    from archloom.oracle.resolved import ResolvedStream
    from archloom.tvm_backend.targets.choice import Chosen


def register(subparsers: Any) -> None:
    parser = arguments.command(
        subparsers, "explain", run, "the loop nest of a layer: its tiles, memory traffic and cycles",
        "Bytes are those of different elements that an iteration of the loop touches: the sizes of its tiles.")
    arguments.add_model(parser)
    arguments.add_target(parser)
    layers.add_layer(parser)


def run(args: argparse.Namespace) -> Outcome:
    from archloom.tvm_backend.report.details import details
    from archloom.tvm_backend.report.nest import nest, text, to_json

    chosen = choose(args.target, arguments.target_options(args))
    with bar(quiet=args.quiet) as progress:
        partition = layers.partition(args, chosen)
        stream, layer, mapping = planned(partition, chosen, args.layer, progress)
    lines = nest(stream, layer.cycles or 0, layer.loops)
    data = {"layer": layer.name, "target": args.target, "mapping": layer.mapping, "plan": json.loads(mapping.to_json()),
            "cycles": layer.cycles, "bound_cycles": layer.bound_cycles, "nest": to_json(lines),
            **as_field(partition.fallbacks)}
    said = [_heading(layer, args.target), titled(partition.fallbacks), text(lines), details(layer)]
    return Outcome("\n\n".join(filter(None, said)), data)


def planned(whole: Partition, chosen: "Sequence[Chosen]", layer: str | None = None,
            progress: "Progress | None" = None) -> "tuple[ResolvedStream, Layer, Mapping]":
    """The stream of one of the network's layers, what its report says of it, and its mapping; only this layer is
    planned."""
    from archloom.oracle import taidl
    from archloom.oracle.resolve import resolve
    from archloom.tvm_backend.compile import plan_steps
    from archloom.tvm_backend.report.build import build

    partition, name = layers.of_layer(whole, layer, whole.name)
    plans = plan_steps(partition, chosen, progress)
    found = next(item for item in build(partition, plans, chosen).layers if item.name == name)
    stream = plans[name].stream
    return resolve(stream, taidl.load(stream.isa, **dict(stream.parameters))), found, plans[name].mapping


def _heading(layer: Layer, target: str) -> str:
    over = "" if layer.gap is None else f" ({layer.gap:.2f} times what no mapping is below)"
    return "\n".join([f"{layer.name}: {layer.op} on {target}, {count(layer.macs)} MACs, {count(layer.cycles)} cycles"
                      + over,
                      f"mapping: {layer.mapping}",
                      *(f"{name} is packed when compiled: {place}" for name, place in layer.packed.items())])
