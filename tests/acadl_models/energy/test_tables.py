"""The tables of energies and areas: their sources, and that more never costs less."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from archloom.acadl_models.acadl import Technology
from archloom.acadl_models.acadl.components import DEVICES, NODES_NM
from archloom.acadl_models.energy import arithmetic, memories, scaling, tables, wires
from archloom.oracle.errors import InputError
from tests.support.examples import examples

HORO = Technology(45, 0.9)


def at(node_nm: float, factor: float, devices: str) -> Technology:
    """A process with so much of the nominal supply."""
    return Technology(node_nm, factor * scaling.volts_of(Technology(node_nm)), devices)


nodes, factors, kinds = st.floats(*NODES_NM), st.floats(scaling.LOWEST + 1e-6, 1.2), st.sampled_from(DEVICES)
technologies = st.builds(at, nodes, factors, kinds)
sizes = st.integers(32, 1 << 26)
widths = st.integers(1, 4096)


def test_every_figure_names_a_source_and_every_source_is_used() -> None:
    used = {value for name in tables.TABLES for row in tables.rows(name)
            for column, value in row.items() if column.endswith("source") and value}
    assert used == set(tables.sources())
    assert all({"title", "uncertainty", "found"} == set(about) for about in tables.sources().values())


def test_figures_are_checked_or_listed_in_the_documentation() -> None:
    for name in tables.TABLES:
        for row in tables.rows(name):
            assert row["checked"] in ("true", "false")
            assert row["checked"] == "false" or tables.sources()[row["source"]]["found"], row
    text = " ".join(Path("docs/energy.md").read_text("utf-8").split())
    assert all(what in text for what in tables.unchecked())


def test_the_nodes_of_technologies_are_those_of_the_table() -> None:
    nodes = [float(row["node_nm"]) for row in tables.rows("nodes")]
    assert (min(nodes), max(nodes)) == NODES_NM


def test_at_the_node_of_the_table_its_figures_hold() -> None:
    assert arithmetic.joules("multiply", "i8", HORO) == pytest.approx(0.2e-12)
    assert arithmetic.joules("add", "f32", HORO) == pytest.approx(0.9e-12)
    assert arithmetic.joules("fma", "f32", HORO) == pytest.approx(4.6e-12)
    assert arithmetic.area_mm2("multiply", "i32", HORO) == pytest.approx(3495e-6)
    assert 10 * wires.bit_joules(1.0, Technology(40, 0.9)) == pytest.approx(wires.bit_joules(10.0, Technology(28, 0.9)))


def test_supplies_near_the_threshold_are_refused() -> None:
    with pytest.raises(InputError, match="0.5 V at 130 nm: the scaling of energies holds from 0.78 V on"):
        scaling.volts_of(Technology(130, 0.5))


def test_what_no_table_has_is_not_known() -> None:
    assert arithmetic.joules("sine", "f32", HORO) is None
    assert arithmetic.joules("multiply", "c64", HORO) is None


@examples(40, 500)
@given(technologies, sizes, widths, st.integers(1, 4), st.floats(1.0, 8.0))
def test_a_smaller_memory_costs_no_more(
    technology: Technology, size: int, width: int, ports: int, factor: float
) -> None:
    small = memories.memory(size, width, ports, technology)
    for more in ((int(size * factor), width, ports), (size, int(width * factor), ports), (size, width, ports + 1)):
        large = memories.memory(*more, technology)
        for figure in ("read", "write", "watts", "area_mm2"):
            assert getattr(large, figure) >= getattr(small, figure) * (1 - 1e-12)


@examples(40, 500)
@given(technologies, st.integers(1, 300), st.integers(1, 512), st.integers(1, 300))
def test_a_smaller_register_file_costs_no_more(technology: Technology, count: int, width: int, more: int) -> None:
    small, large = (memories.registers(n, width, technology) for n in (count, count + more))
    assert large.joules >= small.joules * (1 - 1e-12)


@examples(40, 500)
@given(nodes, nodes, kinds)
def test_a_finer_node_costs_no_more(one: float, other: float, devices: str) -> None:
    fine, coarse = (Technology(node, devices=devices) for node in sorted((one, other)))
    assert scaling.energy(1.0, HORO, fine) <= scaling.energy(1.0, HORO, coarse) * (1 + 1e-9)
    assert scaling.area(1.0, HORO, fine) <= scaling.area(1.0, HORO, coarse) * (1 + 1e-9)
    small, large = (memories.memory(1 << 15, 64, 1, technology) for technology in (fine, coarse))
    assert small.area_mm2 <= large.area_mm2 * (1 + 1e-9) and small.joules <= large.joules * (1 + 1e-9)


@examples(20, 200)
@given(nodes, factors, factors, kinds)
def test_a_lower_supply_costs_no_more(node: float, one: float, other: float, devices: str) -> None:
    low, high = (at(node, factor, devices) for factor in sorted((one, other)))
    assert 0 < scaling.energy(1.0, HORO, low) <= scaling.energy(1.0, HORO, high) * (1 + 1e-9)
    assert wires.bit_joules(1.0, low) <= wires.bit_joules(1.0, high)


@pytest.mark.parametrize("kind", ["i8", "i16", "i32", "f16", "f32"])
@pytest.mark.parametrize("operation", ["add", "multiply"])
def test_wider_numbers_cost_more(operation: str, kind: str) -> None:
    wide = kind[0] + str(2 * int(kind[1:]))
    for figure in (arithmetic.joules, arithmetic.area_mm2):
        narrow, double = figure(operation, kind, HORO), figure(operation, wide, HORO)
        assert narrow is not None and double is not None and 0 < narrow < double


@pytest.mark.parametrize("way", ["read", "write"])
def test_memories_are_near_the_points_that_they_were_not_fitted_to(way: str) -> None:
    errors = []
    for row in memories.points("check"):
        process = Technology(float(row["node_nm"]), float(row["volts"]), row["devices"])
        found = memories.memory(int(row["size_bytes"]), int(row["width_bits"]), int(row["ports"]), process)
        errors.append(abs(getattr(found, way) / memories.measured(row, way) - 1))
    assert len(errors) >= 30 and sum(errors) / len(errors) < 0.2 and max(errors) < 0.5


@examples(20, 200)
@given(technologies, st.integers(1, 300), st.integers(1, 512))
def test_clocks_cost_where_they_are_not_gated(technology: Technology, count: int, width: int) -> None:
    free = replace(technology, gated=False)
    gated, running = (memories.registers(count, width, each) for each in (technology, free))
    assert memories.clock(width, technology) == 0.0 < memories.clock(width, free)
    if count <= memories.FLIP_FLOPS:  # a bit that is written costs the same, whatever part of it is its clock's
        assert running.write + memories.clock(width, free) == pytest.approx(gated.write)
    assert (running.watts, running.area_mm2) == (gated.watts, gated.area_mm2)
