"""No mapping costs less than the bound says: random operators on every target, and random networks."""

from __future__ import annotations

from hypothesis import assume, given
from hypothesis import strategies as st

import archloom
from archloom.mapper.search import search
from archloom.tvm_backend.compile import partition_model
from archloom.tvm_backend.report.build import build, build_bound
from archloom.tvm_backend.sources.source import Source
from archloom.tvm_backend.targets.choice import choose
from archloom.tvm_backend.targets.registry import BUILT_IN
from tests.support.examples import examples
from tests.support.tvm_backend.random_modules import RandomModule, modules, quantized_modules

SIZES = {"mesh": {"x": 2, "y": 1}, "triple_ring": {"rows": 2, "columns": 2}, "wormhole": {"rows": 1, "columns": 2}}
extents = st.sampled_from((1, 3, 8, 16, 20, 33, 64))
operators = st.one_of(
    st.builds("gemm(m={},n={},k={})".format, extents, extents, extents),
    st.builds("conv2d(c={},h={},w={},o={},k={},pad={},stride={})".format, extents, st.integers(5, 9),
              st.integers(5, 9), extents, st.sampled_from((1, 3, 5)), st.integers(0, 2), st.integers(1, 3)))


@st.composite
def machines(draw: st.DrawFn) -> tuple[str, dict[str, object]]:
    """A target, one of its sizes halved or doubled, where it is one that has such."""
    target = draw(st.sampled_from(sorted(BUILT_IN)))
    options = dict(SIZES.get(target, {}))
    sizes = {o.name: o.default for o in choose(target, options)[0].backend.accelerator.options
             if isinstance(o.default, int) and not isinstance(o.default, bool) and o.default > 1}
    name = draw(st.sampled_from([None, *sorted(sizes.keys() - options.keys())]))
    if name is not None:
        options[name] = draw(st.sampled_from((sizes[name] // 2, 2 * sizes[name])))
    try:
        choose(target, options)[0].backend.accelerator.configure(options)
    except archloom.ArchloomError:
        assume(False)
    return target, options


def check_bounds(given_model: object, machine: tuple[str, dict[str, object]]) -> None:
    """Of each layer, planned with little effort: a bound is one of any plan."""
    target, options = machine
    chosen = choose(target, options)
    partition = partition_model(Source.of(given_model).load_for(target), target, options)
    try:
        plans = {step.name: search(step.workload, chosen[0].backend.accelerator, chosen[0].accelerator_options, top_k=1)
                 for step in partition.steps()}
    except archloom.MappingError:
        assume(False)
    bound, found = build_bound(partition, chosen), build(partition, plans, chosen)
    assert [layer.name for layer in bound.layers] == [layer.name for layer in found.layers]
    for low, layer in zip(bound.layers, found.layers):
        assert (low.cycles or 0) <= (layer.cycles or 0), (low, layer)
        if layer.energy is not None:
            assert low.energy is not None and low.energy.joules <= layer.energy.joules
    assert bound.timing == "bound" and bound.seconds <= found.seconds and bound.area_mm2 == found.area_mm2


@examples(5, 400)
@given(operators, machines())
def test_of_operators(text: str, machine: tuple[str, dict[str, object]]) -> None:
    try:
        check_bounds(text, machine)
    except archloom.ModelError:  # the target has no such operator
        assume(False)


@examples(4, 200)
@given(modules() | quantized_modules(), machines())
def test_of_networks(case: RandomModule, machine: tuple[str, dict[str, object]]) -> None:
    check_bounds(case.module, machine)
