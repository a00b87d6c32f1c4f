"""Checks of a stream against its ISA that need no execution: names, scopes, the layout of HBM."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from itertools import pairwise

from archloom.oracle.affine import Affine
from archloom.oracle.errors import StreamError, suggest
from archloom.oracle.stream import HbmTensor, Instr, Loop, Node, Parallel, Stream
from archloom.oracle.taidl.isa import Isa
from archloom.oracle.taidl.types import byte_count, named_dtype

LARGEST = 1 << 48
"""Numbers of a stream are smaller, signs aside: no memory has more bytes, and sums of products still fit 64 bits."""


def validate(stream: Stream, isa: Isa) -> None:
    """StreamError for the first thing in ``stream`` that does not fit ``isa``, with its place in the stream.

    Parameters that the stream does not name may have any value.
    """
    check_isa(stream, isa)
    _check_tensors(stream)
    _check_nodes(stream.body, isa, itertools.count(), "", ())


def check_isa(stream: Stream, isa: Isa) -> None:
    """StreamError unless ``isa`` is the one that the stream is for, with the parameters that it names."""
    if stream.isa != isa.name:
        raise StreamError(f"stream {stream.name}: expected ISA {isa.name!r}, found {stream.isa!r}")
    expected = dict(isa.parameters)
    for name, value in stream.parameters:
        if name not in expected:
            raise StreamError(f"stream {stream.name}: unknown parameter {name!r}{suggest(name, list(expected))}")
        if value != expected[name]:
            raise StreamError(
                f"stream {stream.name}: expected parameter {name}={expected[name]} of the ISA, found {value}"
            )


# --- HBM ----------------------------------------------------------------------------------------------------------


def tensor_bytes(tensor: HbmTensor) -> int:
    """Size of an argument or result in bytes; StreamError for a dtype or shape that is none."""
    try:
        named_dtype(tensor.dtype)
    except TypeError:
        raise StreamError(f"tensor {tensor.name!r}: {tensor.dtype!r} is no NumPy dtype") from None
    if any(extent < 0 for extent in tensor.shape):
        raise StreamError(f"tensor {tensor.name!r}: expected extents of at least 0, found {tensor.shape}")
    return byte_count(tensor.shape, tensor.dtype)


def _check_tensors(stream: Stream) -> None:
    if stream.hbm_bytes < 0:
        raise StreamError(f"stream {stream.name}: expected hbm_bytes of at least 0, found {_shown(stream.hbm_bytes)}")
    if stream.hbm_bytes >= LARGEST:
        raise StreamError(f"stream {stream.name}: expected hbm_bytes below {LARGEST}, found "
                          f"{_shown(stream.hbm_bytes)}")
    for what, tensors in (("argument", stream.arguments), ("result", stream.results)):
        seen: set[str] = set()
        placed: list[tuple[int, int, str]] = []
        for t in tensors:
            size = tensor_bytes(t)
            if t.name in seen:
                raise StreamError(f"{what} {t.name!r} is given twice")
            seen.add(t.name)
            if t.address < 0 or t.address + size > stream.hbm_bytes:
                raise StreamError(
                    f"{what} {t.name!r}: expected bytes in 0..{stream.hbm_bytes} (hbm_bytes), "
                    f"found {t.address}..{t.address + size}"
                )
            item = named_dtype(t.dtype).itemsize
            if t.address % item:
                raise StreamError(
                    f"{what} {t.name!r}: expected an address that is a multiple of {item} ({t.dtype}), "
                    f"found {t.address:#x}"
                )
            if size:
                placed.append((t.address, t.address + size, t.name))
        placed.sort()
        for (_, end, a), (start, _, b) in pairwise(placed):
            if start < end:
                raise StreamError(f"{what}s {a!r} and {b!r} overlap in bytes {start}..{end} of HBM")


def _shown(number: int) -> str:
    """A number whose digits Python may refuse to write."""
    return str(number) if number.bit_length() < 1000 else f"one of {number.bit_length()} bits"


# --- the body -----------------------------------------------------------------------------------------------------


def _check_nodes(
    nodes: tuple[Node, ...], isa: Isa, numbers: Iterator[int], path: str, scope: tuple[str, ...]
) -> None:
    for node in nodes:
        if isinstance(node, Instr):
            number = next(numbers)
            if not _is_sound(node, isa, scope):
                _check_instr(node, isa, f"{path}instr {number} {node.mnemonic}", scope)
            continue
        place = f"{path}{'parallel' if isinstance(node, Parallel) else 'loop'} {node.var}"
        if node.var in scope:
            raise StreamError(f"{place}: the variable {node.var!r} is that of an enclosing loop already")
        numbers_of = [node.start, node.stop, node.step] if isinstance(node, Loop) else [node.extent]
        if max(numbers_of) >= LARGEST or min(numbers_of) <= -LARGEST:
            raise StreamError(f"{place}: expected numbers below {LARGEST}, found {_shown(max(map(abs, numbers_of)))}")
        if isinstance(node, Loop) and node.step == 0:
            raise StreamError(f"{place}: expected a step other than 0")
        if isinstance(node, Parallel) and node.extent < 1:
            raise StreamError(f"{place}: expected at least one core, found {node.extent}")
        _check_nodes(node.body, isa, numbers, f"{place} / ", (*scope, node.var))


def _is_sound(instr: Instr, isa: Isa, scope: tuple[str, ...]) -> bool:
    """Whether nothing can be wrong with an instruction, as is so with nearly all; :func:`_check_instr` says what is."""
    known = isa.instructions.get(instr.mnemonic)
    if known is None or len(known.attributes) != len(instr.attributes):
        return False
    for name, (given, value) in zip(known.attributes, instr.attributes):
        if given != name or not (_is_plain(value, scope) if value.terms else -LARGEST < value.constant < LARGEST):
            return False
    return True


def _check_instr(instr: Instr, isa: Isa, place: str, scope: tuple[str, ...]) -> None:
    known = isa.instructions.get(instr.mnemonic)
    if known is None:
        choices = suggest(instr.mnemonic, list(isa.instructions))
        raise StreamError(f"{place}: ISA {isa.name} has no instruction {instr.mnemonic!r}{choices}")
    given = tuple([k for k, _ in instr.attributes])
    if given != known.attributes:
        _check_names(given, known.attributes, place)
    for name, value in instr.attributes:
        if _is_plain(value, scope):
            continue
        if (number := value.largest) >= LARGEST:
            raise StreamError(f"{place}: attribute {name}: expected numbers below {LARGEST}, found {_shown(number)}")
        for v in sorted(value.variables()):
            if v not in scope:
                enclosing = suggest(v, list(scope)) if scope else " (no loop encloses it)"
                raise StreamError(f"{place}: attribute {name} = {value} names {v!r}, "
                                  f"which is the variable of no enclosing loop{enclosing}")


def _is_plain(value: Affine, scope: tuple[str, ...]) -> bool:
    """Whether a value adds multiples of the variables around, or of their quotients and rests, all small, as nearly all
    do."""
    for atom, factor in value.terms:
        if not -LARGEST < factor < LARGEST:
            return False
        if isinstance(atom, str):
            if atom not in scope:
                return False
        elif atom.divisor >= LARGEST or not _is_plain(atom.numerator, scope):
            return False
    return -LARGEST < value.constant < LARGEST


def _check_names(given: tuple[str, ...], expected: tuple[str, ...], place: str) -> None:
    for name in given:
        if name not in expected:
            raise StreamError(f"{place}: unknown attribute {name!r}{suggest(name, list(expected))}")
        if given.count(name) > 1:
            raise StreamError(f"{place}: attribute {name!r} is given twice")
    for name in expected:
        if name not in given:
            raise StreamError(f"{place}: attribute {name!r} is missing (expected {', '.join(expected)})")
