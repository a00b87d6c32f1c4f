"""Inputs that nobody means well with end in an answer or in a message, whatever they are.

``ARCHLOOM_FUZZ_SECONDS`` and ``ARCHLOOM_FUZZ_SEED`` say for how long, and which; the command that counts is
:mod:`tests.fuzz.harness`. What was once found is in ``tests/data/fuzz`` and tried again.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from random import Random

import pytest

from tests.fuzz import mutators
from tests.fuzz.harness import BAD
from tests.support.limited import limited

ROOT = Path(__file__).resolve().parents[2]
KEPT = sorted((ROOT / "tests" / "data" / "fuzz").glob("*/words.json"))


def harness(*words: str) -> dict[str, int]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])}
    done = subprocess.run([sys.executable, "-m", "tests.fuzz.harness", *words], capture_output=True, text=True,
                          check=False, cwd=ROOT, env=environment)
    assert done.returncode == 0, done.stderr[-4000:]
    found: dict[str, int] = json.loads(done.stdout.splitlines()[-1])
    return found


@pytest.mark.slow
def test_inputs_and_faults() -> None:
    found = harness("--faults", "14")
    assert found["inputs"] > 0 and not any(found[kind] for kind in BAD)


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


def test_the_same_seed_gives_the_same_changes() -> None:
    text, document = "loop i in 0..4 { mvin dram=64 + i }", b'{"a": [1, {"b": null}], "c": "d"}'
    for change, sound in ((mutators.changed_text, text), (mutators.changed_json, document),
                          (mutators.changed_bytes, document)):
        found = {repr(change(Random(seed), sound)) for seed in range(40)}  # type: ignore[operator]
        assert found == {repr(change(Random(seed), sound)) for seed in range(40)}  # type: ignore[operator]
        assert len(found) > 20
