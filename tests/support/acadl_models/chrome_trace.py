"""A strict reader of the Chrome trace event format, as far as the traces use it, into tables that SQL can query.

The format is described in the document "Trace Event Format" of Chromium. Perfetto drops slices of one thread that
overlap without being nested, so these are refused here.
"""

from __future__ import annotations

import json
import sqlite3
from typing import Any

COLOURS = {  # reserved names of the format
    "thread_state_uninterruptible", "thread_state_iowait", "thread_state_running", "thread_state_runnable",
    "thread_state_sleeping", "thread_state_unknown", "background_memory_dump", "light_memory_dump",
    "detailed_memory_dump", "vsync_highlight_color", "generic_work", "good", "bad", "terrible", "black", "grey",
    "white", "yellow", "olive", "rail_response", "rail_animation", "rail_idle", "rail_load", "startup",
}
FIELDS = {
    "X": {"name", "cat", "ph", "ts", "dur", "pid", "tid", "args"},
    "C": {"name", "ph", "ts", "pid", "args"},
    "M": {"name", "ph", "ts", "pid", "tid", "args"},
}


def read(data: bytes) -> sqlite3.Connection:
    """Tables ``process(pid, name)``, ``thread(tid, pid, name)``, ``slice(ts, dur, name, cat, tid, depth, args)`` and
    ``counter(ts, name, pid, value)``; AssertionError or ValueError for what is not in the format."""
    document = json.loads(data, parse_constant=_refuse)
    assert set(document) == {"traceEvents", "displayTimeUnit", "otherData"}
    assert document["displayTimeUnit"] in ("ms", "ns")
    tables = sqlite3.connect(":memory:")
    tables.executescript(
        "create table process(pid integer primary key, name text);"
        "create table thread(tid integer primary key, pid integer references process, name text);"
        "create table slice(ts integer, dur integer, name text, cat text, tid integer, depth integer, args text);"
        "create table counter(ts integer, name text, pid integer, value integer);"
    )
    open_slices: dict[tuple[int, int], list[dict[str, Any]]] = {}
    events = document["traceEvents"]
    for event in events:
        _check(event)
        if event["ph"] == "M" and event["name"].endswith("_name"):
            named = (event["pid"], event["args"]["name"])
            if event["name"] == "process_name":
                tables.execute("insert into process values (?, ?)", named)
            else:
                tables.execute("insert into thread values (?, ?, ?)", (event["tid"], *named))
    for event in sorted((e for e in events if e["ph"] != "M"), key=lambda e: e["ts"]):  # stable, as Perfetto sorts
        if event["ph"] == "C":
            point = (event["ts"], event["name"], event["pid"], event["args"]["value"])
            tables.execute("insert into counter values (?, ?, ?, ?)", point)
            continue
        stack = open_slices.setdefault((event["pid"], event["tid"]), [])
        while stack and stack[-1]["ts"] + stack[-1]["dur"] <= event["ts"]:
            stack.pop()
        assert not stack or event["ts"] + event["dur"] <= stack[-1]["ts"] + stack[-1]["dur"], (stack[-1], event)
        row = (event["ts"], event["dur"], event["name"], event["cat"], event["tid"], len(stack))
        tables.execute("insert into slice values (?, ?, ?, ?, ?, ?, ?)", (*row, json.dumps(event["args"])))
        stack.append(event)
    orphans = "select count(*) from slice left join thread using (tid) where thread.pid is null"
    assert tables.execute(orphans).fetchone() == (0,)
    return tables


def _check(event: dict[str, Any]) -> None:
    assert set(event) - {"cname"} == FIELDS[event["ph"]], event
    assert event.get("cname", "good") in COLOURS
    assert isinstance(event["name"], str) and event["name"] and isinstance(event["args"], dict)
    numbers = [event[k] for k in ("ts", "dur", "pid", "tid") if k in event]
    assert all(type(n) is int and n >= 0 for n in numbers), event
    if event["ph"] == "X":
        assert event["dur"] > 0 and isinstance(event["cat"], str) and event["cat"]
    if event["ph"] == "C":
        assert event["args"] and all(type(v) is int for v in event["args"].values())


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is no JSON")
