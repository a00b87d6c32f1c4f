"""Random legal programs of any ISA, from its TAIDL description alone.

An instruction is drawn by trying values for its attributes: where a rule is broken, one of the attributes on which it
depends is tried otherwise, as far from the present value as the rule misses or out of what its text compares with.
Loops are drawn with attributes that move; one that breaks a rule in a later iteration stays where it was.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from random import Random
from typing import TypeAlias

from archloom.oracle import taidl
from archloom.oracle.affine import Affine
from archloom.oracle.stream import Instr, Loop, Node
from archloom.oracle.taidl import ast
from archloom.oracle.taidl.evaluate import operands
from archloom.oracle.taidl.isa import Instruction, Isa
from archloom.oracle.taidl.statements import every, statement_expressions
from tests.support.oracle.legality import Illegal, Touched, Walk, stores

ATTEMPTS = 150
"""Values that are tried for an instruction before another is drawn."""

SMALL = (0, 0, 1, 1, 2, 3, 4, 8)
STEPS = (0, 0, 1, 1, 2, 4, 16, -1)


def small_parameters(name: str, r: Random) -> dict[str, int]:
    """Values for an ISA's parameters with which its memories are small."""
    declared = taidl.load(name).definition.parameters
    return {p.name: min(max(p.low, r.choice((0, 1, 2, 3, 4, 8, 16))), p.high) for p in declared}


Runs: TypeAlias = Callable[[str, Sequence[Touched]], bool]
"""Whether a machine runs an instruction that touches these windows."""


