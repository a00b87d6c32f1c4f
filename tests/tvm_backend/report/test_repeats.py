"""Equal blocks of long tables are shown once: nothing is lost, and what a decoder repeats is found."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from archloom.tvm_backend.report.data import HostLayer, Layer, Report
from archloom.tvm_backend.report.repeats import FEWEST, LONG, blocks, shortened
from archloom.tvm_backend.report.text import full_text, to_csv
from tests.support.examples import examples


@st.composite
def sequences(draw: st.DrawFn) -> list[int]:
    """Letters, some of them in blocks that repeat."""
    parts = draw(st.lists(st.tuples(st.lists(st.integers(0, 3), max_size=5), st.integers(1, 6)), max_size=5))
    return [letter for part, times in parts for letter in part * times]


@given(sequences())
@examples(60, 2000)
def test_blocks_written_out_are_the_sequence(keys: list[int]) -> None:
    found = blocks(keys)
    again = [letter for block in found for letter in keys[block.start:block.start + block.period] * block.times]
    assert again == keys
    assert [block.start for block in found] == [0, *(block.end for block in found)][:len(found)]
    assert all(block.times == 1 or block.times >= FEWEST for block in found)


@given(sequences())
@examples(60, 2000)
def test_no_block_saves_more_than_the_best(keys: list[int]) -> None:
    """The plain search: every start, every period, every number of times."""
    most = max((period * (times - 1) for start in range(len(keys)) for period in range(1, len(keys))
                for times in range(FEWEST, (len(keys) - start) // period + 1)
                if keys[start:start + period] * times == keys[start:start + period * times]), default=0)
    assert max((b.period * (b.times - 1) for b in blocks(keys)), default=0) == (most if most > 1 else 0)


def decoder(layers: int) -> Report:
    """Blocks of two layers and one operator of the host, after an embedding."""
    row = Layer("embed", "take", "accelerator", (1, 8), 5, 10, 1e-8, 0.5, 1, {"dram": 64})
    made = tuple(replace(row, name=f"{op}_{i}", op=op, macs=7 + (op == "b"), cycles=100)
                 for i in range(layers) for op in "ab")
    host = tuple(HostLayer(f"h_{i}", "softmax", "xla", 3, "no pattern") for i in range(layers))
    return Report(
        model="decoder", source="onnx", target="gemmini", options={"dim": 16}, clock_hz=1e9, cycles=2000, seconds=2e-6,
        accelerator_cycles=2000, accelerator_seconds=2e-6, macs=5 + 15 * layers, offloaded_macs=5 + 15 * layers,
        offloaded_macs_share=1.0, peak_macs_per_cycle=256, utilization=0.1, timing="simulated", layers=(row, *made),
        host=host, version="0.1.0")


def test_a_long_report_shows_a_block_once_with_its_sums() -> None:
    report = decoder(LONG + 1)
    lines = full_text(report).splitlines()
    assert len(lines) < 30
    heading = next(line for line in lines if line.startswith(f"{LONG + 1} times these 2 layers"))
    assert f"{15 * (LONG + 1):,}" in heading and f"{200 * (LONG + 1):,}" in heading
    assert any(line.startswith("  a_0 ") for line in lines) and any(line.startswith("embed ") for line in lines)
    assert any(line.startswith(f"{LONG + 1} times this operator") for line in lines)
    assert len(to_csv(report).splitlines()) == 1 + len(report.layers) and Report.from_json(report.to_json()) == report


def test_a_short_report_shows_all() -> None:
    rows = [[str(i), "same"] for i in range(LONG)]
    assert shortened(rows, list, lambda *_: ["never"]) == rows
