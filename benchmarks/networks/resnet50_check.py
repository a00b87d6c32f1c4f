"""``archloom check`` of a quantized ResNet-50 with random weights: exactness, wall seconds, peak memory.

The run compiles the network, executes it on random images, compares the outputs with onnxruntime's integer execution
of the same model, and every offloaded layer with the NumPy interpreter, bit for bit.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # this checkout, however the script is run:
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "src"))  # its benchmarks, its examples and its archloom

from benchmarks.common import BUILD, archloom, arguments, finish, resnet50_int8


def _more(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--model", help="an ONNX file (default: a quantized ResNet-50 of random weights)")
    parser.add_argument("--images", type=int, default=16, help="random images (default 16)")
    parser.add_argument("--dim", type=int, default=16)


def images_file(count: int, seed: int) -> Path:
    """Random images of the network's size as an ``.npz``."""
    from archloom.models.data import random_images

    path = BUILD / f"images_{count}.npz"
    path.parent.mkdir(parents=True, exist_ok=True)
    np.savez(path, image=random_images(count, 224, seed=seed))
    return path


def main() -> None:
    args = arguments(__doc__ or "", _more, seeded=True)
    model = args.model or str(resnet50_int8())
    images = images_file(args.images, args.seed)
    with tempfile.TemporaryDirectory() as cache:
        run = archloom("check", model, "-t", "gemmini", "-O", f"dim={args.dim}", "--inputs", str(images), "--json",
                       env={"ARCHLOOM_CACHE_DIR": cache})
    result = run.last_json
    output = result["outputs"][0]
    finish(args, {
        "seconds": run.seconds, "peak_gib": run.peak_gib, "status": run.status, "images": args.images,
        "layers": len(result["layers"]), "layers_bit_exact": sum(layer["bit_exact"] for layer in result["layers"]),
        "layers_not_bit_exact": sum(not layer["bit_exact"] for layer in result["layers"]),
        "max_error_in_steps": output["max_error_in_steps"], "top1_agreement": output["top1_agreement"],
        "failures": result["failures"],
    })


if __name__ == "__main__":
    main()
