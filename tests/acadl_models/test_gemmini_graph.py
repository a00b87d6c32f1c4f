"""Gemmini's graph: sizes, fit with the ISA, and the rates that its public figures promise."""

from __future__ import annotations

from typing import Any

import pytest

from archloom.acadl_models.acadl import SRAM, ArchitectureGraph
from archloom.acadl_models.fit import misfits
from archloom.acadl_models.gemmini import NONE, gemmini
from archloom.acadl_models.timing import TimingResult
from archloom.acadl_models.timing.reference import simulate_reference
from archloom.oracle import taidl
from archloom.oracle.affine import Affine
from archloom.oracle.errors import TargetError
from archloom.oracle.resolve import resolve
from archloom.oracle.stream import Instr, Loop, Node, Stream
from tests.support.examples import every, slow

I = Affine.variable("i")
ACC, ADD = 1 << 31, 1 << 30
OS, WS = 0, 1


def cycles(graph: ArchitectureGraph, *body: Node) -> TimingResult:
    parameters = graph.parameters
    stream = Stream("gemmini", tuple(parameters.items()), (), (), 1 << 22, body)
    return simulate_reference(graph, resolve(stream, taidl.load("gemmini", **parameters)))


def per_iteration(graph: ArchitectureGraph, head: tuple[Node, ...], *body: Node, count: int = 32) -> float:
    """Cycles that an iteration adds in the steady state."""
    short = cycles(graph, *head, Loop("i", 0, count, 1, body)).cycles
    return (cycles(graph, *head, Loop("i", 0, 2 * count, 1, body)).cycles - short) / count


def config_ex(dataflow: int, **changes: int) -> Instr:
    fields = {"dataflow": dataflow, "act": 0, "sys_shift": 0, "a_transpose": 0, "b_transpose": 0, "a_stride": 1,
              "c_stride": 1, "set_only_strides": 0}
    return Instr.make("config_ex", **{**fields, **changes})


def config_ld(stride: int, dim: int) -> Instr:
    return Instr.make("config_ld", channel=0, stride=stride, scale=0x3F800000, shrunk=0, block_stride=dim)


def config_st(stride: int, **changes: int) -> Instr:
    fields = {"stride": stride, "act": 0, "scale": 0x3F800000, "pool_size": 0, "pool_stride": 0, "pool_upad": 0,
              "pool_lpad": 0, "pool_out_dim": 0, "porows": 0, "pocols": 0, "orows": 0, "ocols": 0}
    return Instr.make("config_st", **{**fields, **changes})


def product(dim: int, rows: int, weights: int = NONE, *, streamed: int = NONE) -> tuple[Instr, Instr]:
    """A preload and a compute: ``rows`` rows of A, with new weights if an address is given."""
    mnemonic = "compute_accumulated" if weights == NONE else "compute_preloaded"
    return (
        Instr.make("preload", bd=weights, c=ACC + ADD + dim * (I % 2), bd_cols=dim, bd_rows=dim, c_cols=dim,
                   c_rows=rows),
        Instr.make(mnemonic, a=dim * (I % 8), bd=streamed, a_cols=dim, a_rows=rows, bd_cols=dim, bd_rows=dim),
    )


def first_weights(dim: int) -> tuple[Node, ...]:
    """The weights that the products of a loop keep."""
    place = Instr.make("preload", bd=16 * dim, c=NONE, bd_cols=dim, bd_rows=dim, c_cols=dim, c_rows=dim)
    take = Instr.make("compute_preloaded", a=NONE, bd=NONE, a_cols=dim, a_rows=dim, bd_cols=dim, bd_rows=dim)
    return config_ex(WS), place, take


@pytest.mark.first_case
@pytest.mark.parametrize(
    ("dim", "rows", "expected"), [(16, 16, 16), (16, 7, 7), (16, 6, 6), (8, 8, 8), (4, 4, 4), (32, 32, 32), (12, 9, 9)]
)
def test_products_with_weights_that_stay_take_as_many_cycles_as_rows(dim: int, rows: int, expected: int) -> None:
    assert per_iteration(gemmini(dim=dim), first_weights(dim), *product(dim, rows)) == expected


