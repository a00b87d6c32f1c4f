"""Where a query is split, its parts leave out the writes that are clear of it: expressions are as if all were asked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from random import Random

import pytest

from archloom.mapper.search import search
from archloom.mapper.workload import Epilogue, Workload, conv2d, gemm
from archloom.oracle import taidl
from archloom.oracle.stream import Stream
from archloom.oracle.taidl.isa import Isa
from archloom.oracle.xla import compile_stream
from archloom.oracle.xla.oracle import forget
from archloom.oracle.xla.raising import dataflow
from archloom.oracle.xla.raising.cursor import Cursor
from archloom.oracle.xla.raising.match import match
from archloom.oracle.xla.raising.tree import WriteItem
from archloom.tvm_backend.targets.choice import choose
from tests.support.examples import slow
from tests.support.oracle.random_programs.cores import Grid


class Counted:
    """How often writes are matched with queries while a stream is raised; without knowledge if ``plain``."""

    def __init__(self, patch: pytest.MonkeyPatch, plain: bool) -> None:
        self.calls = 0

        def counted(*args: object) -> object:
            self.calls += 1
            return match(*args)  # type: ignore[arg-type]

        patch.setattr(dataflow, "match", counted)
        if plain:
            patch.setattr(Cursor, "knowing", _nothing)


def _nothing(cursor: Cursor, clear: Sequence[WriteItem]) -> Cursor:
    return cursor


def both(stream: Stream, isa: Isa) -> tuple[int, int]:
    """Matches with knowledge and without; asserts that the programs are equal to the last character."""
    calls, texts = [], []
    for plain in (False, True):
        forget()
        with pytest.MonkeyPatch.context() as patch:
            counted = Counted(patch, plain)
            texts.append(compile_stream(stream, isa).program._lowered().as_text())
            calls.append(counted.calls)
    forget()
    assert texts[0] == texts[1]
    return calls[0], calls[1]


EPILOGUE = Epilogue(True, 0.01, True, "int8")


@pytest.mark.parametrize(("target", "work"), [
    ("eyeriss", conv2d(1, 9, 7, 4, 8, 3, 3, padding=(1, 1, 1, 1), epilogue=EPILOGUE)),
    slow("gemmini", conv2d(1, 9, 7, 4, 8, 3, 3, padding=(1, 1, 1, 1), epilogue=EPILOGUE)),
    slow("amx", gemm(9, 3, 11, batch=20, epilogue=EPILOGUE)),
    slow("amx", gemm(19, 70, 40, epilogue=EPILOGUE))])
def test_streams_of_targets(target: str, work: Workload) -> None:
    (chosen,) = choose(target, {})
    work = chosen.packed(replace(work, constants=tuple(t.name for t in work.inputs[1:])))
    stream = search(work, chosen.backend.accelerator, chosen.accelerator_options, top_k=1).stream
    asked, plain = both(stream, taidl.load(stream.isa, **dict(stream.parameters)))
    assert asked < plain or (target == "gemmini" and asked == plain)


def test_random_programs() -> None:
    fewer = 0
    for number in range(3):
        grid = Grid(Random(f"splits {number}"))
        asked, plain = both(grid.stream("x"), grid.isa)
        fewer += asked < plain
        assert asked <= plain
    assert fewer
