"""Pages of reports and of searches in Debian's Chromium, opened from disk: on a desk and on a phone, light and dark."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import pytest

import archloom
from archloom.tvm_backend.page.made import page, page_of
from archloom.tvm_backend.report.data import Report
from archloom.tvm_backend.search.store import Row
from tests.support.browser import WIDER, chromium, opened
from tests.support.tvm_backend.pages import NASTY, made_search

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

SIZES = [(1280, "light"), (390, "dark"), (1280, "dark"), (390, "light")]
MARKS = """() => [...document.querySelectorAll('.chart > svg')].map(
    (svg) => svg.querySelectorAll('circle, rect, path').length)"""
CELLS = """(caption) => [...document.querySelectorAll('table')].filter((t) => t.caption?.textContent === caption)
    .flatMap((t) => [...t.tBodies[0].rows]).map((row) => [...row.cells].map((cell) => cell.title))"""
"""The exact values of the rows that are shown."""
LIT = "[...document.querySelectorAll('.chart circle.dot:not(.off)')].map((dot) => Number(dot.dataset.id))"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as found:
        yield found


@pytest.fixture(scope="module")
def report() -> Report:
    return archloom.estimate("mobilenet_v2(image=32)", "gemmini", {"dim": 8}, quiet=True)


@pytest.fixture
def show(browser: Browser, tmp_path: Path) -> Iterator[Callable[..., Page]]:
    """Opens HTML from disk; at the end there must have been no fault."""
    pages, faults = [], []

    def shown(html: str, width: int = 1280, scheme: Literal["dark", "light"] = "light") -> Page:
        file = tmp_path / f"page{len(pages)}.html"
        file.write_text(html)
        found, wrong = opened(browser, file.as_uri(), width, scheme)
        pages.append(found)
        faults.append(wrong)
        found.goto(file.as_uri())
        found.wait_for_selector("body[data-drawn]")
        found.wait_for_selector(".chart > svg")
        return found

    yield shown
    for found in pages:
        found.close()
    assert not any(faults), faults


def rows_of(page: Page, caption: str) -> list[list[str]]:
    """Of all pages of a table."""
    card = page.locator(".card", has=page.locator("caption", has_text=caption)).first
    found = page.evaluate(CELLS, caption)
    following = card.get_by_role("button", name="next ›")
    while following.is_visible() and following.is_enabled():
        following.click()
        found += page.evaluate(CELLS, caption)
    return found  # type: ignore[no-any-return]


def number(text: str) -> float | None:
    return None if text == "not known" else float(text.split()[0])


def count_of(page: Page, caption: str) -> int:
    card = page.locator(".card", has=page.locator("caption", has_text=caption)).first
    return int(card.get_by_role("status").inner_text().split()[0].replace(",", ""))


@pytest.mark.parametrize(("width", "scheme"), SIZES)
def test_pages_fit_and_draw(
    width: int, scheme: Literal["dark", "light"], show: Callable[..., Page], report: Report, tmp_path: Path
) -> None:
    made_search(tmp_path / "s", 60)
    for html in (page_of([("net", report)]), page_of([("a", report), ("b", report)]), page([tmp_path / "s"])):
        found = show(html, width, scheme)
        assert found.evaluate(WIDER) == []
        marks = found.evaluate(MARKS)
        assert len(marks) >= 4 and min(marks) >= 2
        ground = found.evaluate("getComputedStyle(document.body).backgroundColor")
        assert (sum(map(int, ground[4:-1].split(","))) < 300) == (scheme == "dark")


# a report -------------------------------------------------------------------------------------------------------------


def test_no_figure_of_a_report_differs(show: Callable[..., Page], report: Report) -> None:
    found = show(page_of([("net", report)]))
    tiles = found.evaluate("Object.fromEntries([...document.querySelectorAll('[data-figure]')].map("
                           "(e) => [e.dataset.figure, e.title]))")
    assert report.memory is not None
    for name, value in {"latency": report.seconds, "energy": report.joules, "area": report.area_mm2,
                        "MACs": report.macs, "utilization": report.utilization, "host": report.host_seconds,
                        "peak memory": report.memory.peak_bytes}.items():
        assert number(tiles[name]) == value
    shown = {row[0]: row for row in rows_of(found, "Layers")}
    for layer in report.layers:
        row = shown[layer.name]
        assert number(row[4]) == layer.macs and number(row[5]) == layer.cycles and number(row[6]) == layer.seconds
        assert number(row[8]) == layer.gap and number(row[10]) == layer.offchip_bytes
    assert [row[4] for row in rows_of(found, "Operators on the host")] == [h.reason for h in report.host]


def test_layers_are_sorted_filtered_and_searched(show: Callable[..., Page], report: Report) -> None:
    found = show(page_of([("net", report)]))
    head = found.get_by_role("button", name="cycles", exact=True)
    cycles = sorted(layer.cycles for layer in report.layers if layer.cycles is not None)
    for order in (cycles, cycles[::-1]):
        head.click()
        assert [number(row[5]) for row in rows_of(found, "Layers")][:len(order)] == order
    assert found.locator("th[aria-sort=descending]").inner_text() == "cycles"
    found.get_by_label("filter operator of Layers").fill("conv")
    assert count_of(found, "Layers") == sum("conv" in layer.op for layer in report.layers)
    found.get_by_label("filter cycles of Layers").fill(">1k")
    assert count_of(found, "Layers") == sum(
        "conv" in layer.op and (layer.cycles or 0) > 1000 for layer in report.layers)
    found.get_by_label("filter operator of Layers").fill("")
    found.get_by_label("filter cycles of Layers").fill("")
    found.get_by_label("search Layers").fill(report.layers[3].name)
    assert count_of(found, "Layers") == sum(
        any(report.layers[3].name in text for text in (layer.name, layer.op, layer.mapping or ""))
        for layer in report.layers)


def test_a_layer_is_chosen_by_click_and_keyboard(show: Callable[..., Page], report: Report) -> None:
    found = show(page_of([("net", report)]))
    title = found.locator("[data-details=layer] h3")
    longest = max(report.layers, key=lambda layer: layer.seconds or 0)
    assert title.inner_text() == longest.name
    found.locator("tbody tr.pick").nth(2).click()
    chosen = found.locator("tr.picked td").first.inner_text()
    assert title.inner_text() == chosen != longest.name
    timeline = found.get_by_role("group", name="Timeline")
    timeline.focus()
    found.keyboard.press("ArrowRight")
    assert title.inner_text() == found.locator("tbody tr.pick").nth(3).locator("td").first.inner_text()
    found.locator("rect[data-cause=busy_cycles]").nth(1).click()
    assert title.inner_text() == max(report.accelerator_layers, key=lambda layer: layer.cycles or 0).name
    found.locator("section[aria-label=Roofline] circle.key").first.dispatch_event("click")
    found.mouse.move(0, 0)


def test_reports_stand_side_by_side(show: Callable[..., Page], report: Report) -> None:
    other = archloom.estimate("mobilenet_v2(image=32)", "gemmini", {"dim": 16}, quiet=True)
    found = show(page_of([("eight", report), ("sixteen", other)]))
    row = found.locator("tr", has=found.locator("th", has_text="latency")).first
    assert [number(row.locator("td").nth(k).get_attribute("title") or "") for k in (0, 1)] == [
        report.seconds, other.seconds]
    share = 100 * abs(other.seconds / report.seconds - 1)
    assert float(row.locator("td").nth(2).inner_text()[1:-1]) == pytest.approx(share, rel=1e-3)
    for name, of in (("sixteen", other), ("eight", report)):
        found.get_by_role("tab", name=name).click()
        panel = found.get_by_role("tabpanel", name=name)
        assert number(panel.locator("[data-figure=latency]").get_attribute("title") or "") == of.seconds


def test_numbers_stand_for_what_they_show(show: Callable[..., Page], report: Report) -> None:
    rng = random.Random(0)
    values = [0.0, 1.0, 99999.0, 99999.5, 1e5, 1234.5]
    values += [rng.uniform(1, 10) * 10.0**rng.randint(-11, 13) for _ in range(300)]
    factors = dict(zip("TGMkmµnp", (1e12, 1e9, 1e6, 1e3, 1e-3, 1e-6, 1e-9, 1e-12)))
    found = show(page_of([("net", report)]))
    for unit in ("s", "J", "", "cycles", "mm²"):
        texts = found.evaluate("([values, unit]) => values.map((v) => shown(v, unit))", [values, unit])
        for value, text in zip(values, texts):
            digits, _, rest = text.replace(",", "").partition(" ")
            prefix = rest.removesuffix(unit).strip()
            assert float(digits) * factors.get(prefix, 1.0) == pytest.approx(value, rel=5.1e-4), (text, value, unit)


# a search -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [10, pytest.param(20_000, marks=pytest.mark.slow)])
def test_a_search_is_brushed_sorted_and_filtered(count: int, show: Callable[..., Page], tmp_path: Path) -> None:
    rows = made_search(tmp_path / "s", count, constraints=("area_mm2<=3",))
    found = show(page([tmp_path / "s"]))
    assert found.title() == "Search s" and found.get_by_text(NASTY).count() > 0
    assert count_of(found, "Candidates") == count
    kept = _brushed(found, "dim")
    assert count_of(found, "Candidates") == sum(row.params["dim"] in kept for row in rows)
    found.get_by_label("filter seconds of Candidates").fill("<=1ms")
    small = [row for row in rows if row.params["dim"] in kept and row.values and (row.values[0] or 0) <= 1e-3]
    assert count_of(found, "Candidates") == len(small)
    lit = found.evaluate(LIT)
    assert set(lit) <= {rows.index(row) for row in small} if count == 10 else len(set(lit)) <= len(small)
    found.get_by_role("button", name="clear brushes").click()
    found.get_by_label("filter seconds of Candidates").fill("")
    assert count_of(found, "Candidates") == count
    found.get_by_role("button", name="joules", exact=True).click()
    first = found.evaluate(CELLS, "Candidates")[0]
    assert number(first[3]) == min(row.values[1] for row in rows if row.values)  # type: ignore[type-var]


def _brushed(page: Page, axis: str) -> set[Any]:
    """Drag over the upper part of an axis of places; the values there."""
    grip = page.locator(f"g[data-axis={axis}] .grip")
    grip.scroll_into_view_if_needed()
    box = grip.bounding_box()
    assert box is not None
    middle = box["x"] + box["width"] / 2
    page.mouse.move(middle, box["y"] + 4)
    page.mouse.down()
    end = box["y"] + 0.4 * box["height"]
    page.mouse.move(middle, end, steps=4)
    page.mouse.up()
    marks = page.locator(f"g[data-axis={axis}] text").all()[1:]
    return {int(mark.text_content() or "") for mark in marks
            if (place := mark.bounding_box()) is not None and place["y"] + place["height"] / 2 < end}


def test_an_axis_is_brushed_by_keyboard(show: Callable[..., Page], tmp_path: Path) -> None:
    rows = made_search(tmp_path / "s", 40)
    found = show(page([tmp_path / "s"]))
    values = sorted({row.params["dim"] for row in rows})
    found.locator("g[data-axis=dim]").focus()
    found.keyboard.press("ArrowUp")
    assert count_of(found, "Candidates") == sum(row.params["dim"] > values[0] for row in rows)
    found.keyboard.press("ArrowDown")
    assert count_of(found, "Candidates") == sum(values[0] < row.params["dim"] < values[-1] for row in rows)
    found.keyboard.press("Escape")
    assert count_of(found, "Candidates") == len(rows)


def test_a_candidate_is_chosen_and_made_again(show: Callable[..., Page], tmp_path: Path) -> None:
    rows = made_search(tmp_path / "s", 60, "seconds,area_mm2")
    found = show(page([tmp_path / "s"]))
    details, chart = found.locator("[data-details=candidate]"), found.locator("section[aria-label='Pareto front'] svg")
    seen = set()
    chart.focus()
    for _ in range(6):
        found.keyboard.press("ArrowRight")
        place = int(details.locator("h3").inner_text().split()[1]) - 1
        seen.add(place)
        _told(rows[place], details.inner_text(), details.locator("pre").inner_text())
    assert len(seen) > 1
    dots = chart.locator("circle.dot")
    dot = dots.nth(dots.count() - 1)
    box = dot.bounding_box()
    assert box is not None
    found.mouse.click(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    assert details.locator("h3").inner_text() == f"Candidate {int(dot.get_attribute('data-id') or '') + 1}"


def _told(row: Row, text: str, command: str) -> None:
    assert "front" in text
    if row.candidate["named"]:
        lines = command.splitlines()
        assert lines[0].startswith(f"archloom estimate resnet50 -t gemmini -O dim={row.params['dim']} ")
        assert f"-O clock_mhz={row.params['clock_mhz']!r}" in lines[0] and f"'{NASTY}'" in lines[1]
    else:
        names: dict[str, Any] = {}
        exec(command.replace("from optuna.trial import FixedTrial", ""), {"space": dict, "FixedTrial": dict}, names)
        assert names["candidate"] == row.params


def test_the_report_of_a_candidate(show: Callable[..., Page], tmp_path: Path) -> None:
    swept = archloom.sweep(
        "gemm(m=64,n=64,k=64)", "gemmini", {"dim": [8, 16]}, objectives="cycles", output=tmp_path / "s")
    found = show(page([tmp_path / "s"], 1))
    found.get_by_role("button", name="show its report").click()
    latency = found.locator("[data-report] [data-figure='latency in cycles']")
    assert number(latency.get_attribute("title") or "") == swept.front[0].figures["cycles"]
