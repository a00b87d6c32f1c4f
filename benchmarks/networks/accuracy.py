"""What int8 costs trained networks in accuracy: digits by a CNN and a transformer, similarity of sentences by MiniLM.

For the networks of digits: share of the test set that is right in floats, in onnxruntime's integer execution, and on
the accelerator's streams. For MiniLM: Spearman's rank correlation of the cosines of all pairs of 40 sentences with
those of the float network; for the scheme that Gemmini runs (float results of products), and by onnxruntime alone for
schemes whose results are int8.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # this checkout, however the script is run:
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "src"))  # its benchmarks, its examples and its archloom

import archloom
from archloom.models import catalogue
from archloom.tvm_backend.check.reference import integer_session, run
from benchmarks import common
from benchmarks.figures import RECORDED, Figure, Figures, at_least, equals
from examples import minilm, sentence_similarity, sentences

OTHER_SCHEMES: dict[str, dict[str, Any]] = {
    "int8 results, per tensor": {},
    "int8 results, per channel": {"per_channel": True},
    "int8 results, percentile": {"per_channel": True, "method": "percentile"},
    "int8 results, zero points": {"per_channel": True, "symmetric": False},
}


def main() -> None:
    args = common.arguments(__doc__ or "", _more)
    result: dict[str, Any] = {}
    for name in catalogue.TRAINED:
        result[name] = digits(name, args.target)
    result["minilm"] = similarity(args.target)
    for name, row in result.items():
        print(name, *(f"{key}={value:.4f}" if isinstance(value, float) else f"{key}={value}"
                      for key, value in row.items() if key != "schemes"))
    for scheme, value in result["minilm"]["schemes"].items():
        print(f"  {scheme}: rank correlation {value:.4f}")
    common.finish(args, {"target": args.target, **result})


def _more(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--target", default="gemmini", metavar="NAME", help="accelerator (default: gemmini)")


def digits(name: str, target: str) -> dict[str, Any]:
    """Accuracies of the three on all test digits."""
    start = time.perf_counter()
    result = archloom.check(name, target, inputs="digits")
    assert result.accuracy is not None
    ratios = [layer.snr_db for layer in result.layers if layer.snr_db is not None]
    return {
        **result.accuracy.to_json(), "samples": result.samples, "layers": len(result.layers),
        "bit_exact": sum(layer.bit_exact for layer in result.layers), "first_difference": result.first_difference,
        "least_snr_db": min(ratios), "passed": result.passed, "seconds": time.perf_counter() - start}


def similarity(target: str) -> dict[str, Any]:
    """Rank correlations of MiniLM's similarities with those in floats."""
    start = time.perf_counter()
    judged = minilm.tokenized(sentences.JUDGED)
    found = sentence_similarity.networks(**sentence_similarity.SCHEME)
    exact = minilm.similarities(minilm.embeddings(minilm.in_floats(found.net), judged))

    def correlation(run_one: Any) -> float:
        return minilm.rank_correlation(exact, minilm.similarities(minilm.embeddings(run_one, judged)))

    def by_onnxruntime(scheme: dict[str, Any]) -> float:
        calibration = minilm.tokenized(sentences.CALIBRATION)
        session = integer_session(archloom.quantize(found.floats, calibration, **scheme))
        return correlation(lambda x: run(session, x).popitem()[1])

    network = archloom.compile(found.int8, target=target)
    session = integer_session(found.int8)
    return {
        "accelerator": correlation(network), "quantized": correlation(lambda x: run(session, x).popitem()[1]),
        "sentences": len(judged), "offloaded_macs_share": network.report.offloaded_macs_share,
        "cycles": network.report.cycles,
        "schemes": {name: by_onnxruntime(scheme) for name, scheme in OTHER_SCHEMES.items()},
        "seconds": time.perf_counter() - start}


FIGURES: Figures = {
    "": (
        *(Figure(f"{name}: right test digits, int8 on Gemmini less float, share",
                 lambda r, name=name: r[name]["accelerator"] - r[name]["float"], *at_least(-0.01))
          for name in ("digits_cnn", "digits_vit")),
        Figure("… layers that are not bit-exact, both",
               lambda r: sum(r[n]["layers"] - r[n]["bit_exact"] for n in ("digits_cnn", "digits_vit")), *equals(0)),
        Figure("MiniLM: rank correlation of similarities, int8 on Gemmini with float",
               lambda r: r["minilm"]["accelerator"], *at_least(0.98)),
        Figure("… with int8 results of products (onnxruntime), best", lambda r: max(r["minilm"]["schemes"].values()),
               *RECORDED),
    ),
}


if __name__ == "__main__":
    main()
