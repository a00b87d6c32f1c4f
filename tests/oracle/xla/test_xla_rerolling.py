"""The REPEATs of long instructions are loops again for XLA, and compute the same."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from archloom.oracle.kernel import Kernel, isa
from archloom.oracle.resolved import ResolvedLoop, ResolvedNode
from archloom.oracle.xla.raising.rerolling import with_loops

TEXT = """isa repeats;
[ram] (64) (8 x i8);
[load](dram) { %X:64x8xi8 <- $hbm[dram + {64 : 8, 8 : 1}]; %X -> $ram; }
[store](dram) { %X:64x8xi8 <- $ram; %X -> $hbm[dram + {64 : 8, 8 : 1}]; }

# every row becomes the sum of the two below it, times a number of its own
[mix](rows, from) {
    REPEAT (i, rows) {
        REPEAT (j, 4) {
            %A:1x2xi8 <- $ram[from + i, 2 * j];
            %B:1x2xi8 <- $ram[from + i + 1, 6 - 2 * j];
            %C:1x2xi8 = constant(i - 3 * j);
            %P:1x2xi8 = multiply(%B, %C);
            %Sum:1x2xi8 = add(%A, %P);
            %Sum -> $ram[i, 2 * j];
        }
    }
}

# a tensor from before the REPEAT is used in each iteration: no segment can be cut off
[spread](rows) {
    %One:1x8xi8 <- $ram[0];
    REPEAT (i, rows) { %One -> $ram[i]; %T:1x8xi8 = constant(i); %T -> $ram[i, 0]; }
}
"""


def kernel(tmp_path: Path, mnemonic: str, rows: int, at: tuple[int, ...]) -> Kernel:
    path = tmp_path / "repeats.taidl"
    path.write_text(TEXT)
    machine = isa(path)

    @machine.kernel(arg={"start": 0, "shape": (64, 8), "dtype": "int8"},
                    res={"start": 512, "shape": (64, 8), "dtype": "int8"})
    def made() -> None:
        machine.api.load(0)
        with machine.loop(3) as i:
            getattr(machine.api, mnemonic)(rows, *(i + a for a in at))
        machine.api.store(512)

    return made


def loops(nodes: Sequence[ResolvedNode]) -> list[object]:
    return [(n.extent, loops(n.body)) for n in nodes if isinstance(n, ResolvedLoop)]


@pytest.mark.parametrize("rows", [4, 7, 50])
def test_nested_repeats_are_nested_loops(tmp_path: Path, rows: int) -> None:
    made = kernel(tmp_path, "mix", rows, (5,))
    assert loops(with_loops(made.resolved).body) == [(3, [(rows, [(4, [])])])]
    x = np.random.default_rng(0).integers(-128, 128, (64, 8), np.int8)
    np.testing.assert_array_equal(made.run(x), made.interpret(x))


def test_what_a_tensor_connects_stays_whole(tmp_path: Path) -> None:
    made = kernel(tmp_path, "spread", 40, ())
    assert loops(with_loops(made.resolved).body) == [(3, [])]
    x = np.random.default_rng(0).integers(-128, 128, (64, 8), np.int8)
    np.testing.assert_array_equal(made.run(x), made.interpret(x))


def test_short_instructions_are_left_alone(tmp_path: Path) -> None:
    made = kernel(tmp_path, "mix", 2, (5,))
    assert with_loops(made.resolved) is made.resolved
