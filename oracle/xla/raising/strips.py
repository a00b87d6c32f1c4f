"""Loops cut into strips of as many iterations as a ring has slots, so that each iteration of a strip has one slot.

``(w + c) % 2`` in an address is 0 or 1 by turns: in a strip of two iterations it is a constant in each. A buffer of two
blocks, one of which is worked on while the other is moved, becomes two buffers that are written every other time.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace

from archloom.oracle.affine import Affine, Mod
from archloom.oracle.nests import loops, size, with_forms
from archloom.oracle.resolved import ResolvedInstr, ResolvedLoop, ResolvedNode, ResolvedStream
from archloom.oracle.xla.notation.limits import USUAL, Limits
from archloom.oracle.xla.notation.variables import Strip, strip_copy


def in_strips(stream: ResolvedStream, buffer: str, limits: Limits = USUAL) -> ResolvedStream:
    """The stream with strips for the loops that walk around in rings of ``buffer``; the same stream if none does."""
    periods = _periods(stream.body, buffer, limits.strip_iterations)
    if not periods:
        return stream
    ranges = {loop.var: (0, loop.extent - 1) for loop in loops(stream.body)}
    body = _nodes(stream.body, periods, {}, ranges)
    return replace(stream, body=body) if size(body) <= limits.strip_instructions else stream


def _periods(nodes: tuple[ResolvedNode, ...], buffer: str, most: int) -> dict[str, int]:
    """After how many iterations of a loop, at most ``most``, the slots of the ring repeat, by the loop's variable."""
    found: dict[str, int] = {}
    for node in nodes:
        if isinstance(node, ResolvedLoop):
            parts = _periods(node.body, buffer, most)
        else:
            parts = {}
            for s in node.touching(buffer):
                for name, period in _slot_periods(s.window.offsets[0]):
                    parts[name] = math.lcm(parts.get(name, 1), period)
        for name, period in parts.items():
            found[name] = math.lcm(found.get(name, 1), period)
    return {name: period for name, period in found.items() if 1 < period <= most}


def _slot_periods(form: Affine) -> Iterator[tuple[str, int]]:
    for atom, _ in form.terms:
        if isinstance(atom, Mod) and atom.numerator.is_linear:
            for name, factor in atom.numerator.terms:
                assert isinstance(name, str)
                yield name, atom.divisor // math.gcd(atom.divisor, factor)


def _nodes(
    nodes: tuple[ResolvedNode, ...], periods: Mapping[str, int], known: Mapping[str, Affine],
    ranges: Mapping[str, tuple[int, int]], suffix: str = "",
) -> tuple[ResolvedNode, ...]:
    """The nodes with loops in strips; ``suffix`` keeps the variables of a body's copies apart."""
    found: list[ResolvedNode] = []
    for node in nodes:
        if isinstance(node, ResolvedInstr):
            found.append(with_forms(node, lambda f: f.substitute(known).simplify(ranges)) if known else node)
            continue
        period = periods.get(node.var, 1)
        strips = node.extent // period
        if period == 1:
            name = node.var + suffix
            inner = {**known, node.var: Affine.variable(name)} if suffix else known
            body = _nodes(node.body, periods, inner, {**ranges, name: ranges[node.var]}, suffix)
            found.append(replace(node, var=name, body=body))
            continue

        strip: str = Strip(f"{node.var}{suffix}'")
        first = strips * period if strips > 1 else 0
        copies = [(Affine.variable(strip) * period + i, {strip: (0, strips - 1)}) for i in range(period) if first]
        copies += [(Affine(i), {}) for i in range(first, node.extent)]
        bodies = [
            _nodes(node.body, periods, {**known, node.var: value}, {**ranges, **own}, strip_copy(suffix, i))
            for i, (value, own) in enumerate(copies)]
        if first:
            found.append(ResolvedLoop(strip, strips, tuple(n for body in bodies[:period] for n in body)))
        found += [n for body in bodies[period if first else 0:] for n in body]
    return tuple(found)
