"""Loops around rings in strips: the stream says the same, and slots are constants in it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from archloom.oracle import taidl
from archloom.oracle.affine import Affine
from archloom.oracle.interpreter import run
from archloom.oracle.resolve import resolve
from archloom.oracle.resolved import Op, ResolvedLoop, ResolvedNode
from archloom.oracle.stream import HbmTensor, Instr, Loop, Stream
from archloom.oracle.taidl.isa import Isa
from archloom.oracle.xla.oracle import compile_stream
from archloom.oracle.xla.raising.rings import in_strips
from tests.support.examples import examples

SLOTS = """
isa slots;

[sums] (12) (4 x f32);

[add](dram, slot) {
    %Bytes:1x4x4xi8 <- $hbm[dram + {1 : 0, 4 : 4, 4 : 1}];
    %In:1x4xf32 = bitcast_convert(%Bytes);
    %Old:1x4xf32 <- $sums[slot + {1 : 1}];
    %New:1x4xf32 = add(%Old, %In);
    %New -> $sums[slot + {1 : 1}];
}
[give](dram, slot) {
    %Out:1x4xf32 <- $sums[slot + {1 : 1}];
    %Bytes:1x4x4xi8 = bitcast_convert(%Out);
    %Bytes -> $hbm[dram + {1 : 0, 4 : 4, 4 : 1}];
    %Zero:1x4xf32 = constant(0);
    %Zero -> $sums[slot + {1 : 1}];
}
"""


@pytest.fixture(scope="module")
def isa(tmp_path_factory: pytest.TempPathFactory) -> Isa:
    path = tmp_path_factory.mktemp("isa") / "slots.taidl"
    path.write_text(SLOTS)
    return taidl.load(path)


def turns(outer: int, inner: int, steps: int, slots: int, lines: int) -> Stream:
    """Sums of ``steps`` rows each, block by block, each block in the next slot of a ring, ``lines`` at a time."""
    w, v, k, c = (Affine.variable(name) for name in "wvkc")
    block = w * inner + v
    slot = block % slots + c * slots
    rows = outer * inner * lines
    argument = HbmTensor("X", 0, (rows * steps, 4), "float32")
    result = HbmTensor("Y", rows * steps * 16, (rows, 4), "float32")
    add = Instr.make("add", dram=((block * lines + c) * steps + k) * 16, slot=slot)
    give = Instr.make("give", dram=(block * lines + c) * 16 + rows * steps * 16, slot=slot)
    body = (Loop("k", 0, steps, 1, (Loop("c", 0, lines, 1, (add,)),)), Loop("c", 0, lines, 1, (give,)))
    return Stream("slots", (), (argument,), (result,), rows * (steps + 1) * 16,
                  (Loop("w", 0, outer, 1, (Loop("v", 0, inner, 1, body),)),))


def offsets(nodes: tuple[ResolvedNode, ...]) -> list[Affine]:
    found = []
    for node in nodes:
        if isinstance(node, ResolvedLoop):
            found += offsets(node.body)
        else:
            windows = [s.window for s in node.statements if not isinstance(s, Op)]
            found += [w.offsets[0] for w in windows if w.buffer == "sums"]
    return found


@examples(6, 120)
@given(*[st.integers(1, 5)] * 3, st.integers(1, 3), st.integers(1, 2))
def test_rings_of_sums_are_raised(isa: Isa, outer: int, inner: int, steps: int, slots: int, lines: int) -> None:
    stream = turns(outer, inner, steps, slots, lines)
    x = np.random.default_rng(outer).integers(-9, 9, stream.arguments[0].shape).astype(np.float32)
    oracle = compile_stream(stream, isa)
    np.testing.assert_array_equal(np.asarray(oracle(x)[0]), run(stream, isa, {"X": x})["Y"])
    assert oracle.raised
    strips = in_strips(resolve(stream, isa), "sums")
    assert all(o.is_linear for o in offsets(strips.body))


def test_streams_without_rings_stay_as_they_are(isa: Isa) -> None:
    resolved = resolve(turns(2, 3, 2, 1, 2), isa)
    assert in_strips(resolved, "sums") is resolved
    ring = resolve(turns(2, 3, 2, 2, 2), isa)
    assert in_strips(ring, "hbm") is ring
