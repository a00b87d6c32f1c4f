"""Bodies of chains with what they start from in place: as the plain definition has them, and each part made once."""

from __future__ import annotations

from random import Random

from hypothesis import given

from archloom.oracle.xla.notation.build import map_of
from archloom.oracle.xla.notation.expr import Carry, Const, Expr, Map
from archloom.oracle.xla.notation.sums import plug
from tests.support.examples import examples, randoms


def plainly(body: Expr, start: Expr) -> Expr:
    """What :func:`plug` makes, part by part as often as parts stand there."""
    if isinstance(body, Carry):
        return start
    if not isinstance(body, Map):
        return body
    return map_of(body.opcode, tuple(plainly(o, start) for o in body.operands), body.attributes, body.dtype)


@examples(60, 2000)
@given(randoms)
def test_bodies_with_shared_parts(r: Random) -> None:
    parts: list[Expr] = [Carry("f32"), Const(r.randint(0, 2), "f32")]
    for _ in range(r.randint(1, 9)):
        opcode = r.choice(("add", "multiply", "maximum"))
        parts.append(map_of(opcode, (r.choice(parts), r.choice(parts)), (), "f32"))
    start = map_of("add", (Const(r.randint(0, 2), "f32"), Const(3, "f32")), (), "f32")
    assert plug(parts[-1], start, {}) == plainly(parts[-1], start)


def test_a_carry_that_stands_in_many_places_takes_no_longer() -> None:
    """2 to the power of 200 paths lead to it; the result shares its parts as the body does."""
    body: Expr = Carry("f32")
    for _ in range(200):
        body = map_of("maximum", (body, body), (), "f32")
    found = plug(body, Const(1, "f32"), {})
    for _ in range(200):
        assert isinstance(found, Map) and found.operands[0] is found.operands[1]
        found = found.operands[0]
    assert found == Const(1, "f32")
