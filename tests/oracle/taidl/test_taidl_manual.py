"""The manual of an ISA: what it says of storage, operands and registers, and its forms."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from archloom.oracle import taidl
from archloom.oracle.taidl.manual import Entry, Manual, manual
from archloom.oracle.taidl.manual_pages import FORMS
from archloom.oracle.taidl.parser import parse

TEXT = """# A machine for tests: <b> & `code`.
#
#   a table   of two columns

isa small;

param dim = 4 in 2..64;    # rows | columns
const MASK = 0xFFFFFF;
[ram] (1K) (dim x i8);     # what the loads fill
[flags] (3) (i4);
# counts the loads
count = 0;
stride[2] = dim;

# --- loads ---

# What `load` and others share.
def take(%X, at) {
    %X:1x{dim}xi8 <- $ram[at];
}

# Loads rows.
#
# The second paragraph.
[load](dram, row, rows, which) {
    assert(1 <= rows && rows <= dim);
    let first = row * 2;
    IF (which == 1) {
        assert(first >= 8);
        %In:{rows}x{dim}xi8 <- $hbm[dram + {rows : stride[1], dim : 1}];
        %In -> $ram[first];
    }
    count = count + 1;
}

# --- others ---

[copy](from, to) { take(%X, from); %X -> $ram[to]; } [nothing]() { }
"""


def small() -> Manual:
    return manual(taidl.instantiate(parse(TEXT), {"dim": 8}))


def entry(name: str) -> Entry:
    return next(e for e in small().instructions if e.name == name)


def test_storage_and_values() -> None:
    m = small()
    assert [(b.name, b.rows, b.base, b.bytes, b.description) for b in m.buffers] == [
        ("ram", (1024,), "8xi8", 8192, "what the loads fill"), ("flags", (3,), "i4", 2, "")]
    assert [(p.name, p.value, p.expected, p.description) for p in m.parameters] == [
        ("dim", "8", "2..64", "rows | columns")]
    assert [(c.name, c.value) for c in m.constants] == [("MASK", "0xffffff")]
    assert [(r.name, r.value, r.expected, r.description) for r in m.registers] == [
        ("count", "0", "", "counts the loads"), ("stride", "8", "2 registers", "")]
    assert m.introduction == ("A machine for tests: <b> & `code`.", "", "  a table   of two columns")


def test_what_an_instruction_does() -> None:
    load = entry("load")
    assert load.call == "load(dram, row, rows, which)" and load.section == "loads"
    assert load.description == ("Loads rows.", "", "The second paragraph.")
    assert load.asserts == ("1 <= rows && rows <= dim", "first >= 8, where which == 1")
    assert load.reads == (("hbm", ("$hbm[dram + {rows : stride[1], dim : 1}]",)),)
    assert load.writes == (("ram", ("$ram[first:first + rows]",)),)
    assert (load.registers_read, load.registers_written) == (("stride", "count"), ("count",))
    assert {o.name: o.uses for o in load.operands} == {
        "dram": ("address in `$hbm`",), "row": ("address in `$ram`",), "rows": ("extents",),
        "which": ("chooses what is done",)}
    assert load.text.startswith("[load](dram, row, rows, which) {") and load.text.endswith("\n}")


def test_blocks_are_seen_through_and_shared_lines_are_printed() -> None:
    copy = entry("copy")
    assert copy.reads == (("ram", ("$ram[from]",)),) and copy.writes == (("ram", ("$ram[to]",)),)
    assert copy.text == "[copy](from, to) {\n    take(%X, from);\n    %X -> $ram[to];\n}"
    assert copy.section == "others" and copy.description == ()
    (take,) = small().blocks
    assert take.description == ("What `load` and others share.",) and take.text.count("\n") == 2


def test_html_is_well_formed_and_its_links_lead_somewhere() -> None:
    for m in (small(), *(manual(taidl.load(n)) for n in ("gemmini", "amx", "oma"))):
        root = ElementTree.fromstring(FORMS["html"](m).removeprefix("<!DOCTYPE html>"))
        links = [a.attrib["href"][1:] for a in root.iter("a")]
        assert links == [e.name for e in m.instructions]
        assert set(links) <= {h.attrib["id"] for h in root.iter("h3")}
        text = "".join(root.itertext())
        assert all(b.name in text and f"{b.bytes:,}" in text for b in m.buffers)
        assert all(e.text in text for e in (*m.instructions, *m.blocks))


def test_markdown_tables_have_equal_rows_and_text_is_escaped() -> None:
    page = FORMS["markdown"](small())
    assert r"A machine for tests: \<b\> & `code`." in page
    assert r"rows \| columns" in page
    outside = re.sub(r"```.*?```", "", page, flags=re.DOTALL)
    for table in re.findall(r"(?:^\|.*\|\n)+", outside, re.MULTILINE):
        assert len({len(re.findall(r"(?<!\\)\|", line)) for line in table.splitlines()}) == 1
    assert "[`load(dram, row, rows, which)`](#load)" in page and '<a id="load"></a>' in page


@pytest.mark.first_case
@pytest.mark.parametrize("name", taidl.available())
def test_every_isa_has_a_manual_with_each_instruction_once(name: str) -> None:
    m = manual(taidl.load(name))
    text = FORMS["text"](m)
    for e in m.instructions:
        assert text.count(f"\n{e.call}\n{'.' * len(e.call)}\n") == 1
        assert parse(f"isa x;\n{e.text}").instructions[0].name == e.name


def test_the_manual_of_a_figure_without_a_header() -> None:
    path = Path(__file__).parents[2] / "data" / "taidl_figures" / "figure_10.taidl"
    m = manual(taidl.load(path))
    assert m.name == "figure_10" and m.introduction[0].startswith("Figure 10")
    assert m.registers[0].description == ""
    assert m.instructions[0].registers_written == ("dataflow_flag",)


def test_other_ways_to_call_an_instruction_are_named() -> None:
    text = FORMS["markdown"](manual(taidl.load("amx")))
    assert "In kernels also `tileload(dst, base, stride)`, `tileloadd(dst, addr, stride)`." in text