@dataclass
class Programs:
    """Draws programs of an ISA on ``hbm_bytes`` of memory, of instructions that the machine ``runs``."""

    r: Random
    isa: Isa
    hbm_bytes: int
    runs: Runs = lambda mnemonic, touched: True
    registers: dict[str, int] = field(default_factory=dict)
    serial: int = 0

    def __post_init__(self) -> None:
        self.registers = self.isa.initial_registers()

    def body(self, most: int) -> tuple[Node, ...]:
        """Up to ``most`` nodes, in the order in which they run from reset."""
        return tuple(node for _ in range(self.r.randint(1, most)) for node in self.nodes(2))

    def nodes(self, depth: int) -> list[Node]:
        """An instruction, or a loop around some; nothing where no instruction was found to be legal."""
        if depth and self.r.random() < 0.4:
            return self.loop(depth)
        found = self.instruction()
        return [] if found is None else [found]

    # --- instructions ---
    @cached_property
    def mnemonics(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """All, and those that store: without them little would be seen of a program."""
        known = {name: i for name, i in self.isa.instructions.items() if not name.startswith("dump_")}
        return tuple(known), tuple(name for name in known if stores(known[name])) or tuple(known)

    def instruction(self) -> Instr | None:
        every_one, storing = self.mnemonics
        for _ in range(8):
            name = self.r.choice(storing if self.r.random() < 0.2 else every_one)
            values = self.legal(self.isa.instructions[name])
            if values is not None:
                return Instr.make(name, **values)
        return None

    def legal(self, instruction: Instruction) -> dict[str, int] | None:
        """Values with which the instruction is legal now; the registers are as it leaves them."""
        pool = tuple(_pool(self.isa, instruction))
        values = {name: self.first() for name in instruction.attributes}
        broken = self.tried(instruction, values)
        for _ in range(ATTEMPTS):
            if broken is None:
                return values
            if not broken.blame:
                return None
            name = self.r.choice(sorted(broken.blame))
            changed = {**values, name: self.other(values[name], broken, pool)}
            then = self.tried(instruction, changed)
            if then is None or then.reached >= broken.reached or self.r.random() < 0.05:
                values, broken = changed, then
        return values if broken is None else None

    def first(self) -> int:
        """Small most often; now and then one whose bits may say several things."""
        return self.r.choice(SMALL) if self.r.random() < 0.8 else self.r.randrange(1 << self.r.randint(1, 8))

    def other(self, value: int, broken: Illegal, pool: tuple[int, ...]) -> int:
        r, kind = self.r, self.r.random()
        if broken.gaps and kind < 0.4:
            return value + r.choice(broken.gaps)
        if kind < 0.6:
            return r.choice(SMALL)
        if kind < 0.8:
            return r.choice(pool) + r.choice((0, 0, 0, -1, 1)) + r.choice((0, 0, r.randint(0, 8)))
        return r.randrange(r.choice((16, 256, self.hbm_bytes)))

    def tried(self, instruction: Instruction, values: Mapping[str, int]) -> Illegal | None:
        """Why it is not legal; where it is, the registers change."""
        walk = Walk(self.isa, self.hbm_bytes, dict(self.registers))
        try:
            walk.run(instruction, values)
        except Illegal as illegal:
            return illegal
        if not self.runs(instruction.name, walk.touched):
            return Illegal(frozenset(values), walk.reached)
        self.registers = walk.registers
        return None

    # --- loops ---
    def loop(self, depth: int) -> list[Node]:
        """A loop around what is drawn for its first iteration, or that alone where it may not run again."""
        before, r = dict(self.registers), self.r
        inner = [node for _ in range(r.randint(1, 2)) for node in self.nodes(depth - 1)]
        self.serial += 1
        var, extent = f"i{self.serial}", r.randint(2, 4)
        body = [self.moving(node, var) for node in inner]
        while inner:
            self.registers = dict(before)
            culprit = self.again(Loop(var, 0, extent, 1, tuple(body)), {})
            if culprit is None:
                first, step = r.choice(((0, 1), (extent - 1, -1), (2, 3)))
                turned = {var: (Affine.variable(var) - first) * step if step != 3 else (Affine.variable(var) - 2) // 3}
                body = [_substituted(node, turned) for node in body]
                return [Loop(var, first, first + step * extent, step, tuple(body))]
            at, name = culprit
            still = _still(body, at, name, var)
            if still is None:
                break
            body = still
        self.registers = before
        for node in inner:
            assert self.again(node, {}) is None
        return inner

    def moving(self, node: Node, var: str) -> Node:
        """The node with some attributes that move with a loop."""
        if isinstance(node, Loop):
            return Loop(node.var, node.start, node.stop, node.step, tuple(self.moving(n, var) for n in node.body))
        assert isinstance(node, Instr)
        return Instr(node.mnemonic, tuple((name, value + self.term(var)) for name, value in node.attributes))

    def term(self, var: str) -> Affine:
        i = Affine.variable(var)
        return self.r.choice((i, i, i, i % 2, i // 2)) * self.r.choice(STEPS)

    def again(self, node: Node, values: dict[str, int]) -> tuple[Instr, str] | None:
        """Run a node from the present registers: the instruction that is not legal, and an attribute to blame."""
        if isinstance(node, Loop):
            for i in node.values:
                for inner in node.body:
                    found = self.again(inner, {**values, node.var: i})
                    if found is not None:
                        return found
            return None
        assert isinstance(node, Instr)
        given = {name: value.evaluate(values) for name, value in node.attributes}
        broken = self.tried(self.isa.instructions[node.mnemonic], given)
        if broken is None:
            return None
        moving = [name for name in sorted(broken.blame) if node[name].variables()]
        return node, self.r.choice(moving) if moving else ""


def _still(body: list[Node], at: Instr, attribute: str, var: str) -> list[Node] | None:
    """The nodes with an attribute of an instruction that no longer moves with the loop; None if it did not."""
    if attribute and var in at[attribute].variables():
        stays = at[attribute].substitute({var: Affine(0)})
        fixed = Instr(at.mnemonic, tuple((k, stays if k == attribute else value) for k, value in at.attributes))
        return [_replaced(node, at, fixed) for node in body]
    moving = [name for name, value in at.attributes if var in value.variables()]
    return _still(body, at, moving[0], var) if moving else None


def _replaced(node: Node, old: Instr, new: Instr) -> Node:
    if isinstance(node, Loop):
        return Loop(node.var, node.start, node.stop, node.step, tuple(_replaced(n, old, new) for n in node.body))
    return new if node is old else node


def _substituted(node: Node, values: Mapping[str, Affine]) -> Node:
    if isinstance(node, Loop):
        return Loop(node.var, node.start, node.stop, node.step, tuple(_substituted(n, values) for n in node.body))
    assert isinstance(node, Instr)
    return Instr(node.mnemonic, tuple((name, value.substitute(values)) for name, value in node.attributes))


def _pool(isa: Isa, instruction: Instruction) -> Iterator[int]:
    """Numbers that an instruction's text may compare with: those in it, its constants, bits that it shifts by."""
    for statement in every(instruction.body):
        for expression in statement_expressions(statement):
            yield from _numbers(isa, expression)
    yield from isa.scope.values()


def _numbers(isa: Isa, e: ast.Expr) -> Iterator[int]:
    if isinstance(e, ast.Number) and isinstance(e.value, int):
        yield e.value
        if e.value < 64:
            yield 1 << e.value
    elif isinstance(e, ast.Name) and e.name in isa.scope:
        yield isa.scope[e.name]
    for inner in operands(e):
        yield from _numbers(isa, inner)
