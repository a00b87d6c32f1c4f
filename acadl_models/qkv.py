"""QKV, the attention accelerator of the tutorials, as an ACADL architecture graph. All of its figures are assumptions.

Four units, each behind a queue, work side by side, as far as the data allow:

* **load** and **store** move tiles between memory and the local storages over a bus of ``bus_bytes`` a cycle each; a
  row of a tile takes at least a cycle.
* The **array** has ``dim`` x ``dim`` multiply-accumulate units and takes a row of A a cycle; a row's sums come out
  ``2 * dim`` cycles after it went in, and are added at the storage of the sums.
* **softmax** goes over its rows three times (maximum, powers and their sum, quotients), ``dim`` numbers a cycle.
"""

from __future__ import annotations

from archloom.acadl_models.acadl import (
    DRAM,
    READ_DATA,
    SRAM,
    WRITE_DATA,
    ACADLEdge,
    ArchitectureGraph,
    DataStorage,
    architecture,
    create_ag,
    generate,
)
from archloom.acadl_models.options import out_of_range, refuse
from archloom.acadl_models.parts import Fetch, QueuedUnit


def qkv(
    *,
    dim: int = 16,
    operand_rows: int = 1 << 10,
    sum_rows: int = 1 << 10,
    bus_bytes: int = 64,
    dram_cycles: int = 50,
    exp_cycles: int = 8,
    in_flight: int = 8,
    queue: int = 8,
    issue_entries: int = 32,
    dram_gib: int = 4,
    clock_hz: float = 1e9,
) -> ArchitectureGraph:
    """QKV with tiles of ``dim`` × ``dim``. Raises TargetError that lists every option out of range."""
    _check_options(locals())

    @generate
    def build() -> None:
        memory = DRAM(
            "dram", data_width=8, port_width=bus_bytes, max_concurrent_requests=2 * in_flight, read_write_ports=2,
            read_latency=dram_cycles, write_latency=dram_cycles, address_ranges=[(0, dram_gib << 30)],
        )
        operands = _memory("operands", dim, operand_rows)
        sums = _memory("sums", dim, sum_rows)
        fetch = Fetch("fetch", issue_entries, 2)

        def unit(name: str, mnemonics: set[str], latency: str | int, interval: str | int, most: int) -> QueuedUnit:
            return QueuedUnit(name, fetch, mnemonics, depth=queue, latency=latency, interval=interval, in_flight=most)

        load = unit("load", {"load", "load_sums"}, 1, "rows", in_flight)
        array = unit("array", {"gemm"}, dim, "dim", in_flight)
        softmax = unit("softmax", {"softmax"}, f"2 * dim * cdiv(keys, dim) + {exp_cycles}",
                       "3 * dim * cdiv(keys, dim)", 1)
        store = unit("store", {"store"}, 1, "rows", in_flight)
        _connect(load, reads=[memory], writes=[operands, sums])
        _connect(array, reads=[operands], writes=[sums])
        _connect(softmax, reads=[sums], writes=[operands])
        _connect(store, reads=[sums], writes=[memory])
        architecture(
            "qkv", clock_hz=clock_hz, parameters={"dim": dim, "operand_rows": operand_rows, "sum_rows": sum_rows},
            buffers={"hbm": memory, "operands": operands, "sums": sums},
        )

    return create_ag(build())


def _memory(name: str, dim: int, rows: int) -> SRAM:
    """Rows of dim numbers, a row a cycle for each of its streams."""
    return SRAM(
        name, data_width=32 * dim, max_concurrent_requests=4, read_write_ports=4, address_ranges=[(0, rows)]
    )


def _connect(to: QueuedUnit, *, reads: list[DataStorage], writes: list[DataStorage]) -> None:
    for storage in reads:
        ACADLEdge(storage, to.unit, READ_DATA)
    for storage in writes:
        ACADLEdge(to.unit, storage, WRITE_DATA)


RANGES: dict[str, tuple[int, int]] = {
    "dim": (2, 256), "operand_rows": (8, 1 << 24), "sum_rows": (8, 1 << 24), "bus_bytes": (1, 4096),
    "dram_cycles": (1, 1_000_000), "exp_cycles": (0, 10_000), "in_flight": (1, 1024), "queue": (1, 1024),
    "issue_entries": (2, 4096), "dram_gib": (1, 1 << 20),
}
"""Smallest and largest value of each integer option."""


def _check_options(options: dict[str, object]) -> None:
    problems = out_of_range(options, RANGES)
    dim, rows = options["dim"], options["operand_rows"]
    if isinstance(dim, int) and isinstance(rows, int) and rows < 4 * dim:
        problems.append(f"operand_rows ({rows}) must hold four tiles of dim ({dim}) rows")
    if isinstance(dim, int) and isinstance(options["sum_rows"], int) and options["sum_rows"] < dim:
        problems.append(f"sum_rows ({options['sum_rows']}) must hold a tile of dim ({dim}) rows")
    refuse("qkv", problems)
