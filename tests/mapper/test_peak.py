"""The peak of a machine follows from its graph and its ISA, whatever its options."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from archloom.acadl_models import acadl
from archloom.acadl_models.parts import Fetch, QueuedUnit, connect, held, row_memory
from archloom.mapper.costs.compute import peak
from archloom.oracle import taidl
from archloom.oracle.errors import TargetError
from archloom.tvm_backend.targets import registry
from tests.support.examples import examples
from tests.support.tvm_backend.registered import forgotten_after

OWN = Path(__file__).parents[2] / "examples" / "targets"
Sizes = Mapping[str, Any]
PEAKS: dict[str, Callable[[Sizes], int]] = {
    "qkv": lambda s: s["dim"] ** 2, "tpu_v1": lambda s: s["dim"] ** 2, "ultratrail": lambda s: s["dim"] ** 2,
    "gamma": lambda s: 64 * s["complexes"], "plasticine": lambda s: s["units"] * s["lanes"],
    "ai_engine": lambda s: 32 * s["cores"], "systolic_array": lambda s: s["rows"] * s["columns"],
    "eyeriss": lambda s: s["rows"] * s["cols"],
}
"""Multiply-accumulates in a cycle by options and parameters, as data sheets would have them."""
EXAMPLES: dict[str, Callable[[Sizes], int]] = {
    "outer": lambda s: 4 * s["lanes"] ** 2, "vectors": lambda s: 8 * s["lanes"], "blocks": lambda s: s["multipliers"]}


def agrees(name: str, expected: Callable[[Sizes], int], data: st.DataObject) -> None:
    accelerator = registry.get(registry.target_in(name) if registry.is_file(name) else name).accelerator
    sizes = [o for o in accelerator.options if o.type is int and o.default is not None]
    chosen = data.draw(st.dictionaries(st.sampled_from([o.name for o in sizes]), st.integers(1, 40), max_size=2)
                       if sizes else st.just({}))
    try:
        made = accelerator.configure(chosen)
    except TargetError:
        assume(False)
    assert peak(made.graph, made.isa) == expected({**made.options, **dict(made.isa.parameters)})


@pytest.mark.first_case
@pytest.mark.parametrize("name", PEAKS)
@given(st.data())
@examples(3, 40)
def test_shipped(name: str, data: st.DataObject) -> None:
    agrees(name, PEAKS[name], data)


@pytest.mark.first_case
@pytest.mark.parametrize("name", EXAMPLES)
@given(st.data())
@examples(3, 40)
def test_own(name: str, data: st.DataObject) -> None:
    with forgotten_after():
        agrees(str(OWN / f"{name}.py"), EXAMPLES[name], data)


@pytest.mark.slow
def test_amx_states_what_its_graph_has() -> None:
    made = registry.get("amx").accelerator.configure({})
    assert peak(made.graph, made.isa) == made.macs_per_cycle


BOUNDED = """
isa bounded;
[regs] (64) (64 x i8);
[sums] (64) (64 x i32);
[mm](m, n, k) {{
    assert(1 <= m && m <= {m});
    assert(1 <= n);
    assert(k <= {k} && n <= {n});
    %A:{{m}}x{{k}}xi8 <- $regs[0:m, 0:k];
    %B:{{k}}x{{n}}xi8 <- $regs[0:k, 0:n];
    %C:{{m}}x{{n}}xi32 = dot_general(%A, %B, lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}});
    %C -> $sums[0:m, 0:n];
}}
"""


@given(st.tuples(*[st.integers(1, 100)] * 3), st.integers(1, 9))
def test_extents_are_the_least_of_assertions_and_buffers(extents: tuple[int, int, int], cycles: int) -> None:
    isa = taidl.instantiate(taidl.parse(BOUNDED.format(**dict(zip("mnk", extents)))), {})

    @acadl.generate
    def bounded() -> None:
        files = [row_memory(*held(isa.buffer(name)), requests=1, ports=2) for name in ("regs", "sums")]
        fetch = Fetch("fetch", entries=2, width=1)
        queued = QueuedUnit("unit", fetch, {"mm"}, depth=2, latency=cycles, interval=cycles, in_flight=1)
        connect(queued.unit, files, files)
        acadl.architecture("bounded", buffers=dict(zip(("regs", "sums"), files)))

    expected = math.prod(min(extent, 64) for extent in extents)
    assert peak(acadl.create_ag(bounded()), isa) == max(1, expected // cycles)


def test_a_machine_without_products_has_to_state_it() -> None:
    made = registry.get("oma").accelerator.configure({})
    with pytest.raises(TargetError, match="graph 'oma': no instruction .* is a dot_general.*state .*macs_per_cycle"):
        peak(made.graph, made.isa)


@given(st.lists(st.integers(1, 9), min_size=1, max_size=3), st.integers(1, 3))
def test_an_extent_says_it_of_units_without_products(extent: list[int], units: int) -> None:
    """Vector lanes multiply and add, and no instruction of theirs is a product of matrices."""
    isa = taidl.instantiate(taidl.parse("isa lanes; [v] (4) (8 x f32); [mul](a) { %A:1x8xf32 <- $v[a]; "
                                        "%B:1x8xf32 = multiply(%A, %A); %B -> $v[a]; }"), {})

    @acadl.generate
    def lanes() -> None:
        v = row_memory(*held(isa.buffer("v")), requests=1, ports=units)
        fetch = Fetch("fetch", entries=2, width=1)
        for i in range(units):
            connect(QueuedUnit(f"unit{i}", fetch, {"mul"}, depth=2, latency=4, interval=1, in_flight=4,
                               extent=tuple(extent)).unit, [v], [v])
        acadl.architecture("lanes", buffers={"v": v})

    assert peak(acadl.create_ag(lanes()), isa) == units * math.prod(extent)
