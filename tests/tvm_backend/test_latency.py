"""A latency is that of the whole network: never less than any part of it takes, and never nothing."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

import archloom
from archloom.tvm_backend.check.network import check
from archloom.tvm_backend.report.headline import headline, warnings
from archloom.tvm_backend.targets import registry
from tests.support.examples import examples
from tests.support.tvm_backend.random_modules import RandomModule, modules, quantized_modules
from tests.support.tvm_backend.small_networks import float_cnn, int8_cnn


@pytest.mark.slow
@examples(8, 200)
@given(modules() | quantized_modules(), st.sampled_from(sorted(registry.BUILT_IN)))
def test_it_is_at_least_that_of_each_part(case: RandomModule, target: str) -> None:
    report = archloom.estimate(case.module, target)
    host = [layer.seconds for layer in report.layers if layer.where == "host"]
    parts = [report.accelerator_seconds, *(seconds for seconds in host if seconds is not None)]
    assert len(parts) == 1 + len(host) and report.seconds >= max(parts)
    assert report.seconds == pytest.approx(report.accelerator_seconds + (report.host_seconds or 0))
    assert report.cycles >= report.seconds * report.clock_hz * (1 - 1e-9)
    assert (report.seconds > 0 and report.cycles > 0) or not report.layers


def test_what_a_machine_cannot_run_is_no_best_network() -> None:
    taken, left = (archloom.estimate(net, options={"dim": 8}) for net in (int8_cnn(), float_cnn()))
    assert left.accelerator_cycles == 0 < left.cycles and left.unquantized and not taken.unquantized
    assert min([left, taken], key=lambda r: r.cycles) == min([left, taken], key=lambda r: r.seconds)
    (many,) = archloom.estimate_many([float_cnn()], options={"dim": 8}, workers=1)
    assert not isinstance(many, archloom.ArchloomError) and many.seconds == left.seconds


def test_the_first_lines_say_what_was_timed_and_what_was_not() -> None:
    whole = archloom.estimate(float_cnn(), options={"dim": 8})
    alone = archloom.estimate(float_cnn(), options={"dim": 8}, host="none")
    assert "0 ns accelerator + " in headline(whole) and headline(alone).endswith("accelerator only: 0 ns")
    first, second = list(warnings(whole))
    assert "--calibrate" in first and "--int8" in first
    assert "nothing of it runs on gemmini" in second and "not quantized" in second.splitlines()[1]
    assert str(whole).startswith(f"{headline(whole)}\n{first}\n{second}\n")
    assert not list(warnings(archloom.estimate(int8_cnn(), options={"dim": 8})))


def test_a_check_of_nothing_fails() -> None:
    result = check(archloom.load(float_cnn()), "gemmini", {"dim": 8}, count=1)
    assert not result.passed and "nothing of it runs on gemmini" in result.failures[0]
