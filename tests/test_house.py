"""What keeps the code easy to live in, as far as it can be counted (benchmarks/house.py)."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import house

ROOT = Path(__file__).parents[1]
MOST_MODULES = 25

pytestmark = pytest.mark.skipif(not (ROOT / ".git").exists(), reason="counts what git knows of a checkout")


@pytest.fixture(scope="module")
def modules() -> list[house.Module]:
    return house.modules(ROOT)


@pytest.mark.slow
def test_no_modules_import_each_other_in_circles(modules: list[house.Module]) -> None:
    assert house.circles(modules) == []


def test_folders_hold_few_modules(modules: list[house.Module]) -> None:
    assert {folder: count for folder, count in house.folders(modules).items() if count > MOST_MODULES} == {}


def test_circles_and_places_alike_are_found() -> None:
    body = "".join(f"    value{i} = call{i}(value{i - 1}.field)\n" for i in range(1, 10))
    found = [
        house.Module(Path("oracle/one.py"), f"def f(value0):\n    import archloom.oracle.two\n{body}"),
        house.Module(Path("oracle/two.py"), f"from archloom.oracle import one\n\n\ndef g(value0):\n{body}"),
    ]
    assert house.circles(found) == [["oracle.one", "oracle.two"]]
    assert len(house.pairs_alike(found)) == 1
    assert house.circles(found[:1]) == [] == house.pairs_alike(found[:1])
