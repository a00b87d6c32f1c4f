"""Graphs and ISAs that do not fit: every misfit named, all at once."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest

from archloom.acadl_models.acadl import (
    DRAM,
    READ_DATA,
    SRAM,
    WRITE_DATA,
    ACADLEdge,
    ArchitectureGraph,
    MemoryAccessUnit,
    PipelineStage,
    RegisterFile,
    architecture,
    create_ag,
    generate,
)
from archloom.acadl_models.acadl.edges import FORWARD
from archloom.acadl_models.fit import check_fit, misfits, traffic
from archloom.acadl_models.gemmini import gemmini
from archloom.oracle import taidl
from archloom.oracle.errors import TargetError
from archloom.oracle.taidl.isa import Isa
from tests.support.acadl_models.timing_builders import after, front

ISA = """
isa toy;
param dim = 4 in 1..64;
[mem] (16) (dim x i8);
[regs] () (dim x i32);
shift = 0;
[load](addr, row) {
    %x:1x{dim}xi8 <- $hbm[addr + {1 : dim, dim : 1}];
    %x -> $mem[row + {1 : 1}, 0:dim];
}
[double](row) {
    %x:1x{dim}xi8 <- $mem[row + {1 : 1}, 0:dim];
    %y:1x{dim}xi8 = add(%x, %x);
    %y -> $mem[row + {1 : 1}, 0:dim];
}
[use](row) {
    %x:1x{dim}xi8 <- $mem[row + {1 : 1}, 0:dim];
    %w:1x{dim}xi32 = convert(%x);
    %v:{dim}xi32 = reshape(%w);
    %v -> $regs[0:dim];
}
"""


def isa(**parameters: int) -> Isa:
    return taidl.instantiate(taidl.parse(ISA), parameters)


@dataclass(frozen=True)
class Toy:
    """Knobs of a graph for the ISA above; the defaults fit."""

    width: int = 32
    rows: int = 16
    register_bits: int = 128
    load: frozenset[str] = frozenset({"load"})
    compute: frozenset[str] = frozenset({"double", "use"})
    load_writes: bool = True
    place_mem: bool = True
    place_hbm: bool = True
    extra: str = ""
    parameters: tuple[tuple[str, int], ...] = (("dim", 4),)
    latency: str = "1 + dim + shift + row"
    stage_latency: str = "1"
    write_latency: str = "words"


def graph(toy: Toy) -> ArchitectureGraph:
    @generate
    def build() -> None:
        queue = PipelineStage("queue", latency=toy.stage_latency)
        ACADLEdge(front(), queue, FORWARD)
        dram = DRAM("dram", address_ranges=[(0, 1024)])
        mem = SRAM("mem", data_width=toy.width, read_write_ports=2, address_ranges=[(0, toy.rows)],
                   write_latency=toy.write_latency)
        registers = RegisterFile("rf", data_width=toy.register_bits, registers={"v": 0})
        load = MemoryAccessUnit("load", to_process=toy.load)
        compute = MemoryAccessUnit("compute", to_process=toy.compute, latency=toy.latency)
        after(queue, load, name="ld")
        after(queue, compute, name="ex")
        ACADLEdge(dram, load, READ_DATA)
        if toy.load_writes:
            ACADLEdge(load, mem, WRITE_DATA)
        ACADLEdge(mem, compute, READ_DATA)
        ACADLEdge(compute, mem, WRITE_DATA)
        ACADLEdge(compute, registers, WRITE_DATA)
        buffers: dict[str, object] = {"regs": registers}
        buffers |= {"mem": mem} if toy.place_mem else {}
        buffers |= {"hbm": dram} if toy.place_hbm else {}
        buffers |= {toy.extra: registers} if toy.extra else {}
        architecture("toy", parameters=dict(toy.parameters), buffers=buffers)

    return create_ag(build())


def test_the_defaults_fit() -> None:
    assert misfits(graph(Toy()), isa()) == []
    check_fit(graph(Toy()), isa())


MISFITS: list[tuple[Toy, list[str]]] = [
    (Toy(compute=frozenset({"double"})), ["no unit of the graph processes 'use': add it to the to_process of a unit"]),
    (Toy(load=frozenset({"load", "lod"})),
     ["load (MemoryAccessUnit) processes 'lod', which the ISA does not have; did you mean 'load'? "
      "(valid: double, load, use)"]),
    (Toy(rows=8), ["buffer 'mem' (16x4 i8) takes 64 bytes, but mem holds 32"]),
    (Toy(register_bits=64), ["buffer 'regs' (4 i32) takes 16 bytes, but rf holds 8"]),
    (Toy(width=24, rows=64), ["buffer 'mem' (16x4 i8) does not divide into the words of mem (SRAM), 24 bits each"]),
    (Toy(place_mem=False), ["buffer 'mem' of the ISA lies in no storage of the graph (placed: hbm, regs)"]),
    (Toy(place_hbm=False), ["the graph places no buffer 'hbm', the global memory"]),
    (Toy(extra="memo"),
     ["the graph places buffer 'memo', which the ISA does not have; did you mean 'mem'? (valid: hbm, mem, regs)"]),
    (Toy(load_writes=False),
     ["load (MemoryAccessUnit) processes 'load' but lacks the edges WRITE_DATA load -> mem (buffer 'mem')"]),
    (Toy(parameters=(("dim", 8),)), ["parameter dim is 8 in the graph and 4 in the ISA"]),
    (Toy(parameters=(("din", 8),)),
     ["the graph states parameter din=8, which the ISA does not have; did you mean 'dim'? (valid: dim)"]),
    (Toy(latency="addr"),
     ["compute (MemoryAccessUnit): latency 'addr' names addr, unknown for 'double' (valid: dim, row, shift)",
      "compute (MemoryAccessUnit): latency 'addr' names addr, unknown for 'use' (valid: dim, row, shift)"]),
    (Toy(write_latency="bits"),
     ["mem (SRAM): write_latency 'bits' names bits, unknown for 'load' (valid: addr, bytes, dim, row, shift, words)",
      "mem (SRAM): write_latency 'bits' names bits, unknown for 'double' (valid: bytes, dim, row, shift, words)"]),
    (Toy(stage_latency="addr"),
     ["queue (PipelineStage): latency 'addr' names addr, unknown for 'double' (valid: dim, row, shift)",
      "queue (PipelineStage): latency 'addr' names addr, unknown for 'use' (valid: dim, row, shift)"]),
]


@pytest.mark.parametrize(("toy", "expected"), MISFITS)
def test_misfits(toy: Toy, expected: list[str]) -> None:
    assert misfits(graph(toy), isa()) == expected


def test_all_misfits_in_one_error() -> None:
    toy = replace(Toy(), rows=8, compute=frozenset({"double"}), parameters=(("dim", 8),))
    with pytest.raises(TargetError) as raised:
        check_fit(graph(toy), isa(), "mine")
    lines = str(raised.value).splitlines()
    assert lines[0] == "target 'mine': graph 'toy' and ISA 'toy' do not fit (3 misfits):"
    assert len(lines) == 4 and all(line.startswith("  - ") for line in lines[1:])


def test_traffic_goes_through_branches() -> None:
    gemmini_isa = taidl.load("gemmini")
    assert traffic(gemmini_isa.instructions["mvin"].body).writes == {"spad", "acc"}
    assert traffic(gemmini_isa.instructions["mvin"].body).reads == {"hbm", "acc"}
    assert traffic(gemmini_isa.instructions["config_ex"].body).kinds() == {}


def test_gemmini_with_the_parameters_of_another_dim() -> None:
    found = misfits(gemmini(dim=32), taidl.load("gemmini", **gemmini(dim=16).parameters))
    assert found[0] == "parameter dim is 32 in the graph and 16 in the ISA"
    assert any("buffer 'spad'" in line for line in found)
