"""Search for networks that recognize handwritten digits in few cycles of Gemmini: accuracy against cycles.

    python examples/nas_digits.py --trials 30

Every trial trains a small convolutional network for a few seconds, quantizes it to int8, measures the accuracy of the
int8 network and estimates its cycles. Trials are kept in a journal: a search that was killed goes on where it was. The
Pareto front is printed, and plotted to ``pareto.png``.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import archloom
from archloom.models.data import Split, digits

sys.path.append(str(Path(__file__).resolve().parents[1]))  # run as a script, it finds its neighbours, too

from examples.onnx_graph import OnnxGraph

if TYPE_CHECKING:
    import onnx
    import optuna
    import torch

    from archloom.tvm_backend.search.trials import Trial

CLASSES = 10
KERNELS = (1, 3, 5)
WIDTHS = (4, 8, 16, 24, 32)


@dataclass(frozen=True)
class Choice:
    """A network: (width, kernel) of its convolutions, in two stages of which each ends in max-pooling."""

    stages: tuple[tuple[tuple[int, int], ...], ...]

    @property
    def features(self) -> int:
        return self.stages[-1][-1][0] * 2 * 2


def suggest(trial: "Trial") -> Choice:
    """What the sampler chooses."""
    stages = []
    for s in range(2):
        depth = trial.suggest_int(f"depth{s}", 1, 2)
        stages.append(tuple(
            (trial.suggest_categorical(f"width{s}.{i}", WIDTHS), trial.suggest_categorical(f"kernel{s}.{i}", KERNELS))
            for i in range(depth)
        ))
    return Choice(tuple(stages))


def module(choice: Choice) -> "torch.nn.Sequential":
    """The network in PyTorch: [n, 1, 8, 8] → [n, 10]."""
    from torch import nn

    layers: list[nn.Module] = []
    inputs = 1
    for stage in choice.stages:
        for width, kernel in stage:
            layers += [nn.Conv2d(inputs, width, kernel, padding=kernel // 2), nn.ReLU()]
            inputs = width
        layers.append(nn.MaxPool2d(2))
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(choice.features, CLASSES))


def train(net: "torch.nn.Sequential", data: Split, epochs: int) -> None:
    """Adam on all training images."""
    import torch

    images, labels = torch.from_numpy(data.train_images), torch.from_numpy(data.train_labels)
    optimizer = torch.optim.Adam(net.parameters(), 4e-3)
    for _ in range(epochs):
        for rows in torch.randperm(len(images)).split(64):
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(net(images[rows]), labels[rows]).backward()
            optimizer.step()
    net.eval()


def onnx_model(choice: Choice, net: "torch.nn.Sequential", batch: int | str = 1) -> "onnx.ModelProto":
    """The trained network as ONNX: ``image`` [batch, 1, 8, 8] → ``logits`` [batch, 10]."""
    from torch import nn

    convolutions = iter([layer for layer in net if isinstance(layer, nn.Conv2d)])
    graph = OnnxGraph("nas_digits")
    x = graph.input("image", (batch, 1, 8, 8))
    for s, stage in enumerate(choice.stages):
        for i, (_, kernel) in enumerate(stage):
            layer, name = next(convolutions), f"conv{s}.{i}"
            assert layer.bias is not None
            weights = layer.weight.detach().numpy(), layer.bias.detach().numpy()
            x = graph.relu(graph.conv(x, *weights, name, padding=kernel // 2), f"{name}.relu")
        x = graph.max_pool(x, f"pool{s}", size=2, stride=2)
    x = graph.node("Flatten", [x], "flatten", axis=1)
    head = net[-1]
    assert isinstance(head, nn.Linear)
    x = graph.dense(x, head.weight.detach().numpy(), head.bias.detach().numpy(), "logits")
    return graph.model(x, (batch, CLASSES))


def accuracy(model: "onnx.ModelProto", data: Split) -> float:
    """Share of the test images that a network gives their label."""
    import onnxruntime

    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    hits = [int(session.run(None, {"image": image[None]})[0].argmax()) for image in data.test_images]
    return float((np.array(hits) == data.test_labels).mean())


def evaluate(choice: Choice, data: Split, epochs: int, seed: int, dim: int) -> tuple[float, int]:
    """Accuracy of the int8 network, and its cycles."""
    import torch

    torch.manual_seed(seed)
    net = module(choice)
    train(net, data, epochs)
    quantized = archloom.quantize(onnx_model(choice, net), data.train_images[:64, None])
    return accuracy(quantized, data), archloom.estimate(quantized, "gemmini", {"dim": dim}).cycles


def search(folder: Path, trials: int, *, epochs: int = 6, seed: int = 0, dim: int = 8) -> "optuna.Study":
    """The study in ``folder`` with at least ``trials`` finished trials: those of earlier runs count."""
    import optuna
    from optuna.storages import JournalStorage
    from optuna.storages.journal import JournalFileBackend
    from optuna.trial import TrialState

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    folder.mkdir(parents=True, exist_ok=True)
    data = digits(seed)
    study = optuna.create_study(
        storage=JournalStorage(JournalFileBackend(str(folder / "journal.log"))), study_name="nas_digits",
        directions=["maximize", "minimize"], sampler=optuna.samplers.NSGAIISampler(population_size=10, seed=seed),
        load_if_exists=True,
    )
    for left in study.get_trials(states=(TrialState.RUNNING,)):  # a run that was killed
        study.tell(left.number, state=TrialState.FAIL)
    done = len(study.get_trials(states=(TrialState.COMPLETE,)))
    study.optimize(lambda t: evaluate(suggest(t), data, epochs, seed + t.number, dim), n_trials=max(0, trials - done))
    return study


def front(study: "optuna.Study") -> list[tuple[int, float]]:
    """Cycles and accuracy of the trials that no other is better than, from the fastest on."""
    return sorted({(int(t.values[1]), float(t.values[0])) for t in study.best_trials})


def plot(study: "optuna.Study", path: Path) -> None:
    """All trials, and the front as a line."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    points: list[Any] = [t.values for t in study.trials if t.values]
    best = front(study)
    figure, axes = pyplot.subplots(figsize=(6, 4))
    axes.scatter([cycles for _, cycles in points], [100 * a for a, _ in points], s=14, color="0.6", label="trials")
    axes.plot([c for c, _ in best], [100 * a for _, a in best], "o-", ms=4, label="Pareto front")
    axes.set(xscale="log", xlabel="latency, cycles of Gemmini's clock", ylabel="accuracy of the int8 network, %")
    axes.legend()
    figure.tight_layout()
    figure.savefig(path, dpi=120)
    pyplot.close(figure)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--trials", type=int, default=30, help="finished trials in all, those of earlier runs included")
    parser.add_argument("--folder", type=Path, default=Path("build/nas_digits"), help="journal and plot")
    parser.add_argument("--dim", type=int, default=8, help="rows and columns of the array")
    args = parser.parse_args()
    study = search(args.folder, args.trials, dim=args.dim)
    for cycles, share in front(study):
        print(f"{cycles:>8,} cycles  {100 * share:.1f} %")
    plot(study, args.folder / "pareto.png")
    print(f"plotted to {args.folder / 'pareto.png'}")


if __name__ == "__main__":
    main()
