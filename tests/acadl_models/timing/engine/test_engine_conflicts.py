"""Whether accesses meet: what the engine works out of two patterns is what listing all their values says."""

from __future__ import annotations

from itertools import product

from hypothesis import given
from hypothesis import strategies as st

from archloom.acadl_models.timing.engine.layout import MAX_DIMS
from archloom.acadl_models.timing.engine.lowering.patterns import Pattern, pattern
from archloom.acadl_models.timing.engine.phases.conflicts import is_out_of_reach, is_sum
from archloom.acadl_models.timing.engine.state import M
from tests.support.examples import examples

progressions = st.lists(st.tuples(st.sampled_from((1, 2, 3, 4, 7, 12, 40, 100)), st.integers(1, 4)), max_size=3)
patterns = progressions.map(lambda dims: pattern(tuple(dims)))


def sums(one: Pattern) -> set[int]:
    """All values of a pattern."""
    return {sum(step * stride for step, (stride, _) in zip(steps, one.dims))
            for steps in product(*(range(extent) for _, extent in one.dims))}


@examples(60, 2000)
@given(patterns, patterns)
def test_every_target_is_a_sum_or_none_as_listing_says(one: Pattern, other: Pattern) -> None:
    t = [0, *one.flat(), *other.flat()]
    p, q = 1, 1 + len(one.flat())
    m = [0] * (M.SIZE + 5 * MAX_DIMS)
    m[M.WORK] = int(M.SIZE)
    found = {a + b for a, b in product(sums(one), sums(other))}
    for target in range(one.span + other.span + 1):
        assert is_sum(t, m, p, q, target) == (target in found), target
        assert not (is_out_of_reach(t, p, q, target) and target in found)


def test_most_targets_between_far_rows_are_out_of_reach() -> None:
    rows, tile = pattern(((1, 2), (2, 4), (11776, 2))), pattern(((1, 4), (4, 31)))
    t = [0, *rows.flat(), *tile.flat()]
    reached = [target for target in range(rows.span + tile.span + 1)
               if not is_out_of_reach(t, 1, 1 + len(rows.flat()), target)]
    assert reached == [*range(131), *range(11776, 11776 + 131)]
