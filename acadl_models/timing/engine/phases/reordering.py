"""Jitted, phase 1e: instances commit, others are decoded; and what renamed registers make them wait for.

See docs/timing_semantics.md, "Reorder buffer" and "Renaming". ``Name`` records say which instance in flight wrote or
accumulated into each register last. An instance finds there, as it is made, whom it has to wait for; so does everyone
after it whom it has accumulated for, from operand to operand.
"""

from __future__ import annotations

from archloom.acadl_models.timing.engine.fields import NONE
from archloom.acadl_models.timing.engine.jit import jit, jit_inline
from archloom.acadl_models.timing.engine.layout import H, Instruction, OperandKind, OperandSpec
from archloom.acadl_models.timing.engine.phases.accounting import note_front
from archloom.acadl_models.timing.engine.phases.forwarding import arrive
from archloom.acadl_models.timing.engine.phases.values import value_of
from archloom.acadl_models.timing.engine.state import Instance, M, Name, Operand, Phase


# --- the reorder buffer ----------------------------------------------------------------------------------------
@jit
def reorder(t, m, now):
    """Finished instances commit, oldest first; then those of the issue buffer are decoded, oldest first."""
    left = t[H.COMMIT_WIDTH]
    while left > 0 and may_commit(m):
        free_registers(t, m, m[M.OLDEST_LEFT], True)
        retire(t, m, m[M.OLDEST_LEFT], now)
        left -= 1
    m[M.AGAIN] |= int(left == 0 and may_commit(m))
    left = t[H.DECODE_WIDTH]
    while left > 0 and may_decode(t, m):
        slot = m[M.DECODING]
        m[M.DECODING] = m[slot + Instance.YOUNGER]
        m[M.UNDECODED] -= 1
        m[M.CHANGED] = now
        arrive(t, m, slot)
        left -= 1
    m[M.AGAIN] |= int(left == 0 and m[M.UNDECODED] > 0)


@jit
def may_commit(m):
    return m[M.OLDEST_LEFT] != NONE and m[m[M.OLDEST_LEFT] + Instance.PHASE] == Phase.FINISHED


@jit
def may_decode(t, m):
    """Whether there is an entry for the oldest instance that is not decoded, and registers, which it takes."""
    entries = m[M.FETCHED] - m[M.FINISHED] - m[M.UNDECODED]
    return m[M.UNDECODED] > 0 and entries < t[H.REORDER_ENTRIES] and take_registers(t, m, m[M.DECODING])


@jit_inline
def retire(t, m, slot, now):
    """Nothing is left to do for an instance: its place is free, when its requests have ended."""
    m[M.FINISHED] += 1
    m[M.LATEST] = m[M.CHANGED] = now
    if slot == m[M.OLDEST_LEFT]:
        pass_front(t, m, now)
    if m[slot + Instance.PENDING] > 0:
        m[slot + Instance.PHASE] = Phase.LINGERING
        m[M.LINGERING] += 1
    else:
        release(m, slot)


@jit
def pass_front(t, m, now):
    """The oldest instance that is not done is a younger one."""
    slot = m[m[M.OLDEST_LEFT] + Instance.YOUNGER]
    while slot != NONE and m[slot + Instance.PHASE] == Phase.LINGERING:
        slot = m[slot + Instance.YOUNGER]
    m[M.OLDEST_LEFT] = slot
    note_front(t, m, now)


@jit
def end_lingering(m, slot, now):
    """The last request has ended of an instance that is done."""
    m[M.LINGERING] -= 1
    m[M.LATEST] = m[M.CHANGED] = now
    release(m, slot)


@jit
def release(m, slot):
    """The place of an instance is free."""
    older, younger = m[slot + Instance.OLDER], m[slot + Instance.YOUNGER]
    if older == NONE:
        m[M.OLDEST] = younger
    else:
        m[older + Instance.YOUNGER] = younger
    if younger == NONE:
        m[M.YOUNGEST] = older
    else:
        m[younger + Instance.OLDER] = older
    m[slot + Instance.SEQ] = NONE
    m[slot + Instance.LINK] = m[M.FREE]
    m[M.FREE] = slot


@jit
def wait_for_decoding(m, slot):
    """A fetched instance is in the issue buffer, but not offered."""
    if m[M.UNDECODED] == 0:
        m[M.DECODING] = slot
    m[M.UNDECODED] += 1


