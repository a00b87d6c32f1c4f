"""Phase 1e: instructions commit, others are decoded; and what renamed registers make them wait for."""

from __future__ import annotations

from collections import Counter

from archloom.acadl_models.timing.reference.state import Instance, Machine, Register, State
from archloom.acadl_models.timing.renaming import files_of


def name_registers(instance: Instance) -> None:
    """Note which renamed registers a new instruction needs and writes ("Renaming")."""
    for plan in instance.static.plans:
        if plan.place.renamed:
            assert plan.named is not None
            first = plan.named.first.evaluate(instance.values)
            for other, whole in zip(plan.named.others, plan.named.whole):
                _name(instance, (plan.buffer.name, first + other), plan.kind, whole)


def _name(instance: Instance, register: Register, kind: str, whole: bool) -> None:
    needs, targets = instance.needs, instance.targets
    if kind == "read" or (kind == "write" and not whole):
        needs[register] = True
    if kind == "write":
        targets[register] = True
    elif kind == "accumulate":
        needs.setdefault(register, False)
        targets.setdefault(register, False)


def producer(m: Machine, instance: Instance) -> Instance | None:
    """An earlier instruction that is not finished and makes what ``instance`` needs, if there is any."""
    earlier = [other for other in reversed(m.alive) if other.number < instance.number]
    for register, accumulated in instance.needs.items():
        for other in earlier:
            if register in other.targets:
                writes = other.targets[register]
                if other.state is not State.FINISHED and (writes or accumulated):
                    return other
                if writes:
                    break
    return None


def commit(m: Machine) -> None:
    """Finished instructions leave the reorder buffer, oldest first."""
    width = m.fetcher.stage.commit_width
    count = 0
    while m.alive and m.alive[0].state is State.FINISHED and count != width:
        for file, registers in _taken(m, m.alive[0]).items():
            m.free[file] += registers
        retire(m, m.alive[0])
        count += 1


def retire(m: Machine, instance: Instance) -> None:
    """Nothing is left to do for an instruction."""
    m.alive.remove(instance)
    m.done += 1
    m.changed = True


def decode(m: Machine) -> None:
    """Instructions of the issue buffer get entries of the reorder buffer and physical registers, oldest first."""
    f = m.fetcher
    if f.stage.reorder_entries is None:
        m.decoded = f.fetched
        return
    for instance in m.alive[m.decoded - m.done :][: f.stage.decode_width]:
        if m.decoded - m.done == f.stage.reorder_entries or _lacking(m, instance):
            break
        for file, registers in _taken(m, instance).items():
            m.free[file] -= registers
        m.decoded += 1
        m.changed = True


def _taken(m: Machine, instance: Instance) -> Counter[str]:
    """How many physical registers an instruction takes of each file."""
    return Counter(file for buffer, number in instance.targets for file in files_of(m.graph, buffer, [number]))


def _lacking(m: Machine, instance: Instance) -> list[str]:
    """The files that have too few free registers for an instruction."""
    return [file for file, registers in _taken(m, instance).items() if registers > m.free[file]]


def what_is_missing(m: Machine, instance: Instance) -> str:
    """What an instruction that is not decoded waits for."""
    oldest = m.alive[m.decoded - m.done]
    if instance is not oldest:
        return f"{oldest} to be decoded"
    needed = _taken(m, instance)
    registers = [f"{needed[file]} physical registers of {m.graph[file]}" for file in _lacking(m, instance)]
    return " and ".join(registers) or "an entry of the reorder buffer"
