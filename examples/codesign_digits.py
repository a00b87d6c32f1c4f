"""Network and accelerator together: accuracy on handwritten digits against energy and area of Gemmini.

    python examples/codesign_digits.py --trials 30

Each network is trained for some seconds and quantized to int8 once, and estimated on whatever machines the search
proposes for it. Results are kept in a folder: a search that was ended goes on where it was, and ``archloom report``
makes a page of it to choose from.
"""

from __future__ import annotations

import argparse
import sys
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING

import archloom
from archloom.models.data import digits

sys.path.append(str(Path(__file__).resolve().parents[1]))  # run as a script, it finds its neighbours, too

from examples import nas_digits
from examples.nas_digits import Choice

if TYPE_CHECKING:
    import onnx

    from archloom.tvm_backend.search.result import SearchResult
    from archloom.tvm_backend.search.trials import Trial

OBJECTIVES = "accuracy,joules,area_mm2"
Stages = tuple[tuple[tuple[int, int], ...], ...]


@lru_cache(maxsize=64)
def trained(stages: Stages, epochs: int) -> "tuple[onnx.ModelProto, float]":
    """The int8 network, and its accuracy."""
    import torch

    torch.manual_seed(0)
    data, choice = digits(), Choice(stages)
    net = nas_digits.module(choice)
    nas_digits.train(net, data, epochs)
    quantized = archloom.quantize(nas_digits.onnx_model(choice, net), data.train_images[:64, None])
    return quantized, nas_digits.accuracy(quantized, data)


def network(stages: Stages, epochs: int) -> "onnx.ModelProto":
    return trained(stages, epochs)[0]


def accuracy(stages: Stages, epochs: int) -> float:
    return trained(stages, epochs)[1]


def candidate(epochs: int, trial: "Trial") -> archloom.Candidate:
    """A network, and a Gemmini with as large an array and scratchpad as the trial says."""
    stages = nas_digits.suggest(trial).stages
    options = {"dim": trial.suggest_categorical("dim", [4, 8, 16, 32]),
               "scratchpad_kib": trial.suggest_categorical("scratchpad_kib", [16, 32, 64, 128])}
    return archloom.Candidate(partial(network, stages, epochs), "gemmini", options,
                              figures={"accuracy": partial(accuracy, stages, epochs)})


def search(folder: Path | None, trials: int, *, epochs: int = 6, seed: int = 0) -> "SearchResult":
    return archloom.search(partial(candidate, epochs), trials=trials, objectives=OBJECTIVES, sampler="nsga2", seed=seed,
                           output=folder)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--trials", type=int, default=30, help="candidates, those of earlier runs included")
    parser.add_argument("--folder", type=Path, default=Path("build/codesign_digits"), help="where results are kept")
    args = parser.parse_args()
    print(search(args.folder, args.trials))


if __name__ == "__main__":
    main()