# --- physical registers ----------------------------------------------------------------------------------------
@jit
def take_registers(t, m, slot):
    """Take a physical register for each register that an instance writes, if there are enough of them."""
    enough = True
    operand = slot + t[H.SLOT_OPERANDS]
    for _ in range(t[m[slot + Instance.STATIC] + Instruction.OPERAND_COUNT]):
        file = m[operand + Operand.FILE]
        if file != NONE:
            m[file] -= 1
            enough = enough and m[file] >= 0
        operand += Operand.SIZE
    if not enough:
        free_registers(t, m, slot, False)
    return enough


@jit
def free_registers(t, m, slot, commits):
    """Free as many as an instance took; where it commits, nobody waits for it any more."""
    operand = slot + t[H.SLOT_OPERANDS]
    for _ in range(t[m[slot + Instance.STATIC] + Instruction.OPERAND_COUNT]):
        file, name = m[operand + Operand.FILE], m[operand + Operand.NAME]
        if file != NONE:
            m[file] += 1
            if commits and m[name + Name.OWNER] == slot:
                m[name + Name.OWNER] = NONE
        operand += Operand.SIZE


# --- who makes what --------------------------------------------------------------------------------------------
@jit
def name_registers(t, m, slot, record):
    """Note for each operand of a new instance who wrote its register before; then enter those that it writes."""
    first = operand = slot + t[H.SLOT_OPERANDS]
    spec = t[record + Instruction.OPERANDS]
    for _ in range(t[record + Instruction.OPERAND_COUNT]):
        name = m[M.NAMES] + (value_of(t, m, t[spec + OperandSpec.FIRST]) + t[spec + OperandSpec.OTHER]) * Name.SIZE
        m[operand + Operand.KIND] = t[spec + OperandSpec.KIND]
        m[operand + Operand.NAME] = name
        m[operand + Operand.FROM] = m[name + Name.OWNER]
        m[operand + Operand.ENTRY] = m[name + Name.ENTRY]
        m[operand + Operand.FILE] = NONE
        operand += Operand.SIZE
        spec += OperandSpec.SIZE
    for entry in range(first, operand, Operand.SIZE):
        if m[entry + Operand.KIND] != OperandKind.READ:
            enter_register(t, m, slot, entry)


@jit
def enter_register(t, m, slot, entry):
    """An instance writes a register: it takes one physical register, however many of its accesses do so."""
    name = m[entry + Operand.NAME]
    if m[name + Name.OWNER] == slot:
        if m[entry + Operand.KIND] != OperandKind.ADD:
            m[m[name + Name.ENTRY] + Operand.KIND] = m[entry + Operand.KIND]
        return
    m[name + Name.OWNER] = slot
    m[name + Name.ENTRY] = entry
    m[entry + Operand.FILE] = m[M.FILES] + t[t[H.NAME_TABLE] + (name - m[M.NAMES]) // Name.SIZE]


@jit
def find_producer(t, m, slot):
    """An instance that is not finished and makes what another one needs; ``NONE`` if there is none."""
    operand = slot + t[H.SLOT_OPERANDS]
    spec = t[m[slot + Instance.STATIC] + Instruction.OPERANDS]
    for _ in range(t[m[slot + Instance.STATIC] + Instruction.OPERAND_COUNT]):
        kind = t[spec + OperandSpec.KIND]
        if kind != OperandKind.WRITE:
            found = unfinished(m, slot, operand, kind != OperandKind.ADD)
            if found != NONE:
                return found
        operand += Operand.SIZE
        spec += OperandSpec.SIZE
    return NONE


@jit
def unfinished(m, slot, operand, accumulated):
    """The same for one operand: those that have accumulated into the register since it was written count or not."""
    while is_in_flight(m, m[operand + Operand.FROM], slot):
        slot, operand = m[operand + Operand.FROM], m[operand + Operand.ENTRY]
        writes = m[operand + Operand.KIND] != OperandKind.ADD
        if m[slot + Instance.PHASE] != Phase.FINISHED and (writes or accumulated):
            return slot
        if writes:
            break
    return NONE


@jit
def is_in_flight(m, owner, slot):
    """Whether one that came before an instance has not committed; else its place is free, or of a later one."""
    return owner != NONE and m[owner + Instance.SEQ] > NONE and m[owner + Instance.SEQ] < m[slot + Instance.SEQ]
