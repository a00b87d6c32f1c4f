"""The search over networks for digits: it goes on where it was, and its cycles are those of a full compilation."""

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import archloom
from archloom.tvm_backend.compile import compile_model
from archloom.tvm_backend.quantization.quantize import quantize
from archloom.tvm_backend.report.build import of_compiled
from examples import nas_digits
from examples.nas_digits import Choice


@pytest.mark.slow
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


@pytest.mark.slow
def test_a_killed_process_leaves_a_journal_that_the_next_goes_on_with(tmp_path: Path) -> None:
    root = Path(nas_digits.__file__).resolve().parent.parent
    script = "from pathlib import Path; from examples import nas_digits; import sys; " \
             "nas_digits.search(Path(sys.argv[1]), 100, epochs=1)"
    journal = tmp_path / "journal.log"
    with subprocess.Popen([sys.executable, "-c", script, str(tmp_path)], cwd=root) as process:
        try:
            while process.poll() is None and (not journal.exists() or journal.read_text().count('"values"') < 2):
                time.sleep(0.05)
            assert process.poll() is None
        finally:
            process.send_signal(signal.SIGKILL)
    finished = journal.read_text().count('"values"')
    study = nas_digits.search(tmp_path, finished + 1, epochs=1)
    states = [t.state.name for t in study.trials]
    assert states.count("COMPLETE") == finished + 1 and "RUNNING" not in states


@pytest.mark.slow
def test_its_cycles_are_those_of_a_full_compilation() -> None:
    choice = Choice((((4, 3),), ((8, 1), (8, 3))))
    data = nas_digits.digits()
    _, cycles = nas_digits.evaluate(choice, data, epochs=0, seed=0, dim=8)
    model = quantize(nas_digits.onnx_model(choice, nas_digits.module(choice)), data.train_images[:8, None])
    assert of_compiled(compile_model(archloom.load(model), "gemmini", {"dim": 8})).cycles == cycles
