"""Random programs on the interpreter, the raised oracle and the loops.

``python -m tests.support.oracle.random_programs.checks N`` shows program number N and runs it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import jax
import numpy as np

from archloom.oracle import interpreter, taidl
from archloom.oracle.assembly import parse, to_text
from archloom.oracle.errors import ArchloomError
from archloom.oracle.stream import Stream
from archloom.oracle.taidl.isa import Isa
from archloom.oracle.taidl.printer import print_isa
from archloom.oracle.taidl.types import of_numpy
from archloom.oracle.xla import compile_stream
from archloom.oracle.xla.options import compiler_options, jit
from archloom.oracle.xla.oracle import forget
from tests.support.oracle.operator_cases import codes, equal
from tests.support.oracle.random_programs.functions import FUNCTION
from tests.support.oracle.random_programs.isas import RandomIsa, random_isa
from tests.support.oracle.random_programs.kernels import arguments, random_kernel

STREAMS = 5
"""Streams on one ISA: program n is stream n % STREAMS of ISA n // STREAMS."""


RAISED, IN_PART, AS_LOOPS = "raised", "raised in part", "as loops"

Same: TypeAlias = Callable[[np.ndarray, np.ndarray, str], np.ndarray]
"""Where two tensors of a type are the same."""

ALONE = "python -m tests.support.oracle.random_programs.checks"


class Mismatch(AssertionError):
    """The oracle gave other bits than the interpreter."""


@dataclass
class Tally:
    """What was run."""

    programs: set[int] = field(default_factory=set)
    texts: set[str] = field(default_factory=set)
    raised: int = 0
    """How many were raised without a loop left."""
    partly: int = 0
    """How many were raised but for some loops. The others run as loops anyway, and are compared once."""


def built(random: RandomIsa) -> Isa:
    """The ISA by way of its text, the printer and the checker."""
    tree = taidl.parse(random.text)
    printed = taidl.parse(print_isa(tree))
    assert printed == tree, f"ISA {random.seed} does not survive its printing"
    return taidl.instantiate(printed, {})


def check(numbers: Iterable[int], tally: Tally | None = None) -> Tally:
    """Compare programs by their numbers; Mismatch names the first that differs and how to run it alone."""
    taidl.register_function(FUNCTION, numpy=lambda x: x[::-1].copy(), jax=lambda x: x[::-1])
    tally = tally or Tally()
    seed, random, isa = -1, None, None
    for n in numbers:
        if n // STREAMS != seed:
            seed = n // STREAMS
            random = random_isa(seed)
            isa = built(random)
        assert random is not None and isa is not None
        text = random_kernel(random, n % STREAMS)
        try:
            compare(text, isa, n, tally)
        except Mismatch as error:
            raise Mismatch(f"{error}\n  {ALONE} {n}") from None
        except ArchloomError as error:
            raise Mismatch(f"program {n} is refused: {error}\n  {ALONE} {n}") from error
        tally.programs.add(n)
        if len(tally.programs) % 50 == 0:
            jax.clear_caches()  # what was compiled before is not needed again
        tally.texts.add(random.text + text)
    return tally


def compare(text: str, isa: Isa, seed: int, tally: Tally) -> None:
    """Mismatch unless the stream gives the same bits everywhere.

    What is raised, in part or as a whole, is compared a second time as loops.
    """
    stream = parse(text)
    assert to_text(stream) == text
    how = compared(stream, isa, arguments(stream, seed), f"program {seed}")
    tally.raised += how == RAISED
    tally.partly += how == IN_PART


def compared(
    stream: Stream, isa: Isa, given: Mapping[str, np.ndarray], what: str, same: Same = equal
) -> str:
    """Mismatch unless the stream gives what is the ``same`` on the interpreter, raised and as loops; how it was
    raised."""
    want = interpreter.run(stream, isa, given)
    usual = compile_stream(stream, isa)
    some = usual.program.raising is not None
    how = RAISED if usual.raised else IN_PART if some else AS_LOOPS
    judge(stream, want, usual.compile()(*given.values()), f"{what}, {how}", same)
    if some:
        loops = compile_stream(stream, isa, raising=False)
        # XLA takes less time for programs of integers with the options for those without loops
        made = jit(loops.function, compiler_options(loops.program.stream))(*given.values())
        judge(stream, want, made, f"{what}, {AS_LOOPS}", same)
    forget()
    return how


def judge(
    stream: Stream, want: Mapping[str, np.ndarray], results: Sequence[Any], what: str, same: Same = equal
) -> None:
    """Mismatch with the first elements that differ."""
    for tensor, result in zip(stream.results, results, strict=True):
        dtype, value, made = of_numpy(tensor.dtype), want[tensor.name], np.asarray(result)
        wrong = np.flatnonzero(~same(value, made, dtype))
        if wrong.size:
            at, value, made = wrong[:6], value.reshape(-1), made.reshape(-1)
            raise Mismatch(f"{what}: {tensor.name} {dtype} at {at.tolist()} of {value.size}, {wrong.size} in all: "
                           f"interpreter {value[at].tolist()} {[hex(v) for v in codes(value)[at]]}, "
                           f"oracle {made[at].tolist()} {[hex(v) for v in codes(made)[at]]}")


def main(words: list[str]) -> None:
    """Show and run the programs of these numbers."""
    for n in map(int, words):
        random = random_isa(n // STREAMS)
        print(random.text, random_kernel(random, n % STREAMS), sep="\n")
        print(f"program {n}: {check([n])}")


if __name__ == "__main__":
    main(sys.argv[1:])
