"""Five networks on ``mte``: the oracle's results layer by layer beside the interpreter's, its time beside plain JAX.

Values are compared at small sizes, layer by layer, by what ``archloom check`` does: the interpreter takes instructions
one by one. Times are of whole networks: the oracle's programs of their streams, and the same operators in JAX, jitted
as one function. Each network has processes of its own, which are ended when they are ``LATE``.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # this checkout, however the script is run:
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "src"))  # its benchmarks, its examples and its archloom

from benchmarks.common import arguments, finish, forked, interleaved, refuse

OPTIONS = {"architecture": "mte32s"}
NETWORKS = {
    "SqueezeNet": ("squeezenet(image=32)", "squeezenet"),
    "Inception": ("inception_v3(image=75)", "inception_v3"),
    "ResNet50": ("resnet50(image=32)", "resnet50"),
    "BERT": ("bert_base(length=8,layers=1,vocabulary=512)", "bert_base(length=128)"),
    "GPT-2": ("gpt2(length=8,layers=1,vocabulary=512)", "gpt2(length=128)"),
}
"""By the paper's names: for values, and for times (those of ``mte_networks``)."""
LATE = 600
"""Seconds for each of the two."""
UNBOUNDED = 1 << 62
"""Instructions of a layer: the bound is that of time."""


def values(network: str) -> dict[str, Any]:
    """How many layers there are, and of how many the oracle's result is bit for bit the interpreter's."""
    import archloom

    found = archloom.check(network, "mte", OPTIONS, most_instructions=UNBOUNDED, quiet=True)
    return {"layers": len(found.layers), "equal": sum(layer.as_interpreted for layer in found.layers),
            "unequal": [layer.name for layer in found.layers if not layer.as_interpreted]}


def times(network: str, seed: int) -> dict[str, Any]:
    """Seconds of the oracle and of plain JAX, and how far results lie apart, of their largest magnitude."""
    import jax

    import archloom
    from archloom.tvm_backend import samples
    from archloom.tvm_backend.host.network import whole
    from archloom.tvm_backend.sources.source import Source

    model = Source.of(network).load_for("mte")
    compiled, native = archloom.compile(model, "mte", OPTIONS, quiet=True), whole(model.module["main"])
    compiled.prepare()
    inputs = samples.random(model.inputs, 1, seed)[0]
    given = list(inputs.values())
    mine = [np.asarray(y) for y in compiled.run(inputs).values()]
    theirs = [np.asarray(y) for y in native(given)]
    apart = max(float(np.abs(x - y.reshape(x.shape)).max() / np.abs(y).max())
                for x, y in zip(mine, theirs, strict=True))
    oracle, plain = interleaved([lambda: compiled.run(inputs), lambda: jax.block_until_ready(native(given))])
    return {"oracle_ms": oracle * 1e3, "native_ms": plain * 1e3, "over_native": oracle / plain, "apart": apart,
            "loops": len(compiled.fallbacks)}


def more(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("networks", nargs="*", metavar="NETWORK",
                        help=f"of {', '.join(NETWORKS)} (default: all), or NAME=NETWORK for one of other sizes")


def measured(small: str, whole: str, seed: int) -> dict[str, Any]:
    """One network's row; ``late``: what did not end in time, or failed."""
    row: dict[str, Any] = {"layers": 0, "equal": 0, "over_native": None, "late": []}
    for what, call in (("values", lambda: values(small)), ("times", lambda: times(whole, seed))):
        found = forked(call, LATE)
        if found.status:
            row["late"].append(what)
        else:
            row |= found.last_json
    return row


def main() -> None:
    args = arguments(__doc__ or "", more, seeded=True)
    asked: dict[str, tuple[str, str]] = {}
    for name, *sizes in (each.split("=", 1) for each in args.networks):
        if name not in NETWORKS and not sizes:
            refuse(f"expected networks of {', '.join(NETWORKS)}, found {name}")
        asked[name] = (sizes[0], sizes[0]) if sizes else NETWORKS[name]
    rows: dict[str, dict[str, Any]] = {}
    for name, (small, whole) in (asked or NETWORKS).items():
        rows[name] = row = measured(small, whole, args.seed)
        print(f"{name:12} {row['equal']} of {row['layers']} layers as interpreted, over JAX {row['over_native']}, "
              f"not in time: {', '.join(row['late']) or 'none'}", flush=True)
    ratios = [row["over_native"] for row in rows.values() if row["over_native"]]
    layers = sum(row["layers"] for row in rows.values())
    finish(args, {
        "networks": rows, "layers": layers, "equal": sum(row["equal"] for row in rows.values()) / max(1, layers),
        "late": sum(bool(row["late"]) for row in rows.values()),
        "worst_apart": max((row["apart"] for row in rows.values() if "apart" in row), default=None),
        "worst_over_native": max(ratios, default=None),
        "mean_over_native": statistics.geometric_mean(ratios) if ratios else None})


if __name__ == "__main__":
    main()
