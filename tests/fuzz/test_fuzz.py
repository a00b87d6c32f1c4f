"""Inputs that nobody means well with end in an answer or in a message, whatever they are.

``ARCHLOOM_FUZZ_SECONDS`` and ``ARCHLOOM_FUZZ_SEED`` say for how long, and which; ``benchmarks/networks/fuzz.py``
counts. What was once found is in ``tests/data/fuzz`` and tried again.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from random import Random

import pytest

from tests.fuzz import mutators
from tests.fuzz.harness import BAD
from tests.fuzz.worker import Worker
from tests.support.limited import limited

ROOT = Path(__file__).resolve().parents[2]
SEED = os.environ.get("ARCHLOOM_FUZZ_SEED", "0")
KEPT = sorted((ROOT / "tests" / "data" / "fuzz").glob("*/words.json"))


def counted(tmp_path: Path, *words: str) -> dict[str, int]:
    done = subprocess.run([sys.executable, "benchmarks/run.py", "fuzz", "--json", "--state", tmp_path / "state.json",
                           "--keep", tmp_path / "kept", *words], capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stderr[-4000:]
    found: dict[str, int] = json.loads(done.stdout.splitlines()[-1])
    return found


@pytest.mark.slow
def test_inputs_and_faults(tmp_path: Path) -> None:
    """For as long as is asked for; what was interrupted goes on, with the same seed."""
    asked = ["--seed", SEED, "--inputs", str(1 << 40), "--faults", "0", "--seconds"]
    first = counted(tmp_path, *asked, os.environ.get("ARCHLOOM_FUZZ_SECONDS", "60"))
    both = counted(tmp_path, "--inputs", str(first["inputs"]), "--faults", "15")
    assert both["seed"] == first["seed"] == int(SEED)
    assert both["inputs"] == first["inputs"] > 0 and both["faults"] >= 15
    assert not any(both[kind] for kind in (*BAD, "faults_bad"))


@pytest.mark.slow
@pytest.mark.parametrize("words", KEPT, ids=lambda path: path.parent.name)
def test_what_was_found(words: Path, tmp_path: Path) -> None:
    code = (f"from pathlib import Path; from tests.fuzz.harness import *; "
            f"print(tried(kept(Path({str(words.parent)!r})), Path({str(tmp_path)!r})).kind)")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=ROOT, env={
        **os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])})
    assert done.stdout.strip() in ("refused", "accepted"), done.stderr


def test_outcomes_are_told_apart() -> None:
    """What the limits end, and what they do not."""
    assert limited(lambda: 0).kind == "accepted" and limited(lambda: sys.exit(2)).kind == "refused"
    assert limited(lambda: 1 // 0).kind == "traceback"
    assert limited(lambda: signal.raise_signal(signal.SIGKILL)).kind == "abort"
    assert limited(lambda: len(bytes(1 << 40))).kind == "over_memory"
    assert limited(lambda: signal.raise_signal(signal.SIGXCPU)).kind == "hang"
    assert limited(lambda: 1).kind == "wrong"


def test_hangs_are_judged_by_processors() -> None:
    """By what a work and its children compute, not by how long it waits; nothing is left behind."""
    before = children()
    busy = "import time\nwhile time.process_time() < 1.1: pass"
    assert limited(lambda: subprocess.run([sys.executable, "-c", busy], check=True), seconds=1).kind == "hang"
    assert limited(lambda: time.sleep(1.1) or 0, seconds=1).kind == "accepted"
    assert children() == before


def children() -> set[str]:
    return set(Path(f"/proc/self/task/{os.getpid()}/children").read_text().split())


def test_workers_are_stopped_in_the_midst_of_commands(tmp_path: Path) -> None:
    """And serve on after an interrupt; what they print is told also where no file may grow."""
    worker = Worker()
    worker.begin(("estimate", "gemm(m=64,n=64,k=64)"), tmp_path, tmp_path / "cache")
    assert worker.ended(0) is None
    worker.signal(signal.SIGINT)
    outcome = worker.outcome()
    assert outcome.status in (0, 130) and "Traceback" not in outcome.printed
    worker.begin(("describe", "nothing"), tmp_path, tmp_path / "cache", 0)
    assert worker.outcome().kind == "refused"
    worker.begin(("describe", "nothing"), tmp_path, tmp_path / "cache")
    worker.signal(signal.SIGKILL)
    assert worker.outcome().status in (-signal.SIGKILL, 2)
    worker.end()


def test_the_same_seed_gives_the_same_changes() -> None:
    text, document = "loop i in 0..4 { mvin dram=64 + i }", b'{"a": [1, {"b": null}], "c": "d"}'
    for change, sound in ((mutators.changed_text, text), (mutators.changed_json, document),
                          (mutators.changed_bytes, document)):
        found, again = ([change(Random(seed), sound) for seed in range(1000)] for _ in range(2))  # type: ignore[operator]
        assert found == again
        assert len(set(found)) > 500
