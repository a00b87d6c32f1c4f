"""Random programs of a small scalar machine, a plain interpreter of them, and graphs on which they run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Any, TypeAlias

from archloom.acadl_models.acadl import (
    CONTAINS,
    FORWARD,
    ACADLEdge,
    ArchitectureGraph,
    Data,
    ExecuteStage,
    FunctionalUnit,
    Instruction,
    InstructionFetchStage,
    InstructionMemoryAccessUnit,
    Memory,
    MemoryAccessUnit,
    PipelineStage,
    RegisterFile,
    architecture,
    create_ag,
    generate,
)
from archloom.acadl_models.oma import ARITHMETIC, JUMPS, MOVES, oma
from archloom.acadl_models.parts import connect
from tests.support.acadl_models.engine_strategies import random_semantics

Op: TypeAlias = tuple[Any, ...]
"""A mnemonic of the OMA with its operands: registers by number, addresses, values, targets."""

REGISTERS = 5
BYTES = 24
"""Few registers and addresses, so that instructions meet."""


def random_ops(r: Random, jumps: bool, most: int = 12) -> list[Op]:
    """Any instructions in any order; jumps go anywhere in the program, and to its end."""
    count = r.randint(1, most)
    kinds = ["movi", "add", "mac", "load8", "load32", "store8"] + ["blt", "beq", "jump", "jal"] * jumps
    return [_op(r, r.choice(kinds), count) for _ in range(count)]


def _op(r: Random, kind: str, count: int) -> Op:
    a, b, c = (r.randrange(REGISTERS) for _ in range(3))
    if kind == "movi":
        return kind, a, r.randrange(BYTES)
    if kind in ("add", "mac", "jump"):
        return (kind, a) if kind == "jump" else (kind, a, b, c)
    if kind in ("load8", "load32", "store8"):
        return kind, a, r.choice((b, None)), r.randrange(BYTES)
    target = r.randint(0, count)
    return (kind, a, target) if kind == "jal" else (kind, a, b, target)


def interpret(ops: Sequence[Op], words: Sequence[int], steps: int) -> tuple[list[int], list[int], int] | None:
    """Registers, words and steps after a plain run over bytes; None if it takes more than ``steps``."""
    reg, mem, pc, taken = [0] * REGISTERS, list(words), 0, 0
    while pc != len(ops):
        if taken == steps:
            return None
        taken += 1
        kind, a, *rest = ops[pc]
        pc += 1
        at = rest[1] + (reg[rest[0]] if rest[0] is not None else 0) if kind in MOVES else 0
        if kind == "movi":
            reg[a] = rest[0]
        elif kind == "add":
            reg[a] = (reg[rest[0]] + reg[rest[1]]) % 256
        elif kind == "mac":
            reg[a] = (reg[a] + reg[rest[0]] * reg[rest[1]]) % 256
        elif kind == "load8":
            reg[a] = mem[at]
        elif kind == "load32":
            reg[a] = sum(mem[at:at + 4]) % 256
        elif kind == "store8":
            mem[at] = reg[a]
        elif kind == "jump":
            pc = reg[a] % (len(ops) + 1)
        elif kind == "jal":
            reg[a], pc = pc, rest[0]
        elif (reg[a] < reg[rest[0]]) if kind == "blt" else (reg[a] == reg[rest[0]]):
            pc = rest[1]
    return reg, mem, taken


def program(ops: Sequence[Op]) -> list[Instruction]:
    """The same as instructions of the paper."""
    return [_instruction(op, len(ops)) for op in ops]


def _instruction(op: Op, count: int) -> Instruction:
    kind, a, *rest = op
    reg = f"r{a}"
    if kind == "movi":
        return Instruction(kind, write_registers=[reg], immediates=[Data(8, rest[0])], function=lambda v: v)
    if kind in ("add", "mac"):
        read = [f"r{n}" for n in rest]
        if kind == "add":
            return Instruction(kind, read, [reg], function=lambda b, c: (b + c) % 256)
        return Instruction(kind, [*read, reg], [reg], function=lambda b, c, old: (old + b * c) % 256)
    if kind in MOVES:
        return _move(kind, reg, *rest)
    if kind == "jump":
        return Instruction(kind, [reg], ["pc"], function=lambda value: value % (count + 1))
    if kind == "jal":
        return Instruction(kind, ["pc"], [reg, "pc"], function=lambda pc: (pc + 1, rest[0]))
    holds: Callable[[int, int], bool] = (lambda b, c: b < c) if kind == "blt" else (lambda b, c: b == c)
    return Instruction(kind, [reg, f"r{rest[0]}", "pc"], ["pc"],
                       function=lambda b, c, pc: rest[1] if holds(b, c) else pc + 1)


def _move(kind: str, reg: str, base: int | None, offset: int) -> Instruction:
    at: list[int | str] = [
        f"r{base} + {offset + k}" if base is not None else offset + k for k in range(4 if kind == "load32" else 1)
    ]
    pointer = [] if base is None else [f"r{base}"]
    if kind == "store8":
        return Instruction(kind, [reg, *pointer], write_addresses=at, function=lambda value, *_: value)
    skipped = len(pointer)
    return Instruction(kind, pointer, [reg], at, function=lambda *read: sum(read[skipped:]) % 256)


def wide(r: Random) -> ArchitectureGraph:
    """Registers and memory of the OMA with several units at a time, pipelined or not, behind queues."""

    @generate
    def wide_machine() -> None:
        width = r.randint(1, 4)
        fetch = InstructionFetchStage("ifs0", issue_buffer_size=width + r.randint(0, 4))
        cycles = {"*": r.randint(0, 1), **dict.fromkeys(JUMPS, r.randint(1, 2))}
        imau = InstructionMemoryAccessUnit("imau0", to_process=JUMPS, latency=cycles)
        imem = Memory("imem0", data_width=32, port_width=width, read_latency=r.randint(1, 3), address_ranges=[[0, 256]])
        pc = RegisterFile("pc0", registers={"pc": Data(32, 0)})
        rf = RegisterFile("rf0", registers={f"r{k}": Data(32, 0) for k in range(REGISTERS)})
        dmem = Memory(
            "dmem0", data_width=8, read_write_ports=9, port_width=r.choice((1, 4)), read_latency=r.randint(1, 4),
            write_latency=r.randint(1, 4), max_concurrent_requests=r.randint(1, 3), address_ranges=[range(512)],
        )
        ACADLEdge(fetch, imau, CONTAINS)
        connect(imau, [imem, pc, rf], [pc, rf])
        for k in range(r.randint(1, 3)):
            queue, stage = PipelineStage(f"queue{k}", depth=r.randint(1, 3)), ExecuteStage(f"ex{k}")
            interval = r.choice((None, 1, 2))
            flights = {"interval": interval, "in_flight": r.randint(1, 3) if interval else 1}
            alu = FunctionalUnit(f"fu{k}", to_process=ARITHMETIC, latency=r.randint(1, 4), **flights)
            mau = MemoryAccessUnit(f"mau{k}", to_process=MOVES, latency=r.randint(0, 2), **flights)
            ACADLEdge(fetch, queue, FORWARD)
            ACADLEdge(queue, stage, FORWARD)
            for unit in r.sample((alu, mau), 2):
                ACADLEdge(stage, unit, CONTAINS)
            connect(alu, [rf], [rf])
            connect(mau, [rf, dmem], [rf, dmem])
        # not write_after_read: where it is "ignored", values are overwritten before they are read
        chosen = random_semantics(r, ("issue", "fetches_in_flight", "stage_latency", "arbitration"))
        architecture("wide", semantics=chosen)

    return create_ag(wide_machine())


def graphs(r: Random) -> ArchitectureGraph:
    """The OMA with and without its cache, or a random machine of its instructions."""
    return r.choice((lambda: wide(r), lambda: oma(cache=False), lambda: oma(cache_sets=1, miss_cycles=5)))()
