"""Programs with semaphores: waits alone keep cores apart, and what would hang or overtake is found at emission."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, is_dataclass, replace
from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from archloom.acadl_models.fit import check_fit
from archloom.acadl_models.timing import simulate
from archloom.acadl_models.timing.reference.simulator import simulate_reference
from archloom.mapper.spatial.attention.space import Attention
from archloom.mapper.spatial.chain.space import Chain
from archloom.mapper.spatial.epilogue import Epilogue
from archloom.mapper.spatial.machines.machine import TILE_BYTES, Machine, isa_of
from archloom.mapper.spatial.machines.queues import QUEUES
from archloom.mapper.spatial.plan import AttentionPlan, ChainPlan, PartedPlan, Plan, SweepPlan, TileGemm
from archloom.mapper.spatial.products.batched import Product
from archloom.mapper.spatial.products.convolution import Convolution
from archloom.mapper.spatial.programs.deadlock import check_arrivals, check_handshakes
from archloom.mapper.spatial.programs.signalling import signalled
from archloom.mapper.spatial.programs.timing import simulated
from archloom.mapper.spatial.programs.touches import instances, touches
from archloom.mapper.spatial.sweeps.elementwise import Elementwise, Operation
from archloom.mapper.spatial.sweeps.reduction import Columns, Rows
from archloom.mapper.spatial.workloads import AnyPlan, AnyWork, emitted
from archloom.oracle.affine import Affine
from archloom.oracle.errors import MappingError
from archloom.oracle.interpreter import run
from archloom.oracle.resolve import resolve
from archloom.oracle.stream import HbmTensor, Instr, Loop, Node, Stream
from archloom.oracle.xla.oracle import compile_stream
from tests.support.examples import every, examples, slow
from tests.support.mapper.queue_executor import Stuck, queue_by_meaning, run_in_any_order
from tests.support.mapper.small_meshes import mesh
from tests.support.mapper.spatial_cases import Case, cases
from tests.support.oracle.flat_trace import flat_trace

WITH = 400
"""Semaphores of a core."""


def handed(case: Case) -> Stream:
    return emitted(case.gemm, case.plan, case.machine, semaphores=True)


def holds(case: Case, seed: int) -> None:
    """Any order of the queues gives the product, and so does the order of the program."""
    stream = handed(case)
    arguments, expected = case.operands()
    found = run_in_any_order(stream, case.machine, arguments, seed)["C"]
    np.testing.assert_array_equal(case.untiled(found), expected)
    result = run(stream, isa_of(case.graph), arguments, poison=5)["C"]
    np.testing.assert_array_equal(case.untiled(result), expected)


@pytest.mark.slow
@examples(6, 300)
@given(cases(7, semaphores=WITH), st.integers(0, 99))
def test_waits_alone_keep_cores_apart(case: Case, seed: int) -> None:
    holds(case, seed)


@pytest.mark.slow
@examples(3, 40)
@given(cases(2, side=2, semaphores=WITH))
def test_simulation_is_exact(case: Case) -> None:
    resolved = resolve(handed(case), isa_of(case.graph))
    assert simulate(case.graph, resolved).cycles == simulate_reference(case.graph, resolved).cycles


PLANS = [
    Plan((2, 2, 2), (2, 1, 1), (1, 2, 1), "rows", "mn", ("row", "stream"), ("column", "stream")),
    Plan((2, 1, 2), (1, 2, 1), (1, 2, 1), "rows", "mn", ("across", "stream"), ("none", "stream")),
    Plan((2, 2, 2), (2, 1, 1), (1, 2, 1), "rows", "mn", ("wave", "stream"), ("wave", "keep"), 2),
    Plan((1, 2, 2), (2, 1, 1), (2, 1, 1), "rows", "mn", ("none", "keep"), ("down", "stream"), 2, 2),
    Plan((2, 2, 2), (2, 1, 1), (1, 1, 2), "rows", "mn", ("none", "stream"), ("column", "stream")),
]
GEMM = TileGemm(8, 8, 8)


def made(plan: Plan) -> tuple[Stream, Machine]:
    machine = Machine.of(mesh(2, 2, 9, 40, WITH))
    return emitted(GEMM, plan, machine, semaphores=True), machine


BATCH = Product(3, 100, 90, 70, True, False, False, Epilogue(True, True, "silu"))
IMAGE = Convolution(1, 8, 8, 70, 100, (2, 2))
SUM = Elementwise(200, 130, (Operation("add", "tensor"), Operation("multiply", "row"), Operation("relu")))
WORKLOADS: dict[str, tuple[AnyWork, AnyPlan]] = {
    **{str(plan): (GEMM, plan) for plan in PLANS},
    "batch": (BATCH, PartedPlan((2, 1), Plan(
        (2, 2, 1), (1, 1, 1), (1, 2, 1), "rows", "mn", ("row", "stream"), ("none", "keep")))),
    "convolution": (IMAGE, PartedPlan((1, 1), Plan(
        (1, 1, 1), (2, 1, 1), (1, 2, 1), "rows", "mn", ("row", "stream"), ("column", "stream")))),
    "softmax": (Rows(200, 70, "softmax"), SweepPlan((1, 2), (2, 1), (2, 1), 2)),
    "columns": (Columns(200, 70, "sum"), SweepPlan((2, 1), (2, 1), (2, 1), 2)),
    "element-wise": (SUM, SweepPlan((1, 2), (2, 1), (1, 2), 2)),
    "attention": (Attention(1, 200, 200, 32, 1, 0), AttentionPlan((1, 1), (1, 2), (1, 2), ("across", "stream"))),
    "chain": (Chain(100, 60, 100, 70, "gelu"), ChainPlan((1, 1, 1, 1), (1, 2), (1, 2), ("none", "stream"), True)),
}
"""Programs of all kinds."""


def program(name: str) -> tuple[Stream, Machine]:
    machine = Machine.of(mesh(2, 2, 9, 40, WITH))
    return emitted(*WORKLOADS[name], machine, semaphores=True), machine


@cache
def results(name: str) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Operands, and what a program without semaphores makes of them."""
    stream = emitted(*WORKLOADS[name], Machine.of(mesh(2, 2, 9, 40)))
    random = np.random.default_rng(1)
    arguments = {t.name: random.integers(-2, 3, t.shape).astype(np.float16) for t in stream.arguments}
    return arguments, run(stream, isa_of(mesh(2, 2, 9, 40)), arguments)


