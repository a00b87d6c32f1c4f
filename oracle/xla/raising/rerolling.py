"""Long instructions as loops: what a REPEAT of the ISA, unrolled by the resolution, was before.

An instruction of thousands of statements (the paper's Figure 11 has a body of 16 x 16 x 16 iterations) would take
minutes to compile statement by statement. Its statements fall into segments that no tensor connects; segments that are
alike but for the constants in their windows become loops again by :mod:`archloom.oracle.rolling`, raised as any other
loop.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import count

from archloom.oracle import resolved
from archloom.oracle.affine import Affine
from archloom.oracle.nests import instructions, loops, rewritten, with_window
from archloom.oracle.resolved import Op, Read, ResolvedInstr, ResolvedNode, Statement, Write
from archloom.oracle.rolling import roll
from archloom.oracle.stream import Instr, Loop, Node, Stream
from archloom.oracle.xla.notation.limits import USUAL, Limits


def with_loops(stream: resolved.ResolvedStream, limits: Limits = USUAL) -> resolved.ResolvedStream:
    """The stream with the repetitions within its long instructions as loops; itself where there are none."""
    if not any(len(i.statements) >= limits.rerolled_from for i in instructions(stream.body)):
        return stream
    repeats = _Repeats(limits.rerolled_from, {loop.var for loop in loops(stream.body)})
    return replace(stream, body=rewritten(stream.body, repeats.instruction))


@dataclass
class _Repeats:
    long: int
    """From how many statements on an instruction is looked at."""
    taken: set[str]
    """The variables of all loops."""
    kinds: dict[object, str] = field(default_factory=dict)
    """A mnemonic for each kind of segment: all of it but its constants."""
    segments: dict[str, tuple[Statement, ...]] = field(default_factory=dict)
    """A segment of each kind."""

    def instruction(self, instr: ResolvedInstr) -> Iterator[ResolvedNode]:
        if len(instr.statements) < self.long:
            yield instr
            return
        body = tuple(self.coded(_renamed(segment)) for segment in _segments(instr.statements))
        rolled = roll(Stream("segments", (), (), (), 0, body, ""))
        if rolled.body == body:
            yield instr
            return
        yield from self.decoded(rolled.body, instr, {})

    def coded(self, segment: tuple[Statement, ...]) -> Instr:
        """A segment as an instruction whose attributes are its constants."""
        constants: list[int] = []

        def without(form: Affine) -> Affine:
            constants.append(form.constant)
            return form - form.constant

        bare = _with_forms(segment, without)
        name = self.kinds.setdefault(bare, f"s{len(self.kinds)}")
        self.segments[name] = bare
        return Instr(name, tuple((f"c{n}", Affine(c)) for n, c in enumerate(constants)))

    def decoded(self, nodes: Sequence[Node], instr: ResolvedInstr, names: dict[str, Affine]) -> Iterator[ResolvedNode]:
        for node in nodes:
            if isinstance(node, Instr):
                constants = iter([value.substitute(names) for _, value in node.attributes])
                yield replace(instr, statements=_with_constants(self.segments[node.mnemonic], constants))
            else:
                assert isinstance(node, Loop)
                var = next(name for n in count(1) if (name := f"repeat{n}") not in self.taken)
                self.taken.add(var)
                inner = tuple(self.decoded(node.body, instr, {**names, node.var: Affine.variable(var)}))
                yield resolved.ResolvedLoop(var, node.extent, inner)


def _segments(statements: Sequence[Statement]) -> Iterator[tuple[Statement, ...]]:
    """The statements, cut wherever no tensor that is defined before is used after."""
    last = {name: n for n, s in enumerate(statements) for name in _used(s)}
    start = until = 0
    for n, s in enumerate(statements):
        if not isinstance(s, Write):
            until = max(until, last.get(s.dst, n))
        if n >= until:
            yield tuple(statements[start:n + 1])
            start = n + 1


def _used(s: Statement) -> tuple[str, ...]:
    if isinstance(s, Write):
        return (s.src,)
    return s.operands if isinstance(s, Op) else ()


def _renamed(segment: tuple[Statement, ...]) -> tuple[Statement, ...]:
    """The segment with its tensors numbered, so that equal segments have equal names."""
    names: dict[str, str] = {}
    made: list[Statement] = []
    for s in segment:
        if isinstance(s, Write):
            made.append(replace(s, src=names[s.src]))
            continue
        operands = tuple(names[o] for o in _used(s))
        names[s.dst] = f"t{len(names)}"
        made.append(replace(s, dst=names[s.dst], operands=operands) if isinstance(s, Op) else replace(
            s, dst=names[s.dst]))
    return tuple(made)


def _with_constants(segment: Sequence[Statement], constants: Iterator[Affine]) -> tuple[Statement, ...]:
    return _with_forms(segment, lambda form: form + next(constants))


def _with_forms(segment: Sequence[Statement], form: Callable[[Affine], Affine]) -> tuple[Statement, ...]:
    """The segment with ``form`` of the places of windows and of the values of the operator ``constant``, in order."""
    made: list[Statement] = []
    for s in segment:
        if isinstance(s, Read | Write):
            made.append(with_window(s, lambda s: s.window.with_offsets(form)))
            continue
        value = s.attribute("value")
        if s.opcode == "constant" and isinstance(value, int | Affine) and not isinstance(value, bool):
            total = form(Affine.of(value))
            changed: int | Affine = total if total.terms else total.constant
            attributes = tuple((k, changed if k == "value" else v) for k, v in s.attributes)
            made.append(replace(s, attributes=attributes))
        else:
            made.append(s)
    return tuple(made)
