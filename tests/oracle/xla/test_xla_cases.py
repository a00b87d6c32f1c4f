"""Case distinctions that make no difference go, those that make one stay."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from archloom.oracle.affine import Affine
from archloom.oracle.xla.notation import traits
from archloom.oracle.xla.notation.cases import without_cases
from archloom.oracle.xla.notation.expr import (
    Element,
    Expr,
    Leaf,
    Let,
    Map,
    Operand,
    Ranges,
    Switch,
    Whole,
)
from archloom.oracle.xla.notation.substitution import substitute
from tests.support.examples import examples

H, W, C = (Affine.variable(name) for name in ("h", "w", "c"))
P, Q = Affine.variable("%7_0"), Affine.variable("%7_1")
CHANNELS = 3


@dataclass(frozen=True)
class Total:
    """The sum of an operand along its axis, as a whole tensor."""

    variables: tuple[str, ...] = ()
    in_turn: str = ""
    title: str = "total"

    def __call__(self, operands: Sequence[Any], values: Mapping[str, Any], record: Any) -> tuple[Any, ...]:
        raise NotImplementedError


@dataclass(frozen=True)
class Image:
    """Places (h, w) that are counted through from ``first`` on, in tiles of ``tall`` rows of ``width`` places."""

    height: int
    width: int
    tall: int
    first: int

    @property
    def ranges(self) -> Ranges:
        return {"h": (0, self.height - 1), "w": (0, self.width - 1), "c": (0, CHANNELS - 1)}

    def apart(self, body: Expr, wrong: int | None) -> Expr:
        """``body`` once more, by the number of the tile and the place in it; the case ``wrong`` is another function."""
        size = self.tall * self.width
        count = H * self.width + W + self.first
        down, right = divmod(self.first, self.width)
        cases = []
        for row in range(self.tall):
            at = P * self.tall + row - down
            for low, high, h, w in ((0, right - 1, at - 1, self.width), (right, self.width - 1, at, 0)):
                place = {"h": h, "w": Q - row * self.width - right + w}
                if low <= high:
                    add = 1 if len(cases) == wrong else 0
                    cases.append((row * self.width + low, row * self.width + high, moved(body, place, add)))
        variables = (("%7_0", count // size), ("%7_1", count % size))
        return Let(variables, Switch(Q, tuple(cases), body.dtype), body.dtype)


def moved(e: Expr, place: Mapping[str, Affine], add: int) -> Expr:
    """An expression elsewhere: forms alone are replaced, and the points of whole tensors."""
    if isinstance(e, Leaf):
        return Leaf(e.name, e.index.substitute(place) + add, e.dtype)
    return e.rebuilt([form.substitute(place) for form in e.forms], [moved(c, place, add) for c in e.children])


def value(e: Expr, at: Mapping[str, int]) -> int:
    """What an expression is at a place, where element n of an argument is some function of n."""
    match e:
        case Leaf():
            return (e.index.evaluate(at) * 40503 + len(e.name)) % 65521
        case Map():
            return sum((k + 1) * value(operand, at) for k, operand in enumerate(e.operands))
        case Let():
            return value(e.body, {**at, **{name: form.evaluate(at) for name, form in e.variables}})
        case Switch():
            here = e.form.evaluate(at)
            return value(next(body for _, high, body in (*e.cases[:-1], (0, here, e.cases[-1][2])) if here <= high), at)
        case Element():
            names = [name for name, _ in e.whole.parameters]
            inner = {name: form.evaluate(at) for name, form in zip(names, e.index)}
            (operand,), ((axis, extent),) = e.whole.operands, e.whole.operands[0].axes
            return sum(value(operand.body, {**inner, axis: k}) for k in range(extent))
    raise TypeError(e)


images = st.builds(Image, st.integers(1, 7), st.integers(1, 6), st.integers(1, 4), st.integers(0, 40))
strides = st.integers(-5, 9)


@st.composite
def forms(draw: st.DrawFn) -> Affine:
    return H * draw(strides) + W * draw(strides) + C * draw(strides) + draw(strides)


@st.composite
def totals(draw: st.DrawFn) -> Expr:
    """An element of a whole tensor, one point for each place of an image."""
    row, column, axis = (Affine.variable(name) for name in ("i", "j", "k"))
    body = Leaf("Z", row * draw(strides) + column * draw(strides) + axis * draw(strides), "f32")
    whole = Whole(Total(), (("i", 8), ("j", 8)), (Operand((("k", 4),), body),))
    places = [draw(st.sampled_from((form, form + 1, Affine(2)))) for form in (H, W)]
    return Element(whole, 0, tuple(places), "f32")


leaves = st.one_of(st.builds(Leaf, st.sampled_from("XYZ"), forms(), st.just("f32")), totals())
bodies = st.recursive(
    leaves, lambda inner: st.builds(Map, st.just("add"), st.tuples(inner, inner), st.just(()), st.just("f32")),
    max_leaves=4)


@examples(60, 600)
@given(images, bodies, st.data())
def test_distinctions_without_a_difference_go(image: Image, body: Expr, data: st.DataObject) -> None:
    cases = len(image.apart(body, None).children[0].children)
    wrong = data.draw(st.none() | st.integers(0, cases - 1))
    found = without_cases(image.apart(body, wrong), image.ranges)
    expected = image.apart(body, wrong)
    for h in range(image.height):
        for w in range(image.width):
            for c in range(CHANNELS):
                at = {"h": h, "w": w, "c": c}
                assert value(found, at) == value(expected, at)
    if wrong is None and not wholes_of(body):  # the same point of a whole tensor is not computed for several places
        assert not isinstance(found, (Let, Switch))


def wholes_of(e: Expr) -> bool:
    return any(isinstance(node, Element) for node in traits.walk(e))


def test_what_is_the_same_at_several_places_is_computed_once() -> None:
    """Tensors along a diagonal stay tensors of one axis; along a line through all places they need none."""
    body = Operand((("k", 4),), Leaf("X", 4 * P + Affine.variable("k"), "f32"))
    e = Element(Whole(Total(), (("%7_0", 16),), (body,)), 0, (P,), "f32")
    ranges = {"h": (0, 3), "w": (0, 3)}
    assert without_cases(Let((("%7_0", H + W),), e, "f32"), ranges) == Let((("%7_0", H + W),), e, "f32")
    assert isinstance(without_cases(Let((("%7_0", H * 4 + W),), e, "f32"), ranges), Element)


def test_one_whole_tensor_is_made_of_those_of_all_cases() -> None:
    """Two rows of which each has tensors of its own: one tensor over both, that of equal elements the same one."""
    def row(number: int) -> Expr:
        axis = Affine.variable("k")
        whole = Whole(Total(), (), (Operand((("k", 4),), Leaf("X", axis + 4 * number, "f32")),))
        element = Element(whole, 0, (), "f32")
        return Map("add", (element, Map("negate", (element,), (), "f32")), (), "f32")

    e = Switch(H, ((0, 0, row(0)), (1, 1, row(1))), "f32")
    found = without_cases(e, {"h": (0, 1)})
    assert isinstance(found, Map)
    one, negated = found.operands
    assert isinstance(one, Element) and negated.children[0] == one
    assert one.whole.parameters == (("h", 2),) and one.index == (H,)
    assert found == substitute(found, {}, {"h": (0, 1)})
