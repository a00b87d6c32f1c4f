"""The whole way once: train a digits network, quantize it, compile it for Gemmini, run the test set, report.

``python examples/demo.py [--dim 16] [--output build/demo]``; ``make demo`` runs it.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx

import archloom
from archloom.models import data, digits
from archloom.tvm_backend.executable import CompiledNetwork
from archloom.tvm_backend.report.text import to_csv

sys.path.append(str(Path(__file__).resolve().parents[1]))  # run as a script, it finds its neighbours, too

from examples import digits_onnx

CALIBRATION_IMAGES = 128
MOST_ACCURACY_LOST = 0.01
LEAST_OFFLOADED = 0.99


@dataclass(frozen=True)
class Accuracies:
    """Share of the test images that get their label."""

    float: float
    accelerator: float


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dim", type=int, default=16, help="rows and columns of Gemmini's array")
    parser.add_argument("--output", type=Path, default=Path("build/demo"))
    args = parser.parse_args()
    start = time.perf_counter()
    args.output.mkdir(parents=True, exist_ok=True)

    split = data.digits()
    say(start, f"training on {len(split.train_images)} digits")
    net = digits.train(split)

    say(start, "quantizing to int8")
    float_model = digits_onnx.onnx_model(net)
    calibration = ({"image": image[None]} for image in split.train_images[:CALIBRATION_IMAGES])
    model = archloom.quantize(float_model, calibration)
    onnx.save(float_model, args.output / "digits_float.onnx")
    onnx.save(model, args.output / "digits_int8.onnx")

    say(start, f"compiling for Gemmini {args.dim}×{args.dim}")
    network = archloom.compile(model, target="gemmini", options={"dim": args.dim})
    network.prepare()

    say(start, f"running {len(split.test_images)} test digits on the accelerator's bit-exact model")
    accuracies = Accuracies(
        digits.accuracy(net, split.test_images, split.test_labels), accuracy(network, split))
    artifact = network.save(args.output / "digits.loom")
    say(start, "done\n")
    finish(network, accuracies, args.output, artifact, time.perf_counter() - start)


def say(start: float, text: str) -> None:
    print(f"[{time.perf_counter() - start:5.1f} s] {text}", flush=True)


def accuracy(network: CompiledNetwork, split: data.Split) -> float:
    """Share of the test images that the compiled network gives their label."""
    logits = np.concatenate([network(image[None]) for image in split.test_images])
    return float((logits.argmax(1) == split.test_labels).mean())


def finish(network: CompiledNetwork, found: Accuracies, output: Path, artifact: Path, seconds: float) -> None:
    """Print the figures, write report and summary, and refuse to call a bad result a success."""
    report = network.report
    (output / "report.json").write_text(json.dumps(report.to_json(), indent=1))
    (output / "report.csv").write_text(to_csv(report))
    summary = {
        "accuracy_float": found.float, "accuracy_accelerator": found.accelerator,
        "offloaded_macs_share": report.offloaded_macs_share, "cycles": report.cycles, "seconds": seconds,
        "latency_seconds": report.seconds, "clock_hz": report.clock_hz, "options": dict(report.options),
        "report": str(output / "report.json"), "artifact": str(artifact),
    }
    (output / "summary.json").write_text(json.dumps(summary, indent=1))
    print(report)
    print(f"accuracy     {100 * found.float:.2f} % float, {100 * found.accelerator:.2f} % on the accelerator")
    print(f"report       {output / 'report.json'}, {output / 'report.csv'}, {output / 'summary.json'}")
    print(f"artifact     {artifact}")
    print(f"took         {seconds:.1f} s")
    if found.accelerator < found.float - MOST_ACCURACY_LOST or report.offloaded_macs_share < LEAST_OFFLOADED:
        raise SystemExit("the accelerator lost more than a point of accuracy, or ran less than 99 % of the MACs")


if __name__ == "__main__":
    main()
