"""``docs/mapper_numbers.md`` has each number of the mapper that has a name, with its value."""

from __future__ import annotations

import ast
import importlib
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SOURCES = ROOT / "src"
MAPPER = SOURCES / "archloom" / "mapper"
ROW = re.compile(r"^\| `([\w.:]+)` \| (.+?) \| (fact|derived|limit|choice) \| .+ \|$", re.MULTILINE)
ROWS = {name: value for name, value, _ in ROW.findall((ROOT / "docs" / "mapper_numbers.md").read_text("utf-8"))}
KEEPING = {"accelerator", "cache", "disk"}
"""Modules that keep results: no plan depends on their numbers, and ``archloom cache`` tells them."""


def named(path: Path) -> "list[tuple[str, object]]":
    """Constants of a module that are written as numbers, or tuples of them, and not made of other names."""
    module = ".".join(path.relative_to(SOURCES).with_suffix("").parts)
    found = []
    for node in ast.parse(path.read_text("utf-8")).body:
        if not isinstance(node, ast.Assign) or any(isinstance(n, ast.Name) for n in ast.walk(node.value)):
            continue
        for name in (n.id for target in node.targets for n in ast.walk(target) if isinstance(n, ast.Name)):
            value = getattr(importlib.import_module(module), name, None)
            if name.isupper() and is_number(value):
                found.append((name, value))
    return found


def is_number(value: object) -> bool:
    return ((isinstance(value, (int, float)) and not isinstance(value, bool))
            or (isinstance(value, tuple) and bool(value) and all(map(is_number, value))))


def test_every_number_of_the_mapper_is_on_the_page() -> None:
    missing, paths = [], sorted(MAPPER.rglob("*.py"))
    assert MAPPER / "search.py" in paths
    for path in paths:
        where = ".".join(path.relative_to(MAPPER).with_suffix("").parts)
        if where not in KEEPING:
            missing += [f"{where}.{name} = {value}" for name, value in named(path) if f"{where}.{name}" not in ROWS]
    assert not missing, "\n".join(missing)


def test_its_values_are_those_of_the_code() -> None:
    for name, value in ROWS.items():
        module, _, constant = (name if ":" in name else ":".join(f"mapper.{name}".rsplit(".", 1))).rpartition(":")
        assert repr(getattr(importlib.import_module(f"archloom.{module}"), constant)) == value, name
