"""LLVM code as it is written: values, blocks, local variables, and what all modules begin with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

Kind: TypeAlias = Literal["i64", "i1", "words", "constants", "array"]
"""Integer, truth value, pointer to words, pointer to words that never change, array with its length."""

TYPES = {"i64": "i64", "i1": "i1", "words": "ptr", "constants": "ptr", "array": "ptr"}

BEGIN = """
declare i64 @llvm.smin.i64(i64, i64)
declare i64 @llvm.smax.i64(i64, i64)
declare i64 @llvm.cttz.i64(i64, i1)
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
!0 = !{}
; rounded down as in Python; by 0: 0
define internal i64 @quotient(i64 %a, i64 %b) alwaysinline nounwind {
  %never = icmp eq i64 %b, 0
  %by = select i1 %never, i64 1, i64 %b
  %q = sdiv i64 %a, %by
  %back = mul i64 %q, %by
  %rest = sub i64 %a, %back
  %uneven = icmp ne i64 %rest, 0
  %signs = xor i64 %rest, %by
  %differ = icmp slt i64 %signs, 0
  %lower = and i1 %uneven, %differ
  %one = sext i1 %lower to i64
  %floor = add i64 %q, %one
  %found = select i1 %never, i64 0, i64 %floor
  ret i64 %found
}
define internal i64 @remainder(i64 %a, i64 %b) alwaysinline nounwind {
  %never = icmp eq i64 %b, 0
  %by = select i1 %never, i64 1, i64 %b
  %rest = srem i64 %a, %by
  %uneven = icmp ne i64 %rest, 0
  %signs = xor i64 %rest, %by
  %differ = icmp slt i64 %signs, 0
  %lower = and i1 %uneven, %differ
  %more = select i1 %lower, i64 %by, i64 0
  %found = add i64 %rest, %more
  ret i64 %found
}
"""


@dataclass(frozen=True)
class Value:
    """What LLVM computes, ``text`` being its name or a number; ``length`` of an array."""

    kind: Kind
    text: str
    length: str = ""

    @property
    def typed(self) -> str:
        return f"{TYPES[self.kind]} {self.text}"


def result_type(kinds: Sequence[Kind]) -> str:
    """Of a function with such results; more than one are a structure."""
    types = [TYPES[kind] for kind in kinds]
    return "void" if not types else types[0] if len(types) == 1 else f"{{{', '.join(types)}}}"


class Writer:
    """The blocks of a function, one after the other.

    ``block`` is the label of the present one, ``open`` whether what is written next can be reached, ``variables`` the
    kinds of local ones, which lie in memory: LLVM takes them into registers.
    """

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.variables: dict[str, Kind] = {}
        self.block, self.open = "entry", True
        self._reached: set[str] = set()
        self._count = 0

    def text(self) -> list[str]:
        """The function's body."""
        rooms = [f"  %l.{name} = alloca {TYPES[kind]}" for name, kind in self.variables.items()]
        return ["entry:", *rooms, *self.lines]

    def fresh(self, what: str) -> str:
        """A name that no other has."""
        self._count += 1
        return f"{what}{self._count}"

    def labels(self, count: int) -> list[str]:
        return [self.fresh("b") for _ in range(count)]

    def do(self, line: str) -> None:
        self.lines.append(f"  {line}")

    def value(self, kind: Kind, code: str) -> Value:
        name = self.fresh("%v")
        self.do(f"{name} = {code}")
        return Value(kind, name)

    def begin(self, label: str) -> None:
        self.lines.append(f"{label}:")
        self.block, self.open = label, True

    def go_on(self, label: str) -> None:
        """Begin what follows, if anything leads there."""
        if label in self._reached:
            self.begin(label)

    def jump(self, label: str) -> None:
        if self.open:
            self.do(f"br label %{label}")
            self._reached.add(label)
        self.open = False

    def branch(self, condition: Value, yes: str, no: str) -> None:
        self.do(f"br i1 {condition.text}, label %{yes}, label %{no}")
        self._reached |= {yes, no}
        self.open = False

    def leave(self, values: Sequence[Value]) -> None:
        """Return values; more than one as a structure."""
        kind = result_type([value.kind for value in values])
        whole = values[0].text if len(values) == 1 else "poison"
        for i, value in enumerate(values if len(values) > 1 else ()):
            whole = self.value(value.kind, f"insertvalue {kind} {whole}, {value.typed}, {i}").text
        self.do(f"ret {kind} {whole}" if values else "ret void")
        self.open = False

    def load(self, name: str) -> Value:
        kind = self.variables[name]
        return self.value(kind, f"load {TYPES[kind]}, ptr %l.{name}")

    def store(self, name: str, value: Value) -> bool:
        """Assign to a local variable; False where that is of another kind."""
        self.do(f"store {value.typed}, ptr %l.{name}")
        return self.variables.setdefault(name, value.kind) == value.kind
