"""Convolutions over meshes of cores: every plan gives NumPy's result, without a matrix of windows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy.stats import spearmanr

from archloom.acadl_models.wormhole import wormhole
from archloom.mapper.spatial.energy import parted_joules
from archloom.mapper.spatial.epilogue import Epilogue
from archloom.mapper.spatial.machines.machine import Machine, isa_of
from archloom.mapper.spatial.plan import PartedPlan, Plan
from archloom.mapper.spatial.products.convolution import Convolution
from archloom.mapper.spatial.products.parts import check_parts, parted_cycles, parted_space
from archloom.mapper.spatial.programs.timing import simulated
from archloom.mapper.spatial.rates import Rates
from archloom.mapper.spatial.workloads import emitted, search_workload
from archloom.oracle.errors import MappingError
from archloom.oracle.interpreter import run
from archloom.oracle.xla import compile_stream
from tests.support.examples import examples, slow
from tests.support.mapper.energies import without_control
from tests.support.mapper.small_meshes import MESHES, mesh, operands, some_plan
from tests.support.mapper.spatial_checks import result_of


def expected(work: Convolution, given_arrays: Mapping[str, np.ndarray]) -> np.ndarray:
    """Place by place of the filter, in float64."""
    top, left, bottom, right = work.padding
    x = np.pad(given_arrays["X"].astype(float), ((0, 0), (top, bottom), (left, right), (0, 0)))
    w = given_arrays["W"].astype(float)
    (rows, columns), groups, inside = work.result, work.groups, work.channels // work.groups
    y = np.zeros((work.batch, rows, columns, groups, work.outputs // groups))
    for i in range(work.kernel[0]):
        for j in range(work.kernel[1]):
            first = (i * work.dilation[0], j * work.dilation[1])
            seen = x[:, first[0]::work.stride[0], first[1]::work.stride[1]][:, :rows, :columns]
            y += np.einsum("nyxgc,cgo->nyxgo", seen.reshape(*seen.shape[:3], groups, inside),
                           w[i, j].reshape(inside, groups, -1))
    whole = y.reshape(work.batch, rows, columns, work.outputs)
    whole = whole + given_arrays.get("bias", np.float16(0)) + given_arrays.get("residual", np.float16(0))
    clipped = np.maximum(whole, 0) if work.epilogue.clipped else whole
    return np.minimum(clipped, 6) if work.epilogue.activation == "relu6" else clipped


@st.composite
def convolutions(draw: st.DrawFn) -> Convolution:
    small = st.integers(1, 3)
    groups = draw(st.sampled_from((1, 1, 1, 2, 3, 8, 40)))
    channels = groups * draw(st.integers(1, 80 if groups == 1 else max(1, 70 // groups)))
    outputs = groups * draw(st.integers(1, 70 if groups == 1 else max(1, 70 // groups)))
    padding = tuple(draw(st.lists(st.integers(0, 3), min_size=4, max_size=4)))
    epilogue = Epilogue(draw(st.booleans()), draw(st.booleans()), draw(st.sampled_from((None, "relu", "relu6"))))
    kernel, stride, dilation = ((draw(top), draw(top)) for top in (st.integers(1, 4), small, small))
    try:
        return Convolution(draw(small), draw(st.integers(1, 12)), draw(st.integers(1, 12)), channels, outputs, kernel,
                           stride, padding, dilation, groups, epilogue)  # type: ignore[arg-type]
    except MappingError:
        assume(False)
        raise


@examples(4, 500)
@given(st.data(), st.sampled_from(MESHES), convolutions())
def test_every_plan_gives_the_convolution(data: st.DataObject, size: tuple[int, int], work: Convolution) -> None:
    gives_the_convolution(data, size, work)


def gives_the_convolution(data: st.DataObject, size: tuple[int, int], work: Convolution) -> None:
    graph = mesh(*size)
    plan = some_plan(data, work, Machine.of(graph))
    arrays = operands(work.shapes(), 1)
    result = result_of(work, plan, graph, work.pack(arrays), work.outputs)
    np.testing.assert_array_equal(work.unpack(result), expected(work, arrays))


@pytest.mark.slow
@pytest.mark.parametrize("work", [
    Convolution(1, 6, 5, 33, 20, (2, 3), padding=(1, 1, 0, 1), epilogue=Epilogue(True, True, "relu")),
    Convolution(1, 6, 6, 40, 40, (2, 2), (2, 2), (0, 0, 1, 1), groups=40),
    slow(Convolution(
        2, 6, 5, 33, 40, (3, 3), padding=(1, 1, 1, 1), epilogue=Epilogue(True, True, "relu6"), grid=(7, 6, 1))),
])
def test_the_oracle_runs_convolutions(work: Convolution) -> None:
    graph = mesh(2, 2)
    plan = search_workload(work, graph, top_k=1).best.plan
    arrays = operands(work.shapes(), 1)
    compiled = compile_stream(emitted(work, plan, Machine.of(graph)), isa_of(graph))
    result = work.unpack(np.asarray(compiled(*work.pack(arrays).values())[0]))
    np.testing.assert_array_equal(result, expected(work, arrays))


@pytest.mark.slow
@examples(4, 80)
@given(st.data(), st.sampled_from(((1, 1), (2, 2))), st.integers(1, 3))
def test_channels_are_dealt_out_to_cores(data: st.DataObject, stride: tuple[int, int], kernel: int) -> None:
    """Five tiles of them: some cores have fewer than others, or none."""
    work = Convolution(1, 4, 5, 160, 20, (kernel, 2), stride, (1, 0, 0, 1), epilogue=Epilogue(True, True, "relu"))
    graph = mesh(4, 2)
    machine, arrays = Machine.of(graph), operands(work.shapes(), 1)
    found = parted_space(work, machine)
    split = [i for i in range(len(found)) if found.plan(i).plan.spread(2) > 1]
    plan = found.plan(data.draw(st.sampled_from(split)))
    check_parts(work, plan, machine)
    result = work.unpack(run(emitted(work, plan, machine), isa_of(graph), work.pack(arrays), poison=3)["C"])
    np.testing.assert_array_equal(result, expected(work, arrays))


def test_a_filter_of_one_place_is_a_product() -> None:
    work = Convolution(2, 6, 5, 64, 70, (1, 1))
    assert (work.gemm.m, work.gemm.n, work.gemm.k) == (2, 3, 2)  # 60 pixels without any between
    assert work.plane == 2


def test_no_matrix_of_windows_is_made() -> None:
    """An image with its margins takes hardly more room than without, and each phase of it is there once."""
    work = Convolution(1, 56, 56, 64, 64, (3, 3), padding=(1, 1, 1, 1))
    assert work.pack({name: np.zeros(shape, np.float16) for name, shape in work.shapes().items()})["A"].size < (
        1.15 * 56 * 56 * 64)
    strided = Convolution(1, 56, 56, 64, 64, (3, 3), (2, 2), (1, 1, 1, 1))
    assert np.prod(strided.inputs()[0][1]) < 1.15 * 56 * 56 * 64
    assert strided.gemm.k == 9 * 2


def test_phases_of_few_channels_are_channels() -> None:
    assert Convolution(1, 224, 224, 3, 64, (7, 7), (2, 2), (3, 3, 3, 3)).gemm.k == 16


@pytest.mark.slow
def test_the_cost_model_ranks_as_the_simulator_does() -> None:
    graph = wormhole(rows=2, columns=4)
    work, machine = Convolution(1, 14, 14, 64, 64, (3, 3), padding=(1, 1, 1, 1)), Machine.of(graph)
    found = parted_space(work, machine)
    estimated = parted_cycles(work, found)
    chosen = np.argsort(estimated, kind="stable")[np.linspace(0, len(found) - 1, 16).astype(int)]
    cycles = [simulated(emitted(work, found.plan(i), machine), graph).cycles for i in chosen.tolist()]
    assert spearmanr(estimated[chosen], cycles).statistic > 0.9


def test_what_is_wrong_is_named() -> None:
    with pytest.raises(MappingError, match="4 channels and 6 outputs cannot be dealt out to 4 groups"):
        Convolution(1, 8, 8, 4, 6, (3, 3), groups=4)
    with pytest.raises(MappingError, match="filter of 5 x 3 with dilation 2 x 1 is larger than .* of 8 x 9"):
        Convolution(1, 8, 8, 4, 4, (5, 3), padding=(0, 1, 0, 0), dilation=(2, 1))
    with pytest.raises(MappingError, match="every extent must be at least 1"):
        Convolution(1, 8, 0, 4, 4, (1, 1))
    work = Convolution(1, 8, 8, 64, 4, (3, 3))
    with pytest.raises(MappingError, match="a step of 5 tiles is none of 1, 2, 6, 18, into which windows can be cut"):
        check_parts(work, PartedPlan((1, 1), Plan(
            (1, 1, 5), (1, 1, 1), (1, 1, 1), "rows", "mn", ("none", "stream"), ("none", "stream"))),
            Machine.of(mesh(1, 1)))


@st.composite
def on_grids(draw: st.DrawFn) -> Convolution:
    """Convolutions whose results, and without a stride their images, lie on a grid as large as they need or larger."""
    work = draw(convolutions())
    rows, line = (-(-extent // step) + draw(st.integers(0, 2)) for extent, step in zip(work.pitch, work.stride))
    pixels = 3 * (line + 1) + 9 * line
    try:
        return replace(work, grid=(rows, line, -(-pixels // 32)))
    except MappingError as error:
        assert "no grid has them" in str(error)
        assume(False)
        raise


@examples(3, 300)
@given(st.data(), st.sampled_from(MESHES), on_grids())
def test_every_plan_stores_on_a_grid(data: st.DataObject, size: tuple[int, int], work: Convolution) -> None:
    stores_on_a_grid(data, size, work)


def stores_on_a_grid(data: st.DataObject, size: tuple[int, int], work: Convolution) -> None:
    """The result is right, and there are zeros around its images."""
    graph = mesh(*size)
    arrays = operands(work.shapes(), 1)
    result = result_of(work, some_plan(data, work, Machine.of(graph)), graph, work.pack(arrays), work.outputs)
    found = work.unpack(result)
    np.testing.assert_array_equal(found, expected(work, arrays))
    np.testing.assert_array_equal(work.place_tiles(found), result)


@pytest.mark.slow
def test_a_result_on_a_grid_is_the_image_of_the_next() -> None:
    grid, graph, random = (7, 6, 1), mesh(2, 1), np.random.default_rng(0)
    first = Convolution(1, 6, 5, 8, 40, (3, 3), padding=(1, 1, 1, 1), grid=grid)
    second = Convolution(1, 6, 5, 40, 8, (3, 3), padding=(1, 1, 1, 1), grid=grid)
    assert dict(first.tensors())["C"] == (1, *dict(second.tensors())["A"][2:])
    arrays = {**operands(first.shapes(), 1), "V": random.integers(-1, 2, (3, 3, 40, 8)).astype(np.float16)}
    tiles = result_of(first, search_workload(first, graph, top_k=1).best.plan, graph,
                      first.pack({name: arrays[name] for name in first.shapes()}), 1)
    given_tiles = {"A": tiles.reshape(dict(second.tensors())["A"]), "B": second.filter_tiles(arrays["V"])}
    found = second.unpack(result_of(second, search_workload(second, graph, top_k=1).best.plan, graph, given_tiles, 2))
    middle = expected(first, arrays).astype(np.float16)
    np.testing.assert_array_equal(found, expected(second, {"X": middle, "W": arrays["V"]}).astype(np.float16))


def test_energy_of_what_is_stored_on_a_grid() -> None:
    """Estimates leave out control."""
    graph = without_control(mesh(2, 1))
    work = Convolution(1, 6, 5, 40, 70, (3, 3), padding=(1, 1, 1, 1), grid=(7, 6, 2))
    best = search_workload(work, graph, objective="energy", top_k=1).best
    machine = Machine.of(graph)
    found = parted_space(work, machine)
    estimated = parted_joules(work, Rates.of(graph), found)
    number = next(i for i in range(len(found)) if found.plan(i) == best.plan)
    assert estimated[number] == pytest.approx(best.joules, rel=5e-3)


def test_what_does_not_lie_on_a_grid_is_named() -> None:
    work = Convolution(1, 6, 5, 40, 40, (3, 3), padding=(1, 1, 1, 1))
    with pytest.raises(MappingError, match="a grid of 7 x 5 is too small .* expected at least 7 x 6"):
        replace(work, grid=(7, 5, 1))
    with pytest.raises(MappingError, match="0 tiles before and behind the images are too few"):
        replace(work, grid=(7, 6, 0))
    with pytest.raises(MappingError, match="40 channels of 8 groups do not fill tiles: no grid has them"):
        Convolution(1, 6, 5, 40, 40, (3, 3), padding=(1, 1, 1, 1), groups=8, grid=(7, 6, 1))
