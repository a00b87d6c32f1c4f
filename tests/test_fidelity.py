"""The page of fidelity: whole, of data alone, as its command writes it, and marked where a promise is not kept."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks import fidelity, results
from benchmarks.fidelity import KEPT, NOT_COMPARED, OPEN, OUTSIDE, UNMEASURED, Judged, Row, Source, judged
from benchmarks.figures import FigureError, load
from tests.support.examples import examples

PAPERS = {"ACADL": (0, 13), "TAIDL": (2, 21), "EQueue": (0, 14), "TL": (2, 9), "MTE": (10, 10)}
"""Tables and figures by the last number that the papers print."""


@pytest.fixture(scope="module")
def sources() -> tuple[Source, ...]:
    return fidelity.sources()


@pytest.fixture(scope="module")
def rows(sources: tuple[Source, ...]) -> list[Judged]:
    return judged(sources, results.read(), load())


def arabic(number: str) -> int:
    """Of a table's or figure's number, Roman or not."""
    digits = {"I": 1, "V": 5, "X": 10}
    if number.isdecimal():
        return int(number)
    values = [digits[c] for c in number]
    return sum(-x if x < y else x for x, y in zip(values, [*values[1:], 0]))


@pytest.mark.parametrize("name", PAPERS)
def test_every_table_and_figure_of_a_paper_is_said_to_have_numbers_or_none(
    name: str, sources: tuple[Source, ...],
) -> None:
    source = next(s for s in sources if s.name == name)
    said = sorted((kind, arabic(number)) for kind, number in map(str.split, (*source.numbers, *source.rest)))
    tables, figures = PAPERS[name]
    assert said == sorted([*(("Table", n + 1) for n in range(tables)), *(("Figure", n + 1) for n in range(figures))])


def test_every_table_and_figure_with_numbers_has_a_row(sources: tuple[Source, ...]) -> None:
    for source in sources:
        assert set(source.numbers) <= {row.of for row in source.rows}, source.name
        assert not set(source.rest) & {row.of for row in source.rows}, source.name


def test_every_row_resolves_or_has_a_reason(rows: list[Judged]) -> None:
    """What is in files and in figures.toml: :func:`judged` refuses places where nothing can be."""
    for row in rows:
        assert (row.state == NOT_COMPARED) == bool(row.row.reason)
        assert row.row.reason or row.state == UNMEASURED or row.theirs, row.row
        if row.row.reason and row.row.theirs:
            assert row.theirs, row.row


def texts(value: Any) -> Iterator[str]:
    """Every text in a TOML value; other values but truths are a failure."""
    if isinstance(value, str):
        yield value
        return
    assert isinstance(value, list | dict) or value is True, value
    for inner in value.values() if isinstance(value, dict) else [] if value is True else value:
        yield from texts(inner)


def test_no_number_is_typed() -> None:
    """Neither as a value nor in the words beside one."""
    defined = tomllib.loads(fidelity.DEFINED.read_text(encoding="utf-8"))
    measured = re.compile(r"\d[\d.,]*\s?(%|×|ms\b|s\b|cycles|times|GB|TFLOP|percent)|\d\.\d+(?!\w*\))|\d,\d{3}")
    for source in defined["source"]:
        for text in texts([source["says"], *([row.get(k, "") for k in ("item", "note", "reason")]
                                             for row in source["row"])]):
            assert not measured.search(re.sub(r"Section [\d.]+", "", text)), text
        assert list(texts(source))


def test_the_page_is_what_the_command_writes(sources: tuple[Source, ...], rows: list[Judged]) -> None:
    assert fidelity.PAGE.read_text(encoding="utf-8") == fidelity.markdown(sources, rows), (
        "python benchmarks/fidelity.py")


def test_what_a_row_promises_its_source_meets(sources: tuple[Source, ...]) -> None:
    """Thresholds on both sides of a quantity that is published let the published number through."""
    seen = 0
    for source in sources:
        for row in source.rows:
            for figure in (figure for _, figure in fidelity.promises(row, RUNS) if not row.over and not row.promise):
                if figure.at_least is not None and figure.at_most is not None:
                    theirs = judged([replace(source, rows=(row,))], {"runs": {}}, RUNS)[0].theirs
                    assert all(map(figure.holds, theirs)), row
                    seen += 1
    assert seen > 5


RUNS = load()
RUN = RUNS["tpu_v1_networks"]
FIGURE = next(figure for figure in RUN.figures if figure.read == "ratios.MLP0")


def measured(value: float) -> results.Results:
    row = {"definition": RUN.definition, "figures": {FIGURE.read: {"value": value}}}
    return {"commit": None, "runs": {RUN.key: row}}


def row_of(value: float | None, **fields: Any) -> Judged:
    row = Row(**{"of": "Table 3", "item": "MLP0", "theirs": ("tpu_v1.json: networks.0.tops",),
                 "over": f"{RUN.key}: {FIGURE.read}", **fields})
    state = {"commit": None, "runs": {}} if value is None else measured(value)
    return judged([Source("TPU v1", "", "", (row,))], state, RUNS)[0]


@examples(50, 500)
@given(st.floats(0.01, 100))
def test_errors_have_signs_and_promises_two_sides(ratio: float) -> None:
    found = row_of(ratio)
    assert found.error == pytest.approx((ratio - 1, ratio - 1), abs=1e-9)
    assert FIGURE.at_least is not None and FIGURE.at_most is not None
    assert found.state == (KEPT if FIGURE.at_least <= ratio <= FIGURE.at_most else OUTSIDE)
    assert ("**outside**" in fidelity.markdown([Source("TPU v1", "", "", (found.row,))], [found])) == (
        found.state == OUTSIDE)


def test_states_without_a_promise_or_a_measurement() -> None:
    assert row_of(None).state == UNMEASURED and row_of(None).theirs and row_of(None).error is None
    assert row_of(None, over="", reason="it is not there").state == NOT_COMPARED
    open_one = row_of(2.0, over="", ours=("tpu_v1.json: networks.1.tops",))
    assert open_one.state == OPEN and open_one.json["error"] is not None
    equal = {"over": "", "ours": ("tpu_v1.json: networks.0.tops",), "equal": True}
    assert row_of(1.0, **equal).state == KEPT and row_of(1.0, **equal).error == (0, 0)
    assert row_of(1.0, **{**equal, "ours": ("tpu_v1.json: networks.1.tops",)}).state == OUTSIDE


@pytest.mark.parametrize(("fields", "said"), [
    ({"theirs": ("tpu_v2.json: x",)}, "expected a file of"),
    ({"theirs": ("tpu_v1.json: networks.9.tops",)}, "networks.9.tops: expected '9'"),
    ({"theirs": ("tpu_v1.json: networks.*.tops",)}, "5 of theirs, 1 of ours"),
    ({"theirs": ("tpu_v1.json: networks.0.name",)}, "expected a number, found 'MLP0'"),
    ({"over": f"{RUN.key}: ratios.MLP9"}, "expected a way of one of its figures or that it keeps"),
    ({"theirs": ("taidl.json: table_2.0.avx512",), "over": "", "ours": ("tpu_v1.json: networks.0.tops",)},
     "expected 0 as published, found 12.3"),
    ({"promise": (f"{RUN.key}: large_batch_share",)}, "expected figures with thresholds"),
])
def test_places_where_nothing_lies_are_refused(fields: dict[str, Any], said: str) -> None:
    with pytest.raises(FigureError, match=re.escape(said)):
        row_of(1.0, **fields)


@pytest.mark.parametrize(("row", "said"), [
    ({"theirs": "x.json: a"}, "expected one of ours, over and reason"),
    ({"theirs": "x.json: a", "ours": "b: c", "reason": "none"}, "expected one of ours, over and reason"),
    ({"ours": "b: c"}, "expected theirs"),
    ({"theirs": "x.json: a", "ours": "b: c", "given": "dozens"}, "found 'dozens'"),
    ({"theirs": "x.json: a", "ours": "b: c", "value": "3"}, "found value"),
])
def test_rows_that_leave_something_open_are_refused(tmp_path: Any, row: dict[str, str], said: str) -> None:
    fields = {"of": "Table 1", "item": "a number", **row}
    text = ('[[source]]\nname = "A"\ntitle = "A"\nsays = "B"\n[[source.row]]\n'
            + "".join(f'{key} = "{value}"\n' for key, value in fields.items()))
    (tmp_path / "fidelity.toml").write_text(text, encoding="utf-8")
    with pytest.raises(FigureError, match=said):
        fidelity.sources(tmp_path / "fidelity.toml")
