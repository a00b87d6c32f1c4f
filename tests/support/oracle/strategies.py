"""Hypothesis strategies: affine expressions and arbitrary well-formed streams (for text and binary forms).

For Gemmini, :func:`gemmini_streams` draws valid streams of arbitrary instructions, :func:`gemms` tiled matrix products.
"""

from __future__ import annotations

from functools import cache

from hypothesis import strategies as st

from archloom.oracle.affine import Affine, Bounds
from archloom.oracle.stream import HbmTensor, Instr, Loop, Node, Parallel, Stream
from tests.support.accelerators.gemmini_random import Gemm, gemmini_streams, gemms

__all__ = ["Gemm", "VARIABLES", "affines", "arbitrary_streams", "bounded_values", "gemmini_streams", "gemms"]

VARIABLES = ("i", "j", "k")


@cache
def affines(variables: tuple[str, ...] = VARIABLES, linear: bool = False) -> st.SearchStrategy[Affine]:
    """Expressions over ``variables`` with small coefficients and, unless ``linear``, nested ``//`` and ``%``."""
    leaves = st.integers(-40, 40).map(Affine.of)
    if variables:
        scaled = st.builds(lambda v, c: Affine.of(v) * c, st.sampled_from(variables), st.integers(-40, 40))
        leaves = leaves | scaled

    def grow(inner: st.SearchStrategy[Affine]) -> st.SearchStrategy[Affine]:
        forms = [st.builds(lambda a, b: a + b, inner, inner), st.builds(lambda a, c: a * c, inner, st.integers(-5, 5))]
        if not linear:
            forms.append(st.builds(lambda a, d: a // d, inner, st.integers(1, 20)))
            forms.append(st.builds(lambda a, d: a % d, inner, st.integers(1, 20)))
        return st.one_of(forms)

    return st.recursive(leaves, grow, max_leaves=6)


@st.composite
def bounded_values(draw: st.DrawFn, variables: tuple[str, ...] = VARIABLES) -> tuple[Bounds, dict[str, int]]:
    """Bounds of the variables and values within them."""
    bounds: dict[str, tuple[int, int]] = {}
    values: dict[str, int] = {}
    for v in variables:
        low = draw(st.integers(-20, 20))
        bounds[v] = (low, low + draw(st.integers(0, 20)))
        values[v] = draw(st.integers(*bounds[v]))
    return bounds, values


_identifiers = st.sampled_from(["x", "mvin", "A_1", "_", "in", "step", "b.2", "Along", "k0"])
_names = st.text(max_size=4) | _identifiers


@st.composite
def _nodes(draw: st.DrawFn, scope: tuple[str, ...], depth: int) -> tuple[Node, ...]:
    nodes: list[Node] = []
    for _ in range(draw(st.integers(0, 2))):
        kind = draw(st.integers(0, 3 if depth else 1))
        if kind <= 1:
            keys = draw(st.lists(_identifiers, max_size=3, unique=True))
            nodes.append(Instr(draw(_identifiers), tuple((k, draw(affines(scope))) for k in keys)))
            continue
        var = draw(st.sampled_from([*VARIABLES, "v.1"]))
        body = draw(_nodes(tuple(sorted({*scope, var})), depth - 1))
        if kind == 2:
            step = draw(st.integers(-9, 9).filter(bool))
            nodes.append(Loop(var, draw(st.integers(-9, 99)), draw(st.integers(-9, 99)), step, body))
        else:
            nodes.append(Parallel(var, draw(st.integers(0, 8)), draw(_names), body))
    return tuple(nodes)


def _tensors() -> st.SearchStrategy[tuple[HbmTensor, ...]]:
    shapes = st.lists(st.integers(0, 600), max_size=4).map(tuple)
    one = st.builds(HbmTensor, _names, st.integers(0, 2**40), shapes, st.sampled_from(["int8", "int32", "float32"]))
    return st.lists(one, max_size=2).map(tuple)


@st.composite
def arbitrary_streams(draw: st.DrawFn) -> Stream:
    """Well-formed streams of unknown instructions: whatever text and binary forms must carry."""
    parameters = draw(st.dictionaries(_identifiers, st.integers(-(2**63), 2**63), max_size=3))
    return Stream(
        draw(_names), tuple(parameters.items()), draw(_tensors()), draw(_tensors()), draw(st.integers(0, 2**48)),
        draw(_nodes((), 3)), draw(_names),
    )
