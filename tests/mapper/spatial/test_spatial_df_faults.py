"""Texts, files and graphs that the df dialect refuses: line and column to blame, and no error of another kind."""

from __future__ import annotations

import re
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from archloom.acadl_models.acadl import (
    READ_DATA,
    SRAM,
    WRITE_DATA,
    ACADLEdge,
    architecture,
    create_ag,
    generate,
)
from archloom.acadl_models.mesh import mesh
from archloom.acadl_models.parts import Fetch, QueuedUnit
from archloom.acadl_models.triple_ring import triple_ring
from archloom.acadl_models.wormhole import wormhole
from archloom.mapper.spatial.machines.building import graph_of
from archloom.mapper.spatial.machines.df_text import RATES, read
from archloom.mapper.spatial.machines.view import described
from archloom.oracle import taidl
from archloom.oracle.errors import ArchloomError, TargetError
from archloom.tvm_backend import cli
from tests.support.examples import examples


@pytest.mark.parametrize(("line", "message"), [
    ("%x = df.spatial_dim 0", "size must be an integer of at least 1, not '0'"),
    ("%x = df.spatial_dim", "size must be an integer of at least 1, not ''"),
    ("x = 3", "expected '%name = df.operation operands"),
    ("%x = df.thing 3", "df.thing is no operation of the dialect"),
    ("%y = df.spatial_dim 2", "%y is declared a second time"),
    ("%m = df.memory {scaleout = (%y), bandwidth = 2}", "the attribute size is missing"),
    ("%m = df.memory {scaleout = (%z), size = 2}", "%z is not declared before it is used"),
    ("%m = df.memory {scaleout = (), size = 2}", "%m is replicated over no dimension"),
    ("%m = df.memory {scaleout = (%f), size = 2}", "%f must be a df.spatial_dim"),
    ("%u = df.mat {shape = [2], throughput = -1}", "throughput must be an integer of at least 1, not '-1'"),
    ("%d = df.core {scaleout = (%y), scalein = (%f, [1, 2])}", "scalein names 1 units but 2 counts"),
    ("%l = df.interconnects %c {map = affine_map<(d0) -> (d0)>}", "joins two sets of components, found 1"),
    ("%l = df.interconnects %c, %c {bandwidth = 1}", "%l has no map"),
    ("%l = df.mux %c, %c {map = affine_map<(d0, d1) -> (d0)>}", "goes from 2 to 1 dimensions; %c has 1, %c 1"),
    ("%l = df.mux %c, %c {map = affine_map<(d0) -> (d0 + 1)>}", r"takes \(1,\) of %c to \(2,\), but %c has 2 inst"),
    ("%l = df.mux %c, %c {map = affine_map<(d0) -> (d0 mod 0)>}", "divides by 0"),
    ("%l = df.mux %c, %c {map = affine_map<(d0) -> (d9)>}", "a parenthesis or one of d0, found 'd9'"),
    ("%l = df.mux %c, %c {map = affine_map<(d0) -> (d0 ! 2)>}", "is no number, name or operator"),
    ("%l = df.mux %c, %c {map = affine_map<(d0) -> (d0) 3>}", "expected the end, found '3'"),
    ("%l = df.mux %c, %c {map = affine_map<(d0) -> (d0>}", r"expected '\)', found the end"),
    ("%l = df.mux %c, %c {map = affine_map<(d0) -> (" + 300 * "(" + "d0", r"expected affine_map<\(...\) -> "),
    ("%l = df.mux %c, %c {map = affine_map<(d0) -> (" + 300 * "(" + "d0>}", "parentheses lie deeper than 64"),
    ("%l = df.mux %c, %c {map = affine_map<(d0) -> (d0 + " + 30 * "9" + ")>}", "is above 10\\^18"),
    ("%m = df.memory {scaleout = (%y), size = " + 5000 * "9" + "}", "size must be an integer of at least 1 and below"),
    ("%m = df.memory {scaleout = (%y), size = 1, bandwidth = " + 400 * "9" + ".5}", r"bandwidth must be below 10\^18"),
    ("%m = df.memory {scaleout = (%y), size = 2, speed = 3}", r"expected an attribute of df.memory \(scaleout, size, "),
    ("%m = df.memory {scaleout = (%y), size = 2, size = 3}", "size of %m is stated a second time"),
    ("%m = df.memory {scaleout = (%y), size = 2, bandwidth = 1.x}", "bandwidth must be a number above 0, not '1.x'"),
    ("%m = df.memory {scaleout = (%y) size = 2}", "expected ',' or '}', found 'size'"),
    ("%m = df.memory {scaleout = (%y), size = 2", "expected ',' or '}', found the end of the line"),
    ("%m = df.memory {scaleout = (%y), size = 2} 3", "expected the end of the line, found '3'"),
    ("%d = df.core {scaleout = (%y), scalein = (%f [1])}", r"expected ',' and a unit or '\[' and counts, found '\['"),
    ("%d = df.core %y {scaleout = (%y)}", "df.core takes no operands"),
    ("module {{", "expected 'module @name attributes"),
])
def test_errors_name_the_line_and_what_is_wrong(line: str, message: str) -> None:
    units = "%f = df.vec {shape = [32], throughput = 3}\n"
    before = f"%y = df.spatial_dim 2 // along\n{units}%c = df.core {{scaleout = (%y)}}\n"
    with pytest.raises(TargetError, match=r"df, line 4, column \d+: .*" + message):
        read(before + line)


