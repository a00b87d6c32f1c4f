"""Producers that call functions, written here or registered, and those of random numbers."""

from __future__ import annotations

from archloom.oracle.resolved import Shaped
from archloom.oracle.taidl.types import element_type
from tests.support.oracle.random_programs.making import make
from tests.support.oracle.random_programs.scope import Scope, fixed

FUNCTION = "random_isas_twist"
"""The name of the registered function that custom_call applies."""


def rng(b: Scope, kind: Shaped, depth: int) -> str | None:
    if element_type(kind.dtype).kind not in ("int", "uint", "bool") and kind.dtype != "f32":
        return None
    more = {"algorithm": b.r.choice(["threefry", "philox"])} if b.chance(0.7) else {}
    return b.op(kind, "rng", make(b, Shaped((2,), "u32"), depth), **more)


def function(b: Scope, inputs: list[Shaped], result: list[Shaped], depth: int) -> str:
    """The name of a new ``def`` from tensors to tensors."""
    inner = Scope(b.r, b.isa, budget=min(b.budget, 3), storage=False, prefix="u")
    given = [inner.define(f"x{i}", kind) for i, kind in enumerate(inputs)]
    names = []
    for i, kind in enumerate(result):
        made = make(inner, kind, depth)
        names.append(f"y{i}")
        inner.emit(f"%y{i}:{kind} = reshape(%{made});")
    b.budget -= 2
    parameters = ", ".join(f"%{n}" for n in (*given, *names))
    return b.isa.define(lambda name: "\n".join([f"def {name}({parameters}) {{", *inner.lines, "}"]))


def call(b: Scope, kind: Shaped, depth: int) -> str | None:
    if not fixed(kind.shape):
        return None
    inputs = [kind, Shaped((2,), b.isa.dtype(b.r, "int", "uint", "float"))][:b.r.randint(1, 2)]
    operands = [make(b, x, depth - i) for i, x in enumerate(inputs)]
    results = [kind, kind][:b.r.randint(1, 2)]
    which = b.r.randrange(len(results))
    more = {"result": which} if which or b.chance(0.3) else {}
    if b.chance(0.5):
        name = function(b, inputs, results, 2)
        return b.op(kind, "call", *operands, function=name, **more)
    then, other = (function(b, inputs, results, 2) for _ in range(2))
    flag = make(b, Shaped((), "i1"), depth)
    return b.op(kind, "conditional", flag, *operands, then=then, else_=other, **more)


def loop(b: Scope, kind: Shaped, depth: int) -> str | None:
    if not fixed(kind.shape):
        return None
    counter = Shaped((), b.r.choice(["i32", "u8", "i16"]))
    name = function(b, [kind, counter], [kind], 2)
    times = b.r.randint(0, 3)

    def body(me: str) -> str:
        return "\n".join([
            f"def {me}(%x, %n, %y, %m) {{", f"    %y:{kind} = call(%x, %n, function={name});",
            f"    %one:{counter} = constant(1);", f"    %m:{counter} = add(%n, %one);", "}"])

    def cond(me: str) -> str:
        return "\n".join([f"def {me}(%x, %n, %go) {{", f"    %end:{counter} = constant({times});",
                          "    %go:i1 = compare(%n, %end, direction=lt);", "}"])

    zero = b.value(counter, "0")
    return b.op(kind, "while", make(b, kind, depth), zero, cond=b.isa.define(cond), body=b.isa.define(body))


def custom(b: Scope, kind: Shaped, depth: int) -> str | None:
    if not kind.shape or element_type(kind.dtype).bits < 8 or element_type(kind.dtype).kind in ("quant", "complex"):
        return None
    return b.op(kind, "custom_call", make(b, kind, depth), function=FUNCTION) if b.chance(0.3) else None
