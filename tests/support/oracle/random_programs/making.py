"""Random chains of operators, made backwards: each producer gives a tensor of a wanted type, from operands it asks for.

The producers stand in :mod:`.operators` and :mod:`.larger`; :mod:`.isas` enters them into ``TABLE``.
"""

from __future__ import annotations

from collections.abc import Callable

from archloom.oracle.resolved import Shaped
from archloom.oracle.taidl.types import element_type, limits
from tests.support.oracle.random_programs.scope import Scope
from tests.support.oracle.random_programs.storage import load, read

Producer = Callable[[Scope, Shaped, int], "str | None"]

TABLE: dict[Producer, float] = {}
"""The producers and how often they are tried."""

FLOATS = ("0", "1", "0.5", "1.5", "3", "0.1", "0.0", "-0.0", "-1.5", "2.5", "100.0", "1e-3", "-3", "1e30", "65536")


def leaf(b: Scope, kind: Shaped) -> str:
    """A tensor from storage, from what is there already, or a constant."""
    r = b.r
    known = b.known(kind)
    if known and b.chance(0.4):
        return r.choice(known)
    if b.storage:
        for source in r.sample([read, read, load], 3):
            found = source(b, kind) if b.chance(0.8) else None
            if found is not None:
                return found
    elif known:
        return r.choice(known)
    kind_of = element_type(kind.dtype)
    if kind_of.kind == "quant":
        return b.op(kind, "bitcast_convert", leaf(b, Shaped(kind.shape, kind_of.storage)))
    if kind_of.part:
        return b.op(kind, "complex", *(leaf(b, Shaped(kind.shape, kind_of.part)) for _ in range(2)))
    others = [s.dtype for s in b.isa.buffers if s.dtype != kind.dtype and element_type(s.dtype).kind != "quant"]
    if b.storage and others and b.chance(0.5):
        found = read(b, Shaped(kind.shape, r.choice(others)))
        if found is not None:
            return b.op(kind, "convert", found)
    if kind.shape and b.chance(0.3):
        return b.op(kind, "iota", dim=r.randrange(len(kind.shape)))
    return constant(b, kind)


def constant(b: Scope, kind: Shaped) -> str:
    """A constant, of an attribute or a register perhaps."""
    of = element_type(kind.dtype)
    if b.integers and b.chance(0.4) and of.kind != "scale":
        name, most = b.r.choice(b.integers)
        return b.value(kind, b.r.choice([name, f"{name} * 3 - {most}", f"{name} + 1", f"{name} * 0x12345679"]))
    if of.kind == "float":
        return b.value(kind, b.r.choice(FLOATS))
    if of.kind in ("int", "uint"):
        low, high = limits(of.name)
        return b.value(kind, str(b.r.choice([0, 1, 2, 3, high, high // 3, low if of.kind == "int" else high // 2])))
    return b.value(kind, b.r.choice(["0", "1"]) if of.kind == "bool" else b.r.choice(["1", "2", "0.5"]))


def make(b: Scope, kind: Shaped, depth: int) -> str:
    """A tensor of the type, from at most ``depth`` operators one after the other."""
    if depth <= 0 or b.budget <= 0 or (b.chance(0.08) and b.known(kind)):
        return leaf(b, kind)
    for _ in range(6):
        (producer,) = b.r.choices(list(TABLE), list(TABLE.values()))
        # a producer that gives up has asked for nothing
        made = producer(b, kind, depth - 1)
        if made is not None:
            return made
    return leaf(b, kind)


def kinds_of(dtype: str) -> tuple[str, ...]:
    of = element_type(dtype).kind
    return {"int": ("add", "max", "min", "multiply", "and", "or", "xor"), "bool": ("and", "or", "xor"),
            "float": ("add", "add", "max", "min", "multiply")}.get("int" if of == "uint" else of, ())