@pytest.mark.slow
@pytest.mark.parametrize("name", every(12, WORKLOADS))
def test_semaphores_change_no_result_and_little_time(name: str) -> None:
    graph = mesh(2, 2, 9, 40, WITH)
    stream, machine = program(name)
    arguments, expected = results(name)
    assert any(i.instr.mnemonic == "wait" for i in instances(stream.body))
    for found in (run(stream, isa_of(graph), arguments), run_in_any_order(stream, machine, arguments, 1)):
        for key, value in expected.items():
            np.testing.assert_array_equal(found[key], value)
    assert simulated(stream, graph).cycles <= 2 * simulated(emitted(*WORKLOADS[name], machine), graph).cycles


def altered(value: Any) -> Iterator[Any]:
    """The value with one of its numbers 0, or one of its words another."""
    if is_dataclass(value):
        for part in fields(value):
            if part.name != "lead":  # which may be 0
                for other in altered(getattr(value, part.name)):
                    yield replace(value, **{part.name: other})  # type: ignore[type-var]
    elif isinstance(value, tuple):
        for i, part in enumerate(value):
            yield from ((*value[:i], other, *value[i + 1:]) for other in altered(part))
    elif isinstance(value, str):
        yield "shared"
    elif not isinstance(value, bool):
        yield 0


@pytest.mark.parametrize("name", WORKLOADS)
def test_plans_with_zeros_or_unknown_words_are_refused(name: str) -> None:
    work, plan = WORKLOADS[name]
    others = list(altered(plan))
    assert len(others) >= 7
    for other in others:
        with pytest.raises(MappingError, match="expected the JSON"):
            emitted(work, other, Machine.of(mesh(2, 2, 9, 40)))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["batch", slow("columns"), slow("chain")])
def test_the_oracle_has_the_same_bits_with_and_without(name: str) -> None:
    with_them, without = mesh(2, 2, 9, 40, WITH), mesh(2, 2, 9, 40)
    arguments, _ = results(name)
    found, expected = (
        np.asarray(compile_stream(
            emitted(*WORKLOADS[name], Machine.of(g), semaphores=g is with_them), isa_of(g))(*arguments.values())[0])
        for g in (with_them, without))
    np.testing.assert_array_equal(found, expected)


