"""Which package may import which: the table of docs/architecture.md, also for imports inside of functions."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
BELOW: dict[str, set[str]] = {
    "oracle": set(),
    "acadl_models": {"oracle"},
    "mapper": {"oracle", "acadl_models"},
    "models": {"oracle"},
    "tvm_backend": {"oracle", "acadl_models", "mapper", "models"},
    "uma_targets": {"oracle", "acadl_models", "mapper", "tvm_backend"},
}


def imported(source: str) -> Iterator[str]:
    """The modules that any import statement of ``source`` names."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module


@pytest.mark.parametrize("package", BELOW)
def test_packages_import_only_those_below_them(package: str) -> None:
    sources = sorted((ROOT / package).rglob("*.py"))
    assert sources
    allowed = {package, *BELOW[package]}
    wrong = [f"{path.relative_to(ROOT)} imports {module}" for path in sources
             for module in imported(path.read_text())
             if module.partition(".")[0] == "archloom" and module.split(".")[1:2] not in [[name] for name in allowed]]
    assert wrong == []


def test_an_import_inside_of_a_function_is_seen() -> None:
    assert list(imported("def f():\n    from archloom.uma_targets import gemmini\n")) == ["archloom.uma_targets"]
