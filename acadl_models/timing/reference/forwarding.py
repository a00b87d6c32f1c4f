"""Phase 2: instructions go from stage to stage, receivers before senders, and to units."""

from __future__ import annotations

from collections import deque
from typing import TypeAlias

from archloom.acadl_models.acadl import PipelineStage
from archloom.acadl_models.timing.log import ENTERED, RECEIVED
from archloom.acadl_models.timing.reference.state import Instance, Machine, Stage, State

Offer: TypeAlias = tuple[Instance, "list[Instance] | deque[Instance]"]
"""An instruction that may go on, and where it is."""


def forward(m: Machine) -> None:
    """Phase 2."""
    for stage in m.forwarding_order:
        if stage.incoming is not None and stage.incoming.leave <= m.now:
            _hand_over(m, stage, stage.incoming)
            stage.incoming = None
        while stage.room(m.now):
            offer = _best_offer(m, stage)
            if offer is None:
                break
            instance, source = offer
            source.remove(instance)
            _receive(m, stage, instance)
    while m.semantics.issue == "in_order" and _issue_next(m):
        pass


def _best_offer(m: Machine, stage: Stage) -> Offer | None:
    """The instruction that ``stage`` receives next."""
    offers: list[Offer] = []
    for sender in m.graph.predecessors(stage.spec):
        routed = [offer for offer in _offered(m, sender) if stage.spec.name in offer[0].static.routed]
        if routed and m.semantics.arbitration == "edge_order":
            return min(routed, key=lambda offer: offer[0].number)
        offers += routed
    return min(offers, key=lambda offer: offer[0].number, default=None)


def _offered(m: Machine, sender: PipelineStage) -> list[Offer]:
    if sender is m.program.fetch:
        buffer = m.fetcher.buffer
        offered = buffer if m.semantics.issue == "out_of_order" else buffer[:1]
        return [(i, buffer) for i in offered if i.number < m.decoded]
    held = m.stages[sender.name].held
    return [(held[0], held)] if held and held[0].leave <= m.now else []


def _issue_next(m: Machine) -> bool:
    """In order: pass on the oldest instruction, which another one hid from its stage when that had its turn."""
    for instance in m.fetcher.buffer[:1]:
        if instance.number >= m.decoded:
            break
        after = {s.name for s in m.graph.successors(m.program.fetch)} & instance.static.routed
        for stage in m.forwarding_order:
            if stage.spec.name in after and stage.room(m.now):
                m.fetcher.buffer.remove(instance)
                _receive(m, stage, instance)
                return True
    return False


def _receive(m: Machine, stage: Stage, instance: Instance) -> None:
    m.changed = True
    stage.entered += 1
    taken = stage.spec.name in instance.static.takers
    if taken and m.semantics.stage_latency == "replaced":
        _hand_over(m, stage, instance)
        return
    latency = m.latency(f"{stage.spec}: latency", stage.spec.latencies()["latency"], instance, 1)
    instance.leave = m.now + latency
    m.note(ENTERED, stage.spec.name, instance.number, instance.leave)
    if taken:
        stage.incoming = instance
    else:
        stage.held.append(instance)


def _hand_over(m: Machine, stage: Stage, instance: Instance) -> None:
    """The unit in the stage takes the instruction, which waits there for its dependences."""
    unit = m.units[instance.static.takers[stage.spec.name].name]
    unit.waiting = instance
    unit.taken += 1
    instance.state, instance.taken_by = State.WAITING, unit
    m.note(RECEIVED, unit.spec.name, instance.number)
    m.changed = True
