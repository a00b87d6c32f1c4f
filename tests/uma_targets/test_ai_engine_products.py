"""Products on AI Engines: what is smaller than a tile is computed beside the others."""

from __future__ import annotations

from random import Random

from hypothesis import given

from archloom.acadl_models.timing import simulate
from archloom.mapper.mapping import Mapping
from archloom.mapper.workload import Epilogue, gemm
from archloom.oracle.resolve import resolve
from archloom.uma_targets.ai_engine import AiEngine
from tests.support.examples import examples, randoms


@given(random=randoms)
@examples(5, 200)
def test_a_smaller_tile_at_the_edge_takes_no_longer_than_a_whole_one(random: Random) -> None:
    configuration = AiEngine.kit.accelerator.configure({"rows": 2, "columns": 4})
    rows = random.choice((1, 2, 4, 8))
    tiles = {"m": random.randrange(8, 33), "n": random.randrange(8, 33), "k": random.randrange(8, 17)}
    mapping = Mapping("gemm", f"{rows}x{8 // rows}", tuple(tiles.items()), ("m", "n", "k"))
    whole = {"m": tiles["m"] * rows, "n": tiles["n"] * (8 // rows)}
    part = {d: extent - random.randrange(1, tiles[d]) for d, extent in whole.items()}
    depth, epilogue, taken = random.randrange(400, 800), Epilogue(random.random() < 0.5, 0.5, False, "int8"), []
    for extents in (part, whole):
        stream = configuration.emit(gemm(extents["m"], extents["n"], depth, epilogue=epilogue), mapping)
        taken.append(simulate(configuration.graph, resolve(stream, configuration.isa)).cycles)
    assert taken[0] <= taken[1]
