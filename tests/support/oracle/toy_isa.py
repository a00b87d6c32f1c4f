"""A toy ISA whose registers go every way through loops, for the tests of resolution."""

from __future__ import annotations

from archloom.oracle.affine import Affine
from archloom.oracle.assembly import parse
from archloom.oracle.resolved import ResolvedInstr, ResolvedLoop, ResolvedNode, ResolvedStream
from archloom.oracle.stream import Stream
from archloom.oracle.taidl import instantiate
from archloom.oracle.taidl import parse as parse_taidl

TOY = instantiate(parse_taidl("""
isa toy;
[mem] (64) (4 x i8);
at = 0;
next = 0;
turn = 0;
size[2] = 1;

[set](v) { at = v; }
[later](v) { next = v; }
[now]() { at = next; }
[step](by) { at = at + by; }
[double]() { at = at * 2; }
[most](v) { at = max(at, v); }
[cycle](m) { turn = (turn + 1) % 4; }
[choose](which, v) { size[which] = v; }
[when](c, v) { IF (c == 0) { at = v; } }

# mem[at] to HBM
[put](dram) {
    %X:1x4xi8 <- $mem[at];
    %Y:4xi8 = reshape(%X);
    %Y -> $hbm[dram:dram + 4];
}
# as many rows as said from HBM to mem[row]
[get](dram, row, rows) {
    assert(1 <= rows && rows <= 8);
    %X:{rows}x4xi8 <- $hbm[dram + {rows : 4, 4 : 1}];
    %X -> $mem[row : row + rows];
}
# the turn's row, zeros where k is 0
[rotate](dram, k) {
    IF (k == 0) {
        %X:1x4xi8 = constant(0);
    } ELSE {
        %X:1x4xi8 <- $mem[turn];
    }
    %Y:4xi8 = reshape(%X);
    %Y -> $hbm[dram:dram + 4];
}
[sized](dram, which) {
    REPEAT (i, size[which]) {
        %X:1x4xi8 <- $mem[i];
        %Y:4xi8 = reshape(%X);
        %Y -> $hbm[dram + 4 * i:dram + 4 * i + 4];
    }
}
# mem[row] += mem[from]
[sum](row, from) {
    %X:1x4xi8 <- $mem[from];
    %Old:1x4xi8 <- $mem[row];
    %New:1x4xi8 = add(%Old, %X);
    %New -> $mem[row];
}
[product](a, b) { at = a * b; }
"""), {})


def stream(body: str, hbm: int = 4096) -> Stream:
    """A stream of the toy ISA from the lines of its body."""
    return parse(f".isa toy\n.hbm {hbm}\n.arg M int8[{hbm}] @0\n.result M int8[{hbm}] @0\n{body}")


def outline(resolved: ResolvedStream, register: str | None = None) -> str:
    """The nest in one line, such as ``put[0] i3(put[i])``: extents, mnemonics, the value of a register."""

    def value(instr: ResolvedInstr) -> str:
        known = dict(instr.registers)
        return f"[{known.get(register, '?')}]" if register is not None else ""

    def node(n: ResolvedNode) -> str:
        if isinstance(n, ResolvedLoop):
            return f"{n.var}<{n.extent}({' '.join(map(node, n.body))})"
        return n.mnemonic + value(n)

    return " ".join(map(node, resolved.body))


def instructions(resolved: ResolvedStream) -> list[ResolvedInstr]:
    """The resolved instructions in textual order."""

    def walk(nodes: tuple[ResolvedNode, ...]) -> list[ResolvedInstr]:
        return [i for n in nodes for i in ([n] if isinstance(n, ResolvedInstr) else walk(n.body))]

    return walk(resolved.body)


def affine(text: str) -> Affine:
    """The expression over loops i, j, k and i.1, i.2 that the text says."""
    line = "".join(f"loop {v} in 0..2 {{ " for v in ("i", "j", "k", "i.1", "i.2"))
    node = parse(f".isa x\n.hbm 0\n{line} x a={text} {'}' * 5}").body[0]
    while hasattr(node, "body"):
        node = node.body[0]
    return node["a"]  # type: ignore[index]
