"""Programs without an ISA compute what a plain interpreter computes; bad ones are refused in words."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given

from archloom.acadl_models.acadl import Data, Instruction, Memory, RegisterFile, acadl_edge_t, create_ag
from archloom.acadl_models.oma import oma
from archloom.acadl_models.programs import execute, simulate
from archloom.acadl_models.systolic_array import systolic_array
from archloom.oracle.errors import GraphError, InputError, ProgramError
from examples import acadl_programs
from tests.support.acadl_models.program_strategies import BYTES, REGISTERS, graphs, interpret, program, random_ops
from tests.support.examples import examples, randoms

OMA = oma()
ARRAY = systolic_array(2, 2, level="scalar")
WORDS = [k * 37 % 256 for k in range(512)]
MOST = 60


@examples(40, 4000)
@given(randoms)
def test_a_run_equals_a_plain_interpreter(r: Any) -> None:
    ops = random_ops(r, jumps=r.random() < 0.8)
    expected = interpret(ops, WORDS, MOST)
    given_data = {"dmem0": dict(enumerate(WORDS))}
    if expected is None:
        with pytest.raises(ProgramError, match=f"has not ended after {MOST} steps .*steps= allows more"):
            execute(graphs(r), program(ops), data=given_data, steps=MOST)
        return
    run = execute(graphs(r), program(ops), data=given_data, steps=MOST)
    found = [run.registers["rf0"][f"r{k}"] for k in range(REGISTERS)], [run.data["dmem0"][k] for k in range(512)]
    assert (*found, run.steps) == expected
    assert run.registers["pc0"]["pc"] == len(ops)


def test_programs_of_the_paper_compute_products() -> None:
    draw = np.random.default_rng(1)
    a, b = draw.integers(-8, 8, (2, 4)), draw.integers(-8, 8, (4, 2))
    for done, c in (
        acadl_programs.on_oma(acadl_programs.naive_gemm(2, 2, 4), a, b),
        acadl_programs.on_oma(acadl_programs.tiled_gemm(2, 2, 4, 2), a, b), acadl_programs.on_array(a, b),
    ):
        np.testing.assert_array_equal(c, a @ b)
        assert done.cycles >= done.timing.instructions / 20


def test_the_spelling_of_the_paper() -> None:
    assert acadl_edge_t.READ_DATA.name == "READ_DATA"
    for ranges in ([[0, 4], [8, 9]], {(8, 9), (0, 4)}, [range(4), range(8, 9)], ((0, 4), (8, 9))):
        assert Memory(name="m", address_ranges=ranges).address_ranges == ((0, 4), (8, 9))  # type: ignore[arg-type]
    graph = create_ag(acadl_programs.oma())
    assert isinstance(graph["rf0"], RegisterFile) and graph["rf0"].registers["r1"] == Data(32, 0)
    run = execute(graph, [acadl_programs.mov("r1", 7)], registers={"r2": Data(32, 3)})
    assert (run.registers["rf0"]["r1"], run.registers["rf0"]["r2"]) == (7, 3)


def test_tensors_are_values_too() -> None:
    add = Instruction("add", ["r0", "r1"], ["r2"], function=np.add)
    run = execute(OMA, [add], registers={"r0": np.arange(3), "r1": np.ones(3)})
    assert run.registers["rf0"]["r2"].tolist() == [1, 2, 3]


def one(**given: Any) -> Instruction:
    return Instruction(**{"operation": "add", **given})


BAD = [
    ([one(operation="sub")], r"instruction 0 'sub': no unit has it in its to_process"),
    ([one(read_registers=["r99"])], r"instruction 0 'add': no register 'r99'; did you mean"),
    ([one(read_registers="r1")], r"read_registers must be a list, not 'r1'"),
    ([one(write_registers=["r1"])], r"it writes, but has no function"),
    ([one(function=3)], r"its function cannot be called: 3"),
    ([one(write_registers=["r1", "r1"], function=abs)], r"writes a register twice: rf0.r1, rf0.r1"),
    ([one(operation="load8", read_addresses=["r1"])], r"address 'r1' names r1, no register that it reads \(none\)"),
    ([one(operation="load8", read_addresses=["1 +"])], r"address '1 \+': bad latency"),
    ([one(operation="load8", read_addresses=[1 << 40])], r"address 1099511627776 lies in no memory \(dmem0: 0\.\."),
    ([one(operation="load8", read_addresses=[("mem", 1)])], r"no memory 'mem'; did you mean 'dmem0'"),
    (["add"], r"instruction 0 must be an Instruction, not 'add'"),
    ([one()] * 2 + [one(read_registers=["a"]), one(read_registers=["b"])],
     r"(?s)instruction 2 .* 'a'.*\n  - instruction 3 .* 'b'"),
    # while it runs
    ([one(function=lambda: 5)], r"instruction 0 'add' in step 0: its function must return nothing, .* not 5"),
    ([one(write_registers=["r1"], function=lambda: 1 << 32)], r"4294967296 does not fit into the 32 bits of rf0\.r1"),
    ([one(write_registers=["r1", "r2"], function=lambda: (1,))], r"must return a tuple of 2 values, not \(1,\)"),
    ([one(write_registers=["r1"], function=lambda: 1 // 0)], r"its function raised ZeroDivisionError"),
    ([one(write_registers=["r1"], function=lambda a: a)], r"its function raised TypeError"),
    ([one(write_registers=["r1"], function=lambda: -1),
      one(operation="load8", read_registers=["r1"], read_addresses=["r1"])], r"step 1: address 'r1': address -1 lies"),
    ([one(operation="store8", write_addresses=[3, 3], function=lambda: (1, 2))], r"it writes dmem0\[3\] twice"),
    ([one(operation="jump", write_registers=["pc"], function=lambda: 7)],
     r"instruction 0 'jump' goes on at 7, which is not in the program \(0 \.\. 1, where it ends\)"),
    ([one(operation="jump", write_registers=["pc"], function=lambda: 0)], r"not ended after 100 steps"),
]


@pytest.mark.parametrize(("bad", "message"), BAD)
def test_what_is_wrong_with_a_program_is_said(bad: list[Any], message: str) -> None:
    with pytest.raises(ProgramError, match=message):
        execute(OMA, bad, steps=100)


def test_what_is_wrong_with_contents_is_said() -> None:
    for given_values, message in (
        ({"registers": {"r99": 1}}, "no register 'r99'"), ({"registers": {"r1": 1 << 40}}, "32 bits of rf0.r1"),
        ({"data": {"mem": {}}}, "no memory 'mem'"), ({"data": {"dmem0": {-1: 0}}}, "holds no word -1"),
        ({"data": {"dmem0": {0: 256}}}, r"256 does not fit into the 8 bits of dmem0\[0\]"),
        ({"registers": {"pc": 5}}, "the program starts at 5, which is not in the program"),
    ):
        with pytest.raises(ProgramError, match=message):
            execute(OMA, [], **given_values)


def test_names_that_several_files_and_memories_share_must_say_which() -> None:
    with pytest.raises(ProgramError, match=r"register 'own' is one of 4 files.*grid\.pe\[0\]\[0\]\.registers\.own"):
        execute(ARRAY, [Instruction("mac", ["own"])])
    with pytest.raises(ProgramError, match=r"address 0 lies in memory\.left and memory\.top and .*: write"):
        execute(ARRAY, [Instruction("load_west", read_addresses=[0])])


def test_what_the_graph_cannot_process_is_said_by_the_timing() -> None:
    word = Instruction("add", read_addresses=[3])
    assert execute(OMA, [word]).steps == 1
    with pytest.raises(GraphError, match="no unit processes 'add': fu0 .* has no edge READ_DATA dmem0 -> fu0"):
        simulate(OMA, [word])
    jump = Instruction("jump", write_registers=["pc"], function=lambda: 1)
    with pytest.raises(GraphError, match="the fast engine cannot run 'program': 'jump' writes the program counter"):
        simulate(OMA, [jump], simulator="engine")
    with pytest.raises(InputError, match="simulator must be one of engine, reference, not 'fast'"):
        simulate(OMA, [jump], simulator="fast")  # type: ignore[arg-type]


assert BYTES + 255 + 4 < 512, "the interpreter's addresses lie in the memory"
