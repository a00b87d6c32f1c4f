"""Trials of our own: all combinations once, and values within their domains."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeAlias

import optuna
import pytest
from hypothesis import given
from hypothesis import strategies as st

import archloom
from archloom.oracle.errors import InputError
from archloom.tvm_backend.search.trials import DecidedTrial, Domain, Trial, every
from tests.support.examples import examples

Tree: TypeAlias = "list[Tree]"
"""A parameter with a value for each subtree, or none of its own."""

trees: st.SearchStrategy[Tree] = st.recursive(st.just([]), lambda inner: st.lists(inner, max_size=3), max_leaves=20)


def walk(tree: Tree, trial: Trial) -> tuple[int, ...]:
    path: tuple[int, ...] = ()
    while tree:
        path += (trial.suggest_int(f"p{len(path)}", 0, len(tree) - 1),)
        tree = tree[path[-1]]
    return path


def leaves(tree: Tree) -> Iterator[tuple[int, ...]]:
    if not tree:
        yield ()
    for i, inner in enumerate(tree):
        yield from ((i, *rest) for rest in leaves(inner))


@pytest.mark.slow
@examples(100, 3000)
@given(trees)
def test_every_combination_comes_once(tree: Tree) -> None:
    assert [walk(tree, trial) for trial in every()] == list(leaves(tree))


@examples(200, 5000)
@given(st.integers(-9, 9), st.integers(0, 20), st.integers(1, 5), st.floats(0, 1), st.booleans())
def test_a_value_is_of_its_domain(low: int, more: int, step: int, share: float, log: bool) -> None:
    trial = DecidedTrial(lambda domain: domain.within(share))
    if log:
        low = abs(low) + 1
        assert low <= trial.suggest_float("x", low, low + more, log=True) <= low + more
        assert low <= trial.suggest_int("y", low, low + more, log=True) <= low + more
        return
    whole = trial.suggest_int("n", low, low + more, step=step)
    assert whole in range(low, low + more + 1, step) and trial.suggest_int("n", 0, 0) == whole
    assert low <= trial.suggest_float("x", low, low + more, step=step) <= low + more
    assert trial.suggest_categorical("c", "abc") in "abc" and set(trial.params) == {"n", "x", "c"}


def test_a_grid_takes_what_can_be_counted() -> None:
    assert [t.suggest_float("x", 0, 1, step=0.5) for t in every()] == [0, 0.5, 1]
    with pytest.raises(InputError, match="'x': a grid takes floats with a step"):
        next(every()).suggest_float("x", 0, 1)


@pytest.mark.parametrize("ask", [
    lambda t: t.suggest_categorical("p", []), lambda t: t.suggest_int("p", 2, 1),
    lambda t: t.suggest_float("p", 0, 1, log=True)])
def test_an_empty_domain_is_refused(ask: Any) -> None:
    with pytest.raises(InputError, match="'p': expected a domain with values"):
        ask(DecidedTrial(Domain.count.fget))


@pytest.mark.parametrize("sampler", ["grid", "random", "pymoo"])
def test_spaces_may_ask_for_what_optunas_trials_have(sampler: str) -> None:
    """Whichever sampler made the trial."""
    numbers = []

    def space(trial: Trial) -> archloom.Candidate:
        trial.set_user_attr("note", "kept")
        assert trial.user_attrs == {"note": "kept"}
        trial.suggest_int("k", 1, 3)
        numbers.append(trial.number)
        raise optuna.TrialPruned("too small")

    found = archloom.search(space, sampler=sampler, trials=3, objectives="cycles", quiet=True)
    assert found.counts == {"measured": 0, "bounded": 0, "failed": sum(found.counts.values())}
    assert all("TrialPruned: too small" in (row.error or "") for row in found.rows())
    assert numbers[-3:] == [0, 1, 2]
