"""Machines of one's own (``examples/targets``): small networks in three kinds of quantization, and two layers' bounds.

A machine is a ``.taidl`` and a ``.py`` file; ``lines`` counts those that are not blank. A network is equal if every
layer gives what the machine's own formula makes of its operator in integers, to the last bit, and that is within a step
of onnxruntime's rounding. ``over_bound`` is the cycles of the worse of a product of 512 x 512 x 512 and a 3 x 3
convolution of 64 channels, over those that the machine's peak needs for its multiply-accumulates.

``vela``: cycles of ``blocks`` with 128 and 256 multipliers beside those that Arm's Vela states of an Ethos-U55 for the
layers of ``benchmarks/data/vela.json`` (``benchmarks/recorders/vela_layers.py``). The error of a layer is its cycles
over Vela's, or Vela's over them, less 1.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # this checkout, however the script is run:
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "src"))  # its benchmarks, its examples and its archloom

import archloom
from archloom.models import catalogue
from archloom.tvm_backend.quantization.scheme import Scheme
from benchmarks.common import ROOT, arguments, finish

if TYPE_CHECKING:
    from archloom.tvm_backend.model import Model

FOLDER = ROOT / "examples" / "targets"
DATA = ROOT / "benchmarks" / "data" / "vela.json"
NETWORKS = "resnet18,mobilenet_v2,bert_base,unet,lstm_keywords"
SCHEMES = {"tensor": Scheme(), "channel": Scheme(per_channel=True),
           "asymmetric": Scheme(per_channel=True, symmetric=False)}
LAYERS = ("gemm(m=512,n=512,k=512)", "conv2d(c=64,h=56,w=56,o=64,k=3,pad=1)")


def lines_of(path: Path) -> int:
    """Lines of a machine's files that are not blank."""
    texts = (file.read_text(encoding="utf-8") for file in path.parent.glob(f"{path.stem}.*"))
    return sum(bool(line.strip()) for text in texts for line in text.splitlines())


def quantized(name: str, scheme: Scheme, seed: int) -> "tuple[Model, dict[str, np.ndarray]]":
    """The small form of a network by name, and inputs."""
    from archloom.tvm_backend.quantization.quantize import quantize
    from archloom.tvm_backend.sources.named_networks import CALIBRATION, float_onnx

    built = catalogue.build(catalogue.tiny(name))
    (inputs,) = built.samples(1, seed=seed)
    return archloom.load(quantize(float_onnx(built), built.samples(CALIBRATION), scheme), name=name), inputs


def measure(path: Path, model: "Model", inputs: dict[str, np.ndarray]) -> dict[str, Any]:
    """Whether all layers are equal, and how much of the network is the machine's."""
    from archloom.tvm_backend.check.workload_reference import result_of_sums, rounding_steps, sums_of
    from archloom.tvm_backend.executable import build

    exe, wrong, steps = build(model, str(path), {}), [], [0.0]

    def compare(step: Any, given: dict[str, np.ndarray], found: np.ndarray) -> None:
        tensors = {**given, **step.constants}
        sums = sums_of(step.workload, tensors)
        steps.append(rounding_steps(sums, step.workload.epilogue, tensors) or 0.0)
        if not np.array_equal(found, result_of_sums(sums, step.workload, tensors)):
            wrong.append(step.name)

    exe.run(inputs, capture=compare)
    return {"equal": not wrong and max(steps) <= 1, "wrong": wrong, "rounding_steps": max(steps),
            "layers": len(list(exe.compiled.steps())), "offloaded_macs": exe.compiled.offloaded_macs_share}


def over_bound(path: Path) -> float:
    """The worse of two layers, in cycles over those at the peak."""
    reports = [archloom.estimate(text, target=str(path)) for text in LAYERS]
    return max(r.accelerator_cycles * r.peak_macs_per_cycle / r.macs for r in reports)


def text_of(layer: dict[str, Any]) -> str:
    """A recorded layer as an operator: SAME padding of an odd kernel is as much on each side, as far as it is read."""
    if layer["kind"] == "dense":
        return f"gemm(m=1,n={layer['outputs']},k={layer['channels']},bias=1)"
    group = layer["channels"] if layer["kind"] == "depthwise" else 1
    return (f"Conv(c={layer['channels']},h={layer['image']},w={layer['image']},o={layer['outputs']},"
            f"k={layer['kernel']},stride={layer['stride']},pad={layer['kernel'] // 2},group={group},bias=1)")


def vela(layers: list[dict[str, Any]], machine: Path) -> dict[str, Any]:
    """Cycles by Vela and of the machine, and how far apart they are."""
    rows: list[dict[str, Any]] = []
    for layer in layers:
        for multipliers, stated in layer["cycles"].items():
            report = archloom.estimate(text_of(layer), str(machine), {"multipliers": int(multipliers)})
            rows.append({"layer": text_of(layer), "multipliers": int(multipliers), "vela": stated["all"],
                         "ours": report.accelerator_cycles})
            print(rows[-1], flush=True)
    errors = [max(row["ours"] / row["vela"], row["vela"] / row["ours"]) - 1 for row in rows]
    return {"vela": rows, "vela_mean_error": float(np.mean(errors)), "vela_worst_error": max(errors)}


def _more(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--only", default=NETWORKS, metavar="NAME,...", help=f"networks (default: {NETWORKS})")
    parser.add_argument("--target", action="append", help="only this file's name without its ending; repeatable")
    parser.add_argument("--layers", default=str(DATA), metavar="FILE", help="what Vela says of which layers")


def main() -> None:
    args = arguments((__doc__ or "").split("\n", maxsplit=1)[0], _more, seeded=True)
    targets = []
    for path in sorted(FOLDER.glob("*.py")):
        if args.target and path.stem not in args.target:
            continue
        rows = []
        for name in args.only.split(","):
            for kind, scheme in SCHEMES.items():
                rows.append({"network": name, "scheme": kind, **measure(path, *quantized(name, scheme, args.seed))})
                print(path.stem, rows[-1], flush=True)
        targets.append({
            "name": path.stem, "lines": lines_of(path), "networks": rows, "equal": all(r["equal"] for r in rows),
            "offloaded_macs": min(r["offloaded_macs"] for r in rows), "over_bound": over_bound(path)})
    every = [row for target in targets for row in target["networks"]]
    finish(args, {
        "equal_share": sum(row["equal"] for row in every) / len(every), "networks_run": len(every),
        "most_lines": max(t["lines"] for t in targets),
        "least_offloaded_macs": min(t["offloaded_macs"] for t in targets),
        "worst_over_bound": max(t["over_bound"] for t in targets), "targets": targets,
        **vela(json.loads(Path(args.layers).read_text())["layers"], FOLDER / "blocks.py")})


if __name__ == "__main__":
    main()