def test_a_product_feeds_at_least_four_rows() -> None:
    graph = gemmini(dim=16, rs_ex=64)
    assert per_iteration(graph, first_weights(16), *product(16, 1)) == 4


@pytest.mark.slow
@pytest.mark.parametrize("rows", [16, 3])
def test_new_weights_feed_the_whole_array(rows: int) -> None:
    assert per_iteration(gemmini(), (config_ex(WS),), *product(16, rows, weights=8192)) == 16


@pytest.mark.slow
@pytest.mark.parametrize("dim", [8, 16])
def test_output_stationary_products_feed_the_whole_array(dim: int) -> None:
    pair = product(dim, dim - 1, streamed=64 * dim)
    assert per_iteration(gemmini(dim=dim), (config_ex(OS, a_transpose=1),), *pair) == dim


def test_a_transposed_operand_feeds_the_whole_array() -> None:
    head = (config_ex(WS, a_transpose=1), *first_weights(16)[1:])
    assert per_iteration(gemmini(), head, *product(16, 7)) == 16


def test_the_reservation_station_bounds_short_products() -> None:
    # eight pairs at once, each from reading its one row to writing its result
    graph = gemmini(dim=16)
    assert 4 < per_iteration(graph, first_weights(16), *product(16, 1)) < 5


def test_one_product() -> None:
    # fetched as third: in the queue at 3, starts at 4; operands 1 + 15 -> 20; 2*16 + 4 - 1 - 16 = 19 -> 39;
    # result 1 + 15 -> 55
    pair = (
        Instr.make("preload", bd=256, c=ACC, bd_cols=16, bd_rows=16, c_cols=16, c_rows=16),
        Instr.make("compute_preloaded", a=0, bd=NONE, a_cols=16, a_rows=16, bd_cols=16, bd_rows=16),
    )
    result = cycles(gemmini(), config_ex(WS), *pair)
    assert result.cycles == 55
    assert sum(result.storage(f"scratchpad[{i}]").bytes_read for i in range(4)) == 2 * 256
    assert result.storage("accumulator[0]").bytes_written == 1024


@pytest.mark.first_case
@pytest.mark.parametrize(("dim", "rows", "cols"), every(2, [
    (16, 16, 64), (16, 16, 16), (8, 8, 64), (32, 32, 64), (16, 16, 40)]))
