"""A core with Intel AMX and AVX-512 as an architecture graph: Sapphire Rapids, as far as its programs see it.

Instructions are issued in order of arrival to whatever port is free, several a cycle. The matrix unit TMUL begins a
product of whole tiles every 16 cycles (one row of A a cycle) and gives it after 52, also to the next product that is
added to the same tile; two load ports and one store port move 64 bytes a cycle between registers and the first of two
caches; two ports compute with vectors of 512 bits.

Sources: rates and latencies of tile instructions, ports, and caches from Intel's "64 and IA-32 Architectures
Optimization Reference Manual" (chapters on the Golden Cove core and on AMX): 16 cycles and 52 for products, 8 cycles
for a load of a whole tile (16 lines through two ports), 16 for a store, 4 for a fused multiply-add, 48 KiB and 12 ways
in 5 cycles for the first cache, 2 MiB and 16 ways in 14 for the second, a reorder buffer of 512 entries filled by six
instructions a cycle and emptied by eight. Assumed: 192 loads and 114 stores that wait, which are told of Golden Cove
but were not looked up in the manual; that lines of a tile are looked up together; one memory of ``memory_cycles`` for
the third level and what is behind it; ``misses`` lines under way to each cache at a time, which stands for the
prefetchers, too (48 is the second cache's queue); and 2 GHz, as frequencies under AMX differ by model.

Renaming: of 512 bits there are 220 physical registers, as Intel has published of Sapphire Rapids. How many physical
tiles there are is not public: 24 are those of the core with eight tile registers in de Limas Santana et al. (2025,
Table VI), which is compared with AMX; ``ldtilecfg`` alone, which clears all tiles, takes eight. Stores wait in a
buffer, so that no write to memory waits for reads.

Energy and area: Intel 7, taken as a node of 10 nm. An instruction costs what one costs a core that issues in order:
what renaming and reordering take is not known here. DDR4 stands for DDR5, whose energy no source of the tables states.
"""

from __future__ import annotations

from typing import Annotated

from archloom.acadl_models import acadl
from archloom.acadl_models.acadl.units import UnitLatency
from archloom.acadl_models.options import Clock, Size, Stated, check
from archloom.acadl_models.parts import (
    Fetch,
    cache_level,
    connect,
    incomplete_sets,
    issue,
    macs,
    registers,
    shared,
    unfetched,
)

STATED = Stated("amx")
LINE_BYTES = 64
ROWS = STATED["ROWS"]
TILES, ZMMS = STATED["TILES"], STATED["ZMMS"]
"""Registers of a program."""

MACS_PER_CYCLE = 1024
"""Of bytes: 16 x 16 x 64 of them in 16 cycles."""

PRODUCTS = frozenset({"tdpbssd", "tdpbsud", "tdpbusd", "tdpbuud", "tdpbf16ps", "tdpfp16ps"})
CONFIGURATION = frozenset({"ldtilecfg", "tilecfg", "tilerelease", "tilezero"})
TILE_LOADS = frozenset({"tileloadd", "tileloaddt1"})
VECTOR_LOADS = frozenset({"vmovups_load", "vbroadcastss_m", "vmovdqu32_m", "vpmovzxbd_m"})
VECTOR_STORES = frozenset({"vmovups_store", "vpmovusdb_m", "vpmovsdb_m"})
FROM_MEMORY = frozenset({"vaddps_m", "vmulps_m", "vfmadd231ps_m", "vmaxps_m"})
FLOATS = frozenset({"vaddps", "vsubps", "vmulps", "vfmadd231ps", "vmaxps", "vminps", "vcvtps2dq", "vcvtdq2ps"})
INTEGERS = frozenset({"vmovups", "vmovd", "vbroadcastss", "vpxord", "vpord", "vpaddd", "vpslld", "kmovw"})


