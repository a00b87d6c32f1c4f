"""Sizes and defaults stand once: in the ISA, from where graphs and options have them."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import re
import sys
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import assume, given

from archloom.acadl_models.fit import misfits
from archloom.mapper.accelerator import Accelerator
from archloom.mapper.options import Option
from archloom.oracle import taidl
from archloom.oracle.accesses import bits_of
from archloom.oracle.errors import TargetError
from archloom.tvm_backend.targets import registry
from archloom.tvm_backend.targets.choice import names_of
from benchmarks.networks.own_targets import FOLDER
from tests.support.examples import examples, often, randoms

pytestmark = pytest.mark.usefixtures("clean_registry")

EXAMPLES = {path.stem: path for path in sorted(FOLDER.glob("*.py"))}
MODULES = {**{name: Path(inspect.getfile(importlib.import_module(f"archloom.acadl_models.{name}")))
              for name in sorted(registry.BUILT_IN)}, **EXAMPLES}
"""Where the graph of a target is made."""

OF_ITS_OWN = {"mesh", "triple_ring"}
"""Machines with the ISA of another one, whose sizes by default are not that one's."""

SLOW = {*OF_ITS_OWN, "mte", "wormhole"}
"""Graphs that take a second to make, or an ISA that takes one to check."""


def accelerator(target: str) -> Accelerator:
    name = names_of(str(EXAMPLES[target]))[0] if target in EXAMPLES else target
    return registry.get(name).accelerator


def other(option: Option, r: Random) -> Any:
    """Another value of an option, not far from what it is by default."""
    if option.choices:
        return r.choice(option.choices)
    if option.type is bool:
        return r.random() < 0.5
    if option.type is not int or option.low is None or option.high is None:
        return option.default
    near = int(option.low) * 4 if option.default is None else int(option.default)  # type: ignore[call-overload]
    return min(int(option.high), max(int(option.low), r.choice((near // 2, near - 1, near + 1, 2 * near, 3 * near))))


@pytest.mark.parametrize("target", often(MODULES, {*MODULES} - SLOW))
@given(randoms)
@examples(2, 100)
def test_an_option_that_changes_changes_graph_and_isa_alike(target: str, r: Random) -> None:
    """All parameters are the graph's, and a storage is exactly as large as the buffer that lies in it."""
    made = accelerator(target)
    options = {option.name: other(option, r) for option in made.options if r.random() < 0.4}
    try:
        graph, isa = made.graph(options), made.isa(options)
    except TargetError:
        assume(False)
    assert graph.parameters == dict(isa.parameters) and misfits(graph, isa) == []
    assert all(graph.parameters.get(name, value) == value for name, value in options.items() if type(value) is int)
    assert {b.name: graph.bytes_of(b.name) for b in isa.buffers} == {b.name: -(-bits_of(b) // 8) for b in isa.buffers}


@pytest.mark.parametrize("target", often(sorted({*MODULES} - OF_ITS_OWN), {*MODULES} - SLOW))
def test_a_machine_by_default_is_its_isa_by_default(
    target: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever that is: a graph made by the same code beside an ISA of other defaults has these."""
    isa = accelerator(target).isa_name
    left = {"vlen"} if target == "mte" else set[str]()  # a figure of each architecture
    source = MODULES[target]
    for path in (source.parent if target in EXAMPLES else taidl._ISAS).glob("*.taidl"):
        text = re.sub(r"(?m)^(param \w+ = )(\w+)( in )(\w+)\.\.(\w+)", _changed, path.read_text(encoding="utf-8"))
        (tmp_path / path.name).write_text(text, encoding="utf-8")
    if target in EXAMPLES:
        source = Path(tmp_path / source.name)
        source.write_text(MODULES[target].read_text(encoding="utf-8").replace(").register()", ")"), encoding="utf-8")
        isa = str(source.with_suffix(".taidl"))
    else:
        before = {p.name: p.default for p in taidl._joined(taidl._files(taidl._find(isa))).parameters}
        monkeypatch.setattr(taidl, "_ISAS", tmp_path)
        changed = dict(taidl.declared(isa).parameters)
        assert all(changed[name] != before[name] for name in before)
    found, expected = _made(target, source, monkeypatch), dict(taidl.declared(isa).parameters)
    assert {n: v for n, v in found.items() if n not in left} == {n: v for n, v in expected.items() if n not in left}


def _changed(found: re.Match[str]) -> str:
    """The parameter with another default: twice as much where that is allowed, else half."""
    head, default, of, low, high = found.groups()
    value, least, most = (int(v[:-1]) << {"K": 10, "M": 20}[v[-1]] if v[-1] in "KM" else int(v)
                          for v in (default, low, high))
    other = 2 * value if value and 2 * value <= most else value // 2 if value // 2 >= least and value else value + 1
    return f"{head}{other}{of}{low}..{high}"


def _made(target: str, source: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """The parameters of the graph that a module makes by default, read anew."""
    if target == "systolic_array":
        design = _anew(source.with_name("design.py"), monkeypatch).Design()
        return dict(design.isa.parameters)
    module = _anew(source, monkeypatch)
    return dict(getattr(module, target)().parameters)


def _anew(source: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    spec = importlib.util.spec_from_file_location(f"anew_{source.stem}", source)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, spec.name, module)
    spec.loader.exec_module(module)
    return module


def test_misses_of_the_last_cache_take_what_its_memory_takes() -> None:
    """Else a memory's latency is stated twice, or once without any effect."""
    seen = set()
    for target in MODULES.keys() - {*OF_ITS_OWN, "wormhole"}:
        graph = accelerator(target).configure({}).graph
        for cache in graph.caches:
            behind = graph.backing(cache)
            if behind in graph.tensor_memories:
                seen.add(target)
                assert cache.latencies()["miss_latency"].evaluate({}) == behind.latencies()["read_latency"].evaluate({})
    assert seen >= {"amx", "mte", "oma"}
