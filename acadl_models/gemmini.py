"""Gemmini (ucb-bar/gemmini) as an ACADL architecture graph.

The figures are those of its public default configuration (``Configs.scala``, ``GemminiConfigs.scala``,
``ExecuteController.scala``). What the ISA states of sizes stands there alone.

How the hardware is modelled:

* Instructions arrive one a cycle and wait in the reservation station (the issue buffer: ``rs_ld + rs_st + rs_ex``
  entries) for the queue of their controller. An instruction keeps its entry until it is finished, which bounds the
  instructions in flight: ``rs_ld`` loads, ``rs_st`` stores and ``rs_ex / 2`` products (a product is a preload and a
  compute).
* The **mesh** takes a product as a pair: ``preload`` (one cycle) and ``compute_*``. Together they occupy it for as many
  cycles as rows are fed into it: ``max(rows of A, rows of the streamed operand, least_rows)`` where weights stay and
  nothing is transposed, else ``dim``. New weights come in while another product leaves: a ``compute_preloaded`` with
  weights feeds ``dim`` rows. From the first row in to the first row out it takes ``2 * dim`` cycles (down the columns,
  then aligned along them) and ``spad_read_cycles``. The operands' beats have passed when processing starts and the
  results' beats follow it, so ``latency`` is what lies between: ``2 * dim + spad_read_cycles - 1 - rows fed``.
* **Banks** take two requests at a time, a row each in a cycle; a slot is one stream of rows. Accumulation is done by
  the adders at the accumulator's banks. With ``scratchpad_single_ported`` the streams of a scratchpad bank share one
  port (``sp_singleported``).
* **Loop state machines** (``loop_ws``, ``loop_conv_ws``) hand out the commands of loops by themselves, each kind beside
  the others: ``loop_entries`` more commands than the reservation station holds may be known ahead of the units.
* **Statistics** of rows, for layer norm and softmax, are gathered by the store controller in registers: a command
  (``mvout`` with one) reads the rows of the accumulator as a store does, and writes nothing to memory.
* **DMA**: each row of an instruction is a request of its own, issued one a cycle. All traffic shares one bus of
  ``dma_bus_bits`` a cycle to the DRAM, both directions together: the simplest that never flatters. Every contiguous
  piece of memory takes whole beats of the bus. ``dram_latency_cycles`` is an assumption of this model (L2 and DRAM are
  outside of Gemmini's configuration). With ``row_requests`` the DMA has as many rows under way as ``max_in_flight``
  says (``StreamReaderCore`` has a transaction for each, ``DMA.scala``), else as many instructions: so a row takes its
  beats, or its share of the latency where that is more.
* **Energy and area**: Intel 22FFL, the process of its paper (DAC 2021), with transistors of low operating power, and
  the DDR3 of its simulations. A PE clocks the 8 bits that go on and the 32 bits of a sum with every product; scaling is
  done by as many units of f32 as the configuration has.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from archloom.acadl_models import acadl
from archloom.acadl_models.acadl.units import UnitLatency
from archloom.acadl_models.options import Clock, Flag, Size, Stated, check
from archloom.acadl_models.parts import Fetch, QueuedUnit, connect, held, macs, registers, shared
from archloom.oracle.errors import TargetError
from archloom.oracle.resolved import Buffer

STATED = Stated("gemmini")

NONE = STATED["NONE"]
"""The local address that stands for no operand."""

ACCUMULATOR, FULL_WIDTH = 1 << 31, 1 << 29
"""Bits of a local address: of the accumulator; of its words as they are."""

_STORE_SCALE_CYCLES = 8
"""Stages of the scaling unit between accumulator and DMA (``acc_scale_args``)."""

_LOAD_SCALE_CYCLES = 4
"""Stages of the scaling unit between DMA and scratchpad (``mvin_scale_args``)."""

_LOAD_SCALE_UNITS, _STORE_SCALE_UNITS = 4, 16
"""Multipliers of f32 in the two; one for each column of the default array where the configuration says all."""

_PE_WRITTEN, _PE_HELD = 8 + 20 + 12, 20 + 2 * 32
"""Bits of a PE's flip-flops (``Mesh.scala``, ``PE.scala``, both dataflows): an activation, a sum and their control pass
on with every product; what is preloaded passes on, and two registers keep it, the width of an accumulator each."""


_TECHNOLOGY = acadl.Technology(22, devices="lop", dram="DDR3", gated=False)

_PAGE_BYTES = 4096
"""Of virtual memory."""

_STATISTICS = ("stat_sum", "stat_top", "stat_max", "stat_mean", "stat_inv_stddev", "stat_inv_sum_exp")
"""What the normalization unit before the scaling unit gathers of some rows at a time."""


_ScratchpadKib = Annotated[
    int | None, Size(1, 1 << 20, f"scratchpad; by default {STATED.kib('spad')}, more where dim needs it", "KiB")]
_AccumulatorKib = Annotated[
    int | None, Size(1, 1 << 20, f"accumulator; by default {STATED.kib('acc')}, more where dim needs it", "KiB")]
_SinglePorted = Annotated[bool, Flag("loads, reads and writes of a scratchpad bank share one port")]
_BusBits = Annotated[int, Size(8, 65536, "width of the bus to memory, a multiple of 8", "bits", multiple=8)]
_PieceBytes = Annotated[
    int, STATED.size("dma_bytes", "longest piece of memory that one row of a transfer takes", "bytes")]
_PageCycles = Annotated[
    int, Size(0, 10_000, "the DMA waits for the address of each further page of 4 KiB", "cycles")]
_LoopEntries = Annotated[
    int, Size(0, 1 << 16, "commands that the state machines of loops have ready beside the reservation station")]


def gemmini(
    *,
    dim: Annotated[int, STATED.size("dim", "rows and columns of the array")] = STATED["dim"],
    scratchpad_kib: _ScratchpadKib = None,
    accumulator_kib: _AccumulatorKib = None,
    scratchpad_banks: Annotated[int, Size(1, 64, "banks of the scratchpad")] = 4,
    accumulator_banks: Annotated[int, Size(1, 64, "banks of the accumulator")] = 2,
    scratchpad_single_ported: _SinglePorted = False,
    spad_read_cycles: Annotated[int, Size(1, 1000)] = 4,
    dma_bus_bits: _BusBits = 128,
    dma_max_bytes: _PieceBytes = STATED["dma_bytes"],
    max_in_flight: Annotated[int, Size(1, 1024, "memory requests under way at a time")] = 16,
    row_requests: Annotated[bool, Flag("a memory request under way is a row of a transfer, not a transfer")] = False,
    page_cycles: _PageCycles = 0,
    loop_entries: _LoopEntries = 0,
    least_rows: Annotated[int, Size(1, 1024, "rows that a product takes at least where weights stay")] = 4,
    ld_queue: Annotated[int, Size(1, 1024, "queue of the load controller")] = 8,
    st_queue: Annotated[int, Size(1, 1024, "queue of the store controller")] = 2,
    ex_queue: Annotated[int, Size(1, 1024, "queue of the execute controller")] = 8,
    rs_ld: Annotated[int, Size(1, 1024, "loads in the reservation station")] = 8,
    rs_st: Annotated[int, Size(1, 1024, "stores in the reservation station")] = 4,
    rs_ex: Annotated[int, Size(2, 1024, "preloads and computations in the reservation station")] = 16,
    dram_latency_cycles: Annotated[int, Size(1, 1_000_000, "from request to first data", "cycles")] = 100,
    dram_gib: Annotated[int, Size(1, 1 << 20)] = 16,
    clock_hz: Annotated[float, Clock("clock of the accelerator")] = 1e9,
) -> acadl.ArchitectureGraph:
    """Gemmini with a ``dim`` × ``dim`` array; one graph serves both dataflows (``config_ex`` chooses).

    Sizes in KiB; by default 256 KiB of scratchpad and 64 KiB of accumulator, grown where ``dim`` needs it to at least
    8 tiles of ``dim`` × ``dim`` int8 and 4 of int32. The rows are a multiple of the banks: a size that is given is
    rounded down to one, a default up. Raises TargetError that lists every option out of range.
    """
    check(gemmini, locals())
    isa = STATED.isa(
        locals(), dma_bytes=dma_max_bytes,
        spad_rows=_rows("scratchpad", scratchpad_kib, "spad", dim, scratchpad_banks, tiles=8, least=8),
        acc_rows=_rows("accumulator", accumulator_kib, "acc", dim, accumulator_banks, tiles=4, least=1))
    dma = _Dma(row_requests, dma_bus_bits // 8, dram_latency_cycles, max_in_flight, page_cycles)

    @acadl.generate
    def build() -> None:
        memory = dma.memory(dram_gib)
        spad = _banks("scratchpad", isa.buffer("spad"), scratchpad_banks, scratchpad_single_ported)
        acc = _banks("accumulator", isa.buffer("acc"), accumulator_banks, False)
        pe = acadl.RegisterFile(
            "pe", shared(isa.buffer("pe"), words=1)[0], {"pe": 0}, component=acadl.Included("execute.unit"))
        # the core, or a state machine, issues one instruction a cycle into the reservation station
        fetch = Fetch("fetch", rs_ld + rs_st + rs_ex + loop_entries)
        load = _load(fetch, ld_queue, min(rs_ld, max_in_flight), dma)
        connect(load.unit, [memory], [*spad, *acc])
        store = _store(fetch, st_queue, min(rs_st, max_in_flight), dma)
        statistics = [registers(*held(isa.buffer(name))) for name in _STATISTICS]
        connect(store.unit, [*spad, *acc, *statistics], [memory, *statistics])
        execute = _execute(fetch, ex_queue, max(1, rs_ex // 2), spad_read_cycles, least_rows, dim)
        connect(execute.unit, [*spad, pe], [*spad, *acc, pe])
        acadl.architecture(
            "gemmini", clock_hz=clock_hz, isa=isa, buffers={"hbm": memory, "spad": spad, "acc": acc},
            technology=_TECHNOLOGY)

    return acadl.create_ag(build())


@dataclass(frozen=True)
class _Dma:
    """The way to memory, and how long it is busy with rows. As ``requests`` of their own ``in_flight`` rows are under
    way, each for the latency and its beats of ``bus_bytes``; else a row is issued in a cycle. ``page``: cycles for each
    page."""

    requests: bool
    bus_bytes: int
    latency: int
    in_flight: int
    page: int

    def memory(self, gib: int) -> acadl.DRAM:
        return acadl.DRAM(
            "dram", data_width=8, port_width=self.bus_bytes, max_concurrent_requests=self.in_flight,
            read_write_ports=2, shared_port=True, read_latency=self.latency, write_latency=self.latency,
            address_ranges=[(0, gib << 30)],
        )

    def cycles(self, rows: str, size: str, stride: str) -> str:
        """Of ``rows`` rows of ``size`` bytes, ``stride`` bytes apart; as an expression of an instruction."""
        beats = f"cdiv({size}, {self.bus_bytes})"
        each = f"max({beats}, cdiv({self.latency} + {beats}, {self.in_flight}))" if self.requests else "1"
        pages = f" + {self.page} * min({rows}, cdiv({rows} * {stride}, {_PAGE_BYTES}))" if self.page else ""
        return f"{rows} * {each}{pages}"


def _load(fetch: Fetch, queue: int, in_flight: int, dma: _Dma) -> QueuedUnit:
    moves = {"mvin": 0, "mvin2": 1, "mvin3": 2}
    latency: UnitLatency = {"config_ld": 1, "*": _LOAD_SCALE_CYCLES}
    interval: dict[str, int | str] = {"config_ld": 1}
    for move, channel in moves.items():
        # zeros are made on the way; the accumulator takes words
        size = f"cols * select(local >= {ACCUMULATOR} && ld_shrunk[{channel}] == 0, 4, 1)"
        busy = dma.cycles("rows", size, f"ld_stride[{channel}]")
        interval[move] = f"select(dram == 0, rows, {busy})" if dma.requests or dma.page else "rows"
    return QueuedUnit("load", fetch, set(interval), depth=queue, latency=latency, interval=interval,
                      in_flight=in_flight, component=macs(_LOAD_SCALE_UNITS, "f32", "f32"))


def _store(fetch: Fetch, queue: int, in_flight: int, dma: _Dma) -> QueuedUnit:
    # pooling reads every element of every window; a store wider than the array moves a row of each block
    rows = (
        "select(st_pool_stride != 0, max(1, st_porows * st_pocols * st_pool_size * st_pool_size), "
        "rows * cdiv(cols, dim))"
    )
    latency: UnitLatency = {"mvout": _STORE_SCALE_CYCLES, "*": 1}
    size = f"cols * select((local // {FULL_WIDTH}) % 2 == 1, 4, 1)"
    written = "select(st_pool_stride != 0, max(1, st_porows * st_pocols), rows)"
    busy = dma.cycles(written, size, "st_stride")
    interval = f"max({rows}, {busy})" if dma.requests or dma.page else rows
    return QueuedUnit("store", fetch, {"config_st", "config_norm", "mvout"}, depth=queue, latency=latency,
                      interval={"mvout": interval, "*": 1}, in_flight=in_flight,
                      component=macs(_STORE_SCALE_UNITS, "f32", "f32"))


def _execute(
    fetch: Fetch, queue: int, in_flight: int, spad_read_cycles: int, least_rows: int, dim: int
) -> QueuedUnit:
    fed = f"max(select(a != {NONE}, a_rows, 1), select(bd != {NONE}, bd_rows, 1), {least_rows})"
    square = "ex_dataflow == 0 || ex_a_transpose == 1 || ex_b_transpose == 1"
    rows = {
        "compute_preloaded": f"select({square} || pre_addr != {NONE}, dim, {fed})",
        "compute_accumulated": f"select({square}, dim, {fed})",
    }
    # the cycle of the preload is part of the pair
    interval = {mnemonic: f"{r} - 1" for mnemonic, r in rows.items()}
    latency = {mnemonic: f"max(0, 2 * dim + {spad_read_cycles - 1} - {r})" for mnemonic, r in rows.items()}
    # ordering against the host is not modelled: a fence or flush costs its issue slot
    others = {"preload", "config_ex", "flush", "fence"}
    mesh = macs(dim * dim, "i8", "i32", _PE_WRITTEN, _PE_HELD)
    return QueuedUnit("execute", fetch, {*rows, *others}, depth=queue, latency={**latency, "*": 1},
                      interval={**interval, "*": 1}, in_flight=in_flight, component=mesh)


def _banks(name: str, buffer: Buffer, banks: int, shared_port: bool) -> list[acadl.SRAM]:
    data_width, each = shared(buffer, banks)
    return [
        acadl.SRAM(
            f"{name}[{i}]", data_width=data_width, max_concurrent_requests=2, read_write_ports=3, port_width=1,
            shared_port=shared_port, address_ranges=[(i * each, (i + 1) * each)],
            component=acadl.Memory(ports=1 if name == "scratchpad" else 2),
        )
        for i in range(banks)
    ]


def _rows(memory: str, kib: int | None, buffer: str, dim: int, banks: int, tiles: int, least: int) -> int:
    """Rows of a memory, a multiple of the banks: by default those of ``tiles`` at least; a size that is given must hold
    ``least`` of them."""
    row_bytes = STATED.row_bytes(buffer, {"dim": dim})
    if kib is None:
        return -(-max(STATED.kib(buffer) << 10, tiles * dim * row_bytes) // (row_bytes * banks)) * banks
    rows = (kib << 10) // row_bytes // banks * banks
    if rows < least * dim:
        need = -(-(-(-least * dim // banks) * banks) * row_bytes // 1024)
        raise TargetError(
            f"gemmini: {memory}_kib={kib} holds {rows} rows; at least {least * dim} are needed: {need} KiB or more")
    return rows
