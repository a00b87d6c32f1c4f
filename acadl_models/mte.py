"""A vector core with the Matrix Tile Extension as an architecture graph, and the architectures that it is compared
with.

An out-of-order core: instructions come in order through a front end, get physical registers and an entry of the reorder
buffer at its end, wait before the units, and commit in order. Vector units compute ``lane_bits`` a cycle each; products
of tiles are taken by a systolic array, which takes a row of A a cycle, or by the vector units as one vector
multiply-add for each column of A. A result is there when the unit is done with it (Table VII's dynamic latency). The
static latency is that of the front end: section V-E has it between decoding and the reservation of units. Since it is
in order, all instructions of a program pass it in the time of the slowest.

Sources: Tables IV to VII and section V of de Limas Santana et al., "A Flexible Instruction Set Architecture for
Efficient GEMMs" (2025). What it does not state, and is chosen here: vectors and tiles pass by the first cache, as in
the vector core that its own is said to resemble (NEC's SX-Aurora), whose vector units read the last cache, and since
ten misses of the first could bring them 20 bytes a cycle; two loads and a store of 64 bytes a cycle, and lines of 64
bytes in the first cache, as the core has that the paper takes the rest from (Sapphire Rapids); as many ports for
prefetches, to the cache that vectors pass by, as for loads; scalar units, ports and the entries of queues, so that they
do not decide; that physical registers are among the resources that are taken
behind the static latency (taken before it, 8 free ones would let a vector instruction of 4 cycles begin every third
cycle at best, and Figure 7 has more); scalar registers that never run out. Each unit takes its queue in order. The
bandwidth of memory is lines on their way at a time. Stores write when they are processed.

Energy and area: 5 nm as in the paper; HBM2 stands for its memory, whose kind is not stated.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Annotated, Any

from archloom.acadl_models import acadl, riscv_v
from archloom.acadl_models.acadl.semantics import Semantics
from archloom.acadl_models.acadl.units import UnitLatency
from archloom.acadl_models.options import Clock, Size, Stated, Word, problems_of, refuse
from archloom.acadl_models.parts import Fetch, cache_level, connect, incomplete_sets, issue, macs, registers, shared
from archloom.oracle.resolved import Buffer

STATED = Stated("mte")

PORT_BYTES = LINE_BYTES = 64

_TECHNOLOGY = acadl.Technology(5, dram="HBM2")

SCALARS = 32
"""Integer registers, and as many of floats."""

CONFIGURATION = frozenset({"tssm", "tssn", "tssk", "csrwi_tpolicy", "csrwi_bfloat", "csrr_rlenb"})
PRODUCTS = frozenset({"tmul", "twmul", "tfmul", "tfwmul"})
MASKS = frozenset({"tvmaska", "tvmaskb", "tvmaskc", "tvmaskbt"})
TILES = {"a": ("tm", "tk", "sewi"), "b": ("tk", "tn", "sewi"), "c": ("tm", "tn", "sewo"), "bt": ("tn", "tk", "sewi")}
"""Rows, columns and bits of an element of a tile in memory."""


@dataclass(frozen=True)
class Architecture:
    """A row of Table VII; a tile is one row (``rlen`` as ``vlen``) where there are no instructions for tiles.

    ``static_cycles``: of a product, through the front end. ``arrays``: systolic ones; without any the vector units
    multiply tiles.
    """

    vlen: int = 8192
    rlen: int = STATED["rlen"]
    registers: int = STATED["registers"]
    physical: int = 40
    static_cycles: int = 36
    vector_units: int = 4
    arrays: int = 0


ARCHITECTURES: Mapping[str, Architecture] = {
    "vector1kb": Architecture(rlen=8192, static_cycles=20),
    "vector2kb": Architecture(vlen=16384, rlen=16384, static_cycles=20),
    "sifive_int": Architecture(rlen=2048, static_cycles=28),
    "mte8s": Architecture(registers=8, physical=24, vector_units=2, arrays=1),
    "mte32s": Architecture(vector_units=2, arrays=1),
    "mte32v": Architecture(),
}


def mte(
    *,
    architecture: Annotated[str, Word(tuple(ARCHITECTURES), "the figures that are not given")] = "mte32s",
    vlen: Annotated[int | None, STATED.size("vlen", "vector register, a power of two", "bits")] = None,
    rlen: Annotated[int | None, STATED.size("rlen", "row of a tile, a power of two, at most vlen", "bits")] = None,
    registers: Annotated[int | None, STATED.size("registers", "vector registers of a program")] = None,
    physical: Annotated[int | None, Size(9, 1 << 12, "vector registers to which they are renamed")] = None,
    static_cycles: Annotated[int | None, Size(0, 1000, "through the front end")] = None,
    vector_units: Annotated[int | None, Size(1, 16, "vector units")] = None,
    arrays: Annotated[int | None, Size(0, 16, "systolic arrays; without any the vector units multiply tiles")] = None,
    lane_bits: Annotated[int, Size(64, 1 << 16, "that a vector unit computes a cycle", "bits")] = 2048,
    reorder_entries: Annotated[int, Size(1, 1 << 14, "instructions between decoding and commit")] = 512,
    width: Annotated[int, Size(1, 64, "instructions fetched, decoded and committed a cycle")] = 6,
    queue: Annotated[int, Size(1, 1024, "instructions that wait before units of a kind")] = 64,
    load_ports: Annotated[int, Size(1, 8, "loads of 64 bytes a cycle")] = 2,
    vectors_from: Annotated[str, Word(("l1", "l2"), "the cache that vectors and tiles are loaded from")] = "l2",
    l1_kib: Annotated[int, Size(1, 1 << 16, "first cache", "KiB")] = 48,
    l1_ways: Annotated[int, Size(1, 64, "lines of a set of the first cache")] = 8,
    l1_cycles: Annotated[int, Size(1, 1000, "look-up in the first cache", "cycles")] = 4,
    l1_misses: Annotated[int, Size(1, 1024, "miss-status registers of the first cache")] = 10,
    l2_kib: Annotated[int, Size(1, 1 << 20, "second cache", "KiB")] = 2048,
    l2_ways: Annotated[int, Size(1, 64, "lines of a set of the second cache")] = 8,
    l2_line: Annotated[int, Size(64, 4096, "line of the second cache, a multiple of 64", "bytes", multiple=64)] = 128,
    l2_cycles: Annotated[int, Size(1, 1000, "look-up in the second cache", "cycles")] = 26,
    l2_misses: Annotated[int, Size(1, 1 << 14, "miss-status registers of the second cache")] = 256,
    memory_mbps: Annotated[int, Size(1, 10**8, "bandwidth of memory", "MB/s")] = 191_250,
    memory_ns: Annotated[int, Size(1, 10**6, "latency of memory", "ns")] = 110,
    memory_gib: Annotated[int, Size(1, 1 << 20, "memory", "GiB")] = 16,
    clock_hz: Annotated[float, Clock("clock of the core")] = 2e9,
) -> acadl.ArchitectureGraph:
    """One core. Raises TargetError that lists every option out of range."""
    chosen = _checked(locals())
    isa = STATED.isa(asdict(chosen))

    @acadl.generate
    def build() -> None:
        memory, cycles = _memory(memory_gib, memory_mbps, memory_ns, l2_line, clock_hz)
        l2 = cache_level("l2", memory, l2_kib, l2_ways, l2_line, port_bytes=PORT_BYTES, hit_cycles=l2_cycles,
                         miss_cycles=cycles, requests=l2_misses, ports=2 * load_ports + 1, miss_registers=l2_misses)
        l1 = cache_level("l1", l2, l1_kib, l1_ways, LINE_BYTES, port_bytes=PORT_BYTES, hit_cycles=l1_cycles,
                         miss_cycles=l1_cycles, requests=2 * queue, ports=3 * load_ports + 2, miss_registers=l1_misses)
        v = _registers(isa.buffer("v"), chosen.registers, chosen.physical)
        x, f = (_registers(isa.buffer(name), SCALARS, SCALARS + reorder_entries) for name in "xf")
        front = 1 + chosen.static_cycles
        fetch = Fetch("fetch", 2 * queue + width * front, width, front, reorder=(reorder_entries, width, width))
        near = l1 if vectors_from == "l1" else l2
        _units(fetch, queue, chosen, lane_bits, load_ports, width, (near, l1), (v, x, f))
        acadl.architecture(
            "mte", clock_hz=clock_hz, isa=isa, buffers={"hbm": memory}, technology=_TECHNOLOGY,
            semantics=Semantics(fetches_in_flight=front))

    return acadl.create_ag(build())


def macs_per_cycle(graph: acadl.ArchitectureGraph) -> int:
    """Products of float32 that the arrays, or without any the vector units, begin a cycle at most."""
    def multipliers(kind: str) -> int:
        made_of = [unit.component for unit in graph.functional_units if unit.name.startswith(f"{kind}[")]
        return sum(each.units["multiply f32"] for each in made_of if isinstance(each, acadl.Logic))

    return multipliers("array") or multipliers("vector")


# --- parts -----------------------------------------------------------------------------------------------------------
def _memory(gib: int, mbps: int, ns: int, line: int, clock_hz: float) -> tuple[acadl.DRAM, int]:
    """The memory, whose bandwidth is lines on their way at a time, and its latency in cycles."""
    cycles = max(1, round(ns * 1e-9 * clock_hz))
    lines = max(1, round(mbps * 1e6 * ns * 1e-9 / line))
    return acadl.DRAM(
        "memory", data_width=8, port_width=line, max_concurrent_requests=lines, read_write_ports=1,
        read_latency=cycles, write_latency=cycles, address_ranges=[(0, gib << 30)],
        write_after_read="started"), cycles


def _units(
    fetch: Fetch, queue: int, chosen: Architecture, lane_bits: int, load_ports: int, scalar_units: int,
    memories: tuple[acadl.DataStorage, acadl.DataStorage],
    files: tuple[acadl.RegisterFile, acadl.RegisterFile, acadl.RegisterFile],
) -> None:
    """All units, those of a kind behind a queue of their own: ``memories`` are what vectors and what scalars are loaded
    from, ``files`` the registers of vectors, of integers and of floats."""
    (near, l1), (v, x, f) = memories, files
    vectors = [_vector_unit(i, chosen, lane_bits) for i in range(chosen.vector_units)]
    arrays = [_array(i, chosen) for i in range(chosen.arrays)]
    loads, numbers = [_load_port(i) for i in range(load_ports)], [_scalar_load(i) for i in range(load_ports)]
    ahead = [_prefetch_port(i) for i in range(load_ports)]
    store, scalar_store = _store_port(), _scalar_store()
    scalars = [_scalar_unit(i) for i in range(scalar_units)]
    issue(fetch, queue, vector=vectors, array=arrays, load=loads, store=[store], scalar=scalars,
          scalar_load=numbers, scalar_store=[scalar_store], prefetch=ahead)
    connect(vectors, [v, x, f], [v, x, f])
    connect(arrays, [v], [v])
    connect(loads, [near, v], [v])
    connect(numbers, [l1], [x, f])
    connect(ahead, [near])
    connect(store, [v], [near])
    connect(scalar_store, [x, f], [l1])
    connect(scalars, [x, f], [x, f])


def _registers(buffer: Buffer, count: int, physical: int) -> acadl.RegisterFile:
    bits, _ = shared(buffer, words=count)
    return registers(buffer.name, bits, count, component=acadl.Memory(width_bits=bits, ports=2), physical=physical)


def _vector_unit(number: int, chosen: Architecture, lane_bits: int) -> acadl.FunctionalUnit:
    """It computes vectors, and tiles where there is no array: a step for each column of A, of all rows."""
    latency = {"*": f"max(1, cdiv(vl * sew, {lane_bits}))"} | dict.fromkeys(sorted(MASKS), "1")
    processed = riscv_v.VECTOR | MASKS
    if not chosen.arrays:
        processed |= PRODUCTS
        latency |= dict.fromkeys(sorted(PRODUCTS), f"max(1, tk * cdiv(tm * {chosen.rlen}, {lane_bits}))")
    return acadl.FunctionalUnit(
        f"vector[{number}]", to_process=processed, latency=latency, component=macs(lane_bits // 32, "f32", "f32"))


def _array(number: int, chosen: Architecture) -> acadl.FunctionalUnit:
    """It takes a row of A a cycle."""
    columns, rows = chosen.rlen // 32, chosen.vlen // chosen.rlen
    return acadl.FunctionalUnit(
        f"array[{number}]", to_process=PRODUCTS, latency="max(1, tm)",
        component=macs(columns * min(rows, columns), "f32", "f32"))


def _rows(what: str, *, turned: bool = False) -> str:
    """Cycles in which a tile passes a port: its rows in memory (its columns, where these are rows), piece by piece."""
    rows, columns, bits = TILES[what]
    if turned:
        rows, columns = columns, rows
    return f"{rows} * cdiv({columns} * {bits}, {8 * PORT_BYTES})"


def _passing(tiles: dict[str, str], contiguous: Mapping[str, int], spread: frozenset[str]) -> UnitLatency:
    """Cycles for which instructions keep a port: vectors in pieces, strided and indexed ones an element at a time."""
    pieces = {name: f"max(1, cdiv(vl * {bits}, {8 * PORT_BYTES}))" for name, bits in sorted(contiguous.items())}
    return {**tiles, **pieces, **dict.fromkeys(sorted(spread), "max(1, vl)")}


def _load_port(number: int) -> acadl.MemoryAccessUnit:
    tiles = {f"tl{what}": _rows(what) for what in TILES} | {f"ttl{what}": _rows(what, turned=True) for what in TILES}
    return acadl.MemoryAccessUnit(
        f"load[{number}]", latency=1, in_flight=64,
        interval=_passing(tiles, riscv_v.CONTIGUOUS_LOADS, riscv_v.SPREAD_LOADS),
        to_process={*riscv_v.CONTIGUOUS_LOADS, *riscv_v.SPREAD_LOADS, *tiles})


def _store_port() -> acadl.MemoryAccessUnit:
    tiles = {"tsc": _rows("c"), "ttsc": _rows("c", turned=True)}
    return acadl.MemoryAccessUnit(
        "store", latency=1, in_flight=64,
        interval=_passing(tiles, riscv_v.CONTIGUOUS_STORES, riscv_v.SPREAD_STORES),
        to_process={*riscv_v.CONTIGUOUS_STORES, *riscv_v.SPREAD_STORES, *tiles})


def _scalar_load(number: int) -> acadl.MemoryAccessUnit:
    return acadl.MemoryAccessUnit(
        f"scalar_load[{number}]", latency=1, interval=1, in_flight=64, to_process=riscv_v.SCALAR_LOADS)


def _scalar_store() -> acadl.MemoryAccessUnit:
    return acadl.MemoryAccessUnit(
        "scalar_store", latency=1, interval=1, in_flight=64, to_process=riscv_v.SCALAR_STORES)


def _prefetch_port(number: int) -> acadl.MemoryAccessUnit:
    return acadl.MemoryAccessUnit(
        f"prefetch[{number}]", latency=1, interval=1, in_flight=64, to_process=riscv_v.PREFETCHES, prefetches=True)


def _scalar_unit(number: int) -> acadl.FunctionalUnit:
    return acadl.FunctionalUnit(
        f"scalar[{number}]", to_process=riscv_v.CONFIGURATION | CONFIGURATION, latency=1,
        component=acadl.Logic({"add i32": 2}))


# --- options ---------------------------------------------------------------------------------------------------------
def _checked(options: Mapping[str, Any]) -> Architecture:
    """The architecture with what is given in place of its figures; TargetError for what cannot be."""
    problems = problems_of(mte, options)
    given = {name: options[name] for name in asdict(Architecture()) if options[name] is not None}
    if problems:
        refuse("mte", problems)
    base = asdict(ARCHITECTURES[options["architecture"]])
    if "vlen" in given and base["rlen"] == base["vlen"]:
        base["rlen"] = given["vlen"]  # of a core without tiles
    chosen = Architecture(**{**base, **given})
    for name in ("vlen", "rlen"):
        bits = getattr(chosen, name)
        if bits & (bits - 1):
            problems.append(f"{name} must be a power of two, not {bits}")
    if chosen.rlen > chosen.vlen:
        problems.append(f"rlen ({chosen.rlen}) must be at most vlen ({chosen.vlen})")
    if chosen.physical <= chosen.registers:
        problems.append(f"physical ({chosen.physical}) must be more than registers ({chosen.registers})")
    if options["width"] > 2 * options["queue"]:
        problems.append(
            f"width ({options['width']}) instructions must find room in two queues of queue ({options['queue']})")
    refuse("mte", [*problems, *incomplete_sets(options, {"l1": LINE_BYTES, "l2": options["l2_line"]})])
    return chosen
