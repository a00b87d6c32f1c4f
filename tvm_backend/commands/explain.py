"""``explain``: the plan of a layer as a loop nest, with what its loops move and where its cycles go."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from archloom.oracle.errors import InputError
from archloom.tvm_backend.commands import Outcome, arguments
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
    parser.add_argument("--int8", "--as-int8", dest="as_int8", action="store_true",
                        help="take a float network as if it were quantized to int8, without calibration")
    parser.add_argument("--layer", metavar="NAME", help="the layer of the network that is meant (archloom estimate)")


def run(args: argparse.Namespace) -> Outcome:
    from archloom.tvm_backend.report.details import details
    from archloom.tvm_backend.report.nest import nest, text, to_json

    chosen = choose(args.target, arguments.target_options(args))
    with bar(quiet=args.quiet) as progress:
        stream, layer, mapping = planned(_partition(args, chosen), chosen, args.layer, progress)
    lines = nest(stream, layer.cycles or 0, layer.loops)
    data = {"layer": layer.name, "target": args.target, "mapping": layer.mapping, "plan": json.loads(mapping.to_json()),
            "cycles": layer.cycles, "bound_cycles": layer.bound_cycles, "nest": to_json(lines)}
    return Outcome("\n\n".join([_heading(layer, args.target), text(lines), details(layer)]), data)


def _partition(args: argparse.Namespace, chosen: "Sequence[Chosen]") -> Partition:
    """The network's partition, without its weights where an estimate needs none."""
    from archloom.tvm_backend.compile import partition_among
    from archloom.tvm_backend.estimate.network import Request
    from archloom.tvm_backend.estimate.partition import partition_of

    arguments.scheme(args)  # which refuses what does not go together
    asked = Request(args.target, arguments.target_options(args), as_int8=args.as_int8)
    found = None if args.calibrate is not None else partition_of(arguments.source(args), asked)
    if found is None and args.as_int8:
        raise InputError(f"{args.model}: --int8: expected a network that is read without its weights, found one that "
                         "is not; --calibrate FILE quantizes it")
    return partition_among(arguments.load_model(args), chosen) if found is None else found


def planned(whole: Partition, chosen: "Sequence[Chosen]", layer: str | None = None,
            progress: "Progress | None" = None) -> "tuple[ResolvedStream, Layer, Mapping]":
    """The stream of one of the network's layers, what its report says of it, and its mapping; only this layer is
    planned."""
    from archloom.oracle import taidl
    from archloom.oracle.resolve import resolve
    from archloom.tvm_backend.compile import plan_steps
    from archloom.tvm_backend.report.build import build

    name = arguments.layer_of(whole.name, [step.name for step in whole.steps()], layer)
    partition = only(whole, name)
    plans = plan_steps(partition, chosen, progress)
    found = next(item for item in build(partition, plans, chosen).layers if item.name == name)
    stream = plans[name].stream
    return resolve(stream, taidl.load(stream.isa, **dict(stream.parameters))), found, plans[name].mapping


def only(partition: Partition, name: str) -> Partition:
    """The partition with one of its steps."""
    regions = [replace(region, steps=tuple(s for s in region.steps if s.name == name)) for region in partition.regions]
    return replace(partition, regions=tuple(region for region in regions if region.steps))


def _heading(layer: Layer, target: str) -> str:
    over = "" if layer.gap is None else f" ({layer.gap:.2f} times what no mapping is below)"
    return "\n".join([f"{layer.name}: {layer.op} on {target}, {count(layer.macs)} MACs, {count(layer.cycles)} cycles"
                      + over,
                      f"mapping: {layer.mapping}",
                      *(f"{name} is packed when compiled: {place}" for name, place in layer.packed.items())])
