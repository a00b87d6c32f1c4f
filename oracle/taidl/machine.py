"""A machine that executes instructions of an ISA one by one on NumPy buffers: the core of the interpreter."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from operator import itemgetter
from typing import Any

from archloom.oracle.errors import StreamError, TaidlError
from archloom.oracle.taidl import ast
from archloom.oracle.taidl.evaluate import Frame
from archloom.oracle.taidl.isa import Instruction, Isa
from archloom.oracle.taidl.regions import Violation
from archloom.oracle.taidl.replay import Recording, Tape, address_attribute
from archloom.oracle.taidl.statements import every, statement_names
from archloom.oracle.taidl.translate import Translator
from archloom.oracle.taidl.types import Array

_KEPT = 1 << 14
"""Recordings that an instruction keeps; a few kilobytes each."""


class Machine:
    """Registers, buffers and the translated instructions; ``buffers`` are updated in place."""

    def __init__(self, isa: Isa, buffers: Mapping[str, Array]) -> None:
        self.isa = isa
        self.buffers = dict(buffers)
        self.executed = [0]  # instructions so far; shared with the units, which do not know the machine
        initial = isa.initial_registers()
        self.slots = {key: i for i, key in enumerate(initial)}
        self.frame: Frame = list(initial.values())
        self._units: dict[str, Unit] = {}

    def registers(self) -> dict[str, int]:
        return {key: self.frame[i] for key, i in self.slots.items()}

    def unit(self, mnemonic: str, attributes: tuple[str, ...]) -> Unit:
        """What executes an instruction; StreamError if there is none or its attributes are others."""
        if mnemonic not in self._units:
            self._units[mnemonic] = Unit(self, self.isa.instruction(mnemonic))
        unit = self._units[mnemonic]
        if attributes != unit.attributes:
            raise StreamError(f"{mnemonic}: expected the attributes ({', '.join(unit.attributes)}), "
                              f"found ({', '.join(attributes)})")
        return unit


class Unit:
    """Executes one kind of instruction: by its closures, or, for integers seen before, from the recording."""

    def __init__(self, machine: Machine, instruction: Instruction) -> None:
        # no way back to the machine: without cycles, its buffers are freed with it
        self.executed = machine.executed
        self.name = instruction.name
        self.attributes = instruction.attributes
        self.frame = machine.frame
        self.tape = Tape()
        translator = Translator(machine.isa, machine.buffers, machine.slots, machine.frame, self.tape)
        self.inputs = [translator.slot(name) for name in instruction.attributes]
        self.steps = translator.block(instruction.body)
        self.recordings: dict[Any, tuple[int, Recording]] = {}
        registers = sorted(machine.slots[key] for key in _registers_read(machine.isa, instruction.name))
        # itemgetter gives a tuple for two slots or more
        self.state = itemgetter(*registers) if len(registers) > 1 else lambda f: tuple([f[i] for i in registers])
        found = address_attribute(machine.isa, instruction.name)
        self.address = instruction.attributes.index(found[0]) if found else None
        self.special = found[1] if found else frozenset()

    def run(self, values: tuple[int, ...], loops: Mapping[str, int]) -> None:
        """Execute for these values of the attributes; StreamError for a broken rule."""
        key, base = self.key(values)
        base_and_recording = self.recordings.get(key)
        if base_and_recording is not None:
            recorded, recording = base_and_recording
            shift = base - recorded
            if recording.low <= shift <= recording.high:
                recording.play(self.frame, shift)
                self.executed[0] += 1
                return
        self.execute(values, loops, key, base)

    def key(self, values: tuple[int, ...]) -> tuple[Any, int]:
        """What must be equal for a recording to hold, and the address by which it may be moved."""
        state = self.state(self.frame)
        i = self.address
        if i is None or values[i] in self.special:
            return (values, state), 0
        return (values[:i], values[i + 1:], state), values[i]

    def execute(self, values: tuple[int, ...], loops: Mapping[str, int], key: Any, base: int) -> None:
        """Execute by the closures, every rule checked, and keep the recording."""
        frame = self.frame
        for slot, value in zip(self.inputs, values, strict=True):
            frame[slot] = value
        self.tape.start()
        try:
            tensors: dict[str, Any] = {}
            for run in self.steps:
                run(frame, tensors)
        except (Violation, TaidlError) as error:
            raise StreamError(f"{self.place(values, loops)}: {error}") from None
        if len(self.recordings) >= _KEPT:
            self.recordings.clear()
        self.recordings[key] = base, self.tape.stop()
        self.executed[0] += 1

    def place(self, values: tuple[int, ...], loops: Mapping[str, int]) -> str:
        """Which instance this is, for messages."""
        call = f"{self.name}({', '.join(f'{k}={v}' for k, v in zip(self.attributes, values, strict=True))})"
        at = f" at {', '.join(f'{k} = {v}' for k, v in loops.items())}" if loops else ""
        return f"instruction {self.executed[0]}, {call}{at}"


@lru_cache(maxsize=1024)
def _registers_read(isa: Isa, mnemonic: str) -> frozenset[str]:
    """The keys of the registers that an instruction may read; of an array, all."""
    keys = list(isa.initial_registers())
    named = [node for s in every(isa.instruction(mnemonic).body) for node in statement_names(s)]
    arrays = tuple(f"{node.name}[" for node in named if isinstance(node, ast.Element))
    single = {node.name for node in named if isinstance(node, ast.Name)}
    return frozenset(key for key in keys if key in single or key.startswith(arrays))