@pytest.mark.parametrize(("line", "column"), [
    ("  %x = df.thing 3", 8), ("%x = df.spatial_dim 0", 21), ("  %y = df.spatial_dim 2", 3),
    ("%m = df.memory {scaleout = (%y, %z), size = 2}", 33), ("%m = df.memory {scaleout = (%y), size = x}", 41),
    ("%l = df.mux %c, %d {map = affine_map<(d0) -> (d0)>}", 17),
    ("%l = df.mux %c, %c {map = affine_map<(d0) -> (d9)>}", 47),
    ("%l = df.mux %c, %c {map = affine_map<(d0) -> (d0 + 1)>}", 27), ("%m = df.memory {scaleout = (%y), size = 2", 42),
])
def test_errors_name_the_column(line: str, column: int) -> None:
    before = "%y = df.spatial_dim 2\n%c = df.core {scaleout = (%y)}\n"
    with pytest.raises(TargetError, match=f"^df, line 3, column {column}: "):
        read(before + line)


@generate
def lonely(buffer: str = "hbm") -> None:
    """A fetch stage, and a unit that only moves data."""
    memory = SRAM("memory", address_ranges=[(0, 64)], read_write_ports=2)
    fetch = Fetch("fetch", 4)
    unit = QueuedUnit("mover", fetch, {"load"}, depth=1, latency=1, interval=1, in_flight=1)
    ACADLEdge(memory, unit.unit, READ_DATA)
    architecture("lonely", clock_hz=1e9, buffers={buffer: memory})


@generate
def pair(cycles: tuple[int, int] = (1, 1), words: tuple[int, int] = (64, 64), width: tuple[int, int] = (1, 1)) -> None:
    """Two cores that add numbers of their own memories."""
    memory = SRAM("memory", address_ranges=[(0, 64)], read_write_ports=2)
    fetch = Fetch("fetch", 4)
    mine = []
    for i in range(2):
        first = words[0] * i
        mine.append(SRAM(f"core[{i}].mine", address_ranges=[(first, first + words[i])], port_width=width[i],
                         read_write_ports=2))
        alu = QueuedUnit(f"core[{i}].alu", fetch, {"add"}, depth=1, latency=cycles[i], interval=None, in_flight=1)
        ACADLEdge(mine[i], alu.unit, READ_DATA)
        ACADLEdge(alu.unit, mine[i], WRITE_DATA)
    mover = QueuedUnit("mover", fetch, {"load"}, depth=1, latency=1, interval=1, in_flight=1)
    ACADLEdge(memory, mover.unit, READ_DATA)
    for place in mine:
        ACADLEdge(mover.unit, place, WRITE_DATA)
    architecture("pair", clock_hz=1e9, buffers={"hbm": memory, "mine": mine})


PAIR = """isa pair;
[mine] (128) (i8);
[load](to, count) {
    %A:{count}xi8 <- $hbm[0 + {count : 1}];
    %A -> $mine[to + {count : 1}];
}
[add](a) {
    %A:8xi8 <- $mine[a + {8 : 1}];
    %B:8xi8 = add(%A, %A);
    %B -> $mine[a + {8 : 1}];
}
"""


def test_cores_that_differ_are_named(tmp_path: Path) -> None:
    (tmp_path / "pair.taidl").write_text(PAIR)
    isa = taidl.load(tmp_path / "pair.taidl")
    view = str(described(create_ag(pair()), isa))
    assert "%alu = df.vec {shape = [8], throughput = 1}" in view
    assert "df.mux %cores, %mine {map = affine_map<(d0) -> (d0)>}" in view
    with pytest.raises(TargetError, match=r"core\[1\].alu.unit differs from core\[0\].alu.unit in what it processes"):
        described(create_ag(pair(cycles=(1, 2))), isa)
    with pytest.raises(TargetError, match=r"the memories of core\[0\].mine differ in size"):
        described(create_ag(pair(words=(64, 32))), isa)
    with pytest.raises(TargetError, match=r"memories like core\[0\].mine differ in their ports"):
        described(create_ag(pair(width=(1, 2))), isa)