@pytest.mark.first_case
@pytest.mark.parametrize("plan", PLANS, ids=str)
def test_the_oracle_and_the_graph_take_semaphores(plan: Plan) -> None:
    """Counters vanish in the oracle; in the simulation they cost little."""
    stream, machine = made(plan)
    graph = mesh(2, 2, 9, 40, WITH)
    check_fit(graph, isa_of(graph))
    assert compile_stream(stream, isa_of(graph)).raised
    assert simulated(stream, graph).cycles <= 2 * simulated(emitted(GEMM, plan, machine), graph).cycles


def unrolled(stream: Stream) -> list[Instr]:
    return [Instr.make(name, **values) for name, values in flat_trace(stream)]


def rejected(stream: Stream, machine: Machine, body: list[Instr], match: str) -> None:
    with pytest.raises(MappingError, match=match):
        check_handshakes(replace(stream, body=tuple(body)), machine, "plan P")


@pytest.mark.slow
@examples(8, 150)
@given(st.sampled_from(sorted(WORKLOADS)), st.integers(0, 1 << 20))
def test_no_signal_can_be_left_out(name: str, which: int) -> None:
    """Some wait lacks it, unless it is one of the last, which tell that places are free that nobody fills again."""
    stream, machine = program(name)
    body = unrolled(stream)
    signals = [i for i, instr in enumerate(body) if instr.mnemonic == "signal"]
    i = signals[which % len(signals)]
    later = {int(w["semaphore"].constant) + c for w in body[i:] if w.mnemonic == "wait"
             for c in range(w["count"].constant)}
    gone = body[i]
    own = {int(gone["semaphore"].constant) + a * gone["s0"].constant + b * gone["s1"].constant
           for a in range(gone["n0"].constant) for b in range(gone["n1"].constant)}
    assume(own & later)
    del body[i]
    with pytest.raises(MappingError, match="plan P: "):
        check_handshakes(replace(stream, body=tuple(body)), machine, "plan P")


@pytest.mark.slow
@examples(4, 120)
@given(st.sampled_from(sorted(WORKLOADS)), st.integers(0, 1 << 20), st.booleans())
def test_programs_that_pass_run_in_any_order(name: str, which: int, twice: bool) -> None:
    """One wait less, or one signal more: either that is found, or the program gives the product all the same."""
    stream, machine = program(name)
    body = unrolled(stream)
    shaken = [i for i, instr in enumerate(body) if instr.mnemonic == ("signal" if twice else "wait")]
    i = shaken[which % len(shaken)]
    body[i:i + 1] = [body[i]] * 2 * twice
    changed = replace(stream, body=tuple(body))
    try:
        check_handshakes(changed, machine, "plan P")
    except MappingError:
        return
    arguments, expected = results(name)
    found = run_in_any_order(changed, machine, arguments, which)
    for key, value in expected.items():
        np.testing.assert_array_equal(found[key], value)


@pytest.mark.slow
@examples(4, 120)
@given(st.sampled_from(sorted(WORKLOADS)), st.integers(0, 1 << 20))
def test_no_wait_can_come_twice(name: str, which: int) -> None:
    stream, machine = program(name)
    body = unrolled(stream)
    waits = [i for i, instr in enumerate(body) if instr.mnemonic == "wait"]
    body.insert(waits[which % len(waits)], body[waits[which % len(waits)]])
    rejected(stream, machine, body, "plan P: deadlock: the .* queue of core.* waits for signal")


@pytest.mark.first_case
@pytest.mark.parametrize("name", WORKLOADS)
def test_the_graph_has_the_queues_that_instructions_mean(name: str) -> None:
    """What the units' edges say is what attributes mean, to the executor of these tests."""
    stream, machine = program(name)
    found = touches(stream, machine)
    every = {(int(p), int(q)) for p, q in zip(found.position, found.queue)}
    assert every == {
        (position, queue_by_meaning(mnemonic, values, machine)) for position, (mnemonic, values)
        in enumerate(flat_trace(stream)) if mnemonic not in ("launch", "signal", "wait")}


