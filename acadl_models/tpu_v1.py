"""TPU v1 as an ACADL architecture graph: a matrix unit between a Unified Buffer, a weight FIFO and accumulators.

Source of the figures: Jouppi et al., "In-Datacenter Performance Analysis of a Tensor Processing Unit", ISCA 2017: 256 x
256 multipliers at 700 MHz, 24 MiB of Unified Buffer, 4 MiB of accumulators, a FIFO of four weight tiles, 30 GiB/s from
weight memory, 14 GiB/s from and to the host (its figure 1).

How the hardware is modelled:

* **Weight fetch** brings a tile from weight memory into the FIFO over a link of ``weight_bytes`` a cycle, 46 of which
  are 30 GiB/s at 700 MHz. It runs ahead of the products as far as the FIFO goes.
* The **matrix unit** takes a row of the Unified Buffer a cycle. It holds a second tile: while rows stream, the next
  tile shifts in, which takes ``dim`` cycles, so a product that takes a tile occupies the unit for at least as long. The
  sums of a row come out ``2 * dim`` cycles after it went in. The adders stand at the accumulators.
* The **activation unit** reads a row of accumulators and writes a row of the Unified Buffer in a cycle.
* **Host transfers** pass a link of ``host_bytes`` a cycle in each direction, 21 of which are 14 GiB/s.
* Host memory and weight memory are one address space with a port for each unit: they share no bandwidth.

* **Energy and area**: 28 nm (its table 2) and DDR3. Bytes from and to the host cost what they cost in memory, which
  stands for the link, too. A multiplier writes the 8 bits that go on and the 32 bits of a sum, and holds two weights;
  clocks are not gated (the paper: the schedule left no time to save energy). The FIFO shifts a tile by rows.

Assumed (the paper has no figures): latencies of memory, host link and activation, queues, the instruction supply, the
supply of the node, and a unit of f32 for each column in the activation unit.
"""

from __future__ import annotations

from typing import Annotated

from archloom.acadl_models import acadl
from archloom.acadl_models.options import Clock, Size, Stated, check, refuse
from archloom.acadl_models.parts import Fetch, QueuedUnit, connect, held, macs, row_memory, shared

STATED = Stated("tpu_v1")
TILES = STATED["TILES"]
"""Depth of the weight FIFO."""


