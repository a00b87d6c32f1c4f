"""The loop of a search: a sampler proposes, bounds sort out, workers measure, the store keeps.

A trial that was asked for is a candidate. One that the store knows is told to the sampler at once: so a search goes on
that was ended, and with one worker it goes on as if it had not been. Of the others bounds are found first. The most
promising is measured first; one that the front dominates already by its bounds alone, or whose bounds break a
constraint, is not measured at all. Before others are measured they are bounded again by what is known of their layers
by then, where the sampler does not learn from that: what is known depends on more than the seed.
"""

from __future__ import annotations

import heapq
import math
import time
from collections.abc import Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import dataclass, field, replace

from archloom.mapper.cache import key_of
from archloom.oracle.errors import ArchloomError, counted
from archloom.tvm_backend.estimate.many import WorkerEnded
from archloom.tvm_backend.progress import Progress
from archloom.tvm_backend.search import evaluate
from archloom.tvm_backend.search.candidate import Candidate
from archloom.tvm_backend.search.evaluate import Answer, Context, Question, packed
from archloom.tvm_backend.search.objectives import Aims, Constraint, Missing, Objective
from archloom.tvm_backend.search.samplers import Sampler, Told
from archloom.tvm_backend.search.space import Space
from archloom.tvm_backend.search.spent import Spent
from archloom.tvm_backend.search.store import Row, State, Store
from archloom.tvm_backend.search.study import Study
from archloom.tvm_backend.search.trials import Trial
from archloom.tvm_backend.search.workers import Workers
from archloom.tvm_backend.targets.choice import names_of
from archloom.tvm_backend.targets.registry import located

TRIES = 2
"""How often a candidate is begun whose process ends under it."""
SHOWN_SECONDS = 0.5
"""After which progress is told again."""
VOLUME_SHARE = 0.02
"""Of a search's time that goes into hypervolumes for its progress."""
LOOKS = 256
"""Candidates of which no more is known than their bounds said before no more of them are looked up; one of which there
is more pays for as many. A free choice."""
_FUNCTIONS = {
    "bounds": (evaluate.bounds_of, evaluate.unpacked_bounds),
    "known": (evaluate.known_bounds_of, evaluate.unpacked_known_bounds),
    "figures": (evaluate.figures_of, evaluate.unpacked_figures)}
"""What finds them, in this process and in others."""


@dataclass(eq=False)
class _Entry:
    """A candidate that is not done, with the trials that asked for it. ``least`` and ``least_violations`` are what its
    bounds say, in ``found``; empty where they were not asked for."""

    number: int
    trials: list[Trial]
    candidate: Candidate
    found: Answer = field(default_factory=Answer)
    least: tuple[float, ...] = ()
    least_violations: tuple[float, ...] = ()
    tries: int = 0

    def __lt__(self, other: "_Entry") -> bool:
        return self._rank < other._rank

    @property
    def _rank(self) -> tuple[float, int]:
        """The most promising first: by how many times the bounds of all objectives together are less."""
        return sum(map(_magnitude, self.least)), self.number


def _magnitude(value: float) -> float:
    """Grows with a value, by as much where that is multiplied by as much; 0 where nothing is known."""
    return math.copysign(1, value) * math.log(abs(value)) if value and math.isfinite(value) else 0.0