def by_memory(machine: Machine, *, across: bool, at: int = 0) -> Stream:
    """Every core stores a tile of X; then each loads one of those, of its own or of the core across the mesh. ``at``:
    bytes by which what is loaded again lies behind what was stored."""
    cores, c = machine.cores, Affine.variable("c")
    x, y, z = (HbmTensor(name, i * (cores + 1) * TILE_BYTES, (cores, 32, 32), "float16")
               for i, name in enumerate("XYZ"))
    other = -c + (cores - 1) if across else c

    def copied(source: Affine, target: Affine, place: int) -> Loop:
        own = c * machine.tiles + place, c * machine.sums + place
        return Loop("c", 0, cores, 1, (
            Instr.make("load", dram=source, l1=own[0], rows=1, cols=1, h0=0),
            Instr.make("unpack", l1=own[0], acc=own[1], count=1),
            Instr.make("store", acc=own[1], dram=target, rows=1, cols=1, h0=0, relu=0)))

    body = (Instr.make("launch"), copied(c * TILE_BYTES, c * TILE_BYTES + y.address, 0),
            copied(other * TILE_BYTES + (y.address + at), c * TILE_BYTES + z.address, 1))
    return Stream("wormhole", machine.isa_parameters, (x,), (y, z), z.address + cores * TILE_BYTES, body)


def test_a_core_loads_what_it_has_stored() -> None:
    machine = Machine.of(mesh(2, 2, 9, 40, WITH))
    stream = signalled(by_memory(machine, across=False), machine, "plan P")
    x = np.random.default_rng(3).integers(-99, 99, (machine.cores, 32, 32)).astype(np.float16)
    for seed in range(9):
        np.testing.assert_array_equal(run_in_any_order(stream, machine, {"X": x}, seed)["Z"], x)
    body = unrolled(stream)
    reader = len(QUEUES) + QUEUES["reader"]
    lost = next(i for i, step in enumerate(body) if step.mnemonic == "wait" and step["queue"].constant == reader)
    rejected(stream, machine, body[:lost] + body[lost + 1:],
             rf"the reader queue of core\[0\]\[1\] reads bytes {6 * TILE_BYTES} to {7 * TILE_BYTES - 1} of memory, "
             r"which the writer queue of core\[0\]\[1\] may not have written yet")


@pytest.mark.parametrize(("across", "at", "waits"), [(True, 0, (3, 0)), (False, 64, (0, 1))])
def test_cores_do_not_hand_tiles_over_by_memory(across: bool, at: int, waits: tuple[int, int]) -> None:
    """Readers and writers of different cores have no semaphore in common; 64 bytes on, a tile is of two cores."""
    machine = Machine.of(mesh(2, 2, 9, 40, WITH))
    with pytest.raises(MappingError, match=f"the reader queue of core {waits[0]} waits for the writer queue of core "
                                           f"{waits[1]}: expected a core with semaphores for both, found none"):
        signalled(by_memory(machine, across=across, at=at), machine, "plan P")


def shook(*body: tuple[str, int, int], machine: Machine) -> Stream:
    """Handshakes (what, queue, semaphore) alone."""
    nodes: list[Node] = []
    for name, queue, semaphore in body:
        if name == "signal":
            nodes.append(Instr.make("signal", queue=queue, semaphore=semaphore, n0=1, s0=0, n1=1, s1=0))
        else:
            nodes.append(Instr.make("wait", queue=queue, semaphore=semaphore, count=1))
    return Stream("wormhole", machine.isa_parameters, (), (), 64, tuple(nodes))


@pytest.mark.parametrize(("body", "match"), [
    ([("wait", 1, 5)], r"plan P: deadlock: the matrix queue of core\[0\]\[0\] waits for signal 1 of semaphore 5 of "
                       r"core\[0\]\[0\], before which 0 are sent; expected at least 1 \(0 in the whole program\)"),
    ([("signal", 1, 5), ("wait", 12, 5), ("wait", 12, 5)], r"the reader queue of core\[0\]\[1\] waits for signal 2 .* "
                                                           r"1 are sent; expected at least 2"),
    ([("wait", 1, 5), ("signal", 14, 5)], r"1 in the whole program, of which the others come later"),
    ([("wait", 1, 5), ("signal", 1, 6), ("wait", 13, 6), ("signal", 13, 5)],
     r"in a circle, the matrix queue of core\[0\]\[0\] waits for the matrix queue of core\[0\]\[1\], the matrix queue "
     r"of core\[0\]\[1\] waits for the matrix queue of core\[0\]\[0\]"),
    ([("signal", 1, 5), ("signal", 2, 5)], r"semaphore 5 of core\[0\]\[0\] is signalled by the matrix queue of "
                                           r"core\[0\]\[0\] and by the adder queue of core\[0\]\[0\]"),
    ([("signal", 1, 805), ("signal", 1, 805), ("wait", 2, 805), ("wait", 3, 805)],
     r"semaphore 5 of core\[1\]\[0\] is waited for by"),
])
def test_faults_are_named(body: list[tuple[str, int, int]], match: str) -> None:
    machine = Machine.of(mesh(2, 2, 9, 40, WITH))
    with pytest.raises(MappingError, match=match):
        check_handshakes(shook(*body, machine=machine), machine, "plan P")


