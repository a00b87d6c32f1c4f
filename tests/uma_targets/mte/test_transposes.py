"""Transposes: what is spread over lanes is what takes fewest cycles, so that a smaller one takes no longer."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given

from archloom.mapper import workload
from archloom.mapper.nests import Axis, Code, Nest, Pass, Store
from archloom.mapper.search import search
from archloom.mapper.simulations import Simulations
from archloom.mapper.workload import Workload
from archloom.oracle.affine import Affine
from archloom.uma_targets.mte.target import Mte
from tests.support.examples import examples, randoms

MTE = Mte.kit.accelerator


def transpose(rows: int, columns: int) -> Workload:
    """Of a matrix of float32."""
    row, column = Affine.variable("row"), Affine.variable("column")
    code = Code()
    number = code.load("X0", row * columns + column)
    store = Store("Y", column * rows + row, number)
    nest = Nest((Axis("column", columns), Axis("row", rows)), (Pass((), tuple(code.operations), (store,)),))
    return workload.nest((nest,), (((rows, columns), "float32"), ((columns, rows), "float32")))


def cycles(work: Workload) -> int:
    return search(work, MTE, use_cache=False).timing.cycles


@given(random=randoms)
@examples(2, 100)
def test_a_smaller_transpose_takes_no_longer(random: Random) -> None:
    rows, columns = random.randrange(128, 250), random.randrange(200, 900)
    fewer = columns - random.randrange(1, 100)
    assert cycles(transpose(rows, fewer)) <= 1.01 * cycles(transpose(rows, columns))


def test_nor_does_one_whose_rows_and_columns_fill_vectors_about_as_well() -> None:
    assert cycles(transpose(131, 644)) <= 1.01 * cycles(transpose(131, 676))


@given(random=randoms)
@examples(3, 100)
def test_rows_or_columns_lie_along_vectors_whichever_takes_fewer_cycles(random: Random) -> None:
    work, configuration = transpose(random.randrange(4, 65), random.randrange(100, 600)), MTE.configure()
    space, runs = configuration.space(work), Simulations(configuration, lambda *heard: None, energies_decide=False)
    mappings = [space.mapping(i) for i in range(len(space))]
    assert len({mapping.lanes for mapping in mappings}) == 2
    best = min(runs.of(configuration.emit(work, mapping)).timing.cycles for mapping in mappings)
    assert cycles(work) == best


@pytest.mark.parametrize("lane", [0, 1])
def test_what_lies_along_vectors_can_be_asked_for(lane: int) -> None:
    work = transpose(40, 200)
    assert search(work, MTE, {"mapping": f"lanes={lane}"}, use_cache=False).mapping.lanes == (lane,)
    whole = search(work, MTE, {"mapping": f"lanes={lane}"}, use_cache=False).mapping.to_json()
    assert search(work, MTE, {"mapping": whole}, use_cache=False).mapping.to_json() == whole
