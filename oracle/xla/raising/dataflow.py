"""Value-based dataflow: the expression that a read of a buffer sees.

From the place of the read, the program is scanned backwards for the writes that reach it: the same iteration first,
then the last writes of loops before it, then earlier iterations of the enclosing loops, then what was there at the
start. A write that covers the read is substituted, so that scratchpads vanish; accumulating writes on the way are
added up over the loops that their address does not depend on; where a write covers only some of the elements, the
read is split along an axis.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial

from archloom.oracle.affine import Affine
from archloom.oracle.taidl.types import of_numpy
from archloom.oracle.xla.notation import expr, traits
from archloom.oracle.xla.notation.build import byte_of, from_bytes, let_of, zero
from archloom.oracle.xla.notation.expr import Expr, Leaf, Ranges
from archloom.oracle.xla.notation.limits import Exhausted, Unraisable
from archloom.oracle.xla.notation.substitution import substitute
from archloom.oracle.xla.notation.sums import add_of, fold_of, plug, sum_of
from archloom.oracle.xla.notation.variables import axis_range, fresh
from archloom.oracle.xla.raising.cursor import Cursor, Steps, clear_of, last_writer
from archloom.oracle.xla.raising.match import Condition, Digits, Match, match
from archloom.oracle.xla.raising.query import Query, split
from archloom.oracle.xla.raising.recurrences import Recurrence, held
from archloom.oracle.xla.raising.tree import Block, Tree, WriteItem, writes
from archloom.oracle.xla.raising.updates import Update

Value = Callable[[WriteItem], tuple[tuple[str, ...], Expr]]
"""The value of a write (for accumulating ones: what is added) as axes and expression."""


Hit = tuple[WriteItem, tuple[Block, ...], Match]
"""A write, the loops around it and how it hits the elements of a query."""


@dataclass(frozen=True)
class Dataflow:
    """The search for the values of reads in one program."""

    tree: Tree
    value_of: Value
    element: Callable[[WriteItem, tuple[Affine, ...], Mapping[str, Affine], Ranges], Expr]
    """The value of a write at an index, in an iteration: where not all that it writes is known."""
    update_of: Callable[[WriteItem], Update | None]
    reassociate: bool
    steps: Steps
    iteration: "Callable[[Block], Dataflow] | None" = None
    """The search within one iteration of a loop; None where values that loops carry are not looked for."""
    opened: tuple[Block, ...] = ()
    """The loops of which it is a search within one iteration."""

    def at_end(self, query: Query) -> Expr:
        """What the buffer holds when the program has ended."""
        root = self.tree.root
        return self.find(query, Cursor(root, len(root.items), {}))

    def find(self, q: Query, at: Cursor) -> Expr:
        """The value of the query's elements at the cursor, over the query's variables."""
        summands: list[Expr] = []
        spans = [a.range(q.ranges) for a in q.address]
        while True:
            self.steps.take()
            index = last_writer(q, spans, at)
            if index != at.index:
                at = Cursor(at.block, index, at.known, at.after, at.covered, at.clear)
            try:
                result = self._step(q, at, summands)
            except Unraisable as error:
                passed = at.block.items[index - 1] if index else at.block if at.block.parent else None
                raise error.at(passed.owner if isinstance(passed, WriteItem) else passed) from None
            if isinstance(result, Expr):
                for summand in reversed(summands):
                    result = add_of(result, summand, q.ranges)
                return result
            at = result

    def _split(self, q: Query, condition: Condition, at: Cursor) -> Expr:
        """The elements for which a condition holds and the others, each found from the cursor."""
        return split(q, condition, lambda part, names: self.find(
            part, at.renamed(names) if names or part.ranges.keys() == q.ranges.keys() else at.for_others()))

    def _step(self, q: Query, at: Cursor, summands: list[Expr]) -> Expr | Cursor:
        """What the item before the cursor does to the query's elements, or where to go on."""
        if at.index == 0:
            return self._start(q, at)
        item = at.block.items[at.index - 1]
        if isinstance(item, WriteItem):
            return self._write(q, at, item, summands)
        assert isinstance(item, Block)
        return self._loop(q, at, item, summands)

    def _start(self, q: Query, at: Cursor) -> Expr | Cursor:
        loop = at.block
        if loop.parent is None:
            return self.initial(q)
        if at.after is not None:
            if at.covered:
                raise Unraisable(f"a value of {q.buffer} is carried through loop {loop.var}", carried=True)
            return at.after
        before = Cursor(loop.parent, loop.position, at.known)
        if q.buffer not in loop.written:
            return before
        return (self._held if loop in self.opened else self._earlier)(q, at, loop, before)

    def _write(self, q: Query, at: Cursor, item: WriteItem, summands: list[Expr]) -> Expr | Cursor:
        found = match(item.write.window, at.known, {}, q.address, q.ranges)
        if found is None:
            return at.back()
        if found.partial is not None:
            return self._split(q, found.partial, at)
        value = self._instance(item, at.known, found, q)
        if item.write.kind == "write":
            return value
        summands.append(value)
        return at.back()

    def _instance(self, item: WriteItem, known: Mapping[str, Affine], found: Match, q: Query) -> Expr:
        try:
            axes, value = self.value_of(item)
        except Unraisable as error:
            if not error.refusal.carried:
                raise
            return self._element(item, known, found, q, error)
        mapping = {**known, **found.loops}
        mapping.update({axis: found.digits[n] for n, axis in enumerate(axes)})
        if all(self._unchanged(v, mapping, q.ranges) for v in expr.free(value)):
            return value
        return substitute(value, mapping, q.ranges)

    def _element(
        self, item: WriteItem, known: Mapping[str, Affine], found: Match, q: Query, refused: Unraisable
    ) -> Expr:
        """What is written to the query's elements, where a loop hands on others that the write makes; raises
        ``refused`` where these are handed on, too."""
        index = tuple(found.digits[n] for n in range(len(item.write.window.dims)))
        if math.prod(high - low + 1 for low, high in (f.range(q.ranges) for f in index)) == math.prod(
                item.write.window.shape) and all(f.is_linear and len(f.terms) == 1 for f in index):
            raise refused
        try:
            return self.element(item, index, {**known, **found.loops}, q.ranges)
        except Exhausted:
            raise
        except Unraisable:
            raise refused from None

    def _unchanged(self, v: str, mapping: Mapping[str, Affine], ranges: Ranges) -> bool:
        """Whether a variable of a value stands for itself and has its whole range in the query."""
        if v in mapping and mapping[v] != Affine.variable(v):
            return False
        return ranges.get(v) == (axis_range(v) or self.tree.ranges.get(v))

    def _loop(self, q: Query, at: Cursor, loop: Block, summands: list[Expr]) -> Expr | Cursor:
        """A loop before the cursor, all of whose iterations are over."""
        hits: list[Hit] = []
        clear: list[WriteItem] = []
        spans = [a.range(q.ranges) for a in q.address]
        for item, around in writes(loop, q.buffer):
            if item in at.clear:
                continue
            if clear_of(item.write.window, spans):
                clear.append(item)
                continue
            unknown = {inner.var: (0, inner.extent - 1) for inner in around}
            found = match(item.write.window, at.known, unknown, q.address, q.ranges)
            if found is not None:
                hits.append((item, around, found))
            else:
                clear.append(item)
        if not hits:
            return at.back()
        at = at.knowing(clear)
        partial = [found.partial for _, _, found in hits if found.partial is not None]
        if partial:
            best = min(partial, key=Condition.rank)
            return self._split(q, best, at)
        sums = self.reassociate or expr.is_integer(hits[0][0].write.type.dtype)
        if sums and all(item.write.kind == "accumulate" for item, _, _ in hits):
            for item, around, found in hits:
                summands.append(self._accumulated(item, around, found, at, q))
            return at.back()
        places = [found.digits.get(loop.var) for _, _, found in hits]
        if all(place is None for place in places):
            updated = self._updated(q, at, hits)
            if updated is None and self.iteration is not None:
                updated = self._recurring(q, at, loop, self.iteration(loop))
            if updated is not None:
                return updated
        end = Cursor(loop, len(loop.items), at.known, at.back(), clear=at.clear)
        if places[0] is not None and all(place == places[0] for place in places):
            return replace(end, known={**at.known, loop.var: places[0]})
        if all(item.write.kind == "accumulate" for item, _, _ in hits):
            raise Unraisable(f"the order of additions into {q.buffer} by several iterations of loop {loop.var} "
                             "must be kept")
        if any(place is not None for place in places):
            raise Unraisable(f"several iterations of loop {loop.var} write the same elements of {q.buffer}")
        last = {**at.known, loop.var: Affine(loop.extent - 1)}
        return replace(end, known=last, covered=True)

    def _updated(self, q: Query, at: Cursor, hits: list[Hit]) -> Expr | None:
        """What a loop makes of elements of which each of its iterations makes new values of old ones."""
        found = [self.update_of(item) for item, _, _ in hits]
        updates = [u for u in found if u is not None]
        kinds = {(u.word, u.body.dtype) for u in updates}
        if len(updates) != len(hits) or len(kinds) != 1 or not all(traits.carries(u.body) for u in updates):
            return None
        ((word, dtype),) = kinds
        adds = all(u.addend is not None for u in updates)
        loops = {tuple(loop.var for loop in around if loop.var not in match.digits) for _, around, match in hits}
        if not adds and len(loops) != 1:  # else one iteration of these makes all updates, in the order of the text
            return None
        if word == 1:
            return self._chained(q, at, list(zip(hits, updates, strict=True)), adds, {})
        # elements of words: one more variable for the word, and one for the byte in it
        dims = hits[0][0].write.window.dims
        number, axis = len(dims) - 1, dims[-1].axis
        digits = {match.digits[number].simplify(q.ranges) for _, _, match in hits}
        if len(digits) != 1 or any(item.write.window.dims[-1] != dims[-1] for item, _, _ in hits):
            return None
        (digit,) = digits
        place, byte = fresh(), fresh()
        form = (digit // word).simplify(q.ranges)
        ranges = {**q.ranges, place: form.range(q.ranges), byte: (0, word - 1)}
        start = q.address[axis] - digit + Affine.variable(place) * word
        address = tuple(start + Affine.variable(byte) if n == axis else a for n, a in enumerate(q.address))
        old = self.find(Query(q.buffer, tuple(a.simplify(ranges) for a in address), ranges), at.back().for_others())
        inner = {k: v for k, v in ranges.items() if k != byte}
        value = self._chained(replace(q, ranges=inner), at, list(zip(hits, updates, strict=True)), adds,
                              {number: Affine.variable(place)}, from_bytes(byte, old, dtype, inner))
        return byte_of(let_of(((place, form),), value, q.ranges), (digit % word).simplify(q.ranges))

    def _recurring(self, q: Query, at: Cursor, loop: Block, iteration: "Dataflow") -> Expr | None:
        """What a loop makes of elements that each of its iterations finds and changes, by several instructions."""
        own = fresh()
        inner = {**q.ranges, own: (0, loop.extent - 1)}
        known = {**at.known, loop.var: Affine.variable(own)}
        try:
            value = iteration.find(replace(q, ranges=inner), Cursor(loop, len(loop.items), known))
        except Exhausted:
            raise
        except Unraisable:
            return None
        shape = self.tree.stream.buffer(q.buffer).shape
        made = Recurrence(loop.var, q, shape, own, loop.extent, lambda start: self.find(start, at.back().for_others()))
        return made.after(value) if made.mentions(value) else None

    def _chained(
        self, q: Query, at: Cursor, parts: list[tuple[Hit, Update]], adds: bool, places: Digits,
        start: Expr | None = None,
    ) -> Expr:
        """The start (by default what the query finds before the loop) with all updates, in the order of the stream."""
        value = self.find(q, at.back()) if start is None else start
        body: Expr | None = None
        variables: expr.Variables = ()
        for (_, around, hit), update in parts:
            own = {loop.var: (fresh(), loop.extent) for loop in around if loop.var not in hit.digits}
            if not adds and body is not None:
                names = (name for name, _ in variables)
                own = {var: (name, extent) for (var, (_, extent)), name in zip(own.items(), names, strict=True)}
            digits: Digits = {**hit.digits, **places}
            mapping = {**at.known, **hit.loops}
            mapping.update({var: Affine.variable(name) for var, (name, _) in own.items()})
            mapping.update({axis: digits[n] for n, axis in enumerate(update.axes)})
            variables = tuple(own.values())
            ranges = expr.over(variables, q.ranges)
            if adds:
                assert update.addend is not None
                value = add_of(value, sum_of(variables, substitute(update.addend, mapping, ranges), q.ranges), q.ranges)
            else:
                step = substitute(update.body, mapping, ranges)
                body = step if body is None else plug(step, body, ranges)
        return value if body is None else fold_of(variables, value, body, q.ranges)

    def _accumulated(self, item: WriteItem, around: tuple[Block, ...], found: Match, at: Cursor, q: Query) -> Expr:
        """What a write adds in all iterations of the loops around it that its address does not depend on."""
        own = {loop.var: (fresh(), loop.extent) for loop in around if loop.var not in found.digits}
        known = {**at.known, **{var: Affine.variable(name) for var, (name, _) in own.items()}}
        inner = replace(q, ranges=expr.over(tuple(own.values()), q.ranges))
        value = self._instance(item, known, found, inner)
        if own and not expr.is_integer(value.dtype) and not self.reassociate:
            raise Unraisable(f"the order of floating-point additions into {q.buffer} must be kept")
        return sum_of(tuple(own.values()), value, q.ranges)

    def _earlier(self, q: Query, at: Cursor, loop: Block, before: Cursor) -> Expr | Cursor:
        """Iterations of an enclosing loop before the reader's own."""
        now = at.known.get(loop.var, Affine.variable(loop.var))
        hits: list[tuple[WriteItem, Affine | None]] = []
        for item, place, condition in self._hits_before(q, at, loop, now):
            if condition is not None:
                return self._split(q, condition, at)
            hits.append((item, place))
        if not hits:
            return before
        places = [place.simplify(q.ranges) for _, place in hits if place is not None]
        if all(item.write.kind == "write" for item, _ in hits) and len(places) == len(hits) and len(set(places)) == 1:
            # one iteration alone wrote them
            distance = (places[0] - now).simplify(q.ranges)
            low, high = distance.range(q.ranges)
            if high >= 0:
                past = Condition(distance, low, -1)
                return self._split(q, past, at)
            return Cursor(loop, len(loop.items), {**at.known, loop.var: places[0]}, before)
        kinds = {item.write.kind for item, _ in hits}
        if "write" not in kinds or any(place is not None for _, place in hits):
            raise Unraisable(
                f"loop {loop.var} carries values of {q.buffer} from one iteration to another", carried=True)
        low, high = now.range(q.ranges)
        if high == 0:
            return before
        if low == 0:
            return self._split(q, Condition(now, 1, high), at)
        end = Cursor(loop, len(loop.items), {**at.known, loop.var: now - 1}, before, covered=True)
        return end

    def _hits_before(
        self, q: Query, at: Cursor, loop: Block, now: Affine
    ) -> Iterator[tuple[WriteItem, Affine | None, Condition | None]]:
        """The writes of the query's elements in iterations of a loop before ``now``: the iteration, where there is only
        one, and what holds for those elements that are written."""
        spans = [a.range(q.ranges) for a in q.address]
        for item, around in writes(loop, q.buffer):
            if clear_of(item.write.window, spans):
                continue
            renamed = {inner.var: fresh() for inner in around}
            names = {k: Affine.variable(v) for k, v in renamed.items()}
            window = item.write.window.with_offsets(partial(Affine.substitute, values=names))
            unknown = {renamed[inner.var]: (0, inner.extent - 1) for inner in around}
            found = match(window, at.known, unknown, q.address, q.ranges)
            if found is None:
                continue
            place = found.digits.get(renamed[loop.var])
            if place is None or (place - now).simplify(q.ranges).range(q.ranges)[0] < 0:
                yield item, place, found.partial

    def _held(self, q: Query, at: Cursor, loop: Block, before: Cursor) -> Expr | Cursor:
        """What an iteration that is taken by itself finds; what was there before the loop, if no other writes it."""
        try:
            written = any(self._hits_before(q, at, loop, at.known.get(loop.var, Affine.variable(loop.var))))
        except Unraisable:  # perhaps: what it finds is right in any case
            written = True
        buffer = self.tree.stream.buffer(q.buffer)
        return held(loop.var, q, buffer.shape, buffer.dtype) if written else before

    def initial(self, q: Query) -> Expr:
        """The contents at the start: arguments in HBM, zeros everywhere else."""
        if q.buffer != "hbm":
            return zero(self.tree.stream.buffer(q.buffer).dtype)
        address = q.address[0]
        low, high = address.range(q.ranges)
        for tensor in self.tree.stream.arguments:
            size = expr.width(of_numpy(tensor.dtype)) * math.prod(tensor.shape)
            first, last = tensor.address, tensor.address + size - 1
            if high < first or low > last:
                continue
            if low < first or high > last:
                return split(q, Condition(address, first, last), lambda part, _: self.initial(part))
            return _argument(tensor.name, of_numpy(tensor.dtype), address - first, q.ranges)
        return expr.Const(0, "i8")


def _argument(name: str, dtype: str, byte: Affine, ranges: Ranges) -> Expr:
    size = expr.width(dtype)
    if size == 1:
        leaf: Expr = Leaf(name, byte.simplify(ranges), dtype)
        return leaf if dtype == "i8" else byte_of(leaf, Affine(0))
    return byte_of(Leaf(name, (byte // size).simplify(ranges), dtype), (byte % size).simplify(ranges))
