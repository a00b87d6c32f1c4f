"""Instances by template are those that are made one by one: on random streams, right and wrong, and on layers."""

from __future__ import annotations

from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from archloom.acadl_models.timing import simulate
from archloom.acadl_models.timing.engine.lowering.routes import SharedRoutes
from archloom.mapper import workload as wl
from archloom.mapper.workload import Epilogue
from archloom.oracle import resolve as resolving
from archloom.oracle import taidl
from archloom.oracle.accesses import Touching, accesses, touched
from archloom.oracle.errors import StreamError
from archloom.oracle.nests import instructions, with_windows
from archloom.oracle.resolution.templates import Template
from archloom.oracle.resolve import resolve
from archloom.oracle.resolved import ResolvedInstr, ResolvedStream, Statement, Window
from archloom.oracle.stream import Stream
from archloom.oracle.taidl.isa import Isa
from archloom.oracle.variables import is_known
from archloom.tvm_backend.targets import registry
from archloom.uma_targets.gemmini.emit import GemminiEmitter
from tests.support.examples import examples
from tests.support.mapper.mapped import convs, isa_of
from tests.support.oracle.strategies import gemmini_streams

INT8, FLOAT = Epilogue(True, 0.01, True, "int8"), Epilogue(True, 1.0, True, "float32")
TARGETS = ("gemmini", "systolic_array", "gamma", "ai_engine", "amx", "tpu_v1", "plasticine", "qkv", "ultratrail", "oma",
           "eyeriss")
extents = st.integers(1, 70)


def resolved(stream: Stream, isa: Isa) -> ResolvedStream | str:
    """The resolved stream, found anew, or why there is none."""
    try:
        return resolving._resolve(stream, resolving._Hold(isa), 4096)
    except StreamError as error:
        return str(error)


def plainly(stream: Stream, isa: Isa) -> ResolvedStream | str:
    """The same without templates, and with registers that are looked at anew at each instruction."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Template, "instance", lambda *_: None)
        patch.setattr(resolving._Resolver, "known", lambda _, state: tuple(
            pair for pair in state.items() if is_known(pair[1])))
        patch.setattr(resolving._Resolver, "written", lambda *_: None)
        resolving._specializers.cache_clear()
        found = resolved(stream, isa)
        resolving._specializers.cache_clear()
    return found


def check(stream: Stream, isa: Isa) -> int:
    """Compare both; how many instructions were made by template."""
    found = resolved(stream, isa)
    assert found == plainly(stream, isa)
    nodes = () if isinstance(found, str) else tuple(instructions(found.body))
    assert all(accesses(i) == touched(tuple(i.statements)) for i in nodes)
    made = [i for i in nodes if isinstance(i.statements, Touching)]
    first = {i.statements.alike: i for i in reversed(made)}
    assert all(anywhere(i) == anywhere(first[i.statements.alike]) for i in made)
    return len(made)


def anywhere(instr: ResolvedInstr) -> tuple[Statement, ...]:
    """The statements, wherever their windows lie."""
    return with_windows(instr, lambda s: Window(s.window.buffer, (), s.window.dims)).statements


@examples(5, 1000)
@given(gemmini_streams(), st.integers(0, 2000))
def test_random_streams(stream: Stream, missing: int) -> None:
    """With less HBM than they use, they are refused with the same words."""
    isa = taidl.load("gemmini", **dict(stream.parameters))
    check(stream, isa)
    check(Stream(stream.isa, stream.parameters, (), (), max(0, stream.hbm_bytes - missing), stream.body), isa)


@examples(8, 300)
@given(st.data(), st.sampled_from(("channels", "kernel_row")), st.sampled_from(("ws", "os")))
def test_convolutions(data: st.DataObject, packing: Literal["channels", "kernel_row"], dataflow: str) -> None:
    workload, mapping, dim = data.draw(convs(packing, dataflow, False))
    isa = isa_of(dim)
    assert check(GemminiEmitter(isa.parameters).emit(workload, mapping), isa)


@pytest.mark.parametrize("name", TARGETS)
@examples(2, 60)
@given(extents, extents, extents)
def test_products_of_all_targets(name: str, m: int, n: int, k: int) -> None:
    """Streams and timing; the latter with latencies that are found for each instruction by itself, too."""
    floats = name in ("qkv", "plasticine")
    work = wl.gemm(m, n, k, epilogue=FLOAT if floats else INT8, dtype="float32" if floats else "int8")
    configuration = registry.get(name).accelerator.configure(None)
    stream = configuration.emit(work, configuration.space(work).first()[0])
    check(stream, configuration.isa)
    found = simulate(configuration.graph, resolve(stream, configuration.isa))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SharedRoutes, "find", lambda *_: None)
        assert simulate(configuration.graph, resolve(stream, configuration.isa)) == found
