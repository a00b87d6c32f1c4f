"""Products of tiles in registers of bytes: chains of chains, several steps in a loop's body, edges that go round."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from archloom.oracle import native
from archloom.oracle.assembly import parse
from archloom.oracle.xla import compile_stream
from tests.support.examples import examples
from tests.support.oracle.agreement import agree, isa_of

COLUMNS = 16
"""Of the second factor and of the result: as many as a vector has, so that machine code takes them."""

ADDED = {
    "fused": "%One:f32 = constant(1); %Ones:4x16xf32 = broadcast(%One); %New:4x16xf32 = fma(%Sums, %Ones, %Old);",
    "each": "%New:4x16xf32 = add(%Old, %Sums);"}
"""How a step of k is added to the sums, where its products are rounded so."""


def isa(rounding: str):
    return isa_of(f"""
[v] (1024) (i8);                # registers of 256 bytes: tiles of four rows, 64 bytes apart

[load](v, dram, rows, width, stride) {{
    %Bytes:{{rows}}x{{width}}xi8 <- $hbm[dram + {{rows : stride, width : 1}}];
    %Bytes -> $v[v * 256 + {{rows : 64, width : 1}}];
}}
[store](dram, v, rows, stride) {{
    %Bytes:{{rows}}x64xi8 <- $v[v * 256 + {{rows : 64, 64 : 1}}];
    %Bytes -> $hbm[dram + {{rows : stride, 64 : 1}}];
}}
[clear](v) {{
    %Zero:256xi8 = constant(0);
    %Zero -> $v[v * 256 : v * 256 + 256];
}}
[multiply](c, a, b) {{
    %ABytes:4x4x4xi8 <- $v[a * 256 + {{4 : 64, 4 : 4, 4 : 1}}];
    %A:4x4xf32 = bitcast_convert(%ABytes);
    %BBytes:4x16x4xi8 <- $v[b * 256 + {{4 : 64, 16 : 4, 4 : 1}}];
    %B:4x16xf32 = bitcast_convert(%BBytes);
    %OldBytes:4x16x4xi8 <- $v[c * 256 + {{4 : 64, 16 : 4, 4 : 1}}];
    %Old:4x16xf32 = bitcast_convert(%OldBytes);
    %Sums:4x16xf32 = dot_general(%A, %B, lhs_contracting={{1}}, rhs_contracting={{0}}, rounding={rounding});
    {ADDED[rounding]}
    %Bytes:4x16x4xi8 = bitcast_convert(%New);
    %Bytes -> $v[c * 256 + {{4 : 64, 16 : 4, 4 : 1}}];
}}
[larger](v) {{                     # of the whole register, whatever its tile is
    %Bytes:64x4xi8 <- $v[v * 256 + {{64 : 4, 4 : 1}}];
    %X:64xf32 = bitcast_convert(%Bytes);
    %Zero:64xf32 = constant(0);
    %Y:64xf32 = maximum(%X, %Zero);
    %New:64x4xi8 = bitcast_convert(%Y);
    %New -> $v[v * 256 + {{64 : 4, 4 : 1}}];
}}
""")


ISAS = {rounding: isa(rounding) for rounding in ADDED}


@dataclass(frozen=True)
class Product:
    """``max(X W, 0)``: a loop over whole tiles of rows, then the tile of the ``rest``; ``depth`` steps of k, of which a
    body of a loop has ``steps``."""

    tiles: int
    rest: int
    depth: int
    steps: int

    @property
    def rows(self) -> int:
        return 4 * self.tiles + self.rest

    @property
    def text(self) -> str:
        w, y, stride = 1 << 13, 1 << 15, 16 * self.depth

        def step(row: str, rows: int, k: str, first: int) -> list[str]:
            x = f"{row}*{4 * stride} + {k}*16 + {16 * first}"
            return [f"load v=1, dram={x}, rows={rows}, width=16, stride={stride}",
                    f"load v=2, dram={k}*256 + {256 * first + w}, rows=4, width=64, stride=64",
                    "multiply c=0, a=1, b=2"]

        def tile(row: str, rows: int) -> list[str]:
            bodies, whole = self.depth // self.steps, self.depth // self.steps * self.steps
            unrolled = [line for n in range(self.steps) for line in step(row, rows, f"{self.steps}*k", n)]
            left = [line for n in range(whole, self.depth) for line in step(row, rows, "0", n)]
            return ["clear v=0", f"loop k in 0..{bodies} {{", *unrolled, "}", *left, "larger v=0",
                    f"store dram={row}*256 + {y}, v=0, rows={rows}, stride=64"]

        edge = tile(str(self.tiles), self.rest) if self.rest else []
        return "\n".join([
            ".stream product", ".isa t", f".hbm {1 << 16}", f".arg X float32[{self.rows},{4 * self.depth}] @0",
            f".arg W float32[{4 * self.depth},16] @{w}", f".result Y float32[{self.rows},16] @{y}",
            "loop j in 0..3 {", f"loop i in 0..{self.tiles} {{", *tile("i", 4), "}", *edge, "}", ""])


products = st.builds(Product, st.integers(1, 4), st.integers(0, 3), st.integers(1, 9), st.integers(1, 4))


@examples(4, 150)
@given(products, st.sampled_from(sorted(ADDED)))
def test_products_of_tiles_are_raised(product: Product, rounding: str) -> None:
    random = np.random.default_rng(product.depth)
    x = random.standard_normal((product.rows, 4 * product.depth)) * 2.0 ** random.integers(-90, 60)
    w = random.standard_normal((4 * product.depth, COLUMNS)).astype("f")
    agree(product.text, ISAS[rounding], {"X": x.astype("f"), "W": w})
    report = compile_stream(parse(product.text), ISAS[rounding]).report
    assert report.raised


@pytest.mark.skipif(not native.possible(), reason="JAX runs elsewhere than on an x86 processor with FMA")
@pytest.mark.parametrize("rounding", sorted(ADDED))
def test_all_steps_are_one_chain_of_machine_code(rounding: str) -> None:
    """A body of two steps, and what is left of the loop: a chain over all of them."""
    report = compile_stream(parse(Product(3, 2, 8, 2).text), ISAS[rounding]).report
    assert report.results[0].operations == (f"chain of 8 over {14 * COLUMNS}", f"dot 8 x 14x{COLUMNS}x4 f32, in order")
