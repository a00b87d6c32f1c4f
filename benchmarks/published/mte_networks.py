"""Figure 8 of the MTE paper: whole networks on three architectures, all operators on the core, ours beside its figures.

Speedups over ``mte8s``, and the share of cycles that products (with the convolutions that are such) take there. The
paper names versions of packages and tasks, no sizes: images are those of its classifiers, one at a time, and texts have
128 tokens for BERT (a sentence with a masked word) and GPT-2 (a prompt, its first step).
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # this checkout, however the script is run:
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "src"))  # its benchmarks, its examples and its archloom

import archloom
from benchmarks.common import ROOT, arguments, finish, refuse

NETWORKS = {"SqueezeNet": "squeezenet", "Inception": "inception_v3", "ResNet50": "resnet50",
            "BERT": "bert_base(length=128)", "GPT-2": "gpt2(length=128)"}
"""The paper's names and the project's."""
ARCHITECTURES = {"MTE8s": "mte8s", "MTE32v": "mte32v", "MTE32s": "mte32s"}
"""The first is what the others are compared with."""
PAPER: Mapping[str, Any] = json.loads((ROOT / "benchmarks" / "data" / "mte.json").read_text("utf-8"))[
    "speedups_of_networks_over_mte8s"]


def estimated(network: str) -> dict[str, Any]:
    """Of a network by its name here: cycles on each architecture, the share of layers that multiply and add in percent,
    what is left."""
    found: dict[str, Any] = {}
    for paper, architecture in ARCHITECTURES.items():
        report = archloom.estimate(network, target="mte", options={"architecture": architecture})
        mine = [layer for layer in report.layers if layer.where == "accelerator"]
        products = sum(layer.cycles or 0 for layer in mine if layer.macs)
        found[paper] = {
            "cycles": report.accelerator_cycles, "products": 100 * products / report.accelerator_cycles,
            "left": sorted({layer.op for layer in report.host if layer.op != "reshape"})}
    return found


def compared(found: Mapping[str, Mapping[str, Any]], paper: Mapping[str, float]) -> dict[str, Any]:
    """One network's speedups and share beside the paper's; ``error`` is ours less the paper's."""
    base, *others = ARCHITECTURES
    made: dict[str, Any] = {}
    for name in others:
        ours = found[base]["cycles"] / found[name]["cycles"]
        made[name] = {"ours": ours, "paper": paper[name], "error": ours - paper[name]}
    share, said = found[base]["products"], paper["kernel_share_percent"]
    return {**made, "products": {"ours": share, "paper": said, "error": share - said}}


def more(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("networks", nargs="*", metavar="NETWORK",
                        help=f"of {', '.join(NETWORKS)} (default: all), or NAME=NETWORK for one of other sizes")


def main(args: argparse.Namespace) -> None:
    asked = dict(each.split("=", 1) if "=" in each else (each, NETWORKS.get(each, "")) for each in args.networks)
    if unknown := {*asked} - {*NETWORKS}:
        refuse(f"expected networks of {', '.join(NETWORKS)}, found {', '.join(sorted(unknown))}")
    rows, counted = {}, {}
    for name, network in (asked or NETWORKS).items():
        counted[name] = estimated(network)
        rows[name] = compared(counted[name], PAPER[name])
        for of, row in rows[name].items():
            print(f"{name:12} {of:10} {row['ours']:8.2f} {row['paper']:8.2f} {row['error']:+8.2f}", flush=True)
    speedups = [abs(rows[name][of]["error"]) for name in rows for of in list(ARCHITECTURES)[1:]]
    finish(args, {"networks": rows, "counted": counted, "worst": max(speedups),
                  "mean": sum(speedups) / len(speedups),
                  "worst_share": max(abs(row["products"]["error"]) for row in rows.values()),
                  "left": len({op for each in counted.values() for one in each.values() for op in one["left"]})})


if __name__ == "__main__":
    main(arguments(__doc__ or "", more))
