"""Repeated instructions: what must be equal, which attribute may move, and that playing equals executing."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest

from archloom.oracle import taidl
from archloom.oracle.affine import Affine
from archloom.oracle.errors import StreamError
from archloom.oracle.interpreter import run_state, start
from archloom.oracle.stream import Instr, Loop, Stream
from archloom.oracle.taidl.machine import Machine
from archloom.oracle.taidl.parser import parse
from archloom.oracle.taidl.replay import address_attribute

V = Affine.variable


def made(body: str, attributes: str = "at, n") -> taidl.Isa:
    return taidl.instantiate(parse(f"isa t; [b] (8) (4xi8); r = 0; [i]({attributes}) {{ {body} }}"), {})


@pytest.mark.parametrize(("body", "found"), [
    ("%x:4xi8 <- $hbm[at : at + 4];", ("at", frozenset())),
    ("%x:1xi8 <- $hbm[at]; %x -> $hbm[at + n];", ("at", frozenset())),
    ("IF (at == 0 || 3 != at) { %x:{n}xi8 <- $hbm[at + {n : 1}]; }", ("at", frozenset({0, 3}))),
    ("let p = at + n * 4; IF (!(p - n * 4 == 7)) { %x:4xi8 <- $hbm[p + {4 : 1}]; }", ("at", frozenset({7}))),
    ("REPEAT (m, n) { %x:1xi8 <- $hbm[at + m]; }", ("at", frozenset())),
    ("%x:4xi8 = constant(at);", None),
    ("%x:4xi8 <- $hbm[at * 2 + {4 : 1}];", None),
    ("%x:4xi8 <- $hbm[at % 8 + {4 : 1}];", None),
    ("%x:4xi8 <- $hbm[{4 : at}];", None),
    ("%x:{at}xi8 <- $hbm[n : n + at];", ("n", frozenset())),
    ("%x:4xi8 <- $hbm[n : at];", None),
    ("%x:4xi8 <- $hbm[at + {4 : 1}]; assert(at > 0);", None),
    ("%x:4xi8 <- $hbm[at + {4 : 1}]; r = at;", None),
    ("IF (at < 9) { %x:4xi8 <- $hbm[at + {4 : 1}]; }", None),
    ("IF (at == n) { %x:4xi8 <- $hbm[at + {4 : 1}]; }", None),
    ("%x:1x4xi8 <- $b[at]; %y:4xi8 <- $hbm[at + {4 : 1}];", None),
    ("IF (n == 1) { let p = at; } ELSE { let p = 0; } %x:4xi8 <- $hbm[p + {4 : 1}];", None),
    ("REPEAT (m, at) { %x:1xi8 <- $hbm[at + m]; }", None),
    ("r = n;", None),
])
def test_attributes_that_only_place_windows(body: str, found: tuple[str, frozenset[int]] | None) -> None:
    assert address_attribute(made(body), "i") == found


def test_gemmini_moves_are_recognized() -> None:
    isa = taidl.load("gemmini")
    found = {name: address_attribute(isa, name) for name in isa.instructions}
    assert {k: v for k, v in found.items() if v} == {
        **dict.fromkeys(("mvin", "mvin2", "mvin3"), ("dram", frozenset({0}))), "mvout": ("dram", frozenset()),
    }


COPY = made("%x:{n}xi8 <- $hbm[at + {n : 2}]; r = r + n; %y:{n}xi8 = negate(%x);"
            "%z:1x{n}xi8 = reshape(%y); %z -> $b[0, 0:n];")


def test_played_instances_equal_executed_ones() -> None:
    """The same program with fresh machines for each instance, and with one that plays recordings."""
    values = np.arange(64, dtype=np.int8)
    hbm, machine = start(Stream("t", (), (), (), 64, (), "s"), COPY, {})
    hbm[:] = values
    total = 0
    for at in (3, 5, 0, 60 - 3, 5):
        fresh = Machine(COPY, {"hbm": hbm, "b": machine.buffers["b"].copy()})
        fresh.unit("i", ("at", "n")).run((at, 3), {})
        machine.unit("i", ("at", "n")).run((at, 3), {})
        total += 3
        np.testing.assert_array_equal(machine.buffers["b"], fresh.buffers["b"])
        np.testing.assert_array_equal(machine.buffers["b"][0, :3], -values[at:at + 5:2])
        assert machine.registers() == {"r": total}


def test_recordings_are_used_and_bounds_still_hold() -> None:
    isa = made("%x:{n}xi8 <- $hbm[at + {n : 2}]; %z:1x{n}xi8 = reshape(%x); %z -> $b[0, 0:n];")
    _, machine = start(Stream("t", (), (), (), 64, (), "s"), isa, {})
    for at in (0, 10, 59):
        machine.unit("i", ("at", "n")).run((at, 3), {})
    assert len(machine.unit("i", ("at", "n")).recordings) == 1
    for at in (60, -1):
        with pytest.raises(StreamError, match=rf"instruction 3, i\(at={at}, n=3\): .* outside of an axis of extent 64"):
            machine.unit("i", ("at", "n")).run((at, 3), {})


def test_a_register_that_changed_makes_another_instance() -> None:
    isa = made("%x:{n}x4xi8 = constant(r); %x -> $b[r + {n : 1}]; r = r + at;")
    body = Loop("k", 0, 3, 1, (Instr.make("i", at=2, n=1),))
    state = run_state(Stream("t", (), (), (), 0, (body,), "s"), isa, {})
    assert state.buffers["b"][:, 0].tolist() == [0, 0, 2, 0, 4, 0, 0, 0] and state.registers == {"r": 6}


def test_rules_are_judged_for_every_new_instance() -> None:
    isa = made("assert(n < 3); %x:{n}x4xi8 = constant(1); %x -> $b[at + {n : 1}];")
    body = Loop("k", 0, 4, 1, (Instr.make("i", at=0, n=V("k") + 1),))
    with pytest.raises(StreamError, match=r"instruction 2, i\(at=0, n=3\) at k = 2: assert\(n < 3\) fails: n = 3"):
        run_state(Stream("t", (), (), (), 0, (body,), "s"), isa, {})


def test_a_machine_is_freed_without_the_collector() -> None:
    """Runs pause the collector, and a network has many layers: buffers must not wait for it."""
    isa = made("%x:{n}x4xi8 = constant(1); %x -> $b[at + {n : 1}]; IF (n == 2) { r = n; }")
    gc.disable()
    try:
        _, machine = start(Stream("t", (), (), (), 64, (), "s"), isa, {})
        machine.unit("i", ("at", "n")).run((0, 2), {})
        machine.unit("i", ("at", "n")).run((0, 2), {})
        watched = weakref.ref(machine.buffers["b"])
        del machine
        assert watched() is None
    finally:
        gc.enable()
