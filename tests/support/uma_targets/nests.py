"""Random nests of small whole numbers, which are exact in float32, and their streams on RISC-V V."""

from __future__ import annotations

import math
from collections.abc import Mapping
from random import Random

import numpy as np

from archloom.mapper.nests import Axis, Code, Fold, Nest, Pass, Store, evaluate
from archloom.oracle import interpreter, taidl
from archloom.oracle.affine import Affine
from archloom.oracle.stream import HbmTensor, Stream, emitted_for
from archloom.uma_targets.kit.vectors import RiscvV, Words, nodes_of

SIZE = 600
"""Words of each tensor."""


def stream_of(nest: Nest, names: tuple[str, ...], unit: RiscvV, most: int = 8, size: int = SIZE,
              types: Mapping[str, str] | None = None, lane: int | None = None) -> Stream:
    """A nest on tensors of so many elements, by default words, the last of which is the result; ``lane``: what is
    spread over lanes, by default what costs least."""
    tensors = [HbmTensor(n, 64 + 4 * size * i, (size,), (types or {}).get(n, "int32")) for i, n in enumerate(names)]
    words = {t.name: Words(Affine(t.address), size) for t in tensors}
    parameters = (("vlen", unit.vlen), ("registers", unit.registers))
    with emitted_for(taidl.load("riscv_v", **dict(parameters))):
        body = nodes_of(nest, words, unit, most, lane)
    return Stream("riscv_v", parameters, tuple(tensors[:-1]), tuple(tensors[-1:]), 64 + 4 * size * len(names),
                  tuple(body))


def interpreted(stream: Stream, words: Mapping[str, np.ndarray]) -> np.ndarray:
    """The result's words."""
    given = {t.name: words[t.name] for t in stream.arguments}
    found: np.ndarray = interpreter.run(stream, taidl.load(stream.isa, **dict(stream.parameters)), given)[
        stream.results[0].name]
    return found


def evaluated(nest: Nest, words: Mapping[str, np.ndarray], result: str) -> np.ndarray:
    """The same by NumPy, and where the nest writes nothing zeros."""
    mine = {name: array.copy() for name, array in words.items()}
    evaluate(nest, mine)
    return mine[result]


def random_words(random: Random, names: tuple[str, ...]) -> dict[str, np.ndarray]:
    """Numbers from -3 to 3, and zeros for the result, the last one."""
    rng = np.random.default_rng(random.randrange(1 << 30))
    found = {n: rng.integers(-3, 4, SIZE).astype(np.float32).view(np.int32) for n in names[:-1]}
    return found | {names[-1]: np.zeros(SIZE, np.int32)}


def random_bytes(random: Random, types: Mapping[str, str]) -> dict[str, np.ndarray]:
    """Any numbers of these types, and zeros for the result, the last one."""
    rng = np.random.default_rng(random.randrange(1 << 30))
    limits = {n: np.iinfo(t) for n, t in types.items()}
    found = {n: rng.integers(of.min, of.max, SIZE, types[n], endpoint=True) for n, of in limits.items()}
    return found | {n: np.zeros(SIZE, t) for n, t in list(types.items())[-1:]}


def random_nest_of_bytes(random: Random, types: Mapping[str, str]) -> Nest:
    """One pass, or one that folds and one behind it, of integers of types in memory, the last of them the result's."""
    axes = tuple(Axis(f"i{k}", random.choice((1, 2, 3, 5, 17))) for k in range(random.randrange(3)))
    inner = tuple(Axis(f"k{k}", random.choice((1, 2, 4, 9))) for k in range(random.randrange(3)))
    *given, out = types
    code, passes = Code(), list[Pass]()
    if random.randrange(2):
        kind = random.choice(("whole_maximum", "whole_minimum"))
        fold = Fold("found", kind, _byte(random, code, given, types, (*axes, *inner)))
        passes, code = [Pass(inner, tuple(code.operations), (), (fold,))], Code()
        inner = ()
        found = [code.held("found")]
    else:
        found = [_byte(random, code, given, types, (*axes, *inner))]
    found.append(code.whole(random.randrange(-200, 300)))
    for _ in range(random.randrange(4)):
        match random.randrange(4):
            case 0:
                found.append(_byte(random, code, given, types, (*axes, *inner)))
            case 1:
                real = code.apply("multiply", code.apply("to_float", random.choice(found)), code.number(
                    random.choice((0.25, -1.5, 3.0))))
                found.append(code.apply(random.choice(("to_whole", "truncated")), real))
            case _:
                found.append(code.apply(random.choice(("whole_add", "whole_minimum", "whole_maximum")),
                                        random.choice(found), random.choice(found)))
    item = "" if types[out] == "int32" else types[out]
    store = Store(out, _dense((*axes, *inner)), random.choice(found), item)
    return Nest(axes, (*passes, Pass(inner, tuple(code.operations), (store,))))


