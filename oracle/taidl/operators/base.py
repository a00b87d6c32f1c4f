"""What an operator of TAIDL is: a row of the table, with its type rule, its NumPy kernel and its JAX lowering.

A rule sees the declared result type and the operands' types and returns what is wrong, or None. A dimension is an
integer, or the text of an expression whose value is not known yet; what depends on an unknown one passes, and is
judged when the instruction is resolved or run, by the same rule.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, Protocol, TypeAlias, Union

from archloom.oracle.resolved import Dim, Shaped, TensorType
from archloom.oracle.taidl.operators import carriers, numbers
from archloom.oracle.taidl.types import element_type, is_open


class Region(Protocol):
    """The body of a ``def`` as the value of an attribute: a function of tensors.

    ``outputs`` gives the types that it computes from those of its inputs, or raises the error of who made it. Kernels
    and lowerings are given what computes, called with arrays (NumPy's or JAX's).
    """

    @property
    def name(self) -> str: ...

    def outputs(self, inputs: Sequence[Shaped]) -> tuple[Shaped, ...]: ...


AttributeValue: TypeAlias = Union[int, float, str, tuple[Dim, ...], Region]
Attributes: TypeAlias = Mapping[str, AttributeValue]
Values: TypeAlias = Mapping[str, Any]
"""Attributes whose integers are known, as kernels take them."""
Rule: TypeAlias = Callable[[Shaped, Sequence[Shaped], Attributes], Union[str, None]]
Compute: TypeAlias = Callable[[TensorType, Sequence[Any], Values, Sequence[str]], Any]
"""Type of the result, operands, attributes, the operands' element types → the result. All was accepted by the rule
before. An element-wise one for JAX also takes a result shape of () and operands that broadcast."""

Family: TypeAlias = Literal["creation", "elementwise", "layout", "contraction", "reduction", "opaque"]


@dataclass(frozen=True)
class Attribute:
    """An attribute of an operator; ``default`` None makes it required.

    A ``word`` is one of ``words``, a ``name`` any name, a ``function`` the name of a ``def``. ``spelled`` are other
    names that the text may use.
    """

    name: str
    kind: Literal["integer", "integers", "number", "word", "name", "function"]
    words: tuple[str, ...] = ()
    default: AttributeValue | None = None
    spelled: tuple[str, ...] = ()


@dataclass(frozen=True)
class Opcode:
    """A row of the table of operators.

    ``operands`` counts the tensors (None: ``least`` or more); ``value`` marks an operator of a value, not of tensors.
    ``family`` says how streams are raised: what is ``elementwise`` becomes a map of elements, what is ``opaque`` has
    no index notation and is computed as whole tensors. ``kernel`` computes in NumPy; ``lowering`` in JAX, on operands
    as JAX holds them (:mod:`archloom.oracle.taidl.operators.carriers`). ``spelled`` are XLA's other names of it.
    """

    name: str
    operands: int | None
    rule: Rule
    kernel: Compute
    lowering: Compute
    family: Family
    doc: str
    attributes: tuple[Attribute, ...] = ()
    value: bool = False
    least: int = 1
    spelled: tuple[str, ...] = ()

    @property
    def arity(self) -> str:
        """How many tensors it takes, in words."""
        if self.value:
            return "a value"
        return f"{('any number of', 'one or more', 'two or more')[self.least]}" if self.operands is None else str(
            self.operands)


def in_both(f: Callable[[Any, TensorType, Sequence[Any], Any, Sequence[str]], Any]) -> tuple[Compute, Compute]:
    """Kernel and lowering of what is said alike for both: ``f(numbers or carriers, result, operands, ...)``.

    The two modules have functions of the same names; their ``xp`` is NumPy or JAX's.
    """
    return partial(f, numbers), partial(f, carriers)


# --- for rules ----------------------------------------------------------------------------------------------------


def is_kind(dtype: str, *kinds: str) -> bool:
    return element_type(dtype).kind in kinds


def differ(a: Dim, b: Dim) -> bool:
    """Whether two dimensions are known and not equal."""
    return isinstance(a, int) and isinstance(b, int) and a != b


def shapes_differ(a: Sequence[Dim], b: Sequence[Dim]) -> bool:
    """Whether two shapes cannot be equal."""
    return len(a) != len(b) or any(differ(x, y) for x, y in zip(a, b, strict=True))


def types_differ(a: Shaped, b: Shaped) -> bool:
    """Whether two types cannot be equal."""
    return dtypes_differ(a.dtype, b.dtype) or shapes_differ(a.shape, b.shape)


def dtypes_differ(a: str, b: str) -> bool:
    """Whether two element types are known and not equal; of one whose width is open, its letter is known."""
    return a[:1] != b[:1] if is_open(a) or is_open(b) else a != b


def wrong(result: Shaped, shape: Sequence[Dim], dtype: str) -> str | None:
    """The complaint if the declared type is not the one computed."""
    found = Shaped(tuple(shape), dtype)
    return f"is declared {result} but {{}} gives {found}" if types_differ(result, found) else None


def integers(a: Attributes, name: str) -> tuple[Dim, ...]:
    value = a[name]
    assert isinstance(value, tuple)
    return value


def known(a: Attributes, name: str) -> int:
    """The value of an integer that was found to be known."""
    value = a[name]
    assert isinstance(value, int)
    return value


def axis_fault(axis: object, rank: int) -> str | None:
    """What is wrong with an axis of a tensor of that rank."""
    if isinstance(axis, int) and 0 <= axis < rank:
        return None
    return f"axis {axis} is not one of the {rank} axes 0..{rank - 1}"


def axes_fault(axes: Sequence[object], rank: int) -> str | None:
    """What is wrong with axes that must be different ones of a tensor of that rank."""
    if len(set(axes)) != len(axes):
        return f"an axis is named twice in {show(axes)}"
    return next(filter(None, (axis_fault(i, rank) for i in axes)), None)


def show(items: Sequence[object]) -> str:
    """A list as it is written in TAIDL."""
    return "{" + ", ".join(map(str, items)) + "}"


def ints(name: str, default: tuple[Dim, ...] | None = None, *spelled: str) -> Attribute:
    """A list of integers as an attribute; () stands for one's own default where ``default`` is ()."""
    return Attribute(name, "integers", default=default, spelled=spelled)


