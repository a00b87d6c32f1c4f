"""Runs inputs that nobody means well with in processes with limits, many in turn, and says what comes of them.

``benchmarks/networks/fuzz.py`` counts. The same seed makes the same inputs.
"""

from __future__ import annotations

import contextlib
import gc
import hashlib
import io
import json
import os
import pkgutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from importlib import import_module
from pathlib import Path
from random import Random

import numpy as np

from archloom.oracle.taidl import available, load
from tests.fuzz.inputs import KERNEL, KINDS, NUMBERS, Input, kind_of
from tests.support.limited import Outcome, in_turn, limited
from tests.support.torch_tables import keep_tables_of_torch

BAD = ("traceback", "abort", "hang", "over_memory", "wrong")
WORDS = "words.json"
TOGETHER = 1024
"""Inputs that one process takes in turn, unless one ends it: to fork for each takes longer than most inputs, and what
a process does for the first time takes longer than what it does again."""
NOTHING_RAN = "so nothing was checked"
"""A check that ends with 1 for this found nothing wrong: it is as good as a refusal."""


def perform(words: tuple[str, ...]) -> int:
    """The exit status of a command, or of what stands in its place."""
    from archloom.oracle.errors import ArchloomError
    from archloom.tvm_backend import cli

    if words[0] not in (KERNEL, NUMBERS):
        with contextlib.redirect_stdout(io.StringIO()) as shown:
            status = cli.main(list(words))
        return 2 if status == 1 and NOTHING_RAN in shown.getvalue() else status
    try:
        return _kernel(Path(words[1])) if words[0] == KERNEL else _numbers(int(words[1]))
    except ArchloomError as error:
        print(f"archloom: {error}", file=sys.stderr)
        return 2


def _kernel(path: Path) -> int:
    import archloom

    kernel = archloom.load_kernel(path)
    kernel.run(*[np.zeros(t.shape, t.dtype) for t in kernel.arguments])
    return 0


def _numbers(seed: int) -> int:
    """1 where the oracle and the interpreter differ."""
    from tests.fuzz.numbers import differs

    return int(differs(Random(seed)))


def tried(made: Input, folder: Path) -> Outcome:
    """What comes of an input, in a folder of its own."""
    return limited(_work(made, folder))


def _work(made: Input, folder: Path) -> Callable[[], int]:
    def work() -> int:
        folder.mkdir(exist_ok=True)
        for name, content in made.files.items():
            (folder / name).write_bytes(content)
        os.chdir(folder)
        return perform(made.words)

    return work


def made(kind: str, seed: int, number: int) -> Input:
    """The input of a kind that a seed and a number stand for."""
    return KINDS[kind](Random(f"{kind} {seed} {number}"))


def run(kinds: Sequence[str], seed: int, numbers: range) -> Iterator[tuple[str, Input, Outcome]]:
    """The inputs of these numbers, by their kinds, and what came of them."""
    inputs = [(kind := kind_of(number, kinds), made(kind, seed, number)) for number in numbers]
    with tempfile.TemporaryDirectory(prefix="archloom-fuzz-") as folder:
        works = [_work(found, Path(folder) / str(number)) for number, (_, found) in zip(numbers, inputs, strict=True)]
        for (kind, found), outcome in zip(inputs, in_turn(works), strict=True):
            yield kind, found, outcome


def keep(found: Input, folder: Path) -> Path:
    """Write an input where it is tried again from now on."""
    name = hashlib.sha256(repr((found.words, sorted(found.files.items()))).encode("utf-8", "replace")).hexdigest()[:12]
    place = folder / f"{found.words[0].lstrip('@')}-{name}"
    place.mkdir(parents=True, exist_ok=True)
    (place / WORDS).write_text(json.dumps(found.words))
    for file, content in found.files.items():
        (place / file).write_bytes(content)
    return place


def kept(folder: Path) -> Input:
    """What :func:`keep` wrote."""
    words = json.loads((folder / WORDS).read_text())
    return Input(tuple(words), {f.name: f.read_bytes() for f in folder.iterdir() if f.name != WORDS})


def prepared() -> None:
    """Import once what each child needs. XLA and TVM's compilers start threads when they first run: not here."""
    import archloom

    for module in pkgutil.walk_packages(archloom.__path__, "archloom."):
        if not module.name.endswith("__main__"):
            import_module(module.name)
    for name in ("jax.numpy", "jax.export", "onnxruntime", "torch._export.serde.serialize",
                 "torch.export.pt2_archive._package", "torch._decomp.decompositions"):
        import_module(name)
    import_module("archloom.acadl_models.timing.engine").warmup()
    cli = import_module("archloom.tvm_backend.cli")
    cli.build_parser = cache(cli.build_parser)
    keep_tables_of_torch()
    for name in available():
        load(name)
    gc.collect()
    gc.freeze()