def test_graphs_without_a_view_say_why(tmp_path: Path) -> None:
    with pytest.raises(TargetError, match="graph 'lonely': which ISA says what its units compute"):
        described(create_ag(lonely()))
    text = "isa lonely;\n[hold] (64) (i8);\n[load]() {\n    %A:1xi8 <- $hold[0 : 1];\n    %A -> $hold[1 : 2];\n}\n"
    (tmp_path / "lonely.taidl").write_text(text)
    isa = taidl.load(tmp_path / "lonely.taidl")
    with pytest.raises(TargetError, match="'lonely' has no view: it places no buffer 'hbm'"):
        described(create_ag(lonely("hold")), isa)
    with pytest.raises(TargetError, match="'lonely' has no view: no unit of it computes anything"):
        described(create_ag(lonely()), isa)


WORDS = (
    "%hbm", "%l1", "%cores", "df.mux", "df.memory", "size", "(", "]", "}", ",", "=", "d0", "s0", "mod", "0", "-1",
    "9" * 20)
CHARACTERS = "{}()[]<>%,=->x0d \x00\u202e\u00b2\""
FIGURES = [str(described(graph)) for graph in (
    triple_ring(columns=3), mesh(3, 2, torus=False, semaphores=4), wormhole(rows=1, columns=2, dram_channels=2))]


@examples(40, 400)
@given(st.randoms(use_true_random=False), st.sampled_from(RATES))
def test_damaged_texts_are_refused_with_an_error_of_archloom(random: Random, rates: str) -> None:
    lines = random.choice(FIGURES).splitlines()
    for _ in range(random.choice((1, 1, 2, 3))):
        i = random.randrange(len(lines))
        words = re.findall(r"%?\w+|\S", lines[i])
        match random.randrange(6):
            case 0 if len(lines) > 1:
                del lines[i]
            case 1:
                lines.insert(random.randrange(len(lines)), lines[i])
            case 2:
                words[random.randrange(len(words))] = random.choice(WORDS)
                lines[i] = " ".join(words)
            case 3:
                at = random.choice(list(re.finditer(r"\d+|$", lines[i])))
                value = random.choice((0, 1, 2, 7, 1 << 31, 10**30, -1, 1.5, "9" * 5000))
                lines[i] = f"{lines[i][:at.start()]}{value}{lines[i][at.end():]}"
            case 4:
                spot = random.randrange(len(lines[i]) + 1)
                lines[i] = f"{lines[i][:spot]}{random.choice(CHARACTERS)}{lines[i][spot + random.randrange(2):]}"
            case _:
                j = random.randrange(len(lines))
                lines[i], lines[j] = lines[j], lines[i]
    try:
        described(graph_of(read("\n".join(lines), rates)))
    except ArchloomError as error:
        assert 10 < len(str(error)) < 1000


@pytest.mark.slow
def test_long_texts_are_read_in_time_and_long_words_are_cut() -> None:
    text = "\n".join(f"%d{i} = df.spatial_dim 2" for i in range(20_000))
    assert len(read(text).items) == 20_000
    with pytest.raises(TargetError, match="df, line 1, column .{10,400}$"):
        read("%x = df.memory {" + "a" * 5000 + " = 3}")


@pytest.mark.parametrize(("data", "message"), [
    (b"\xff\xfe\x00", "can't decode byte 0xff"), (b"", "a machine has one df.core, this text has 0"),
    (b"module {\n}\n  module @two {\n}", "line 3, column 3: a second module: a text describes one machine"),
    (b"(" * 9999, "line 1, column 1: expected '%name = df.operation"), (b"%a = df.spatial_dim 0", "line 1, column 21"),
    (FIGURES[0].replace("d1 + 1", "d1 floordiv 0").encode(), "d1 floordiv 0 divides by 0"),
    (FIGURES[0].replace("spatial_dim 3", "spatial_dim 999999").encode(), "are more than 1048576"),
])
@pytest.mark.parametrize("command", [["describe"], ["map", "--gemm", "64x64x64", "-t"]])
def test_the_commands_refuse_bad_files(
    data: bytes, message: str, command: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "bad.df"
    path.write_bytes(data)
    assert cli.main([*command, str(path)]) == 2
    error = capsys.readouterr().err
    assert "bad.df: " in error and message in error and "Traceback" not in error
