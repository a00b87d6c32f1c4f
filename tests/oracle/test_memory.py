"""What a process remembers has a limit: each cache of the packages says it, or stands here with what bounds it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from archloom.oracle.memory import Remembered

SOURCES = Path(__file__).parents[2] / "src" / "archloom"
PACKAGES = ("oracle", "acadl_models", "mapper", "models", "tvm_backend", "uma_targets")

UNBOUNDED = {
    "takes nothing, and so is one value": (
        "acadl_models/timing/engine/compiling.py:_sources", "acadl_models/timing/engine/compiling.py:tell",
        "oracle/native/library.py:features", "oracle/native/library.py:tiles", "oracle/native/products.py:best",
        "oracle/native/sharing_code.py:places",
        "oracle/taidl/keeping.py:_sources",
        "oracle/taidl/operators/elementary.py:_half_turns", "oracle/xla/executables.py:_borrow",
        "oracle/xla/executables.py:platform", "tvm_backend/frontends/onnx/versions.py:_newest_ir",
        "tvm_backend/frontends/onnx/versions.py:_newest_operator_set", "tvm_backend/inside/stubs.py:_head"),
    "types, features and nodes, of which the code has so many": (
        "oracle/kernel/callable.py:_in_numpy", "oracle/native/chains.py:_batchable",
        "oracle/native/library.py:_engines",
        "oracle/native/products.py:_batchable",
        "oracle/taidl/types.py:named_dtype", "oracle/taidl/types.py:of_numpy", "oracle/taidl/types.py:of_width",
        "oracle/xla/notation/substitution.py:NORMAL", "tvm_backend/ir/nodes.py:cache"),
    "files of the package": (
        "acadl_models/energy/memories.py:_law", "acadl_models/energy/tables.py:dram",
        "acadl_models/energy/tables.py:rate", "acadl_models/energy/tables.py:rows",
        "acadl_models/energy/tables.py:sources", "acadl_models/timing/engine/function_code.py:_definitions",
        "acadl_models/timing/engine/plain.py:JITTED", "models/catalogue.py:_trained",
        "tvm_backend/page/document.py:asset", "tvm_backend/sources/shipped.py:sources"),
    "what a user registers, or lets TVM or torch hold": (
        "oracle/taidl/__init__.py:_registered", "oracle/taidl/operators/control.py:_registered",
        "tvm_backend/inside/registration.py:_announced", "tvm_backend/inside/registration.py:_patterns",
        "tvm_backend/inside/running.py:_kept", "tvm_backend/targets/registry.py:_listeners",
        "tvm_backend/targets/registry.py:_loaded", "tvm_backend/targets/registry.py:_ran",
        "tvm_backend/torch_backend.py:GRAPHS"),
    "lives as long as what it is of: an ISA's mnemonics, a body, a report": (
        "oracle/resolve.py:cache", "oracle/taidl/translate.py:cache",
        "tvm_backend/report/build.py:found", "tvm_backend/report/build.py:cache",
        "tvm_backend/estimate/network.py:_of_models"),
    "bounded where it is written: one file, as many as there were forks, and the programs used last": (
        "mapper/disk.py:_open", "mapper/disk.py:_of_parents", "oracle/xla/oracle.py:_programs"),
}
"""Caches without a limit, by what bounds them."""


@given(st.integers(1, 6), st.lists(st.tuples(st.integers(0, 7), st.integers(1, 4))), st.booleans())
def test_the_last_are_remembered(most: int, entries: list[tuple[int, int]], weighed: bool) -> None:
    """Values are what they weigh."""
    found = Remembered[int, int](most, (lambda value: value) if weighed else None)
    expected = dict[int, int]()
    for key, value in entries:
        found[key] = value
        while key not in expected and expected and (
                sum(expected.values()) + value > most if weighed else len(expected) >= most):
            del expected[next(iter(expected))]
        expected[key] = value
        assert list(found.items()) == list(expected.items())
    assert all(found.once(key, lambda: 0) == value for key, value in expected.items())
    found.clear()
    assert found.once(8, lambda: most) == most and list(found) == [8]


def unbounded(path: Path) -> Iterator[str]:
    """Functions that remember all that they were called with, and containers of a module that begin empty."""
    name = path.relative_to(SOURCES).as_posix()
    tree = ast.parse(path.read_text("utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and any(map(_is_unbounded, node.decorator_list)):
            yield f"{name}:{node.name}"
        elif isinstance(node, ast.Call) and _is_unbounded(node.func):
            yield f"{name}:{ast.unparse(node.func)}"
    for node in tree.body:
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None and _is_empty(node.value):
            target = node.targets[0] if isinstance(node, ast.Assign) else node.target
            yield f"{name}:{ast.unparse(target)}"


def _is_unbounded(node: ast.expr) -> bool:
    return ast.unparse(node) in ("cache", "functools.cache", "lru_cache(None)", "lru_cache(maxsize=None)")


def _is_empty(node: ast.expr) -> bool:
    if isinstance(node, ast.Call):
        kind = ast.unparse(node.func).partition("[")[0]
        return kind in ("dict", "list", "set", "OrderedDict", "defaultdict", "WeakKeyDictionary") and not node.args
    return (isinstance(node, ast.Dict) and not node.keys) or (isinstance(node, ast.List) and not node.elts)


def test_whatever_grows_with_candidates_has_a_limit() -> None:
    files = [file for package in PACKAGES for file in sorted((SOURCES / package).rglob("*.py"))]
    assert len(files) > 300
    assert sorted(found for file in files for found in unbounded(file)) == sorted(
        name for names in UNBOUNDED.values() for name in names)
