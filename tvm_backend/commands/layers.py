"""One layer of a network, for commands that plan it alone: the network as estimates read it."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from archloom.oracle.errors import InputError
from archloom.tvm_backend.commands import arguments
from archloom.tvm_backend.compiled import Partition

if TYPE_CHECKING:
    from archloom.tvm_backend.targets.choice import Chosen


def add_layer(parser: argparse.ArgumentParser) -> None:
    arguments.add_int8(parser)
    parser.add_argument("--layer", metavar="NAME", help="the layer of the network that is meant (archloom estimate)")


def partition(args: argparse.Namespace, chosen: "Sequence[Chosen]") -> Partition:
    """The network's partition, without its weights where an estimate needs none; a fallback of it says that it needs
    them."""
    from archloom.tvm_backend.compile import partition_among
    from archloom.tvm_backend.estimate.partition import partition_of
    from archloom.tvm_backend.estimate.request import Request

    arguments.scheme(args)  # which refuses what does not go together
    asked = Request(args.target, arguments.target_options(args), as_int8=args.as_int8)
    found = None if args.calibrate is not None else partition_of(arguments.source(args), asked)
    if isinstance(found, Partition):
        return found
    if args.as_int8:
        why = "" if found is None else f": {found.why}"
        raise InputError(f"{args.model}: --int8: expected a network that is read without its weights, found one that "
                         f"is not{why}; --calibrate FILE quantizes it")
    whole = partition_among(arguments.load_model(args), chosen)
    return whole if found is None else replace(whole, fallbacks=(*whole.fallbacks, found))


def of_layer(whole: Partition, asked: str | None, where: str) -> tuple[Partition, str]:
    """The partition with one of its steps, and the name of that; InputError for a layer that is not there."""
    name = arguments.layer_of(where, [step.name for step in whole.steps()], asked)
    regions = [replace(region, steps=tuple(s for s in region.steps if s.name == name)) for region in whole.regions]
    return replace(whole, regions=tuple(region for region in regions if region.steps)), name
