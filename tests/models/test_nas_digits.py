"""The search over networks for digits: it goes on where it was, and its cycles are those of a full compilation."""

from pathlib import Path

import pytest

pytest.importorskip("optuna")

from examples import nas_digits
from examples.nas_digits import Choice
from tvm_backend import frontends
from tvm_backend.compile import compile_model
from tvm_backend.quantize import quantize
from tvm_backend.report.build import of_compiled


def test_a_search_goes_on_where_it_was(tmp_path: Path) -> None:
    first = nas_digits.search(tmp_path, 2, epochs=1)
    values = [t.values for t in first.trials]
    first.ask()  # a trial that is never finished: the process was killed
    again = nas_digits.search(tmp_path, 3, epochs=1)
    finished = [t for t in again.trials if t.values]
    assert len(finished) == 3 and [t.values for t in finished[:2]] == values
    assert again.trials[2].state.name == "FAIL"
    assert nas_digits.front(again)
    nas_digits.plot(again, tmp_path / "pareto.png")
    assert (tmp_path / "pareto.png").stat().st_size > 1000


def test_its_cycles_are_those_of_a_full_compilation() -> None:
    choice = Choice((((4, 3),), ((8, 1), (8, 3))))
    data = nas_digits.digits()
    _, cycles = nas_digits.evaluate(choice, data, epochs=0, seed=0, dim=8)
    model = quantize(nas_digits.onnx_model(choice, nas_digits.module(choice)), data.train_images[:8, None])
    assert of_compiled(compile_model(frontends.load(model), "gemmini", {"dim": 8})).cycles == cycles
