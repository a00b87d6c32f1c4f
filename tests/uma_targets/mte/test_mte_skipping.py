"""Products on the MTE's cores: loops that are skipped behind caches take as many cycles as those that are stepped."""

from __future__ import annotations

from random import Random

from hypothesis import given

from archloom.acadl_models.mte import ARCHITECTURES
from archloom.acadl_models.timing import TimingResult, simulate
from archloom.mapper.workload import Epilogue, gemm
from archloom.oracle.resolve import resolve
from archloom.uma_targets.mte.target import Mte
from tests.support.examples import examples, randoms


def simulated(architecture: str, m: int, n: int, k: int, r: Random, skip: bool = True) -> TimingResult:
    """A product by one of its mappings."""
    configuration = Mte.kit.accelerator.configure({"architecture": architecture})
    work = gemm(m, n, k, epilogue=Epilogue(False, 1.0, r.random() < 0.3, "float32"), dtype="float32")
    estimated, mapping_of = configuration.space(work).ranked()
    stream = configuration.emit(work, mapping_of(r.randrange(len(estimated))))
    return simulate(configuration.graph, resolve(stream, configuration.isa), skip=skip)


@examples(3, 100)
@given(randoms)
def test_skipped_products_take_as_long_as_stepped_ones(r: Random) -> None:
    """All counters and energies follow from what is compared."""
    architecture = r.choice(list(ARCHITECTURES))
    m, n, k = r.choice((40, 112, 400)), r.choice((16, 48, 64)), r.choice((32, 96, 147, 256))
    seed = r.randrange(1 << 30)
    found = [simulated(architecture, m, n, k, Random(seed), skip) for skip in (True, False)]
    assert found[0] == found[1]


def test_most_of_a_large_product_is_skipped() -> None:
    """B stays in the cache, A and C pass by."""
    configuration = Mte.kit.accelerator.configure({"architecture": "mte32s"})
    work = gemm(784, 128, 1152, epilogue=Epilogue(False, 1.0, False, "float32"), dtype="float32")
    stream = configuration.emit(work, configuration.space(work).first()[0])
    assert simulate(configuration.graph, resolve(stream, configuration.isa)).skipped_share > 0.5
