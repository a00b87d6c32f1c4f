"""Searches: candidates a second, what bounds save, what samplers find, and what is left after kills.

``hardware``: a sweep of 1,000 Gemminis for ResNet-50, ``networks``: 1,000 random networks of ``examples.nas_space`` on
one Gemmini, ``new_networks``: as many whose layers are new, by two processes from empty caches, sampler and store
included; beside them ``estimate_many``, which has neither bounds nor a store. ``scaling``: the networks by two Dask
workers over one. ``fronts``: spaces of networks and machines of which every point is simulated, beside the search that
leaves out what bounds rule out. ``samplers``: the hypervolume after 300 candidates of the first of those spaces over
that of random search, ten seeds. ``together``: energy times delay where networks and machines vary, over those where
one of them does. ``kills``: workers and main process are killed at random times until the search is done, and its
result compared with one that was left alone; ``refusals``: stores that cannot be written. ``memory``: what one process
holds over 20,000 candidates, most of them new layers; ``network_memory``: the same over networks. Each can be run alone
(``--tasks``), and less of it (``--count`` and others).
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # this checkout, however the script is run:
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "src"))  # its benchmarks, its examples and its archloom

from benchmarks.common import arguments, finish
from benchmarks.searches import faults, quality, spaces, speeds

WORKERS = 2
TASKS: Mapping[str, Callable[[argparse.Namespace], dict[str, Any]]] = {
    "hardware": lambda args: speeds.hardware(args.count, args.seed, WORKERS),
    "networks": lambda args: speeds.networks(args.count, args.seed, WORKERS),
    "new_networks": lambda args: speeds.new_networks(args.count, args.seed, WORKERS),
    "scaling": lambda args: speeds.scaling(args.count, args.seed, WORKERS),
    "fronts": lambda args: spaces.fronts(_words(args.spaces), WORKERS),
    "samplers": lambda args: quality.samplers(_words(args.samplers), args.seeds, args.seed),
    "together": lambda args: quality.together(args.trials, args.seeds, args.seed, WORKERS),
    "kills": lambda args: faults.kills(args.kills, args.seed, WORKERS),
    "refusals": lambda args: faults.refusals(WORKERS),
    "memory": lambda args: speeds.memory(args.candidates, args.seed),
    "network_memory": lambda args: speeds.network_memory(args.candidates, args.seed),
}


def _words(text: str) -> list[str]:
    return text.split(",")


def main() -> None:
    args = arguments(__doc__ or "", _more, seeded=True)
    found: dict[str, Any] = {}
    for name in _words(args.tasks):
        with speeds.empty_cache():
            found |= TASKS[name](args)
        print(json.dumps(found), flush=True)
    finish(args, found)


def _more(parser: argparse.ArgumentParser) -> None:
    def add(name: str, default: Any, about: str) -> None:
        parser.add_argument(f"--{name}", type=type(default), default=default, help=f"{about} (default {default})")

    add("tasks", ",".join(TASKS), "what is measured")
    add("count", 1000, "candidates of speeds")
    add("spaces", ",".join(spaces.SPACES), "of fronts")
    add("samplers", ",".join(quality.SAMPLERS), "beside random search")
    add("seeds", 10, "of samplers and of searches of networks and machines together")
    add("trials", 100, "of searches of networks and machines together")
    add("kills", 50, "by SIGKILL")
    add("candidates", 20_000, "over which memory is watched")


if __name__ == "__main__":
    main()
