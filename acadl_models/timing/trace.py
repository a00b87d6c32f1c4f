"""A window of a run in the Chrome trace event format, which Perfetto and chrome://tracing open.

One microsecond of the trace is one clock cycle. Each template of the architecture graph is a process and each object a
thread; an object that does several things at once has a thread for each of them. What belongs together is nested:
steps in an instruction, stalls in a step.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from typing import Any, TypeAlias

from archloom.acadl_models.timing.log import RunLog
from archloom.acadl_models.timing.tracks import DEPENDENCY, LINK, STORAGE, STRUCTURAL, Slice, Tracks, tracks

Json: TypeAlias = dict[str, Any]

FORMAT = "archloom.trace/1"
"""Name and version of what stands in ``otherData``."""

COLOURS = {DEPENDENCY: "terrible", STORAGE: "bad", STRUCTURAL: "yellow", LINK: "olive"}
"""Reserved colour names of the format, by the cause of a stall."""

KIND_COLOURS = {"instruction": "good", "request": "thread_state_runnable", "fetch": "grey", "queue": "white"}


def trace(log: RunLog) -> Json:
    """The trace of a log as a JSON object."""
    return _Writer(log, tracks(log)).trace()


def trace_bytes(log: RunLog, compressed: bool) -> bytes:
    """The trace as a file's contents, compressed with gzip or not; the same for the same log."""
    text = json.dumps(trace(log), separators=(",", ":")).encode()
    return gzip.compress(text, mtime=0) if compressed else text


class _Writer:
    def __init__(self, log: RunLog, found: Tracks) -> None:
        self.log, self.tracks = log, found
        self.graph = log.program.graph
        self.attributes: dict[int, Json] = {}
        self.processes: dict[str, int] = {}
        self.threads = 0

    def trace(self) -> Json:
        window = {"from": self.tracks.begin, "to": self.tracks.end}
        return {
            "traceEvents": list(self._events()),
            "displayTimeUnit": "ns",
            "otherData": {
                "format": FORMAT, "graph": self.graph.name, "stream": self.log.program.stream.name, "window": window,
                "clock_hz": self.graph.clock_hz, "time": "1 us = 1 clock cycle",
            },
        }

    def _events(self) -> Iterator[Json]:
        for place in self.graph.objects:
            slices, counters = self.tracks.slices.get(place, ()), self.tracks.counters.get(place, ())
            if not slices and not counters:
                continue
            template, _, name = place.rpartition(".")
            yield from self._process(template)
            pid = self.processes[template]
            for number, lane in enumerate(_lanes(slices)):
                self.threads += 1
                label = name if number == 0 else f"{name} ({number + 1})"
                yield from _named("thread", pid, self.threads, label, self.threads)
                for found in lane:
                    yield from self._slice(found, pid, self.threads)
            for counter in counters:
                for time, value in counter.points:
                    yield {"name": f"{name}: {counter.name}", "ph": "C", "ts": time, "pid": pid,
                           "args": {"value": value}}

    def _process(self, template: str) -> Iterator[Json]:
        if template not in self.processes:
            pid = self.processes[template] = len(self.processes) + 1
            yield from _named("process", pid, 0, template or self.graph.name, pid)

    def _slice(self, found: Slice, pid: int, tid: int) -> Iterator[Json]:
        event: Json = {
            "name": found.name, "cat": f"stall,{found.stall}" if found.stall else found.kind, "ph": "X",
            "ts": found.begin, "dur": found.end - found.begin, "pid": pid, "tid": tid,
            "args": {**self._attributes(found), **dict(found.details)},
        }
        colour = COLOURS.get(found.stall) or KIND_COLOURS.get(found.kind)
        if colour is not None:
            event["cname"] = colour
        yield event
        for part in found.parts:
            yield from self._slice(part, pid, tid)

    def _attributes(self, found: Slice) -> Json:
        """What instruction a slice is about: its number, attributes and loop values."""
        if found.number < 0:
            return {}
        if found.number not in self.attributes:
            static, values = self.log.program.names.find(found.number)
            attributes = {name: e.evaluate(values) for name, e in static.node.attributes}
            self.attributes[found.number] = {
                "instruction": found.number, "mnemonic": static.mnemonic, **attributes,
                **{f"loop {k}": v for k, v in values.items()},
            }
        return self.attributes[found.number]


def _named(what: str, pid: int, tid: int, name: str, order: int) -> Iterator[Json]:
    for event, args in ((f"{what}_name", {"name": name}), (f"{what}_sort_index", {"sort_index": order})):
        yield {"name": event, "ph": "M", "pid": pid, "tid": tid, "ts": 0, "args": args}


def _lanes(slices: tuple[Slice, ...]) -> list[list[Slice]]:
    """Slices by lane: each goes to the first lane that is free, so that those of a lane do not overlap."""
    lanes: list[list[Slice]] = []
    free: list[int] = []
    for found in slices:
        number = next((k for k, time in enumerate(free) if time <= found.begin), len(lanes))
        if number == len(lanes):
            lanes.append([])
            free.append(0)
        lanes[number].append(found)
        free[number] = found.end
    return lanes
