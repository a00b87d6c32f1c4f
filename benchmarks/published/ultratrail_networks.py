"""Networks with a published latency on UltraTrail (DSD 2022), and TC-ResNet8, by simulation.

TC-ResNet8 is also compiled from a quantized ONNX network through the target and compared with onnxruntime: there, loads
and stores of each layer count, and additions run on the host.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # this checkout, however the script is run:
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "src"))  # its benchmarks, its examples and its archloom

from benchmarks.common import arguments, finish
from benchmarks.figures import RECORDED, YES, Figure, Figures


def through_the_target() -> dict[str, Any]:
    """TC-ResNet8 from ONNX to UltraTrail."""
    import archloom
    from archloom.models import tc_resnet
    from archloom.tvm_backend.quantization.quantize import quantize

    model = archloom.load(quantize(tc_resnet.onnx_model(), tc_resnet.random_audio(4)))
    report = archloom.estimate(model, "ultratrail")
    checked = archloom.check(model, "ultratrail")
    exact = all(layer.bit_exact for layer in checked.layers) and checked.outputs[0].max_error_in_steps == 0
    return {"cycles": report.cycles, "offloaded": report.offloaded_macs_share, "equal": exact}


def main(args: argparse.Namespace) -> None:
    from benchmarks.published import dsd22

    rows = []
    print(f"{'network':12} {'array':>6} {'MACs':>9} {'cycles':>7} {'published':>10} {'ms at 250 kHz':>14} {'use':>6}")
    for entry in (*dsd22.NETWORKS, dsd22.Published(dsd22.TC_RESNET8, 8, None)):
        cycles, net = dsd22.simulate_cycles(entry), entry.network
        use = net.macs / (cycles * entry.dim ** 2)
        print(f"{net.name:12} {f'{entry.dim}x{entry.dim}':>6} {net.macs:9,} {cycles:7} {entry.cycles or '':>10} "
              f"{1e3 * cycles / dsd22.CLOCK_HZ:14.2f} {use:6.1%}")
        rows.append({"name": net.name, "dim": entry.dim, "cycles": cycles, "published": entry.cycles})
    compiled = through_the_target()
    print(f"TC-ResNet8 from ONNX: {compiled['cycles']} cycles with loads and stores, {compiled['offloaded']:.0%} of "
          f"MACs offloaded, equal to onnxruntime: {compiled['equal']}")
    compared = [row for row in rows if row["published"]]
    finish(args, {
        "networks": rows, "compiled": compiled, "compared": len(compared),
        "equal": sum(row["cycles"] == row["published"] for row in compared),
        "worst_ratio": max(max(r["cycles"] / r["published"], r["published"] / r["cycles"]) for r in compared),
    })


FIGURES: Figures = {
    "": (
        Figure("UltraTrail: networks of six with the published cycles", lambda r: r["equal"], *RECORDED, shown="{}"),
        Figure("… worst ratio of the six", lambda r: r["worst_ratio"], *RECORDED),
        Figure("… TC-ResNet8 from ONNX equals onnxruntime", lambda r: r["compiled"]["equal"], *YES, shown="{}"),
    ),
}


if __name__ == "__main__":
    main(arguments(__doc__ or ""))
