"""What int8 costs trained networks in accuracy: digits by a CNN and a transformer, similarity of sentences by MiniLM.

For the networks of digits: share of the test set that is right in floats, in onnxruntime's integer execution, and on
the accelerator's streams. For MiniLM: Spearman's rank correlation of the cosines of all pairs of sentences with those
of the float network, by onnxruntime for every scheme. The scheme that ranks the 24 sentences of calibration best is
the one that Gemmini runs, and it is judged on 40 others.
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
from examples import minilm, sentence_similarity, sentences

SCHEMES: dict[str, dict[str, Any]] = {
    "int8": {},
    "int8 channels": {"per_channel": True},
    "int8 percentile": {"per_channel": True, "method": "percentile"},
    "int8 zero points": {"per_channel": True, "symmetric": False},
    "sums": {"float_results": True},
    "sums channels": {"float_results": True, "per_channel": True},
    "sums zero points": {"float_results": True, "per_channel": True, "symmetric": False},
}
"""By what results of products are, int8 or sums; with scales per channel, and zero points or percentiles."""


def main() -> None:
    args = common.arguments(__doc__ or "", _more)
    result: dict[str, Any] = {}
    for name in catalogue.TRAINED:
        result[name] = digits(name, args.target)
    wrong = sum(row["not_bit_exact"] for row in result.values())
    result["minilm"] = similarity(args.target)
    for name, row in result.items():
        print(name, *(f"{key}={value:.4f}" if isinstance(value, float) else f"{key}={value}"
                      for key, value in row.items() if key != "schemes"))
    for scheme, row in result["minilm"]["schemes"].items():
        print(f"  {scheme}: rank correlation {row['judged']:.4f}, of those of calibration {row['chosen_by']:.4f}")
    common.finish(args, {"target": args.target, "not_bit_exact": wrong, **result})


def _more(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--target", default="gemmini", metavar="NAME", help="accelerator (default: gemmini)")


def digits(name: str, target: str) -> dict[str, Any]:
    """Accuracies of the three on all test digits."""
    start = time.perf_counter()
    result = archloom.check(name, target, inputs="digits")
    assert result.accuracy is not None and result.accuracy.float_network is not None
    ratios = [layer.snr_db for layer in result.layers if layer.snr_db is not None]
    return {
        **result.accuracy.to_json(), "samples": result.samples, "layers": len(result.layers),
        "accelerator_less_float": result.accuracy.accelerator - result.accuracy.float_network,
        "not_bit_exact": sum(not layer.bit_exact for layer in result.layers),
        "first_difference": result.first_difference, "least_snr_db": min(ratios),
        "passed": result.passed, "seconds": time.perf_counter() - start}


def similarity(target: str) -> dict[str, Any]:
    """Rank correlations of MiniLM's similarities with those in floats."""
    start = time.perf_counter()
    first = sentence_similarity.networks()
    sets = {"chosen_by": minilm.tokenized(sentences.CALIBRATION), "judged": minilm.tokenized(sentences.JUDGED)}
    exact = {name: minilm.similarities(minilm.embeddings(minilm.in_floats(first.net), x)) for name, x in sets.items()}

    def correlation(run_one: Any, name: str) -> float:
        return minilm.rank_correlation(exact[name], minilm.similarities(minilm.embeddings(run_one, sets[name])))

    quantized = {name: archloom.quantize(first.floats, sets["chosen_by"], **scheme) for name, scheme in SCHEMES.items()}
    rows: dict[str, dict[str, float]] = {}
    for scheme, model in quantized.items():
        session = integer_session(model)
        rows[scheme] = {name: correlation(lambda x, s=session: run(s, x).popitem()[1], name) for name in sets}
    chosen = max(rows, key=lambda scheme: rows[scheme]["chosen_by"])
    network = archloom.compile(quantized[chosen], target=target)
    return {
        "accelerator": correlation(network, "judged"), "quantized": rows[chosen]["judged"], "scheme": chosen,
        "scheme_of_example": SCHEMES[chosen] == sentence_similarity.SCHEME,
        "int8_best": max(row["judged"] for scheme, row in rows.items() if scheme.startswith("int8")),
        "sentences": len(sets["judged"]), "offloaded_macs_share": network.report.offloaded_macs_share,
        "cycles": network.report.accelerator_cycles, "schemes": rows, "seconds": time.perf_counter() - start}


if __name__ == "__main__":
    main()
