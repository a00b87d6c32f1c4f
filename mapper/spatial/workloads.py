"""Plans and streams of all workloads of a mesh of cores: searched, kept, emitted.

    found = planned(Product(12, 384, 384, 64, transposed_b=True), graph, objective="energy")
    stream = emitted(work, found.plan, Machine.of(graph))

A workload is a TileGemm, a Product, a Convolution, an Attention, a Chain, or a Sweep; all are searched alike, and their
kinds are listed here alone: every candidate is ranked by the cost model, the best are simulated, the best is chosen.
Nothing is drawn by chance: the same workload on the same graph always gets the same plan.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeAlias

import numpy as np

from archloom.acadl_models.acadl import ArchitectureGraph
from archloom.acadl_models.timing import Heard
from archloom.mapper import cache
from archloom.mapper.asked import Allowed
from archloom.mapper.explore import Objective, least, patience
from archloom.mapper.spatial.attention import space as attentions
from archloom.mapper.spatial.attention.cost import attention_cycles
from archloom.mapper.spatial.attention.emit import attention_nodes
from archloom.mapper.spatial.attention.space import ANYTHING, Attention, AttentionRules, attention_space
from archloom.mapper.spatial.chain import space as chains
from archloom.mapper.spatial.chain.cost import chain_cycles
from archloom.mapper.spatial.chain.emit import chain_nodes
from archloom.mapper.spatial.chain.space import Chain, chain_space
from archloom.mapper.spatial.energy import attention_joules, chain_joules, joules, parted_joules, sweep_joules
from archloom.mapper.spatial.machines.machine import Machine
from archloom.mapper.spatial.plan import AttentionPlan, ChainPlan, PartedPlan, Plan, SweepPlan, TileGemm
from archloom.mapper.spatial.products.batched import Product, ProductEmitter
from archloom.mapper.spatial.products.convolution import Convolution
from archloom.mapper.spatial.products.cost import cycles
from archloom.mapper.spatial.products.parts import Contraction, check_parts, parted_cycles, parted_space, reduction_of
from archloom.mapper.spatial.products.parts_emit import ConvolutionEmitter, PartedEmitter, parted_nodes
from archloom.mapper.spatial.programs.emit import Emitter, tensors_of
from archloom.mapper.spatial.programs.streams import Shapes, check_memory, placed, program
from archloom.mapper.spatial.programs.waves import Nodes
from archloom.mapper.spatial.rates import Rates
from archloom.mapper.spatial.space import EVERYTHING, Rules, Space, check, risen, space
from archloom.mapper.spatial.sweeps import sweep
from archloom.mapper.spatial.sweeps.emit import sweep_nodes
from archloom.mapper.spatial.sweeps.sweep import Sweep
from archloom.mapper.spatial.trials import TOP_K, Attempts, Candidates, Found, Measured, P, W, Wishes, tried
from archloom.oracle.errors import MappingError
from archloom.oracle.stream import Instr, Stream

_RISEN = 400
"""Candidates for each that is simulated whose first steps are also tried at other depths."""

_WORTH = 0.005
"""What shallow first steps must gain: the program is nearly twice as long, as its first wave is apart."""


_EMITTERS: dict[type[Contraction], type[PartedEmitter]] = {Product: ProductEmitter, Convolution: ConvolutionEmitter}

AnyPlan: TypeAlias = Plan | PartedPlan | SweepPlan | AttentionPlan | ChainPlan
AnyWork: TypeAlias = TileGemm | Contraction | Sweep | Attention | Chain
AnyRules: TypeAlias = Rules | AttentionRules | None
Tried: TypeAlias = Callable[[Measured[Any]], None] | None


@dataclass(frozen=True)
class Kind(Generic[W, P]):
    """How workloads of a kind are planned: ``plan`` is the type of their plans, ``space`` takes rules (None:
    everything), ``check`` raises the MappingError for a plan that does not fit, ``nodes`` is the program of one whose
    tensors are at some addresses, ``tensors`` are those of a workload in memory, ``nothing_fits`` says what is too
    small where there is no candidate; :func:`archloom.mapper.spatial.trials.tried` says the rest."""

    plan: type[P]
    space: Callable[[W, Machine, Any], Candidates[P]]
    cycles: Callable[[W, Machine, Any], np.ndarray]
    joules: Callable[[W, Machine, Rates, Any], np.ndarray]
    check: Callable[[W, P, Machine], None]
    nodes: Callable[[W, P, Machine, Mapping[str, int]], Nodes]
    tensors: Callable[[W], Shapes]
    nothing_fits: Callable[[W, Machine], str]
    same: Callable[[P, float], Hashable] | None = None
    alike: Callable[[P], Hashable] | None = None
    variants: Callable[[W, P], Iterable[P]] | None = None

    def emit(self, work: W, plan: P, machine: Machine) -> Stream:
        """The stream of a plan; MappingError if it does not fit."""
        self.check(work, plan, machine)
        shapes = self.tensors(work)
        # biases of chains, which are no whole tiles, lie behind what is
        tensors = {tensor.name: tensor for tensor in placed(
            sorted(shapes, key=lambda tensor: isinstance(work, Chain) and len(tensor[1]) == 2))}
        body = self.nodes(work, plan, machine, {name: tensor.address for name, tensor in tensors.items()})
        name = type(work).__name__.lower().removeprefix("tile")
        return program(machine, [tensors[label] for label, _ in shapes], [Instr.make("launch"), *body], name)

    def search(self, work: W, graph: "ArchitectureGraph", rules: Any, wishes: Wishes[P]) -> Found[W, P]:
        """Rank all plans, simulate the best; MappingError that says what is too small where none fits."""
        attempts: Attempts[P] = Attempts(graph, wishes.objective, lambda plan, machine: self.emit(work, plan, machine))
        machine = attempts.machine
        check_memory(work, self.tensors(work), graph)
        found = self.space(work, machine, rules)
        if not len(found):
            raise MappingError(self.nothing(work, machine, rules))
        cycles = self.cycles(work, machine, found)
        cost = attempts.cost(cycles, lambda rates: self.joules(work, machine, rates, found))
        variants = self.variants
        return tried(work, found, (cost, cycles), attempts, wishes, same=self.same, alike=self.alike,
                     variants=None if variants is None else lambda plan: variants(work, plan))

    def nothing(self, work: W, machine: Machine, rules: Any) -> str:
        """Why there is no candidate: what ``rules`` ask for, or a figure of the machine."""
        if rules and len(self.space(work, machine, None)):
            return f"{work}: no plan has the patterns and levels that are asked for"
        return self.nothing_fits(work, machine)


def kind_of(work: AnyWork) -> Kind[Any, Any]:
    """How workloads like ``work`` are planned; MappingError for what is no workload."""
    for known, kind in _KINDS:
        if isinstance(work, known):
            return kind
    raise MappingError(f"{work!r} is no workload: expected one of {', '.join(known.__name__ for known, _ in _KINDS)}")


def emitted(work: AnyWork, plan: AnyPlan, machine: Machine, *, semaphores: bool = False) -> Stream:
    """The stream of a plan, whose tensors lie as ``work.pack`` gives them; MappingError if the plan does not fit.

    ``semaphores``: cores wait for each other by signals alone, which are checked for deadlocks and for blocks that
    overtake each other (:mod:`archloom.mapper.spatial.programs.signalling`).
    """
    kind = kind_of(work)
    if not isinstance(plan, kind.plan):
        raise MappingError(f"{plan} is no plan of {work}")
    kind.plan.from_json(plan.to_json())  # it may be one of the caller's own: no count is 0, and every word is known
    stream = kind.emit(work, plan, machine)
    if not semaphores:
        return stream
    from archloom.mapper.spatial.programs.signalling import signalled

    return signalled(stream, machine, f"plan {plan}")


def search_workload(
    work: AnyWork, graph: ArchitectureGraph, *, rules: AnyRules = None, top_k: int = TOP_K,
    objective: str | Objective = "time", exhaustive: bool = False, progress: Tried = None,
    begun: Callable[[Any, float], None] | None = None, heard: Heard | None = None, allowed: Allowed[Any] | None = None,
) -> Found[Any, Any]:
    """Rank all plans, simulate the ``top_k`` best and what is like the best of them; MappingError that says what is too
    small where none fits.

    ``rules`` (None: everything) are those of products, on parts of the mesh or the whole, and those of attention.
    ``objective``, ``exhaustive``, ``progress``, ``begun``, ``heard`` and ``allowed``: see
    :class:`archloom.mapper.spatial.trials.Wishes`.
    """
    if isinstance(work, TileGemm):  # first steps of other depths are added to its space in the search
        assert not isinstance(rules, AttentionRules)
        return search(work, graph, rules=rules or EVERYTHING, top_k=top_k, objective=objective, exhaustive=exhaustive,
                      progress=progress, begun=begun, heard=heard, allowed=allowed)
    wishes = Wishes(top_k, objective, exhaustive, progress, begun, heard, allowed)
    return kind_of(work).search(work, graph, rules, wishes)


@dataclass(frozen=True)
class Planned:
    """The plan that a search has chosen, its simulated and its estimated cycles, how many candidates there were, and
    its joules where those were asked for."""

    plan: Any
    cycles: int
    estimated_cycles: float
    considered: int
    joules: float | None = None


_KEPT: cache.Kept[Planned] = cache.Kept()


def forget() -> None:
    """Drop what this process remembers; plans on disk stay."""
    _KEPT.forget()


def planned(
    work: AnyWork, graph: ArchitectureGraph, *, rules: AnyRules = None, top_k: int = TOP_K,
    objective: str | Objective = "time",
) -> Planned:
    """What :func:`search_workload` finds, searched only once for a graph and a workload, in the process and on disk;
    with a function as the ``objective`` every time."""

    def find() -> Planned:
        outcome = search_workload(work, graph, rules=rules, top_k=top_k, objective=objective)
        best = outcome.best
        return Planned(best.plan, best.cycles, best.estimated_cycles, outcome.considered, best.joules)

    if not isinstance(objective, str):
        return find()
    key = cache.key_of([
        "spatial", cache.code_fingerprint("mapper", "acadl_models", "oracle"), graph.fingerprint, repr(work),
        repr(rules), str(top_k), objective, repr(patience())])
    read = kind_of(work).plan.from_json
    return _KEPT.once(key, lambda fields: Planned(**fields | {"plan": read(fields["plan"])}),
                      lambda found: vars(found) | {"plan": found.plan.to_json()}, find)


def search(
    gemm: TileGemm, graph: ArchitectureGraph, *, rules: Rules = EVERYTHING, top_k: int = TOP_K,
    refine: bool = True, objective: str | Objective = "time", exhaustive: bool = False,
    progress: Callable[[Measured[Plan]], None] | None = None, begun: Callable[[Plan, float], None] | None = None,
    heard: Heard | None = None, allowed: Allowed[Plan] | None = None,
) -> Found[TileGemm, Plan]:
    """Plans of ``gemm`` within ``rules``; MappingError that says what is too small where no candidate fits.

    ``top_k``, ``objective``, ``exhaustive``, ``progress``, ``begun``, ``heard`` and ``allowed``: see
    :class:`archloom.mapper.spatial.trials.Wishes`. With ``refine`` the best is also tried with triple buffering, with
    steps of half and of twice its depth, and with other first steps.
    """
    attempts: Attempts[Plan] = Attempts(graph, objective, lambda plan, machine: _GEMM.emit(gemm, plan, machine))
    check_memory(gemm, tensors_of(gemm), graph)
    found = space(gemm, attempts.machine, rules)
    if not len(found):
        raise MappingError(_GEMM.nothing(gemm, attempts.machine, rules))
    listed, wishes = len(found), Wishes(top_k, objective, exhaustive, progress, begun, heard, allowed)
    if exhaustive:
        found = risen(found, np.arange(listed)) if rules.rising else found
        return tried(gemm, found, _expected(gemm, attempts, found), attempts, wishes, considered=listed)
    cost, expected = _expected(gemm, attempts, found)
    if rules.rising:
        found = risen(found, least(cost, _RISEN * top_k))
        cost, expected = _expected(gemm, attempts, found)
        cost = np.where(found.columns["lead"] > 0, cost + _WORTH * np.abs(cost), cost)
    # of those that differ only in the order in which a loop is dealt out over both dimensions of the mesh, or in the
    # depth of their first steps, the first
    return tried(
        gemm, found, (cost, expected), attempts, wishes, same=lambda plan, _: replace(plan, outer="rows", lead=0),
        alike=_spreads if attempts.machine.cores > 1 else _alike_on_one,
        variants=(lambda plan: _refined(gemm, plan, rules)) if refine else None, considered=listed)


def _spreads(plan: Plan) -> Hashable:
    """Equal for plans with the same spread over the cores."""
    return tuple(plan.spread(loop) for loop in range(3))


def _alike_on_one(plan: Plan) -> Hashable:
    """On one core, for those with the same blocks of sums, of which the same tiles are kept."""
    return plan.block[:2], plan.a[1], plan.b[1]


def _expected(gemm: TileGemm, attempts: Attempts[Plan], found: Space) -> tuple[np.ndarray, np.ndarray]:
    """By the models, what every candidate costs, and its cycles."""
    expected, _ = cycles(gemm, attempts.machine, found)
    return attempts.cost(expected, lambda rates: joules(gemm, attempts.machine, rates, found)), expected


def _refined(gemm: TileGemm, plan: Plan, rules: Rules) -> Iterator[Plan]:
    (bm, bn, bk), depth = plan.block, -(-gemm.k // plan.spread(2))
    alone = all(plan.spread(loop) == 1 for loop in range(3))
    if _streams(gemm, plan, -(-depth // bk)):
        yield replace(plan, slots=3)
    if alone and bk < depth:  # nobody waits for others: the whole depth costs no more than its first load
        yield replace(plan, block=(bm, bn, depth))
        if "stream" in (plan.a[1], plan.b[1]):
            yield replace(plan, block=(bm, bn, depth), slots=3)
    if 2 * bk < depth or (bk < depth and not alone):
        yield replace(plan, block=(bm, bn, 2 * bk))
    if bk > 1:
        yield replace(plan, block=(bm, bn, -(-bk // 2)))
    if rules.rising:
        for lead in sorted({plan.lead // 2, 2 * plan.lead or 2}):
            if lead < bk:
                yield replace(plan, lead=lead)


def _no_product_fits(gemm: TileGemm, machine: Machine) -> str:
    """Which figure is to blame where no block fits."""
    if machine.sums < 1:
        return f"a core holds {machine.sums} sums: not a single tile of C can be added up"
    return (
        f"{gemm.m} x {gemm.n} x {gemm.k} tiles: two blocks of one tile of A and two of B need 4 tiles of operands in a "
        f"core, which holds {machine.tiles}"
    )


def _streams(gemm: TileGemm, plan: Plan, steps: int) -> bool:
    """Whether cores, which take so many ``steps`` in a wave, stream more blocks than there are places for."""
    waves = math.prod(-(-extent // (block * plan.spread(loop))) for loop, (extent, block) in enumerate(
        zip((gemm.m, gemm.n), plan.block)))
    return "stream" in (plan.a[1], plan.b[1]) and steps * waves > plan.slots


def _variants(work: Contraction, plan: PartedPlan) -> Iterator[PartedPlan]:
    """Triple buffering, and steps of half and of twice the depth, where that is another program."""
    (bm, bn, bk), depth = plan.plan.block, reduction_of(work, plan.plan).depth
    deep = np.array([depth])
    steps = int(work.steps(np.array([bk]), deep, deep)[0]) * -(-work.problems // math.prod(plan.parts))
    if _streams(work.gemm, plan.plan, steps):
        yield PartedPlan(plan.parts, replace(plan.plan, slots=3))
    if bk < depth:
        yield PartedPlan(plan.parts, replace(plan.plan, block=(bm, bn, 2 * bk)))
    if bk > 1:
        yield PartedPlan(plan.parts, replace(plan.plan, block=(bm, bn, -(-bk // 2))))


def _no_part_fits(work: Contraction, machine: Machine) -> str:
    room = work.epilogue.room(1, 1)
    if room and machine.sums >= 1:
        return (f"{work}: two blocks of one tile of A and two of B, and {room} of the epilogue, need {4 + room} tiles "
                f"in a core, which holds {machine.tiles}")
    return _no_product_fits(work.gemm, machine)


def _no_attention_fits(attention: Attention, machine: Machine) -> str:
    smallest = AttentionPlan((1, 1), (machine.rows, 1), (machine.columns, 1), ("none", "stream"))
    return smallest.refusal(attention, attentions.faults_of(attention, smallest, machine))


def _no_chain_fits(chain: Chain, machine: Machine) -> str:
    smallest = ChainPlan((1, 1, 1, 1), (machine.rows, 1), (machine.columns, 1), ("none", "stream"), False)
    return smallest.refusal(chain, chains.faults_of(chain, smallest, machine))


_GEMM: Kind[TileGemm, Plan] = Kind(
    Plan, lambda gemm, machine, rules: space(gemm, machine, rules or EVERYTHING),
    lambda gemm, machine, found: cycles(gemm, machine, found)[0], joules, check,
    lambda gemm, plan, machine, where: Emitter(gemm, plan, machine, where["A"], where["B"], where["C"]).nodes(),
    tensors_of, _no_product_fits)
_PARTS: Kind[Contraction, PartedPlan] = Kind(
    PartedPlan, lambda work, machine, rules: parted_space(work, machine, rules or EVERYTHING),
    lambda work, _, found: parted_cycles(work, found), lambda work, _, rates, found: parted_joules(work, rates, found),
    check_parts, lambda work, plan, machine, where: parted_nodes(work, plan, machine, where, _EMITTERS[type(work)]),
    lambda work: work.tensors(), _no_part_fits,
    # of those that are alike, equal estimates come from equal programs
    same=lambda plan, cost: (plan.parts, _spreads(plan.plan), cost),
    alike=lambda plan: (plan.parts, _spreads(plan.plan)), variants=_variants)
_SWEEP: Kind[Sweep, SweepPlan] = Kind(
    SweepPlan, lambda work, machine, _: sweep.sweep_space(work, machine), sweep.sweep_cycles, sweep_joules,
    sweep.check_sweep, sweep_nodes, lambda work: work.tensors(), sweep.nothing_fits,
    same=lambda plan, cost: (plan.spread(0), plan.spread(1), plan.slots, cost),
    alike=lambda plan: (plan.spread(0), plan.spread(1), plan.slots))
_ATTENTION: Kind[Attention, AttentionPlan] = Kind(
    AttentionPlan, lambda attention, machine, rules: attention_space(attention, machine, rules or ANYTHING),
    attention_cycles, attention_joules, attentions.check, attention_nodes,
    Attention.tensors, _no_attention_fits, alike=lambda plan: plan.block)
_CHAIN: Kind[Chain, ChainPlan] = Kind(
    ChainPlan, lambda chain, machine, _: chain_space(chain, machine), chain_cycles, chain_joules, chains.check,
    chain_nodes, Chain.tensors, _no_chain_fits, alike=lambda plan: (*plan.rows, *plan.columns))
_KINDS: tuple[tuple[type, Kind[Any, Any]], ...] = (
    (TileGemm, _GEMM), (Contraction, _PARTS), (Sweep, _SWEEP), (Attention, _ATTENTION), (Chain, _CHAIN))