def test_too_few_places_are_found() -> None:
    """A plan with two slots whose program believes in three of them."""
    plan = PLANS[0]
    stream, machine = made(plan)
    extra = [i for i in unrolled(stream) if i.mnemonic == "signal" and i["queue"].constant % len(QUEUES) == 1][:4]
    body = unrolled(stream)
    rejected(stream, machine, [body[0], *extra, *body[1:]],
             r"queue of core\[\d\]\[\d\] writes tile \d+ of core\[\d\]\[\d\], which the matrix queue of core"
             r"\[\d\]\[\d\] may not have read yet: expected a wait for its signal, found none")


@pytest.mark.parametrize("semaphores", [False, True])
def test_blocks_that_nobody_sends_are_found(semaphores: bool) -> None:
    machine = Machine.of(mesh(2, 2, 9, 40, WITH))
    stream = emitted(GEMM, PLANS[0], machine, semaphores=semaphores)
    body = unrolled(stream)
    lost = next(i for i, instr in enumerate(body) if instr.mnemonic == "multicast_column")
    changed = replace(stream, body=tuple(body[:lost] + body[lost + 1:]))
    check_arrivals(stream, machine, "plan P")
    who = r"the matrix queue of core\[\d\]\[0\]"
    with pytest.raises(MappingError, match=rf"plan P: {who} reads tile \d+ of "
                       r"core\[\d\]\[0\], which nobody has written: expected a load"):
        (check_handshakes if semaphores else check_arrivals)(changed, machine, "plan P")


def test_too_few_semaphores_are_refused() -> None:
    machine = Machine.of(mesh(2, 2, 9, 40, 8))
    with pytest.raises(MappingError, match=r"plan 2x2x2 .* needs \d+ semaphores in a core, which has 8"):
        emitted(GEMM, PLANS[0], machine, semaphores=True)
    with pytest.raises(MappingError, match="of which a core has 0"):
        emitted(GEMM, PLANS[0], Machine.of(mesh(2, 2, 9, 40)), semaphores=True)


def test_a_program_that_hangs_hangs() -> None:
    """The executor of these tests and the check agree."""
    stream, machine = made(PLANS[0])
    body = unrolled(stream)
    first = next(i for i, instr in enumerate(body) if instr.mnemonic == "signal")
    changed = replace(stream, body=tuple(body[:first] + body[first + 1:]))
    arguments = {name: np.zeros((8, 8, 32, 32), np.float16) for name in "AB"}
    with pytest.raises(Stuck):
        run_in_any_order(changed, machine, arguments, 0)
    rejected(stream, machine, list(changed.body), "deadlock")  # type: ignore[arg-type]


@examples(10, 100)
@given(st.data())
def test_instances_are_in_program_order(data: st.DataObject) -> None:
    def nodes(depth: int) -> tuple[Node, ...]:
        def node() -> Node:
            if depth and data.draw(st.booleans()):
                start, step = data.draw(st.integers(0, 3)), data.draw(st.integers(1, 3))
                count = data.draw(st.integers(0, 3))
                return Loop(f"v{depth}", start, start + step * count, step, nodes(depth - 1))
            return Instr.make("x", a=sum_of(depth))
        return tuple(node() for _ in range(data.draw(st.integers(1, 3))))

    def sum_of(depth: int) -> int:
        return depth

    body = nodes(3)
    stream = Stream("wormhole", (), (), (), 64, body)
    found = sorted((int(p), int(v)) for i in instances(body) for p, v in zip(i.position, i.attribute("a")))
    assert found == [(p, values["a"]) for p, (_, values) in enumerate(flat_trace(stream))]
