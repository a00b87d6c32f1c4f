"""Programs of cores run queue by queue in any order that semaphores allow: nothing but waits holds an instruction back.

Tiles are touched when an instruction's turn comes, whoever else works on them: a wait that is missing gives wrong sums.
"""

from __future__ import annotations

from collections import defaultdict, deque

import numpy as np

from mapper.spatial.handshakes import QUEUES
from mapper.spatial.machine import TILE_BYTES, Machine
from oracle.stream import Stream, flat_trace

Item = tuple[str, dict[str, int]]


class Stuck(Exception):
    """No queue can go on."""


class QueueExecutor:
    """Executes a product's program; ``random`` chooses the queue that goes on next."""

    def __init__(self, stream: Stream, machine: Machine, arguments: dict[str, np.ndarray], seed: int) -> None:
        self.machine, self.stream = machine, stream
        self.random = np.random.default_rng(seed)
        self.memory = np.zeros((stream.hbm_bytes // TILE_BYTES + 1, 32, 32), np.float32)
        for tensor in stream.arguments:
            tiles = arguments[tensor.name].reshape(-1, 32, 32)
            self.memory[tensor.address // TILE_BYTES:][:len(tiles)] = tiles
        self.l1 = np.full((machine.cores * machine.tiles, 32, 32), 1000, np.float32)
        self.acc = np.zeros((machine.cores * machine.sums, 32, 32), np.float32)
        self.semaphore = np.zeros(machine.cores * machine.semaphores, np.int64)

    def run(self) -> np.ndarray:
        queues: dict[int, deque[Item]] = defaultdict(deque)
        for name, values in flat_trace(self.stream):
            if name != "launch":
                queues[self.queue(name, values)].append((name, values))
        while queues:
            names = list(queues)
            # some queues are much slower than others
            weights = self.random.random(len(names)) ** 4
            for i in np.argsort(-weights):
                queue = queues[names[i]]
                if self.step(*queue[0]):
                    queue.popleft()
                    if not queue:
                        del queues[names[i]]
                    break
            else:
                raise Stuck(f"{len(queues)} queues wait")
        (c,) = self.stream.results
        return self.memory[c.address // TILE_BYTES:][:c.shape[0] * c.shape[1]].reshape(c.shape)

    def queue(self, name: str, v: dict[str, int]) -> int:
        machine, count = self.machine, len(QUEUES)
        if name in ("signal", "wait"):
            return v["queue"]
        if name in ("reduce", "clear", "store"):
            unit = {"reduce": "adder", "clear": "matrix", "store": "writer"}[name]
            return v["target" if name == "reduce" else "acc"] // machine.sums * count + QUEUES[unit]
        core = v[{"matmul": "a", "forward": "source"}.get(name, "l1")] // machine.tiles
        row, column = divmod(core, machine.columns)
        if name == "forward":
            east = v["target"] // machine.tiles // machine.columns == row
            return core * count + QUEUES["east" if east else "south"]
        if name.startswith("multicast_"):
            way = name.removeprefix("multicast_")
            return {"row": row * machine.columns, "column": column}.get(way, 0) * count + QUEUES[way]
        return core * count + QUEUES["matrix" if name == "matmul" else "reader"]

    def step(self, name: str, v: dict[str, int]) -> bool:
        """Execute an instruction; False if it has to wait."""
        if name == "wait":
            counters = self.semaphore[v["semaphore"]:][:v["count"]]
            if (counters < 1).any():
                return False
            counters -= 1
        elif name == "signal":
            for i in range(v["n0"]):
                for j in range(v["n1"]):
                    self.semaphore[v["semaphore"] + i * v["s0"] + j * v["s1"]] += 1
        elif name == "forward":
            self.l1[v["target"]:][:v["count"]] = self.l1[v["source"]:][:v["count"]]
        elif name == "matmul":
            a = self.l1[v["a"]:][:v["m"] * v["k"]].reshape(v["m"], v["k"], 32, 32)
            b = self.l1[v["b"]:][:v["k"] * v["n"]].reshape(v["k"], v["n"], 32, 32)
            self.acc[v["c"]:][:v["m"] * v["n"]] += np.einsum("ikab,kjbc->ijac", a, b).reshape(-1, 32, 32)
        elif name == "reduce":
            self.acc[v["target"]:][:v["count"]] += self.acc[v["source"]:][:v["count"]]
        elif name == "clear":
            self.acc[v["acc"]:][:v["count"]] = 0
        elif name == "store":
            sums = self.acc[v["acc"]:][:v["rows"] * v["cols"]]
            self.memory[self._tiles(v)] = sums
            sums[:] = 0
        else:
            block = self.memory[self._tiles(v)]
            for i in range(v.get("n0", 1)):
                for j in range(v.get("n1", 1)):
                    self.l1[v["l1"] + i * v.get("s0", 0) + j * v.get("s1", 0):][:len(block)] = block
        return True

    def _tiles(self, v: dict[str, int]) -> np.ndarray:
        rows = v["dram"] // TILE_BYTES + np.arange(v["rows"]) * (v["h0"] // TILE_BYTES)
        return (rows[:, None] + np.arange(v["cols"])).ravel()