@dataclass(eq=False)
class Run:
    """``trials`` of ``space``, or all that the sampler has; ``use_bounds``: leave out what bounds rule out; ``study``:
    is told of each candidate that is done, too."""

    space: Space
    aims: Aims
    sampler: Sampler
    store: Store
    workers: Workers
    context: Context
    trials: int | None = None
    use_bounds: bool = True
    progress: Progress | None = None
    study: Study | None = None
    spent: Spent = field(default_factory=Spent)

    def __post_init__(self) -> None:
        self.front = self.store.front([o.sign for o in self.aims.objectives])
        # what no other candidate is looked up from need not be kept
        self.context = replace(self.context, notes=self.use_bounds and not self.sampler.learns)
        self._packed_context = b"" if self.workers.here else packed(self.context)
        self.spent.one_by_one = self.sampler.ahead is None
        self._asked = 0
        self._open: dict[str, _Entry] = {}
        self._bounding: dict[Future[Answer], _Entry] = {}
        self._ready: list[_Entry] = []
        self._looking: dict[Future[Answer], _Entry] = {}
        self._looks = LOOKS
        self._measuring: dict[Future[Answer], _Entry] = {}
        self._begun = self._shown = time.monotonic()
        self._volume, self._volume_due = 0.0, 0.0

    def go(self) -> None:
        """Until the sampler, or the trials, are at their end."""
        while self._ask_more():
            self._measure()
            self._settle()
            self._show()

    # --- trials ---------------------------------------------------------------------------------------------------
    def _ask_more(self) -> bool:
        """Ask for as many trials as may be under way; whether there is anything left to do.

        What is asked for together is done together, whatever is known of it: so that the next ones, and what is tried
        of them, do not depend on where a search was ended.
        """
        ahead = self.sampler.ahead
        if ahead is None:
            while len(self._open) < self.workers.count and self._ask():
                pass
        elif not self._open:
            for _ in range(ahead):
                if not self._ask():
                    break
        return bool(self._open) or not (self.sampler.is_done or self._asked == self.trials)

    def _ask(self) -> bool:
        """Begin with one more trial; whether there was one."""
        if self._asked == self.trials:
            return False
        with self.spent.at("sampler"):
            trial = self.sampler.ask()
        if trial is not None:
            self._asked += 1
            self._take(trial)
        return trial is not None

    def _take(self, trial: Trial) -> None:
        """Begin with the candidate of a trial, unless it is known."""
        try:
            with self.spent.at("sampler"):  # Optuna's find values when they are asked for them
                candidate = self.space.candidate(trial)
            key = candidate.key
        except ArchloomError as error:
            self._refuse(trial, str(error))
            return
        if (row := self.store.get(key)) is not None:
            self.spent.known += 1
            self._tell(trial, row)
        elif key in self._open:
            self._open[key].trials.append(trial)
        else:
            entry = self._open[key] = _Entry(self._asked, [trial], candidate)
            if self._has_bounds(candidate):
                self._begin(entry, self._bounding)
            else:
                heapq.heappush(self._ready, entry)

    def _has_bounds(self, candidate: Candidate) -> bool:
        """Whether bounds may rule a candidate out: they say something of a constraint, or of all objectives."""
        def known(aim: Objective | Constraint) -> bool:
            return evaluate.is_bounded(self.context, candidate, aim.name)

        return self.use_bounds and (any(map(known, self.aims.constraints)) or all(map(known, self.aims.objectives)))

    def _refuse(self, trial: Trial, error: str) -> None:
        """A trial of which the space makes no candidate."""
        key = key_of(["no candidate", repr(sorted(trial.params.items()))])
        row = self.store.get(key)
        if row is None:
            row = Row(key, "failed", dict(trial.params), {}, error=error)
            self._keep(row)
        self._tell(trial, row)

    def _tell(self, trial: Trial, row: Row) -> None:
        """A row of which bounds do not say everything says as little as one that failed."""
        violations = tuple(v for v in row.violations if v is not None)
        is_known = row.state != "failed" and None not in row.values and len(violations) == len(row.violations)
        told = Told(self._turned(row.values), violations) if is_known else None
        with self.spent.at("sampler"):
            self.sampler.tell(trial, told)
        if self.study is not None:
            with self.spent.at("study"):
                self.study.add(trial, row)

    def _turned(self, values: Sequence[float | None]) -> tuple[float, ...]:
        """Values as users know them so that less is better."""
        return tuple(o.sign * value for o, value in zip(self.aims.objectives, values) if value is not None)

    # --- candidates -----------------------------------------------------------------------------------------------
    def _begin(self, entry: _Entry, asked: "dict[Future[Answer], _Entry]") -> None:
        """Ask for the bounds, for what is known, or for the figures, of a candidate."""
        measured = asked is self._measuring
        keys = tuple(entry.candidate.figure_keys.values()) if measured else ()
        question = Question(entry.candidate, self.store.own_figures(keys), None if self.workers.here else ",".join(
            map(located, names_of(entry.candidate.target))))
        here, away = _FUNCTIONS["figures" if measured else "bounds" if asked is self._bounding else "known"]
        with self.spent.at("measuring" if measured else "bounds"):
            if self.workers.here:
                future = self.workers.ask(here, self.context, question)
            else:
                future = self.workers.ask(away, self._packed_context, packed(question))
        asked[future] = entry

    def _measure(self) -> None:
        """Begin with the most promising candidates, once the bounds of all that were asked for are known."""
        most = self.workers.count * self.workers.batch(evaluate.unpacked_figures)
        while self._ready and not self._bounding and len(self._measuring) + len(self._looking) < most:
            entry = heapq.heappop(self._ready)
            if not entry.least:
                self._begin(entry, self._measuring)
            elif self.sampler.learns or not self._looks or self._is_ruled_out(entry):
                self._measure_or_leave(entry)
            else:
                self._begin(entry, self._looking)

    def _is_ruled_out(self, entry: _Entry) -> bool:
        return any(v > 0 for v in entry.least_violations) or self.front.dominates(entry.least)

    def _settle(self) -> None:
        """Wait for an answer, and take up all that are there."""
        self.workers.send()
        waiting = {**self._bounding, **self._looking, **self._measuring}
        if not waiting:
            return
        with self.spent.at("measuring" if self._measuring else "bounds"):
            done = wait(waiting, return_when=FIRST_COMPLETED).done
        for future in sorted(done, key=lambda f: waiting[f].number):
            asked = next(each for each in (self._bounding, self._looking, self._measuring) if future in each)
            entry = asked.pop(future)
            try:
                answer = future.result()
            except WorkerEnded as error:
                entry.tries += 1
                if entry.tries < TRIES:
                    self._begin(entry, asked)
                    continue
                answer = Answer(error=f"{error}, {TRIES} times")
            if asked is self._looking:
                self._know_more(entry, answer)
            elif asked is self._bounding and answer.error is None:
                self._know_bounds(entry, answer)
            else:
                self._know(entry, answer)

    def _know_bounds(self, entry: _Entry, answer: Answer) -> None:
        try:
            self.aims.require_known(answer.figures, {*self.context.functions, *entry.candidate.figures})
        except Missing as error:
            self._fail(entry, error, answer)
            return
        self._bound(entry, answer)
        heapq.heappush(self._ready, entry)

    def _know_more(self, entry: _Entry, answer: Answer) -> None:
        """What is known by now of a candidate, without a simulation, may rule it out; an error is one of its
        measurement, if that meets it, too."""
        self._looks = max(0, self._looks - 1)
        if answer.error is None and answer.figures != entry.found.figures:
            self._looks += LOOKS
            self._bound(entry, answer)
        self._measure_or_leave(entry)

    def _bound(self, entry: _Entry, answer: Answer) -> None:
        bounds = evaluate.intervals(self.context, entry.candidate, answer.figures)
        entry.found, entry.least = answer, self.aims.least_values(bounds)
        entry.least_violations = self.aims.least_violations(bounds)

    def _measure_or_leave(self, entry: _Entry) -> None:
        if self._is_ruled_out(entry):
            self._record(entry, self._row(entry, "bounded", entry.least, entry.least_violations, entry.found))
        else:
            self._begin(entry, self._measuring)

    def _know(self, entry: _Entry, answer: Answer) -> None:
        """A candidate of which all is known, or that failed, is done."""
        if answer.own:
            self.store.add_own_figures(answer.own)
        try:
            if answer.error is not None:
                raise ArchloomError(answer.error)
            values, violations = self.aims.values(answer.figures), self.aims.violations(answer.figures)
        except ArchloomError as error:
            self._fail(entry, error, answer)
        else:
            self._record(entry, self._row(entry, "measured", values, violations, answer))

    def _fail(self, entry: _Entry, error: ArchloomError, answer: Answer) -> None:
        """The error itself, where the first of all candidates lacks a figure that is asked for: others will, too."""
        if isinstance(error, Missing) and not len(self.front):
            raise error
        self._record(entry, Row(
            entry.candidate.key, "failed", dict(entry.trials[0].params), entry.candidate.to_json(), (), (),
            answer.figures, str(error), answer.took))

    def _row(
        self, entry: _Entry, state: State, values: Sequence[float], violations: Sequence[float], answer: Answer
    ) -> Row:
        shown = [value if math.isfinite(value) else None for value in (*self._turned(values), *violations)]
        count = len(values)
        return Row(entry.candidate.key, state, dict(entry.trials[0].params), entry.candidate.to_json(),
                   tuple(shown[:count]), tuple(shown[count:]), answer.figures, None, answer.took)

    def _record(self, entry: _Entry, row: Row) -> None:
        self._keep(row)
        del self._open[row.key]
        for trial in entry.trials:
            self._tell(trial, row)

    def _keep(self, row: Row) -> None:
        self.store.add([row])
        setattr(self.spent, row.state, getattr(self.spent, row.state) + 1)
        if row.is_feasible:
            self.front.add(row.key, self._turned(row.values))

    # --- progress -------------------------------------------------------------------------------------------------
    def _show(self) -> None:
        now = time.monotonic()
        if self.progress is None or now - self._shown < SHOWN_SECONDS:
            return
        self._shown = now
        done, rate = self._asked - len(self._open), self.spent.done / (now - self._begun)
        words = [f"{counted(len(self._bounding), 'bound')} awaited" if self._bounding
                 else f"{len(self._measuring)} at work",
                 f"front {len(self.front)}", f"hypervolume {self._hypervolume(now):.3f}", f"{rate:.3g}/s"]
        if self.trials is not None and rate:
            words.append(f"{(self.trials - done) / rate:,.0f} s left")
        self.progress(", ".join(words), done, self._asked if self.trials is None else self.trials)

    def _hypervolume(self, now: float) -> float:
        """Found anew as often as little time goes into it: of large fronts it takes long."""
        if now >= self._volume_due:
            self._volume = self.front.hypervolume()
            self._volume_due = now + (time.monotonic() - now) / VOLUME_SHARE
        return self._volume