def tpu_v1(
    *,
    dim: Annotated[int, STATED.size("dim", "rows and columns of the matrix unit")] = STATED["dim"],
    unified_buffer_kib: Annotated[int, Size(1, 1 << 20, "Unified Buffer", "KiB")] = STATED.kib("unified_buffer"),
    accumulator_kib: Annotated[int, Size(1, 1 << 20, "accumulators", "KiB")] = STATED.kib("accumulator"),
    weight_bytes: Annotated[int, Size(1, 65536, "from weight memory in a cycle", "bytes")] = 46,
    host_bytes: Annotated[int, Size(1, 65536, "from and to the host in a cycle, each", "bytes")] = 21,
    memory_cycles: Annotated[int, Size(1, 1_000_000, "from request to first data", "cycles")] = 70,
    host_cycles: Annotated[int, Size(0, 1_000_000, "what the link to the host adds", "cycles")] = 500,
    activation_cycles: Annotated[int, Size(1, 1_000_000, "pipeline of the activation unit", "cycles")] = 16,
    queue: Annotated[int, Size(1, 1024, "instructions that wait before each unit")] = 16,
    issue_entries: Annotated[int, Size(2, 4096, "instructions that wait for issue")] = 64,
    memory_gib: Annotated[int, Size(1, 1 << 20, "weight and host memory", "GiB")] = 8,
    clock_hz: Annotated[float, Clock("clock of the accelerator")] = 700e6,
) -> acadl.ArchitectureGraph:
    """TPU v1 with a ``dim`` × ``dim`` matrix unit; ``weight_bytes`` and ``host_bytes`` are bytes a cycle.

    Raises TargetError that lists every option out of range, or a memory that holds too few rows.
    """
    check(tpu_v1, locals())
    ub_rows = (unified_buffer_kib << 10) // STATED.row_bytes("unified_buffer", locals())
    acc_rows = (accumulator_kib << 10) // STATED.row_bytes("accumulator", locals())
    refuse("tpu_v1", [*_too_few("unified_buffer_kib", unified_buffer_kib, ub_rows, 16),
                      *_too_few("accumulator_kib", accumulator_kib, acc_rows, 4)])
    isa = STATED.isa(locals(), ub_rows=ub_rows, acc_rows=acc_rows)

    @acadl.generate
    def build() -> None:
        memory = _memory(max(weight_bytes, host_bytes), memory_cycles, memory_gib)
        of_memory = acadl.Included("memory")
        pcie = acadl.Link("pcie", bandwidth=host_bytes, latency=host_cycles, component=of_memory)
        ddr3 = acadl.Link("ddr3", bandwidth=weight_bytes, component=of_memory)
        buffer = row_memory(*held(isa.buffer("unified_buffer")), requests=6, ports=4)
        sums = row_memory("accumulators", *shared(isa.buffer("accumulator")), requests=4, ports=3,
                          component=acadl.Memory(ports=2))
        fifo = row_memory(*held(isa.buffer("fifo")), requests=2, ports=2, component=acadl.Memory(width_bits=8 * dim))
        tile = acadl.RegisterFile("weights", shared(isa.buffer("weights"), words=1)[0], {"tile": 0},
                                  component=acadl.Included("matrix.unit"))
        fetch = Fetch("fetch", issue_entries, 2)
        incoming = _mover("host_in", fetch, queue, {"read_host_memory", "read_bias"}, 4)
        outgoing = _mover("host_out", fetch, queue, {"write_host_memory"}, 4)
        weights = _mover("weight_fetch", fetch, queue, {"read_weights", "read_weights_strided"}, TILES)
        matrix = _matrix(fetch, queue, macs(dim * dim, "i8", "i32", register_bits=8 + 32, held_bits=2 * 8))
        activation = _activation(fetch, queue, activation_cycles, macs(dim, "f32", "f32"))
        connect(incoming.unit, [memory], link=pcie)
        connect(incoming.unit, writes=[buffer, sums])
        connect(outgoing.unit, [buffer])
        connect(outgoing.unit, writes=[memory], link=pcie)
        connect(weights.unit, [memory], link=ddr3)
        connect(weights.unit, writes=[fifo])
        connect(matrix.unit, [buffer, fifo], [sums])
        connect(activation.unit, [sums], [buffer])
        connect(matrix.unit, [tile], [tile])
        acadl.architecture(
            "tpu_v1", clock_hz=clock_hz, isa=isa,
            buffers={"hbm": memory, "accumulator": sums},
            technology=acadl.Technology(28, dram="DDR3", gated=False),
        )

    return acadl.create_ag(build())


def _too_few(name: str, kib: int, rows: int, least: int) -> list[str]:
    return [f"{name}={kib} holds {rows} rows; at least {least} are needed"] if rows < least else []


def _memory(port_bytes: int, cycles: int, gib: int) -> acadl.DRAM:
    return acadl.DRAM(
        "memory", data_width=8, port_width=port_bytes, max_concurrent_requests=16, read_write_ports=3,
        read_latency=cycles, write_latency=cycles, address_ranges=[(0, gib << 30)],
    )


def _mover(name: str, fetch: Fetch, queue: int, mnemonics: set[str], in_flight: int) -> QueuedUnit:
    return QueuedUnit(name, fetch, mnemonics, depth=queue, latency=1, interval="1", in_flight=in_flight)


def _matrix(fetch: Fetch, queue: int, component: acadl.Logic) -> QueuedUnit:
    # operands' beats have passed when processing starts and the results' beats follow it: what lies between
    rows = {"matrix_multiply": "rows", "convolve": "height * width"}
    latency = {name: f"max(0, (2 + take) * dim - {r})" for name, r in rows.items()}
    interval = {name: f"max({r}, take * dim)" for name, r in rows.items()}
    return QueuedUnit("matrix", fetch, set(rows), depth=queue, latency=dict(latency), interval=dict(interval),
                      in_flight=queue, component=component)


def _activation(fetch: Fetch, queue: int, cycles: int, component: acadl.Logic) -> QueuedUnit:
    interval = {"activate": "rows", "activate_pool": "height * width"}
    return QueuedUnit("activation", fetch, set(interval), depth=queue, latency=cycles, interval=dict(interval),
                      in_flight=4, component=component)
