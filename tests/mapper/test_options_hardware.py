"""Options and their errors, configurations, and the hardware view of a graph."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import pytest

from archloom.acadl_models.gemmini import gemmini
from archloom.acadl_models.options import Clock, Flag, Size, Stated, Word, check
from archloom.acadl_models.parts import held, shared
from archloom.mapper.hardware import Hardware
from archloom.mapper.options import GraphOptions, Option, resolve_options
from archloom.oracle.errors import TaidlError, TargetError
from archloom.uma_targets.gemmini.target import GEMMINI


@pytest.mark.parametrize(("values", "message"), [
    ({"dim": 0}, r"target 'gemmini': option 'dim': expected an integer from 4 to 1024, found 0"),
    ({"dim": 3.5}, r"option 'dim': expected an integer from 4 to 1024, found 3\.5"),
    ({"dim": "3.5"}, r"option 'dim': expected an integer from 4 to 1024, found '3\.5'"),
    ({"dim": "abc"}, r"option 'dim': expected an integer from 4 to 1024, found 'abc'"),
    ({"dim": True}, r"option 'dim': .* found True"),
    ({"dim": "1025"}, r"option 'dim': .* found '1025'"),
    ({"dim": None}, r"option 'dim': .* found None"),
    ({"dimm": 16}, r"unknown option 'dimm'; did you mean 'dim'\?"),
    ({"dataflow": "is"}, r"option 'dataflow': expected one of auto, ws, os, found 'is'"),
    ({"clock_mhz": "nan"}, r"option 'clock_mhz': expected a number from 0\.001 to 1e\+06, found 'nan'"),
    ({"scratchpad_single_ported": "maybe"}, r"expected true or false, found 'maybe'"),
    ({"dim": 1, "ld_queue": 0}, r"option 'dim': .*; option 'ld_queue': "),
])
def test_wrong_options_are_named(values: dict[str, Any], message: str) -> None:
    with pytest.raises(TargetError, match=message):
        GEMMINI.resolve_options(values)


def test_what_the_structure_refuses_is_refused_before_anything_is_built() -> None:
    with pytest.raises(TargetError, match="accumulator_kib=1 holds .* rows"):
        GEMMINI.configure({"dim": 256, "accumulator_kib": 1})
    with pytest.raises(TargetError, match="multiple of 8"):
        GEMMINI.configure({"dma_bus_bits": 12})


def test_text_and_values_give_the_same_options() -> None:
    text = {"dim": "0x20", "clock_mhz": "500", "scratchpad_single_ported": "yes", "scratchpad_kib": "auto"}
    values = {"dim": 32, "clock_mhz": 500.0, "scratchpad_single_ported": True, "scratchpad_kib": None}
    assert GEMMINI.resolve_options(text) == GEMMINI.resolve_options(values)
    assert list(GEMMINI.resolve_options()) == [o.name for o in GEMMINI.options]
    assert GEMMINI.resolve_options(GEMMINI.resolve_options(text)) == GEMMINI.resolve_options(text)


def test_options_describe_themselves() -> None:
    option = Option("depth", int, None, "how deep", 1, 9, unit="m")
    assert str(option) == "depth=auto [m]: how deep (an integer from 1 to 9 or auto)"
    assert resolve_options("t", (option,), {"depth": "auto"}) == {"depth": None}


def small_graph(
    rows: Annotated[int, Size(1, 64, "rows")] = 16,
    depth: Annotated[int, Size(2, 9, "depth", "places")] = 4,
    width: Annotated[int, Size(8, 64, multiple=8)] = 8,
    fast: Annotated[bool, Flag("whether it is fast")] = False,
    kind: Annotated[str, Word(("old", "new"))] = "old",
    clock_hz: Annotated[float, Clock("clock", high_mhz=500)] = 2e8,
) -> dict[str, object]:
    """Parameters with facts; those without a help are no options."""
    check(small_graph, locals())
    return dict(locals())


def test_options_of_a_graph_are_what_its_parameters_say() -> None:
    graph = GraphOptions(small_graph)
    options = graph.options({"depth": [Option("order", str, "mnk", "loops")]})
    assert [o.name for o in options] == ["rows", "depth", "order", "fast", "clock_mhz"]
    assert str(options[1]) == "depth=4 [places]: depth (an integer from 2 to 9)"
    assert str(options[4]) == "clock_mhz=200.0 [MHz]: clock (a number from 0.001 to 500)"
    resolved = resolve_options("t", options, {"depth": 7, "clock_mhz": 50})
    assert graph.arguments(resolved) == {"rows": 16, "depth": 7, "fast": False, "clock_hz": 5e7}
    assert graph.graph(resolved) == {"rows": 16, "depth": 7, "width": 8, "fast": False, "kind": "old", "clock_hz": 5e7}
    with pytest.raises(TargetError, match=r"option 'rows': expected an integer from 1 to 64, found 65"):
        resolve_options("t", options, {"rows": 65})


def test_a_size_may_be_a_parameter_of_an_isa(tmp_path: Path) -> None:
    """Of an ISA by name, of a file, and of what that includes."""
    assert Stated("eyeriss").size("psum_spad", "words") == Size(1, 4096, "words")
    (tmp_path / "whole.taidl").write_text("isa whole; include part; param b = 3 in 2..5;", encoding="utf-8")
    (tmp_path / "part.taidl").write_text("isa part; param a = 1 in 1..8;", encoding="utf-8")
    whole = Stated(tmp_path / "whole.taidl")
    assert whole.size("a", "rows", "m") == Size(1, 8, "rows", "m") and whole.size("b", least=3) == Size(3, 5)
    with pytest.raises(TaidlError, match="there is no parameter 'dims'; did you mean 'dim'"):
        Stated("gemmini").size("dims")


def test_what_an_isa_states_is_a_graphs_to_take() -> None:
    stated = Stated("tpu_v1")
    assert (stated["dim"], stated["TILES"]) == (256, 4)
    assert (stated.kib("accumulator"), stated.kib("accumulator", 4)) == (4096, 1024)
    assert stated.row_bytes("accumulator", {"dim": 8, "queue": 3}) == 32
    isa = stated.isa({"dim": 8, "queue": 3, "ub_rows": 40}, acc_rows=20)
    assert dict(isa.parameters) == {"dim": 8, "ub_rows": 40, "acc_rows": 20} and not isa.instructions
    assert shared(isa.buffer("accumulator")) == (256, 20) and shared(isa.buffer("fifo"), 2) == (512, 2)
    assert shared(isa.buffer("weights"), words=1) == (512, 1) and held(isa.buffer("fifo")) == ("fifo", 512, 4)
    with pytest.raises(TaidlError, match="no parameter and no constant is 'dims'; did you mean 'dim'"):
        stated["dims"]
    with pytest.raises(TargetError, match="tpu_v1: parameter ub_rows of the ISA follows from no option; parameter acc"):
        stated.isa({"dim": 8})
    with pytest.raises(TargetError, match="dim"):
        stated.isa({"dim": 1 << 20, "ub_rows": 40, "acc_rows": 20})


def test_what_a_graph_is_made_from_is_checked_as_its_parameters_say() -> None:
    message = ("small_graph: rows must be an integer from 1 to 64, not 0; width must be a multiple of 8, not 12; "
               "fast must be True or False, not 1; kind must be one of old, new, not 'other'")
    with pytest.raises(TargetError, match=message):
        small_graph(0, width=12, fast=1, kind="other")  # type: ignore[arg-type]


@pytest.mark.parametrize("dim", [4, 5, 16, 37, 256])
def test_configurations_fit_for_any_size(dim: int) -> None:
    configuration = GEMMINI.configure({"dim": dim})
    parameters = dict(configuration.isa.parameters)
    assert parameters["dim"] == dim == configuration.hardware.dim
    assert parameters["spad_rows"] == configuration.hardware.memory("spad").rows
    assert GEMMINI.configure({"dim": str(dim)}) is configuration


def test_hardware_is_what_the_graph_says() -> None:
    hardware = Hardware.from_graph(gemmini(dim=8, dma_bus_bits=64, dram_latency_cycles=77, ld_queue=5, rs_ex=6))
    hbm, spad = hardware.memory("hbm"), hardware.memory("spad")
    assert (hbm.words_per_cycle, hbm.read_latency_cycles, hbm.shared_port) == (8, 77, True)
    assert (spad.rows, spad.row_bytes, spad.banks, spad.size_bytes) == (32768, 8, 4, 256 << 10)
    load, execute = hardware.unit("mvin"), hardware.unit("preload")
    assert (load.queue, set(load.writes), load.reads) == (5, {"spad", "acc"}, ("hbm",))
    assert execute.in_flight == 3
    assert hardware.issue_entries == 8 + 4 + 6


def test_hardware_names_what_is_missing() -> None:
    hardware = Hardware.from_graph(gemmini(dim=8))
    with pytest.raises(TargetError, match="no memory holds 'l2'"):
        hardware.memory("l2")
    with pytest.raises(TargetError, match="no unit processes 'jump'"):
        hardware.unit("jump")
