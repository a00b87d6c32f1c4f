"""Programs of cores run queue by queue in any order that semaphores allow: nothing but waits holds an instruction back.

The order in which the queues' instructions happen to come becomes a program of its own, without semaphores, that the
interpreter runs: a wait that is missing gives other numbers.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from archloom.mapper.spatial.machines.machine import Machine
from archloom.mapper.spatial.machines.queues import QUEUES
from archloom.oracle import taidl
from archloom.oracle.interpreter import run
from archloom.oracle.stream import Instr, Stream
from tests.support.oracle.flat_trace import flat_trace

Item = tuple[str, dict[str, int]]


class Stuck(Exception):
    """No queue can go on."""


def in_any_order(stream: Stream, machine: Machine, seed: int) -> Stream:
    """A program that takes the instructions as queues might; ``seed`` chooses the queue that goes on next."""
    random, semaphores = np.random.default_rng(seed), np.zeros(machine.cores * machine.semaphores, np.int64)
    queues: dict[int, deque[Item]] = defaultdict(deque)
    found = []
    for name, values in flat_trace(stream):
        if name == "launch":
            found.append((name, values))
        else:
            queues[queue_by_meaning(name, values, machine)].append((name, values))
    while queues:
        names = list(queues)
        # some queues are much slower than others
        weights = random.random(len(names)) ** 4
        for i in np.argsort(-weights):
            queue = queues[names[i]]
            name, values = queue[0]
            if name in ("signal", "wait") and not _shaken(name, values, semaphores):
                continue
            found += [] if name in ("signal", "wait") else [(name, values)]
            queue.popleft()
            if not queue:
                del queues[names[i]]
            break
        else:
            raise Stuck(f"{len(queues)} queues wait")
    return replace(stream, body=tuple(Instr.make(name, **values) for name, values in found))


def run_in_any_order(
    stream: Stream, machine: Machine, arguments: Mapping[str, np.ndarray], seed: int
) -> dict[str, np.ndarray]:
    """The results, with memories full of rubbish before."""
    isa = taidl.load(stream.isa, **dict(stream.parameters))
    return run(in_any_order(stream, machine, seed), isa, dict(arguments), poison=5)


def _shaken(name: str, v: dict[str, int], semaphores: np.ndarray) -> bool:
    """Signals, or takes what was signalled; False if it has to wait."""
    if name == "wait":
        counters = semaphores[v["semaphore"]:][:v["count"]]
        if (counters < 1).any():
            return False
        counters -= 1
        return True
    for i in range(v["n0"]):
        for j in range(v["n1"]):
            semaphores[v["semaphore"] + i * v["s0"] + j * v["s1"]] += 1
    return True


def queue_by_meaning(name: str, v: dict[str, int], machine: Machine) -> int:
    """The unit that takes an instruction, by the meaning of its attributes."""
    count = len(QUEUES)
    if name in ("signal", "wait"):
        return v["queue"]
    if name in ("reduce", "take"):
        return v["target"] // machine.sums * count + QUEUES["adder"]
    if name in ("store", "store_places"):
        return v["acc"] // machine.sums * count + QUEUES["writer"]
    if name in ("matmul", "matmul_transposed", "weigh", "score", "clear"):
        return v.get("c", v.get("acc", 0)) // machine.sums * count + QUEUES["matrix"]
    if name == "forward":
        core = v["source"] // machine.tiles
        east = v["target"] // machine.tiles // machine.columns == core // machine.columns
        return core * count + QUEUES["east" if east else "south"]
    if name == "unicast":
        routers = (unit.queue for unit in machine.queues.units if unit.queue % count == QUEUES["router"])
        # of a row, or of all cores
        return max(router for router in routers if router // count <= v["source"] // machine.tiles)
    what, _, way = name.partition("_")
    if what in ("multicast", "windows", "share", "gather"):
        row, column = divmod(v["target" if what in ("share", "gather") else "l1"] // machine.tiles, machine.columns)
        return {"row": row * machine.columns, "column": column}.get(way, 0) * count + QUEUES[way]
    if what == "load":
        return v["l1"] // machine.tiles * count + QUEUES["reader"]
    sums = next((v[key] for key in ("acc", "out", "scores") if key in v), None)
    return (v["stat"] // machine.stats if sums is None else sums // machine.sums) * count + QUEUES["vector"]
