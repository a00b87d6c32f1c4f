"""QKV, the attention accelerator of the tutorials, as an ACADL architecture graph. All of its figures are assumptions,
its process (16 nm, LPDDR4) as well.

Four units, each behind a queue, work side by side, as far as the data allow:

* **load** and **store** move tiles between memory and the local storages over a bus of ``bus_bytes`` a cycle each; a
  row of a tile takes at least a cycle.
* The **array** has ``dim`` x ``dim`` multiply-accumulate units and takes a row of A a cycle; a row's sums come out
  ``2 * dim`` cycles after it went in, and are added at the storage of the sums.
* **softmax** goes over its rows three times (maximum, powers and their sum, quotients), ``dim`` numbers a cycle.
"""

from __future__ import annotations

from typing import Annotated

from archloom.acadl_models import acadl
from archloom.acadl_models.options import Clock, Size, Stated, problems_of, refuse
from archloom.acadl_models.parts import Fetch, QueuedUnit, connect, held, macs, row_memory

STATED = Stated("qkv")


def qkv(
    *,
    dim: Annotated[int, STATED.size("dim", "rows and columns of the array and of a tile")] = STATED["dim"],
    operand_rows: Annotated[
        int, STATED.size("operand_rows", "rows of dim numbers that products read")] = STATED["operand_rows"],
    sum_rows: Annotated[int, STATED.size("sum_rows", "rows of dim sums")] = STATED["sum_rows"],
    bus_bytes: Annotated[int, Size(1, 4096, "width of the bus to the DRAM", "bytes")] = 64,
    dram_cycles: Annotated[int, Size(1, 1_000_000, "from request to first data", "cycles")] = 50,
    exp_cycles: Annotated[int, Size(0, 10_000, "pipeline of the softmax unit", "cycles")] = 8,
    in_flight: Annotated[int, Size(1, 1024, "instructions of a unit under way")] = 8,
    queue: Annotated[int, Size(1, 1024, "instructions that wait before each unit")] = 8,
    issue_entries: Annotated[int, Size(2, 4096, "instructions that wait for issue")] = 32,
    dram_gib: Annotated[int, Size(1, 1 << 20, "DRAM", "GiB")] = 4,
    clock_hz: Annotated[float, Clock("clock of the accelerator")] = 1e9,
) -> acadl.ArchitectureGraph:
    """QKV with tiles of ``dim`` × ``dim``. Raises TargetError that lists every option out of range."""
    _check_options(locals())
    isa = STATED.isa(locals())

    @acadl.generate
    def build() -> None:
        memory = acadl.DRAM(
            "dram", data_width=8, port_width=bus_bytes, max_concurrent_requests=2 * in_flight, read_write_ports=2,
            read_latency=dram_cycles, write_latency=dram_cycles, address_ranges=[(0, dram_gib << 30)],
        )
        operands, sums = (row_memory(*held(isa.buffer(name)), requests=4, ports=4) for name in ("operands", "sums"))
        fetch = Fetch("fetch", issue_entries, 2)

        def unit(
            name: str, mnemonics: set[str], latency: str | int, interval: str | int, most: int,
            component: acadl.Logic | None = None,
        ) -> QueuedUnit:
            return QueuedUnit(name, fetch, mnemonics, depth=queue, latency=latency, interval=interval, in_flight=most,
                              component=component)

        load = unit("load", {"load", "load_sums"}, 1, "rows", in_flight)
        array = unit("array", {"gemm"}, dim, "dim", in_flight, macs(dim * dim, "f32", "f32", register_bits=64))
        softmax = unit("softmax", {"softmax"}, f"2 * dim * cdiv(keys, dim) + {exp_cycles}",
                       "3 * dim * cdiv(keys, dim)", 1, macs(dim, "f32", "f32"))
        store = unit("store", {"store"}, 1, "rows", in_flight)
        connect(load.unit, [memory], [operands, sums])
        connect(array.unit, [operands], [sums])
        connect(softmax.unit, [sums], [operands])
        connect(store.unit, [sums], [memory])
        acadl.architecture(
            "qkv", clock_hz=clock_hz, isa=isa, buffers={"hbm": memory}, technology=acadl.Technology(16, dram="LPDDR4"),
        )

    return acadl.create_ag(build())


def _check_options(options: dict[str, object]) -> None:
    problems = problems_of(qkv, options)
    dim, rows = options["dim"], options["operand_rows"]
    if isinstance(dim, int) and isinstance(rows, int) and rows < 4 * dim:
        problems.append(f"operand_rows ({rows}) must hold four tiles of dim ({dim}) rows")
    if isinstance(dim, int) and isinstance(options["sum_rows"], int) and options["sum_rows"] < dim:
        problems.append(f"sum_rows ({options['sum_rows']}) must hold a tile of dim ({dim}) rows")
    refuse("qkv", problems)
