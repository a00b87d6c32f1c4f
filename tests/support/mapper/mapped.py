"""Random workloads with random legal mappings, and their execution by the reference interpreter."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from hypothesis import assume
from hypothesis import strategies as st

from archloom.mapper.mapping import LEVELS, Mapping
from archloom.mapper.workload import Epilogue, Pool, Workload, add, conv2d, gemm
from archloom.oracle import interpreter, taidl
from archloom.oracle.taidl.isa import Isa
from archloom.uma_targets.gemmini.emit import GemminiEmitter
from tests.support.mapper.numpy_workload import evaluate, random_inputs

DIMS = (4, 5, 8, 16)


@lru_cache(maxsize=32)
def isa_of(dim: int, spad_rows: int = 8192, acc_rows: int = 2048) -> Isa:
    """Gemmini's ISA with memories of the given sizes."""
    return taidl.load("gemmini", dim=dim, spad_rows=spad_rows, acc_rows=acc_rows, dma_bytes=64)


def check(workload: Workload, mapping: Mapping, isa: Isa, seed: int = 0) -> None:
    """The emitted stream gives NumPy's result; nothing depends on what memories held before."""
    stream = GemminiEmitter(isa.parameters).emit(workload, mapping)
    assert [a.name for a in stream.arguments] == [t.name for t in workload.inputs]
    assert [(a.shape, a.dtype) for a in stream.arguments] == [(t.shape, t.dtype) for t in workload.inputs]
    inputs = random_inputs(workload, seed)
    result = interpreter.run(stream, isa, inputs, poison=seed)
    np.testing.assert_array_equal(result[workload.output.name], evaluate(workload, inputs), err_msg=str(mapping))


def epilogues(pool: Pool | None = None) -> st.SearchStrategy[Epilogue]:
    int8 = st.builds(
        Epilogue, st.booleans(), st.sampled_from([0.01, 0.02]), st.booleans(), st.just("int8"), st.just(pool))
    wide = st.builds(Epilogue, st.booleans(), st.just(1.0), st.just(False), st.just("int32"))
    return int8 if pool else st.one_of(int8, wide)


def slots(*names: str) -> st.SearchStrategy[tuple[tuple[str, int], ...]]:
    return st.tuples(*(st.tuples(st.just(n), st.sampled_from([1, 2, 3])) for n in names))


@st.composite
def gemms(draw: st.DrawFn, dataflow: str) -> tuple[Workload, Mapping, int]:
    """Any GEMM up to 23 in each dimension, with any tiles, order, levels, slots and placement of stores."""
    dim = draw(st.sampled_from(DIMS))
    m, n, k = (draw(st.sampled_from([1, 2, 3, 7, 11, 16, 17, 20, 23])) for _ in range(3))
    workload = gemm(m, n, k, batch=draw(st.sampled_from([1, 1, 3])), epilogue=draw(epilogues()),
                    shared_b=draw(st.booleans()))
    tile = tuple((name, draw(st.sampled_from([dim, 2 * dim, 3 * dim, max(dim, extent)])))
                 for name, extent in (("m", m), ("n", n), ("k", k)))
    levels = tuple((name, draw(st.sampled_from(LEVELS))) for name in "AB")
    order = draw(st.sampled_from([("m", "n"), ("n", "m")]))
    mapping = Mapping("gemm", dataflow, tile, order, levels, draw(slots("A", "B", "C")),
                      draw(st.sampled_from(("after", "interleave"))))  # type: ignore[arg-type]
    return workload, mapping, dim


@st.composite
def convs(draw: st.DrawFn, packing: str, dataflow: str, pooled: bool) -> tuple[Workload, Mapping, int]:
    """Small convolutions: any kernel, stride, padding and pooling, images below and above a tile."""
    dim = draw(st.sampled_from(DIMS))
    kh = draw(st.sampled_from([1, 2, 3, 5]))
    kw = draw(st.sampled_from([2, 3, 7] if packing == "kernel_row" else [1, 2, 3]))
    h, w = draw(st.integers(1, 9)), draw(st.integers(1, 18))
    padding = tuple(draw(st.integers(0, 3)) for _ in range(4))
    stride = draw(st.sampled_from([1, 1, 2, 3])), draw(st.sampled_from([1, 1, 2, 3]))
    groups = draw(st.sampled_from([1, 1, 2, 3])) if packing == "channels" else 1
    dilation = tuple(draw(st.sampled_from([1, 1, 2, 3])) for _ in range(2)) if packing == "channels" else (1, 1)
    assume(h + padding[0] + padding[2] > (kh - 1) * dilation[0])
    assume(w + padding[1] + padding[3] > (kw - 1) * dilation[1])
    c = draw(st.sampled_from([1, 2, 3, dim, dim + 1 if packing == "channels" else 4, 2 * dim + 3]))
    o = draw(st.sampled_from([1, 3, dim, dim + 2, 2 * dim]))
    form = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
    plain = conv2d(1, h, w, c, o, kh, kw, epilogue=Epilogue(False, 1.0, False, "int8"), **form)  # type: ignore[arg-type]
    pool = draw(_pools(plain)) if pooled else None
    images = draw(st.sampled_from([1, 1, 2]))
    workload = conv2d(images, h, w, c, o, kh, kw, epilogue=draw(epilogues(pool)), **form)  # type: ignore[arg-type]
    _, oh, ow, _ = workload.output.shape
    order = draw(st.sampled_from([("p", "o"), ("o", "p")]))
    tile = (("oh", draw(st.sampled_from([1, 2, 3, oh]))), ("ow", draw(st.sampled_from([1, 2, 4, ow]))),
            ("o", draw(st.sampled_from([dim, 2 * dim, max(o, dim)]))), ("c", dim))
    level_x = draw(st.sampled_from(LEVELS)) if order[0] == "p" else "stream"
    levels = (("X", level_x), ("W", draw(st.sampled_from(LEVELS))))
    mapping = Mapping("conv2d", dataflow, tile, order, levels, draw(slots("X", "W", "C")), "after", packing)  # type: ignore[arg-type]
    return workload, mapping, dim


@st.composite
def _pools(draw: st.DrawFn, workload: Workload) -> Pool:
    size = draw(st.sampled_from([2, 3]))
    padding = tuple(draw(st.integers(0, size - 1)) for _ in range(4))
    assume(workload.extent("oh") + padding[0] + padding[2] >= size)
    assume(workload.extent("ow") + padding[1] + padding[3] >= size)
    return Pool(size, draw(st.sampled_from([1, 2, 3])), padding)  # type: ignore[arg-type]


@st.composite
def additions(draw: st.DrawFn) -> tuple[Workload, Mapping, int]:
    dim = draw(st.sampled_from(DIMS))
    some = [1, dim - 1, dim, dim * dim, 5 * dim * dim + 3 * dim + 2]
    size = draw(st.one_of(st.sampled_from(some), st.integers(1, 600)))
    workload = add(size, epilogue=draw(st.builds(
        Epilogue, st.just(False), st.sampled_from([1.0, 0.3]), st.booleans(), st.just("int8"))))
    mapping = Mapping("add", "ws", (("rows", draw(st.sampled_from([dim, 2 * dim, 3 * dim]))),),
                      buffers=(("C", draw(st.sampled_from([1, 2, 3]))),))
    return workload, mapping, dim