def test_loads_sustain_the_bus(dim: int, rows: int, cols: int) -> None:
    """Every row of memory takes whole beats of 16 bytes; with enough loads in flight nothing else costs."""
    load = Instr.make("mvin", dram=64 + 4096 * I, local=I % 16 * 8 * dim, cols=cols, rows=rows)
    beats = rows * -(-cols // 16)
    graph = gemmini(dim=dim, rs_ld=16)
    assert per_iteration(graph, (config_ld(128, dim),), load) == pytest.approx(beats, rel=0.03)


@pytest.mark.slow
def test_the_reservation_station_bounds_small_loads() -> None:
    # eight at once, each 100 + 16 cycles to its last byte, 4 to scale, 16 to write
    load = Instr.make("mvin", dram=64 + 4096 * I, local=I % 32 * 16, cols=16, rows=16)
    assert per_iteration(gemmini(), (config_ld(128, 16),), load, count=64) == pytest.approx(136 / 8, rel=0.01)


@pytest.mark.slow
@pytest.mark.parametrize("bits", [64, slow(128), 256])
def test_a_wider_bus_moves_more(bits: int) -> None:
    load = Instr.make("mvin", dram=64 + 4096 * I, local=I % 16 * 64, cols=64, rows=16)
    graph = gemmini(dma_bus_bits=bits, rs_ld=16)
    assert per_iteration(graph, (config_ld(64, 16),), load) == pytest.approx(1024 / (bits // 8), rel=0.03)


def test_stores_sustain_the_bus() -> None:
    store = Instr.make("mvout", dram=64 + 256 * I, local=ACC + 16 * (I % 8), cols=16, rows=16)
    graph = gemmini(rs_st=16)
    assert per_iteration(graph, (config_st(16),), store) == pytest.approx(16, rel=0.03)


@pytest.mark.slow
def test_pooling_reads_every_window() -> None:
    pooled = config_st(16, pool_size=2, pool_stride=2, pool_out_dim=4, porows=4, pocols=4, orows=8, ocols=8)
    store = Instr.make("mvout", dram=64 + 256 * I, local=ACC, cols=16, rows=1)
    graph = gemmini(rs_st=16)
    assert per_iteration(graph, (pooled,), store) == pytest.approx(4 * 4 * 2 * 2, rel=0.03)


@pytest.mark.slow
def test_a_single_ported_bank_serves_one_row_a_cycle() -> None:
    pair = product(16, 16, weights=256)  # A and the weights in one bank
    assert per_iteration(gemmini(), (config_ex(WS),), *pair) == 16
    assert per_iteration(gemmini(scratchpad_single_ported=True), (config_ex(WS),), *pair) == 32


@pytest.mark.parametrize("dim", [4, 5, 7, 8, 12, 16, 31, 32, 64, 100, 128, 200, 256])
def test_sizes_and_fit_for_every_dim(dim: int) -> None:
    graph = gemmini(dim=dim)
    parameters = graph.parameters
    assert parameters["dim"] == dim
    assert parameters["spad_rows"] % 4 == 0 and parameters["acc_rows"] % 2 == 0
    assert parameters["spad_rows"] >= 8 * dim and parameters["acc_rows"] >= 4 * dim
    assert graph.bytes_of("spad") >= 256 << 10 and graph.bytes_of("acc") >= 64 << 10
    assert misfits(graph, taidl.load("gemmini", **parameters)) == []


def test_default_sizes() -> None:
    assert gemmini().parameters == {"dim": 16, "dma_bytes": 64, "spad_rows": 16384, "acc_rows": 1024}
    assert gemmini(dim=256).parameters["spad_rows"] == 8 * 256


def test_sizes_that_are_given_are_kept() -> None:
    graph = gemmini(scratchpad_kib=64, accumulator_kib=32, scratchpad_banks=8)
    assert graph.bytes_of("spad") == 64 << 10 and graph.bytes_of("acc") == 32 << 10
    banks = [o for o in graph.objects.values() if isinstance(o, SRAM) and o.name.startswith("scratchpad")]
    assert [b.size_bytes for b in banks] == [8 << 10] * 8


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"dim": 0}, r"gemmini: dim must be an integer from 4 to 1024, not 0"),
        ({"dim": 3.5}, r"dim must be an integer from 4 to 1024, not 3\.5"),
        ({"dim": True}, r"dim must be an integer from 4 to 1024, not True"),
        ({"dim": 1300, "rs_ex": 1}, r"dim must be .*; rs_ex must be an integer from 2 to 1024, not 1"),
        ({"dma_bus_bits": 100}, r"dma_bus_bits must be a multiple of 8, not 100"),
        ({"dim": 256, "scratchpad_kib": 64}, r"scratchpad_kib=64 holds 256 rows; at least 2048 are needed: 512 KiB"),
        ({"dim": 256, "accumulator_kib": 64}, r"accumulator_kib=64 holds 64 rows; at least 256 are needed: 256 KiB"),
        ({"scratchpad_single_ported": 1}, r"scratchpad_single_ported must be True or False, not 1"),
        ({"dram_latency_cycles": 0}, r"dram_latency_cycles must be an integer from 1 to 1000000, not 0"),
    ],
)
def test_options_out_of_range(options: dict[str, Any], message: str) -> None:
    with pytest.raises(TargetError, match=message):
        gemmini(**options)


@pytest.mark.slow
def test_a_row_s_statistics_take_a_pass_over_it_each_and_no_bus() -> None:
    """Sums, then squares, then the row goes out: three passes, each after the one whose result it takes."""
    graph = gemmini(dim=16)
    normal = config_st(64, act=2)

    def row(*commands: int) -> tuple[Instr, ...]:
        return tuple(Instr.make("mvout", dram=4096 + 64 * I, local=ACC + (c << 26) + I, cols=16, rows=1)
                     for c in commands)

    gathered, stored = (per_iteration(graph, (normal,), *row(c)) for c in (1, 0))
    assert gathered < stored  # nothing goes over the bus
    assert per_iteration(graph, (normal,), *row(2, 4, 0)) >= 3 * 8  # stages of the scaling unit between the passes
