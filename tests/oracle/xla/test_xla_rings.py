"""Ring buffers: tiles that are written some iterations before they are read are raised, whatever the distance."""

from __future__ import annotations

from collections import deque
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from archloom.oracle.kernel import Kernel, KernelIsa, isa
from archloom.oracle.xla.raising.rings import without_rings
from examples.tpu_v1_kernels import gemm, gemm_reference, packed
from tests.support.examples import examples

QUEUE = """
isa queue;

param slots = 4 in 1..8;
[ring] (slots) (4 x i8);
[row] () (4 x i32);

push = 0;
pop = 0;

[start](at) { push = at % slots; pop = at % slots; }
[put](dram) {
    %In:1x4xi8 <- $hbm[dram + {1 : 0, 4 : 1}];
    %In -> $ring[push];
    push = (push + 1) % slots;
}
[half](dram) {
    %In:1x2xi8 <- $hbm[dram + {1 : 0, 2 : 1}];
    %In -> $ring[push, 0:2];
    push = (push + 1) % slots;
}
[get](dram, factor) {
    %In:1x4xi8 <- $ring[pop];
    %Factor:1x4xi8 = constant(factor);
    %Out:1x4xi8 = multiply(%In, %Factor);
    %Out -> $hbm[dram + {1 : 0, 4 : 1}];
    pop = (pop + 1) % slots;
}
[peek](dram, slot) {
    %In:1x4xi8 <- $ring[slot % slots];
    %In -> $hbm[dram + {1 : 0, 4 : 1}];
}
"""


def queue(tmp_path: Path, slots: int = 4) -> KernelIsa:
    path = tmp_path / "queue.taidl"
    path.write_text(QUEUE)
    return isa(path, slots=slots)


def rows(n: int) -> np.ndarray:
    return np.random.default_rng(n).integers(-128, 128, (n, 4)).astype(np.int8)


def pipelined(q: KernelIsa, ahead: int, n: int, start: int = 0) -> Kernel:
    """Y = 3 X: ``ahead`` rows are in the queue before the first is taken, and it runs empty at the end."""

    @q.kernel(arg={"addr": 0, "shape": (n, 4), "dtype": "int8", "name": "X"},
              res={"addr": 4 * n, "shape": (n, 4), "dtype": "int8", "name": "Y"})
    def moved() -> None:
        q.api.start(at=start)
        with q.loop("before", ahead) as i:
            q.api.put(dram=4 * i)
        with q.loop("steady", n - ahead) as i:
            q.api.put(dram=4 * (i + ahead))
            q.api.get(dram=4 * n + 4 * i, factor=3)
        with q.loop("after", n - ahead, n) as i:
            q.api.get(dram=4 * n + 4 * i, factor=3)

    return moved


@examples(5, 100)
@given(st.integers(2, 6), st.integers(0, 5), st.integers(2, 40), st.integers(0, 7))
def test_a_queue_vanishes(
    tmp_path_factory: pytest.TempPathFactory, slots: int, ahead: int, more: int, start: int
) -> None:
    ahead = min(ahead, slots - 1)
    kernel = pipelined(queue(tmp_path_factory.mktemp("isa"), slots), ahead, ahead + more, start)
    x = rows(ahead + more)
    np.testing.assert_array_equal(kernel.run(x), x * np.int8(3))
    assert kernel.report.raised, kernel.report


def test_a_queue_that_overflows_gives_what_the_slots_hold(tmp_path: Path) -> None:
    """No assertion forbids it here: rows that were written over are lost, and the oracle says so, too."""
    q = queue(tmp_path)

    @q.kernel(arg={"addr": 0, "shape": (9, 4), "dtype": "int8"}, res={"addr": 36, "shape": (9, 4), "dtype": "int8"})
    def late() -> None:
        with q.loop(6) as i:
            q.api.put(dram=4 * i)
        with q.loop(3) as i:
            q.api.put(dram=24 + 4 * i)
            q.api.get(dram=36 + 4 * i, factor=1)
        with q.loop(6) as i:
            q.api.get(dram=48 + 4 * i, factor=1)

    x = rows(9)
    np.testing.assert_array_equal(late.run(x), late.interpret(x))
    ring: deque[int] = deque([0, 1, 2, 3])
    slots = dict(enumerate(ring))
    for number in range(6):
        slots[number % 4] = number
    expected = []
    for number in range(6, 9):
        slots[number % 4] = number
        expected.append(slots[(number - 6) % 4])
    expected += [slots[number % 4] for number in range(3, 9)]
    np.testing.assert_array_equal(late.run(x), x[expected])


def test_slots_that_nobody_wrote_are_as_at_the_start(tmp_path: Path) -> None:
    q = queue(tmp_path)

    @q.kernel(arg={"addr": 0, "shape": (6, 4), "dtype": "int8"}, res={"addr": 24, "shape": (6, 4), "dtype": "int8"})
    def early() -> None:
        with q.loop(6) as i:
            q.api.peek(dram=24 + 4 * i, slot=i + 2)
            q.api.put(dram=4 * i)

    x = rows(6)
    found = early.run(x)
    np.testing.assert_array_equal(found, early.interpret(x))
    assert not found[:2].any() and (found[2:] == x[:4]).all()


def test_what_is_no_ring_stays_as_it_is(tmp_path: Path) -> None:
    q = queue(tmp_path)

    @q.kernel(arg={"addr": 0, "shape": (8, 4), "dtype": "int8"}, res={"addr": 32, "shape": (8, 4), "dtype": "int8"})
    def halves() -> None:
        with q.loop(8) as i:
            q.api.half(dram=4 * i)
            q.api.peek(dram=32 + 4 * i, slot=i)

    @q.kernel(arg={"addr": 0, "shape": (8, 4), "dtype": "int8"}, res={"addr": 32, "shape": (8, 4), "dtype": "int8"})
    def crossing() -> None:
        with q.loop(8) as i:
            q.api.put(dram=4 * i)
            q.api.peek(dram=32 + 4 * i, slot=3 * i)

    for kernel in (halves, crossing):
        assert without_rings(kernel.resolved) is kernel.resolved
        x = rows(8)
        np.testing.assert_array_equal(kernel.run(x), kernel.interpret(x))


@pytest.mark.parametrize("ahead", [0, 1, 2, 3])
def test_weights_through_a_fifo_are_raised_to_one_product(ahead: int) -> None:
    kernel = gemm(9, 32, 64, 4, scale=1 / 64, ahead=ahead, acc_rows=64)
    a, b = (np.random.default_rng(ahead).integers(-128, 128, s).astype(np.int8) for s in ((9, 64), (64, 32)))
    np.testing.assert_array_equal(kernel.run(a, packed(b, 4)), gemm_reference(a, b, 1 / 64))
    assert "raised to dot 9x32x64 int8 x int8 -> i32" in str(kernel.report)