def amx(
    *,
    product_cycles: Annotated[int, Size(1, 1024, "from one product of tiles to the next", "cycles")] = 16,
    product_latency: Annotated[int, Size(1, 4096, "from a product's operands to its sums", "cycles")] = 52,
    load_ports: Annotated[int, Size(1, 8, "loads of 64 bytes a cycle")] = 2,
    vector_ports: Annotated[int, Size(1, 8, "ports of 512 bits")] = 2,
    l1_kib: Annotated[int, Size(1, 1 << 16, "first cache", "KiB")] = 48,
    l1_ways: Annotated[int, Size(1, 64, "lines of a set of the first cache")] = 12,
    l1_cycles: Annotated[int, Size(1, 1000, "look-up in the first cache", "cycles")] = 5,
    l2_kib: Annotated[int, Size(1, 1 << 20, "second cache", "KiB")] = 2048,
    l2_ways: Annotated[int, Size(1, 64, "lines of a set of the second cache")] = 16,
    l2_cycles: Annotated[int, Size(1, 1000, "look-up in the second cache", "cycles")] = 14,
    memory_cycles: Annotated[
        int, Size(1, 100_000, "from request to data of the memory behind the caches", "cycles")
    ] = 200,
    misses: Annotated[int, Size(1, 1024, "lines on their way to the caches at a time")] = 48,
    fetch_width: Annotated[int, Size(1, 64, "instructions fetched at a time")] = 6,
    issue_entries: Annotated[int, Size(8, 4096, "instructions that wait for issue")] = 96,
    queue: Annotated[int, Size(1, 1024, "instructions that wait before the ports")] = 32,
    reorder_entries: Annotated[int, Size(1, 1 << 14, "instructions between decoding and commit")] = 512,
    load_entries: Annotated[int, Size(8, 4096, "loads that wait for their lines")] = 192,
    store_entries: Annotated[int, Size(1, 4096, "stores that wait for their lines")] = 114,
    commit_width: Annotated[int, Size(1, 64, "instructions that commit a cycle")] = 8,
    physical_tiles: Annotated[int, Size(TILES + 1, 1 << 12, "tiles to which those of a program are renamed")] = 24,
    physical_zmm: Annotated[int, Size(ZMMS + 1, 1 << 14, "registers of 512 bits to which zmm are renamed")] = 220,
    memory_gib: Annotated[int, Size(1, 1 << 20, "memory", "GiB")] = 16,
    clock_hz: Annotated[float, Clock("clock of the core")] = 2e9,
) -> acadl.ArchitectureGraph:
    """One core; the figures of products are those of whole tiles. Raises TargetError that lists every option out of
    range."""
    check(amx, locals(), *unfetched(locals()), *incomplete_sets(locals(), {"l1": LINE_BYTES, "l2": LINE_BYTES}))
    isa = STATED.isa({})

    @acadl.generate
    def build() -> None:
        memory = acadl.DRAM(
            "memory", data_width=8, port_width=LINE_BYTES, max_concurrent_requests=misses, read_write_ports=1,
            read_latency=memory_cycles, write_latency=memory_cycles, address_ranges=[(0, memory_gib << 30)],
            write_after_read="ignored")
        l2 = _cache("l2", memory, l2_kib, l2_ways, (l2_cycles, memory_cycles), misses, requests=misses, ports=1)
        l1 = _cache("l1", l2, l1_kib, l1_ways, (l1_cycles, l1_cycles), misses, requests=2 * queue, ports=load_ports + 1)
        tiles = registers(
            "tiles", *shared(isa.buffer("tiles")), "tmm", acadl.Memory(width_bits=8 * LINE_BYTES, ports=2),
            physical_tiles, forwards_sums=False)
        zmm = registers("zmm", *shared(isa.buffer("zmm")), physical=physical_zmm)
        fetch = Fetch("fetch", issue_entries, fetch_width, reorder=(reorder_entries, fetch_width, commit_width))
        tmul, store = _matrix_unit(product_cycles, product_latency), _store_port(store_entries)
        ports = [_vector_port(i) for i in range(vector_ports)]
        loads = [_load_port(i, load_entries // load_ports) for i in range(load_ports)]
        issue(fetch, queue, tmul_port=[tmul], vector_port=ports, load_port=loads, store_port=[store])
        connect(tmul, [tiles], [tiles])
        connect(ports, [zmm], [zmm])
        connect(loads, [l1, zmm], [tiles, zmm])
        connect(store, [tiles, zmm], [l1])
        acadl.architecture(
            "amx", clock_hz=clock_hz, isa=isa, buffers={"hbm": memory},
            technology=acadl.Technology(10, dram="DDR4"))

    return acadl.create_ag(build())


_TMUL = acadl.Logic({
    "multiply i8": MACS_PER_CYCLE, "add i32": MACS_PER_CYCLE, "multiply bf16": MACS_PER_CYCLE // 2,
    "add f32": MACS_PER_CYCLE // 2}, register_bits=32)
_LANES = macs(8 * LINE_BYTES // 32, "f32", "f32")
"""Of 512 bits."""


def _matrix_unit(product_cycles: int, product_latency: int) -> acadl.FunctionalUnit:
    rows: UnitLatency = dict.fromkeys(sorted(PRODUCTS), f"{product_cycles}") | {"*": 1}
    return acadl.FunctionalUnit(
        "tmul", to_process=PRODUCTS | CONFIGURATION,
        latency={**dict.fromkeys(sorted(PRODUCTS), product_latency), "*": 1}, interval=rows,
        in_flight=1 + product_latency // product_cycles, component=_TMUL,
    )


def _vector_port(number: int) -> acadl.FunctionalUnit:
    return acadl.FunctionalUnit(
        f"vector[{number}]", to_process=FLOATS | INTEGERS, latency={**dict.fromkeys(sorted(FLOATS), 4), "*": 1},
        interval=1, in_flight=4, component=_LANES)


def _load_port(number: int, entries: int) -> acadl.MemoryAccessUnit:
    return acadl.MemoryAccessUnit(
        f"load[{number}]", to_process=TILE_LOADS | VECTOR_LOADS | FROM_MEMORY,
        latency={**dict.fromkeys(sorted(FROM_MEMORY), 4), "*": 1},
        interval={**dict.fromkeys(sorted(TILE_LOADS), ROWS), "*": 1}, in_flight=entries, component=_LANES)


def _store_port(entries: int) -> acadl.MemoryAccessUnit:
    return acadl.MemoryAccessUnit(
        "store", to_process=VECTOR_STORES | {"tilestored"}, latency=1, interval={"tilestored": ROWS, "*": 1},
        in_flight=entries)


def _cache(
    name: str, behind: acadl.DataStorage, kib: int, ways: int, cycles: tuple[int, int], misses: int, *, requests: int,
    ports: int,
) -> acadl.SetAssociativeCache:
    """``cycles``: of a line that is there, and until another is asked for behind, or has come from memory."""
    return cache_level(
        name, behind, kib, ways, LINE_BYTES, port_bytes=LINE_BYTES, hit_cycles=cycles[0], miss_cycles=cycles[1],
        requests=requests, ports=ports, miss_registers=misses)
