"""What functional units compute, and how fast: from the meaning of their instructions and the latencies of the graph.

An instruction with a ``dot_general`` is a product of matrices, one with other arithmetic works on vectors. Its extents
depend on attributes; they are taken as large as the ISA's assertions and the buffers allow, or, where nothing bounds
them, as large as costs no more cycles than the least; then as small as the same rate allows.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from archloom.acadl_models.acadl import ArchitectureGraph, FunctionalUnit
from archloom.acadl_models.energy.work import MOVES
from archloom.oracle.errors import TaidlError, TargetError
from archloom.oracle.taidl import ast
from archloom.oracle.taidl.evaluate import evaluate, names, register_key
from archloom.oracle.taidl.isa import Instruction, Isa
from archloom.oracle.taidl.statements import every

MOST = 4096
"""The largest value that is tried for an attribute."""

_MOVES = MOVES | {"convert", "dot_general"}
"""``dot_general`` is looked at by itself."""


@dataclass(frozen=True)
class Compute:
    """``kind`` mat (``shape`` m, n, k), vec or scalar; ``cycles`` for operands of ``shape``, and ``start`` beside them
    for an instruction that works on many."""

    kind: str
    mnemonic: str
    shape: tuple[int, ...]
    cycles: int
    start: int = 0

    @property
    def rate(self) -> float:
        """Multiply-accumulates, or operations, in a cycle."""
        return math.prod(self.shape) / self.cycles


def computes(graph: "ArchitectureGraph", isa: "Isa", unit: "FunctionalUnit") -> tuple[Compute, ...]:
    """What ``unit`` does at best: products and work on vectors, each if there is any."""
    found: dict[str, Compute] = {}
    for mnemonic in sorted(unit.to_process):
        made = _Probe(graph, isa, unit, isa.instruction(mnemonic)).compute()
        if made is not None and (made.kind not in found or made.rate > found[made.kind].rate):
            found[made.kind] = made
    if len(found) > 1:
        found.pop("scalar", None)
    return tuple(found[kind] for kind in ("mat", "vec", "scalar") if kind in found)


def peak(graph: ArchitectureGraph, isa: Isa) -> int:
    """Multiply-accumulates in a cycle of all units at their best: of a unit that states its ``extent``, one for each
    place of that array; of another, what its products make. TargetError where no unit makes any."""
    products = {name for name, i in isa.instructions.items() if any(
        isinstance(s, ast.Op) and s.opcode == "dot_general" for s in every(i.body))}
    rates: dict[object, Fraction] = {}
    total = Fraction(0)
    for unit in graph.functional_units:
        mine = sorted(unit.to_process & products)
        # units with equal latencies are equally fast
        key = unit.extent, *((name, (unit.interval_of(name) or unit.latency_of(name)).text) for name in mine)
        if (mine or unit.extent) and key not in rates:
            rates[key] = _fastest(graph, isa, unit, mine)
        total += rates.get(key, 0)
    if not total:
        raise TargetError(f"graph {graph.name!r}: no instruction of a unit is a dot_general, so that the peak is not "
                          "known: state the extent of the unit that multiplies, or macs_per_cycle")
    return max(1, int(total))


def _fastest(graph: ArchitectureGraph, isa: Isa, unit: FunctionalUnit, products: Sequence[str]) -> Fraction:
    if unit.extent:
        return Fraction(math.prod(unit.extent))
    made = [_Probe(graph, isa, unit, isa.instruction(name)).compute() for name in products]
    return max((Fraction(math.prod(c.shape), c.cycles) for c in made if c and c.kind == "mat"), default=Fraction(0))


class _Probe:
    """Shapes and cycles of one instruction for values of its attributes."""

    def __init__(self, graph: "ArchitectureGraph", isa: "Isa", unit: "FunctionalUnit", what: "Instruction") -> None:
        self.isa, self.unit, self.what = isa, unit, what
        self.fixed = {**isa.initial_registers(), **isa.scope, **graph.parameters}
        self.expression = unit.interval_of(what.name) or unit.latency_of(what.name)
        self.registers = frozenset(r.name for r in isa.registers)
        self.extents = {b.name: b.shape for b in isa.buffers}

    def compute(self) -> Compute | None:
        values = {name: int(name in self.expression.names) for name in self.what.attributes}
        values.update({key: 0 for r in self.isa.registers for key in r.keys if not self.fixed[key]})
        free = [name for name in values if self.sized(values, name)]
        values.update(dict.fromkeys(free, 1))
        if any(self.starts(values, name) for name in free):
            growing = free  # as many products as one likes, after a start
        else:
            common = self.bound(values, free) or 1
            values.update(dict.fromkeys(free, common))
            bounds = {name: self.bound(values, [name]) for name in free}
            # what nothing bounds, although it matters: what others bound by a minimum stays as large as they are
            growing = [name for name, most in bounds.items() if most is None and self.matters(values, name)]
            for name, most in bounds.items():
                values[name] = most or common
        for name in growing:
            values[name] = self.period(values, name)
        shape = self.shape(values)
        if not shape or not math.prod(shape):
            return None
        for name in free:
            if name not in growing:
                values[name] = self.least(values, name)
        return self.made(values, growing)

    def made(self, values: dict[str, int], growing: Sequence[str]) -> Compute:
        shape, cycles, start = self.shape(values), self.cycles(values), 0
        for name in growing:
            more = self.cycles({**values, name: 2 * values[name]}) - cycles
            if 0 < more < cycles:
                cycles, start = more, cycles - more
                break
        if len(shape) == 3:
            return Compute("mat", self.what.name, shape, cycles, start)
        common = math.gcd(shape[0], cycles)
        kind = "scalar" if shape[0] == 1 else "vec"
        return Compute(kind, self.what.name, (shape[0] // common,), cycles // common, start)

    def starts(self, values: dict[str, int], name: str) -> bool:
        """Whether twice the work takes less than twice the cycles."""
        one = self.period(values, name)
        cycles, twice = (self.cycles({**values, name: times * one}) for times in (1, 2))
        return cycles < twice < 2 * cycles

    def sized(self, values: Mapping[str, int], name: str) -> bool:
        """Whether an attribute decides on the shape, by itself or as the least of several."""
        few, many = dict.fromkeys(values, 1), dict.fromkeys(values, 8)
        first = self.shape({**values, **dict.fromkeys(self.what.attributes, 8)})
        last = self.shape({**values, **dict.fromkeys(self.what.attributes, 8), name: 1})
        return first != last or self.shape({**few, name: 8}) != self.shape(few) or (
            self.shape({**many, name: 1}) != self.shape(many))

    def matters(self, values: Mapping[str, int], name: str) -> bool:
        return self.shape({**values, name: 2 * values[name]}) != self.shape(values)

    def bound(self, values: dict[str, int], names: Sequence[str]) -> int | None:
        """The largest value of ``names`` that no assertion and no buffer forbids; None if beyond :data:`MOST`."""
        broken = self.broken(values)

        def allowed(value: int) -> bool:
            return self.broken({**values, **dict.fromkeys(names, value)}) <= broken

        # extents that are divided by something may need more than 1
        low = next((1 << i for i in range(5) if allowed(1 << i)), 1)
        if allowed(MOST):
            return None
        high = MOST
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if allowed(middle) else (low, middle)
        return low

    def broken(self, values: Mapping[str, int]) -> set[int]:
        """Positions of assertions and of accesses outside of buffers, for these values."""
        scope, found = {**self.fixed, **values}, set()
        for number, statement in enumerate(_statements(self.what.body, scope, self.registers)):
            if isinstance(statement, ast.Assert):
                wrong = _value(statement.condition, scope) == 0
            else:
                wrong = self.outside(statement, scope)
            if wrong:
                found.add(number)
        return found

    def outside(self, statement: ast.Statement, scope: Mapping[str, int]) -> bool:
        piece = statement.source if isinstance(statement, ast.Read) else (
            statement.target if isinstance(statement, ast.Write) else None)
        if piece is None or piece.buffer not in self.extents:
            return False
        for axis, extent in zip(piece.axes, self.extents[piece.buffer]):
            if isinstance(axis, ast.Range) and axis.stop is not None:
                stop = _value(axis.stop, scope)
                if stop is None or stop > extent:
                    return stop is not None
        return False

    def period(self, values: dict[str, int], name: str) -> int:
        """Up to which value the cycles are those of 1; 1 if they never rise."""
        one = self.cycles({**values, name: 1})
        if self.cycles({**values, name: MOST}) == one:
            return 1
        return next(v for v in range(1, MOST + 1) if self.cycles({**values, name: v + 1}) != one)

    def least(self, values: dict[str, int], name: str) -> int:
        """The smallest value with which work goes as fast as it can: among the powers of two up to the one at hand,
        that one, and the value up to which an operand costs nothing more."""
        def rate(value: int) -> float:
            changed = {**values, name: value}
            return math.prod(self.shape(changed)) / self.cycles(changed)

        now = values[name]
        tried = {1 << i for i in range(now.bit_length())} | {min(now, self.period(values, name)), now}
        return max(tried, key=lambda value: (rate(value), -value))

    def cycles(self, values: Mapping[str, int]) -> int:
        scope = {"words": 1, "bytes": 1, **self.fixed, **values}
        try:
            return max(1, self.expression.evaluate(scope))
        except KeyError as error:
            raise TargetError(
                f"{self.unit.name}: cycles {self.expression.text!r} of {self.what.name} name {error}, which is "
                f"none of its attributes, the registers and the parameters") from error

    def shape(self, values: Mapping[str, int]) -> tuple[int, ...]:
        """(m, n, k) of the largest product, or how many numbers the largest operation works on; () if there is none."""
        scope: dict[str, int] = {**self.fixed, **values}
        kinds: dict[str, tuple[int, ...]] = {}
        products: list[tuple[int, ...]] = []
        vectors: list[int] = []
        for statement in _statements(self.what.body, scope, self.registers):
            if isinstance(statement, (ast.Read, ast.Op)):
                dims = [_value(d, scope) for d in statement.type.dims]
                if None in dims:
                    continue
                kinds[statement.dst] = tuple(d for d in dims if d is not None)
            if isinstance(statement, ast.Op) and statement.opcode == "dot_general":
                products.append(_product(statement, kinds))
            elif isinstance(statement, ast.Op) and statement.opcode not in _MOVES:
                places = [t.name for t in statement.operands if isinstance(t, ast.Tensor)]
                vectors.append(max(math.prod(kinds.get(name, ())) for name in (statement.dst, *places)))
        if products:
            return max(products, key=math.prod)
        return (max(vectors),) if vectors else ()


def _value(expression: ast.Expr, scope: Mapping[str, int]) -> int | None:
    """The value of an expression; None where it has none for the values that are tried: an element of a register that
    is not there, a division by zero, or what depends on such. That bounds nothing and has no extents. A misspelt name
    cannot be the reason: TAIDL refuses it when a description is read."""
    try:
        return evaluate(expression, scope)
    except TaidlError:
        return None


def _product(op: ast.Op, kinds: Mapping[str, tuple[int, ...]]) -> tuple[int, ...]:
    """m, n and k of a dot_general; batches count as rows."""
    left, right = (kinds.get(t.name, ()) for t in op.operands if isinstance(t, ast.Tensor))
    if not left or not right:
        return 0, 0, 0
    listed = {name: [int(i.value) for i in value.items if isinstance(i, ast.Number)] for name, value in op.attributes
              if isinstance(value, ast.Group)}
    k = math.prod(left[i] for i in listed["lhs_contracting"])
    batch = math.prod(left[i] for i in listed.get("lhs_batch", ()))
    away = {*listed["rhs_contracting"], *listed.get("rhs_batch", ())}
    columns = math.prod(extent for i, extent in enumerate(right) if i not in away)
    rows = math.prod(left) // k // batch if k and batch else 0
    return rows * batch, columns, k


def _statements(
    body: Sequence[ast.Statement], scope: dict[str, int], registers: frozenset[str]
) -> Iterator[ast.Statement]:
    """All statements with blocks opened, of conditions on registers both sides; what ``let`` binds and what loops count
    goes to scope."""
    for statement in body:
        if isinstance(statement, ast.If):
            taken = (*statement.then, *statement.otherwise)
            if registers.isdisjoint(node.name for node in names(statement.condition)):
                holds = _value(statement.condition, scope)
                taken = taken if holds is None else statement.then if holds else statement.otherwise
            yield from _statements(taken, scope, registers)
        elif isinstance(statement, ast.Repeat):
            scope[statement.variable] = 0
            yield from _statements(statement.body, scope, registers)
        elif isinstance(statement, (ast.Let, ast.Assign)):
            value = _value(statement.value, scope)
            if value is None:
                continue
            if isinstance(statement, ast.Let):
                scope[statement.name] = value
            elif statement.index is None:
                scope[statement.register] = value
            elif (index := _value(statement.index, scope)) is not None:
                scope[register_key(statement.register, index)] = value
        else:
            yield statement
