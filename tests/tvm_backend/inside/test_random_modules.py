"""Random modules: what targets and virtual machine compute is what TVM alone does, and what archloom.compile does."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from archloom.tvm_backend.ir.compat import tvm
from tests.support.examples import examples, slow
from tests.support.tvm_backend import inside
from tests.support.tvm_backend.random_modules import FLOAT16, FLOAT32, RandomModule, modules, quantized_modules

FLOATS: dict[str, tuple[Any, dict[str, Any]]] = {
    "qkv": (FLOAT32, {}), "plasticine": (FLOAT32, {}), "mesh": (FLOAT16, {"x": 2, "y": 2}),
}


FORMS: dict[str, dict[str, Any]] = {"host": {}, "host left to TVM": {"host": False}, "merged": {"merge": True}}
forms = st.sampled_from(sorted(FORMS))


def check(target: str, options: dict[str, Any], case: RandomModule, form: str) -> None:
    expected = inside.raw(tvm.compile(case.module, target="llvm"), *case.inputs)
    found = inside.raw(inside.compiled(target, case.module, **FORMS[form], **options), *case.inputs)
    assert inside.kinds(found) == inside.kinds(expected)
    inside.same_or_close(inside.arrays(found), inside.arrays(expected), case.apart)
    if form == "host left to TVM":  # there TVM's own elementary functions stand for XLA's
        return
    own = inside.by_archloom(target, case.module, *case.inputs, **options)
    if form == "merged":  # XLA's tanh may end in another bit where other operators are fused with it
        inside.same_or_close(inside.arrays(found), own, case.apart)
    else:
        inside.same(inside.arrays(found), own)


@pytest.mark.slow
@pytest.mark.parametrize("target", ["qkv", slow("plasticine"), slow("mesh")])
def test_modules_of_floats(target: str) -> None:
    numbers, options = FLOATS[target]

    @examples(1, 300)
    @given(modules(numbers), forms)
    def run(case: RandomModule, form: str) -> None:
        check(target, options, case, form)

    run()


@pytest.mark.slow
@examples(1, 400)
@given(quantized_modules(), forms)
def test_quantized_modules(case: RandomModule, form: str) -> None:
    check("gemmini", {}, case, form)


@pytest.mark.slow
@examples(10, 100)
@given(quantized_modules())
def test_two_targets(case: RandomModule) -> None:
    """The second takes products of floats that the first leaves."""
    check("gemmini,qkv", {}, case, "host")