def _byte(random: Random, code: Code, given: list[str], types: Mapping[str, str], axes: tuple[Axis, ...]) -> int:
    of = random.choice(given)
    item = "" if types[of] == "int32" else types[of]
    at = _address(random, axes, ())
    if random.randrange(3):
        return code.load(of, at, item)
    behind = code.apply("whole_and", code.load(given[0], _address(random, axes, ()), types[given[0]]), code.whole(127))
    return code.gather(of, at, behind, item)


BINARY = ("add", "subtract", "multiply", "maximum", "minimum", "with_sign")


def fits(nest: Nest) -> bool:
    """Whether what each pass stores lies within its third."""
    return all(math.prod(a.extent for a in (*nest.axes, *p.axes)) <= SIZE // 3 for p in nest.passes)


def random_nest(random: Random) -> Nest:
    """Up to two axes, and up to three passes of up to two axes each, each of which stores in a third of the result."""
    axes = tuple(Axis(f"i{k}", random.choice((1, 2, 3, 5, 17))) for k in range(random.randrange(3)))
    passes: list[Pass] = []
    held: list[str] = []
    for number in range(random.randrange(1, 4)):
        inner = tuple(Axis(f"k{k}", random.choice((1, 2, 4, 9))) for k in range(random.randrange(3)))
        folds = ("sum", "maximum", "minimum") if number == 0 or inner else ("sum",)
        passes.append(_pass(random, axes, inner, held, f"h{number}", random.choice(folds), number * SIZE // 3))
        held.append(f"h{number}")
    return Nest(axes, tuple(passes))


def _pass(random: Random, axes: tuple[Axis, ...], inner: tuple[Axis, ...], held: list[str], name: str,
          kind: str, first: int) -> Pass:
    code = Code()
    found = [code.number(random.randrange(-2, 3)), code.load("a", _address(random, axes, inner)),
             *(code.held(h) for h in held[-1:])]
    for _ in range(random.randrange(5)):
        match random.randrange(6):
            case 0:
                found.append(code.load(random.choice("ab"), _address(random, axes, inner)))
            case 1:
                a, b, c, d = (random.choice(found) for _ in range(4))
                compared = code.apply(random.choice(("less", "less_equal", "equal")), a, b)
                found.append(code.apply("select", compared, c, d))
            case 2:
                found.append(_small(code, code.apply("multiply_add", *(random.choice(found) for _ in range(3)))))
            case 3:
                found.append(_gathered(random, code, found, axes, inner))
            case 4:
                found.append(code.apply(random.choice(("negate", "abs")), random.choice(found)))
            case _:
                found.append(_small(code, code.apply(
                    random.choice(BINARY), random.choice(found), random.choice(found))))
    store = Store("out", _dense((*axes, *inner)) + first, random.choice(found))
    return Pass(inner, tuple(code.operations), (store,), (Fold(name, kind, random.choice(found)),))


def _small(code: Code, number: int) -> int:
    """Between -8 and 8."""
    return code.apply("maximum", code.apply("minimum", number, code.number(8)), code.number(-8))


def _gathered(random: Random, code: Code, found: list[int], axes: tuple[Axis, ...], inner: tuple[Axis, ...]) -> int:
    words = code.apply("to_whole", code.apply("abs", _small(code, random.choice(found))))
    scaled = code.apply("whole_multiply", words, code.whole(random.randrange(1, 9)))
    return code.gather("b", _address(random, axes, inner), scaled)


def _address(random: Random, axes: tuple[Axis, ...], inner: tuple[Axis, ...]) -> Affine:
    """Within a tensor; some axes do not count, others have strides of their own."""
    at, room = Affine(random.randrange(4)), 400
    for axis in random.sample((*axes, *inner), len(axes) + len(inner)):
        step = random.choice((0, 1, 1, 2, 7))
        if step * (axis.extent - 1) < room:
            room -= step * (axis.extent - 1)
            at = at + Affine.variable(axis.name) * step
    return at if random.randrange(2) or math.prod(a.extent for a in axes) > 500 else _dense((*axes, *inner))


def _dense(axes: tuple[Axis, ...]) -> Affine:
    """Row by row, folded into the tensor where that is too small."""
    at, step = Affine(0), 1
    for axis in reversed(axes):
        at, step = at + Affine.variable(axis.name) * step, step * axis.extent
    return at
