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
    "tvm_backend": {"oracle", "acadl_models", "mapper"},
    "uma_targets": {"oracle", "acadl_models", "mapper", "tvm_backend"},
    "models": set(),
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
    own = {*BELOW, "archloom"} - BELOW[package] - {package}
    wrong = [f"{path.relative_to(ROOT)} imports {module}" for path in sources
             for module in imported(path.read_text()) if module.partition(".")[0] in own]
    assert wrong == []


def test_an_import_inside_of_a_function_is_seen() -> None:
    assert list(imported("def f():\n    from uma_targets import gemmini\n")) == ["uma_targets"]
