"""Streams that do not fit their ISA are refused with their place."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from archloom.oracle import validate as validation
from archloom.oracle.affine import Affine
from archloom.oracle.errors import StreamError
from archloom.oracle.stream import HbmTensor, Instr, Loop, Parallel, Stream
from archloom.oracle.validate import validate
from tests.support.examples import examples
from tests.support.oracle.flat_trace import flat_trace
from tests.support.oracle.toy_isa import TOY, stream

A, B = HbmTensor("A", 0, (16,), "int32"), HbmTensor("B", 64, (8,), "int8")


def toy(*body: Instr | Loop | Parallel, arguments: tuple[HbmTensor, ...] = (A, B),
        results: tuple[HbmTensor, ...] = (), hbm: int = 4096, isa: str = "toy",
        parameters: tuple[tuple[str, int], ...] = ()) -> Stream:
    return Stream(isa, parameters, arguments, results, hbm, body, "net")


def test_a_fitting_stream_passes() -> None:
    validate(stream("loop i in 0..4 {\nput dram=4*i\n}"), TOY)
    # a result may lie over an argument
    validate(toy(results=(HbmTensor("C", 0, (64,), "int8"),)), TOY)


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (toy(isa="tpu"), "stream net: expected ISA 'toy', found 'tpu'"),
        (toy(parameters=(("dim", 4),)), r"stream net: unknown parameter 'dim'"),
        (toy(hbm=-1), "stream net: expected hbm_bytes of at least 0, found -1"),
        (toy(hbm=1 << 48), "stream net: expected hbm_bytes below 281474976710656, found 281474976710656"),
        (toy(arguments=(A, A)), "argument 'A' is given twice"),
        (toy(arguments=(A, HbmTensor("X", 60, (8,), "int8"))), "arguments 'A' and 'X' overlap in bytes 60..64 of HBM"),
        (toy(results=(A, HbmTensor("X", 32, (8,), "int8"))), "results 'A' and 'X' overlap in bytes 32..64"),
        (toy(arguments=(HbmTensor("X", 4090, (8,), "int8"),)),
         r"argument 'X': expected bytes in 0..4096 \(hbm_bytes\), found 4090..4098"),
        (toy(arguments=(HbmTensor("X", -4, (8,), "int8"),)), r"found -4..4"),
        (toy(arguments=(HbmTensor("X", 2, (8,), "int32"),)),
         r"argument 'X': expected an address that is a multiple of 4 \(int32\), found 0x2"),
        (toy(arguments=(HbmTensor("X", 0, (8,), "int9"),)), "tensor 'X': 'int9' is no NumPy dtype"),
        (toy(arguments=(HbmTensor("X", 0, (8, -1), "int8"),)), r"tensor 'X': expected extents of at least 0, found"),
        (toy(Instr.make("putt", dram=0)), "^instr 0 putt: ISA toy has no instruction 'putt'; did you mean 'put'"),
        (toy(Instr.make("put", dam=0)), "^instr 0 put: unknown attribute 'dam'; did you mean 'dram'"),
        (toy(Instr.make("get", dram=0)), r"^instr 0 get: attribute 'row' is missing \(expected dram, row, rows\)"),
        (toy(Instr("put", (("dram", Affine(0)),) * 2)), "^instr 0 put: attribute 'dram' is given twice"),
        (toy(Instr.make("now"), Loop("i", 0, 2, 1, (Loop("k", 0, 2, 1, (Instr.make("put", dram=Affine.of("kk")),)),))),
         "^loop i / loop k / instr 1 put: attribute dram = kk names 'kk', which is the variable of no enclosing loop"
         "; did you mean 'k'"),
        (toy(Instr.make("put", dram=Affine.of("i"))), r"names 'i', .* \(no loop encloses it\)"),
        (toy(Loop("i", 0, 2, 1, (Loop("i", 0, 2, 1, ()),))),
         "^loop i / loop i: the variable 'i' is that of an enclosing loop already"),
        (toy(Parallel("c", 0, "x", ())), "^parallel c: expected at least one core, found 0"),
    ],
)
def test_what_does_not_fit_is_refused(bad: Stream, message: str) -> None:
    with pytest.raises(StreamError, match=message):
        validate(bad, TOY)


def test_parameters_must_be_those_of_the_isa() -> None:
    from archloom.oracle import taidl

    isa = taidl.load("gemmini", dim=8)
    validate(Stream("gemmini", (("dim", 8),), (), (), 0, ()), isa)
    with pytest.raises(StreamError, match="stream stream: expected parameter dim=8 of the ISA, found 16"):
        validate(Stream("gemmini", (("dim", 16),), (), (), 0, ()), isa)


def test_a_loop_without_step_cannot_be_built() -> None:
    with pytest.raises(StreamError, match=r"loop i: step must not be 0 \(for i in 0..4\)"):
        Loop("i", 0, 4, 0, ())


@pytest.mark.parametrize(
    ("start", "stop", "step", "values"),
    [(0, 4, 1, [0, 1, 2, 3]), (1, 8, 3, [1, 4, 7]), (5, -1, -2, [5, 3, 1]), (4, 4, 1, []), (4, 0, 1, [])],
)
def test_loops_count_as_python_does(start: int, stop: int, step: int, values: list[int]) -> None:
    loop = Loop("i", start, stop, step, (Instr.make("put", dram=Affine.of("i")),))
    assert loop.extent == len(values)
    assert [a["dram"] for _, a in flat_trace(toy(loop))] == values
    assert toy(loop).count() == len(values)
    if values:
        assert loop.bounds == (min(values), max(values))


def test_count_multiplies_nests() -> None:
    body = (Instr.make("now"), Loop("j", 0, 5, 2, (Instr.make("now"), Instr.make("now"))))
    assert toy(Instr.make("now"), Loop("i", 0, 4, 1, body)).count() == 1 + 4 * (1 + 3 * 2)


numbers = st.integers(-9, 9) | st.sampled_from((validation.LARGEST - 1, validation.LARGEST, -validation.LARGEST))
sums = st.builds(lambda name, factor, more: Affine.of(name) * factor + more, st.sampled_from(("i", "j", "k")), numbers,
                 numbers)
values = numbers.map(Affine) | sums | st.builds(
    lambda e, divisor, is_rest, more: (e % divisor if is_rest else e // divisor) + more, sums,
    st.sampled_from((1, 2, 7, validation.LARGEST)), st.booleans(), sums)
names = st.sampled_from(("dram", "local", "rows"))


@examples(60, 3000)
@given(st.sampled_from(("put", "now", "no")), st.lists(st.tuples(names, values), max_size=2))
def test_sound_instructions_are_those_of_which_nothing_is_said(
    mnemonic: str, attributes: list[tuple[str, Affine]]
) -> None:
    instr, scope = Instr(mnemonic, tuple(attributes)), ("i", "j")
    try:
        validation._check_instr(instr, TOY, "here", scope)
        is_sound = True
    except StreamError:
        is_sound = False
    assert validation._is_sound(instr, TOY, scope) <= is_sound
    if all(value.largest < 1 << 40 for _, value in attributes):
        assert validation._is_sound(instr, TOY, scope) == is_sound
