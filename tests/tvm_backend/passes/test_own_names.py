"""Names of a network's variables, by which what is left of it after all passes is told to be the same."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

import archloom
from archloom.tvm_backend.compile import partition_model
from archloom.tvm_backend.ir import compat
from archloom.tvm_backend.ir import expressions as ir
from archloom.tvm_backend.ir.names import is_made_up, own
from archloom.tvm_backend.passes.own_names import results_of, with_own_names
from archloom.tvm_backend.targets.partition import named
from tests.support.tvm_backend import inside
from tests.support.tvm_backend.relax import parameter

NAMES = st.lists(st.sampled_from(["lv", "lv1", "gv", "lv__1", "x", "x__1", "x.sums", "x_sums", "result"]), max_size=12)


@given(NAMES)
def test_each_name_is_given_once_and_to_nothing_that_a_pass_makes(names: list[str]) -> None:
    taken: dict[str, int] = {}
    made = [own(name, taken) for name in names]
    assert len(set(made)) == len(made) and not {"lv", "lv1", "gv", "x.sums", "result"} & set(made)
    assert [is_made_up(name) for name in made] == [is_made_up(name) for name in names]
    again: dict[str, int] = {}
    assert [own(name, again) for name in made] == made


def chain(names: list[str]) -> Any:
    """Products of a row of four, one after the other, under these names."""
    x = parameter("x", (1, 4), "float32")
    body, last = [], x
    for number, name in enumerate(names):
        value = compat.normalized(compat.relax_op("matmul")(last, inside.const(inside.floats(4, 4, seed=number))))
        last = compat.new_var(name, value)
        body.append(compat.bind(last, value))
    return compat.normalize(compat.module_of(compat.make_function([x], body, [last])))


def test_renaming_twice_is_renaming_once() -> None:
    module = named(chain(["y", "lv", "y", "lv3"]))
    assert [b.var.name for b in ir.bindings(module["main"])] == ["y", "lv__1", "y__1", "result"]
    assert results_of(module["main"]) == ["result"]
    assert with_own_names(module) is module


def test_every_layer_is_held_against_its_own_value() -> None:
    """However a module's variables are called: numbers that differ from layer to layer tell them apart."""
    for names in ["lv", "lv1", "lv", "gv", "lv2"], ["a", "a.sums", "a", "result"]:
        checked = archloom.check(chain(names), "qkv", inputs=np.array([[1, -2, 3, 1]], np.float32))
        assert checked.passed and [layer.snr_db for layer in checked.layers] == [300.0] * len(names)


def test_steps_have_the_names_of_their_results() -> None:
    steps = partition_model(archloom.load(chain(["first", "lv", "third"])), "qkv").steps()
    assert [(step.name, step.variable) for step in steps] == [
        ("first", "first"), ("matmul", "lv__1"), ("result", "result")]
