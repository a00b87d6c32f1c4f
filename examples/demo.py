"""The whole way once: train a digits network, quantize it, compile it for Gemmini, run the test set, report.

``python examples/demo.py [--dim 16] [--output build/demo]``; ``make demo`` runs it.
"""

from __future__ import annotations

import argparse
import atexit
import importlib
import json
import os
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import archloom
from archloom.tvm_backend.progress import bar

if TYPE_CHECKING:
    from archloom.models.data import Split
    from archloom.tvm_backend.executable import CompiledNetwork

sys.path.append(str(Path(__file__).resolve().parents[1]))  # run as a script, it finds its neighbours, too

CALIBRATION_IMAGES = 128
MOST_ACCURACY_LOST = 0.01
LEAST_OFFLOADED = 0.99
PACKAGES = (("PyTorch", "archloom.models.digits"), ("ONNX", "examples.digits_onnx"), ("onnxruntime", "onnxruntime"))
"""What takes long to import, with the module that imports it first."""


@dataclass(frozen=True)
class Accuracies:
    """Share of the test images that get their label."""

    float: float
    accelerator: float


@dataclass(frozen=True)
class Seconds:
    """What the demo took, and of that planning the network and compiling its programs."""

    total: float
    compile: float


def main() -> None:
    start = time.perf_counter()
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dim", type=int, default=16, help="rows and columns of Gemmini's array")
    parser.add_argument("--output", type=Path, default=Path("build/demo"))
    args = parser.parse_args()
    args.output.mkdir(parents=True, exist_ok=True)

    say(start, "loading PyTorch and ONNX")
    load_packages()
    import onnx

    from archloom.models import data, digits
    from examples import digits_onnx

    with bar() as progress:
        progress("reading digits", 0, 0)
        split = data.digits()
    say(start, f"training on {len(split.train_images)} digits")
    with bar() as progress:
        progress("training", 0, 0)
        net = digits.train(split)

    say(start, "quantizing to int8")
    float_model = digits_onnx.onnx_model(net)
    calibration = ({"image": image[None]} for image in split.train_images[:CALIBRATION_IMAGES])
    model = archloom.quantize(float_model, calibration)
    onnx.save(float_model, args.output / "digits_float.onnx")
    onnx.save(model, args.output / "digits_int8.onnx")

    say(start, f"compiling for Gemmini {args.dim}×{args.dim}")
    compiling = time.perf_counter()
    network = archloom.compile(model, target="gemmini", options={"dim": args.dim})
    with bar() as progress:
        network.prepare(progress)
    compile_seconds = time.perf_counter() - compiling

    say(start, f"running {len(split.test_images)} test digits on the accelerator's bit-exact model")
    accuracies = Accuracies(
        digits.accuracy(net, split.test_images, split.test_labels), accuracy(network, split))
    artifact = network.save(args.output / "digits.loom")
    say(start, "done\n")
    finish(network, accuracies, args.output, artifact, Seconds(time.perf_counter() - start, compile_seconds))


def load_packages() -> None:
    """Import what takes seconds: not above, where nothing could be said of it before."""
    with bar() as progress:
        for done, (name, module) in enumerate(PACKAGES):
            progress(f"loading {name}", done, len(PACKAGES))
            importlib.import_module(module)


def say(start: float, text: str) -> None:
    print(f"[{time.perf_counter() - start:5.1f} s] {text}", flush=True)


def accuracy(network: CompiledNetwork, split: Split) -> float:
    """Share of the test images that the compiled network gives their label."""
    images, right = split.test_images, 0
    with bar() as progress:
        for done, (image, label) in enumerate(zip(images, split.test_labels, strict=True)):
            progress("running test digits", done, len(images))
            (logits,) = network(image[None])
            right += int(logits.argmax() == label)
    return right / len(images)


def finish(network: CompiledNetwork, found: Accuracies, output: Path, artifact: Path, took: Seconds) -> None:
    """Print the figures, write report and summary, and refuse to call a bad result a success."""
    from archloom.tvm_backend.report.text import to_csv

    report = network.report
    (output / "report.json").write_text(json.dumps(report.to_json(), indent=1))
    (output / "report.csv").write_text(to_csv(report))
    summary = {
        "accuracy_float": found.float, "accuracy_accelerator": found.accelerator,
        "offloaded_macs_share": report.offloaded_macs_share, "cycles": report.cycles,
        "seconds": took.total, "compile_seconds": took.compile,
        "latency_seconds": report.seconds, "clock_hz": report.clock_hz, "options": dict(report.options),
        "report": str(output / "report.json"), "artifact": str(artifact),
    }
    (output / "summary.json").write_text(json.dumps(summary, indent=1))
    print(report)
    print(f"accuracy     {100 * found.float:.2f} % float, {100 * found.accelerator:.2f} % on the accelerator")
    print(f"report       {output / 'report.json'}, {output / 'report.csv'}, {output / 'summary.json'}")
    print(f"artifact     {artifact}")
    print(f"took         {took.total:.1f} s, {took.compile:.1f} s of them to compile")
    if found.accelerator < found.float - MOST_ACCURACY_LOST or report.offloaded_macs_share < LEAST_OFFLOADED:
        raise SystemExit("the accelerator lost more than a point of accuracy, or ran less than 99 % of the MACs")


if __name__ == "__main__":
    status = 1  # of an exception
    atexit.register(lambda: os._exit(status))  # taking apart what libraries have built takes seconds
    try:
        main()
        status = 0
    except SystemExit as left:
        status = left.code if isinstance(left.code, int) else 1
        raise
    finally:
        sys.stdout.flush()
