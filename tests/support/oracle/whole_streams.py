"""Random programs of an ISA whose operators have no index notation, and of values that loops carry."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from archloom.oracle.affine import Affine
from archloom.oracle.stream import HbmTensor, Instr, Loop, Node, Stream
from archloom.oracle.taidl import instantiate, parse
from archloom.oracle.taidl.isa import Isa

WHOLE: Isa = instantiate(parse("""
isa whole;
[rows] (16) (4 x i32);
[real] (8) (4 x f32);

def small(%x, %go) { %c:i32 = constant(1000); %m:i32 = reduce(%x, dim={0}, kind=max);
                     %z:i32 = constant(0); %p:i1 = compare(%m, %c, direction=lt); %q:i1 = compare(%m, %z, direction=gt);
                     %go:i1 = and(%p, %q); }
def twice(%x, %y) { %y:4xi32 = add(%x, %x); }
def turned(%x, %y) { %y:4xi32 = reverse(%x, dim={0}); }

[load](dram, row) {
    %b:1x4x4xi8 <- $hbm[dram + {1 : 16, 4 : 4, 4 : 1}];
    %x:1x4xi32 = bitcast_convert(%b);
    %x -> $rows[row : row + 1];
}
[store](dram, row) {
    %x:1x4xi32 <- $rows[row : row + 1];
    %b:1x4x4xi8 = bitcast_convert(%x);
    %b -> $hbm[dram + {1 : 16, 4 : 4, 4 : 1}];
}
[clear](row) { %x:1x4xi32 = constant(0); %x -> $rows[row : row + 1]; }
[sort](row, from) {
    %x:1x4xi32 <- $rows[from : from + 1];
    %y:1x4xi32 = sort(%x, dim=1);
    %y -> $rows[row : row + 1];
}
# the element of a table of 4 rows that a row's first element tells, four times
[look](row, from, table) {
    %t:4x4xi32 <- $rows[table : table + 4];
    %x:1x4xi32 <- $rows[from : from + 1];
    %i:1x1xi32 = slice(%x, start={0, 0}, limit={1, 1});
    %three:1x1xi32 = constant(3);
    %j:1x1xi32 = and(%i, %three);
    %k:i32 = reshape(%j);
    %z:i32 = constant(0);
    %y:1x4xi32 = dynamic_slice(%t, %k, %z, size={1, 4});
    %y -> $rows[row : row + 1];
}
[place](row, from) {
    %x:1x4xi32 <- $rows[from : from + 1];
    %y:1x4xi32 <- $rows[row : row + 1];
    %u:1x2xi32 = slice(%x, start={0, 1}, limit={1, 3});
    %i:1x1xi32 = slice(%x, start={0, 0}, limit={1, 1});
    %k:i32 = reshape(%i);
    %z:i32 = constant(0);
    %r:1x4xi32 = dynamic_update_slice(%y, %u, %z, %k);
    %r -> $rows[row : row + 1];
}
[double](row, from) {
    %x:1x4xi32 <- $rows[from : from + 1];
    %v:4xi32 = reshape(%x);
    %w:4xi32 = while(%v, cond=small, body=twice);
    %y:1x4xi32 = reshape(%w);
    %y -> $rows[row : row + 1];
}
[choose](row, from) {
    %x:1x4xi32 <- $rows[from : from + 1];
    %v:4xi32 = reshape(%x);
    %m:i32 = reduce(%v, dim={0}, kind=add);
    %z:i32 = constant(0);
    %p:i1 = compare(%m, %z, direction=gt);
    %w:4xi32 = conditional(%p, %v, then=twice, else=turned);
    %y:1x4xi32 = reshape(%w);
    %y -> $rows[row : row + 1];
}
[convolve](row, from, kernel) {
    %x:1x4xi32 <- $rows[from : from + 1];
    %k:1x4xi32 <- $rows[kernel : kernel + 1];
    %a:1x1x4xi32 = reshape(%x);
    %c:1x1x4xi32 = reshape(%k);
    %b:1x1x4xi32 = convolution(%a, %c, low={2}, high={1});
    %y:1x4xi32 = reshape(%b);
    %y -> $rows[row : row + 1];
}
# rows[row] = sorted(rows[row] + rows[from]): what a loop around carries
[merge](row, from) {
    %x:1x4xi32 <- $rows[from : from + 1];
    %old:1x4xi32 <- $rows[row : row + 1];
    %s:1x4xi32 = add(%x, %old);
    %y:1x4xi32 = sort(%s, dim=1, descending=1);
    %y -> $rows[row : row + 1];
}
[add](row, from) {
    %x:1x4xi32 <- $rows[from : from + 1];
    %old:1x4xi32 <- $rows[row : row + 1];
    %s:1x4xi32 = add(%old, %x);
    %s -> $rows[row : row + 1];
}
[real](to, from) { %x:1x4xi32 <- $rows[from : from + 1]; %y:1x4xf32 = convert(%x); %y -> $real[to : to + 1]; }
[sum](to, from) {
    %x:1x4xf32 <- $real[from : from + 1];
    %half:4xf32 = constant(0.1);
    %v:4xf32 = reshape(%x);
    %w:4xf32 = multiply(%v, %half);
    %s:f32 = reduce(%w, dim={0}, kind=add);
    %y:1x4xf32 = broadcast(%s);
    %old:1x4xf32 <- $real[to : to + 1];
    %t:1x4xf32 = subtract(%y, %old);
    %t -> $real[to : to + 1];
}
# adds in the order of the stream
[more](to, from) {
    %x:1x4xf32 <- $real[from : from + 1];
    %third:1x4xf32 = constant(0.3);
    %p:1x4xf32 = multiply(%x, %third);
    %old:1x4xf32 <- $real[to : to + 1];
    %y:1x4xf32 = add(%old, %p);
    %y -> $real[to : to + 1];
}
[whole](row, from) {
    %x:1x4xf32 <- $real[from : from + 1];
    %b:1x4xi32 = bitcast_convert(%x);
    %b -> $rows[row : row + 1];
}
"""), {})

ARGUMENT, RESULT, ROWS = 64, 1024, 24
"""Where the rows of the argument and of the result begin in HBM, and how many there are of each."""


@st.composite
def whole_streams(draw: Any, depth: int = 2) -> Stream:
    """Loads, computes and stores in loops up and down, whose addresses move with the loops or stay."""
    def address(first: int, last: int, loops: tuple[tuple[str, int], ...], unit: int = 1) -> Affine:
        """A form that stays in ``first .. last``, in units, for all values of the loops."""
        low = high = draw(st.integers(first, last))
        form = Affine(0)
        for var, extent in loops:
            step = draw(st.sampled_from((0, 0, 1, 1, -1, 2)))
            reach = step * (extent - 1)
            if low + min(0, reach) >= first and high + max(0, reach) <= last:
                form = form + Affine.variable(var) * step
                low, high = low + min(0, reach), high + max(0, reach)
        start = draw(st.integers(first - low, last - high)) + low - form.range({v: (0, n - 1) for v, n in loops})[0]
        return (form + start) * unit

    def instr(loops: tuple[tuple[str, int], ...]) -> Instr:
        name = draw(st.sampled_from(sorted(WHOLE.instructions)))
        attributes = []
        for attribute in WHOLE.instructions[name].attributes:
            if attribute == "dram":
                form = address(0, ROWS - 1, loops, 16) + (RESULT if name == "store" else ARGUMENT)
            elif attribute == "to" or (name in ("sum", "more", "whole") and attribute == "from"):
                form = address(0, 7, loops)
            else:
                form = address(0, 15 - (3 if attribute == "table" else 0), loops)
            attributes.append((attribute, form))
        return Instr(name, tuple(attributes))

    def nodes(loops: tuple[tuple[str, int], ...], count: int) -> tuple[Node, ...]:
        made: list[Node] = []
        for _ in range(draw(st.integers(1, count))):
            if len(loops) < depth and draw(st.booleans()):
                var, extent = f"i{len(loops)}x{len(made)}", draw(st.integers(2, 4))
                bounds = draw(st.sampled_from(((0, extent, 1), (extent - 1, -1, -1))))
                made.append(Loop(var, *bounds, nodes((*loops, (var, extent)), 3)))
            else:
                made.append(instr(loops))
        return tuple(made)

    load = Loop("r", 0, 16, 1, (Instr("load", (("dram", Affine.variable("r") * 16 + ARGUMENT),
                                               ("row", Affine.variable("r")))),))
    last = Affine.variable("s")
    store = Loop("s", 0, 12, 1, (Instr("store", (("dram", last * 16 + RESULT), ("row", last + 2))),))
    shape = (ROWS, 4)
    return Stream("whole", (), (HbmTensor("x", ARGUMENT, shape, "int32"),), (HbmTensor("y", RESULT, shape, "int32"),),
                  2048, (load, *nodes((), 4), store), "whole")