def integer(name: str, default: int | None = None, *spelled: str) -> Attribute:
    return Attribute(name, "integer", default=default, spelled=spelled)


def flag(name: str, default: int | None = None) -> Attribute:
    """A truth as an attribute: 0 or 1."""
    return Attribute(name, "integer", default=default)


def flags_fault(a: Attributes, *names: str) -> str | None:
    """What is wrong with truths."""
    for name in names:
        if isinstance(a[name], int) and a[name] not in (0, 1):
            return f"{name} must be 0 or 1, found {a[name]}"
    return None


# --- rules that many rows share -----------------------------------------------------------------------------------


def same_type(kinds: tuple[str, ...], widest: int = 128, gives: str | None = None) -> Rule:
    """Operands of one type (quantized ones of one shape), of the kinds and at most so many bits if floating-point.

    The result is of their type, or of that which ``gives`` names; "part" is that of the parts of complex numbers.
    """

    def rule(result: Shaped, operands: Sequence[Shaped], a: Attributes) -> str | None:
        first = operands[0]
        mixed = "quant" in kinds and all(is_kind(x.dtype, "quant") for x in (result, *operands))
        for x in operands:
            if (x.dtype != first.dtype and not mixed) or shapes_differ(x.shape, first.shape):
                return f"{{}} needs operands of one type, found {' and '.join(map(str, operands))}"
        kind = element_type(first.dtype)
        if kind.kind not in kinds or (kind.kind == "float" and kind.bits > widest):
            return f"{{}} is not defined for {first.dtype}"
        same = result.dtype if mixed else first.dtype
        return wrong(result, first.shape, (kind.part or same) if gives == "part" else gives or same)

    return rule


def chosen(result: Shaped, types: Sequence[Shaped], a: Attributes, name: str = "{}") -> str | None:
    """What is wrong with the declared type of the output number ``result`` of an operator or function of that name."""
    which = a["result"]
    if not isinstance(which, int):
        return None
    if not 0 <= which < len(types):
        return f"result must be in 0..{len(types) - 1}, the outputs of {name}, found {which}"
    return f"is declared {result} but {name} gives {types[which]}" if types_differ(result, types[which]) else None
