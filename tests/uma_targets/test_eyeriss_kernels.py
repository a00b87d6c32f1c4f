"""Streams of Eyeriss: the interpreter, the XLA oracle and NumPy agree bit for bit."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from archloom.acadl_models.eyeriss import eyeriss
from archloom.acadl_models.timing.machine import bind
from archloom.mapper.accelerator import Configuration
from archloom.mapper.mapping import Mapping
from archloom.mapper.workload import Epilogue, Workload, conv2d
from archloom.oracle import taidl
from archloom.oracle.errors import MappingError
from archloom.oracle.interpreter import run
from archloom.oracle.nests import ranges, walk
from archloom.oracle.resolve import resolve
from archloom.oracle.stream import Stream
from archloom.oracle.taidl.isa import Isa
from archloom.oracle.windows import footprint
from archloom.oracle.xla import compile_stream
from archloom.oracle.xla.strategies import count_contractions
from archloom.uma_targets.eyeriss.plan import Machine, RowStationary, check
from archloom.uma_targets.eyeriss.problem import Shape, conv_shape
from archloom.uma_targets.eyeriss.space import convolutions, products, row_stationary
from archloom.uma_targets.eyeriss.target import EYERISS
from benchmarks.published.eyeriss_kernels import conv_stream, gemm_stream
from tests.support.examples import examples, randoms
from tests.support.mapper.numpy_workload import evaluate, random_inputs
from tests.support.uma_targets.convolutions import arguments, convolution

SUMS = ("load_sums", "psum_in", "psum_out", "store")
"""Instructions that touch partial sums in the global buffer."""

SIZES = st.sampled_from((1, 2, 3, 5, 7, 8, 11, 13, 17))


def machine_of(**options: int) -> tuple[Machine, Isa]:
    graph = eyeriss(**options)  # type: ignore[arg-type]
    return Machine.of(graph), taidl.load("eyeriss", **graph.parameters)


@st.composite
def machines(draw: st.DrawFn) -> tuple[Machine, Isa]:
    """Small arrays with small memories, so that everything is cut into pieces."""
    return machine_of(
        rows=draw(st.integers(1, 5)), cols=draw(st.integers(1, 5)), ifmap_spad=draw(st.integers(1, 12)),
        filter_spad=draw(st.integers(4, 40)), psum_spad=draw(st.integers(1, 6)), glb_kib=draw(st.sampled_from((2, 4))),
        filter_glb_kib=1, row_words=draw(st.sampled_from((64, 128, 512))), psum_bits=draw(st.sampled_from((16, 32))),
    )


@st.composite
def shapes(draw: st.DrawFn) -> Shape:
    padding = tuple(draw(st.integers(0, 2)) for _ in range(4))
    r, s = draw(st.integers(1, 4)), draw(st.integers(1, 4))
    h = draw(st.integers(max(1, r - padding[0] - padding[2]), 10))
    w = draw(st.integers(max(1, s - padding[1] - padding[3]), 10))
    n, c, m = draw(st.integers(1, 3)), draw(st.integers(1, 7)), draw(st.integers(1, 7))
    return conv_shape(n, c, h, w, m, r, s, draw(st.integers(1, 3)), padding)  # type: ignore[arg-type]


def interpreted(stream: Stream, isa: Isa) -> tuple[dict[str, np.ndarray], np.ndarray]:
    given_arguments = arguments(stream)
    return given_arguments, run(stream, isa, given_arguments, poison=3)[stream.results[0].name]


@pytest.mark.slow
@examples(6, 200)
@given(machines(), shapes(), st.booleans(), st.booleans(), st.sampled_from((0, 0, 5)))
def test_convolutions_equal_numpy(
    machine: tuple[Machine, Isa], shape: Shape, bias: bool, relu: bool, fraction: int
) -> None:
    made, isa = machine
    stream = conv_stream(shape, made, dict(isa.parameters), bias=bias, relu=relu, fraction=fraction)
    given_arguments, result = interpreted(stream, isa)
    expected = convolution(given_arguments, shape, result.dtype, relu=relu, fraction=fraction)
    np.testing.assert_array_equal(result, expected)


@pytest.mark.slow
@examples(10, 150)
@given(machines(), SIZES, SIZES, SIZES)
def test_products_equal_numpy(machine: tuple[Machine, Isa], m: int, n: int, k: int) -> None:
    made, isa = machine
    given_arguments, result = interpreted(gemm_stream(m, n, k, made, dict(isa.parameters)), isa)
    a, b = (given_arguments[name].astype(np.int64) for name in "AB")
    np.testing.assert_array_equal(result, (a @ b).astype(result.dtype))


@pytest.mark.slow
@examples(10, 150)
@given(machines(), shapes(), st.data())
def test_any_mapping_that_fits_is_right(machine: tuple[Machine, Isa], shape: Shape, data: st.DataObject) -> None:
    """Not only the one that the planner likes best."""
    made, isa = machine
    space = convolutions("conv", shape, made)
    estimated, mapping_of = space.ranked()
    number = data.draw(st.sampled_from(np.argsort(estimated, kind="stable")[:500].tolist()))
    mapping = row_stationary(mapping_of(number))
    check(mapping, shape, made)
    stream = conv_stream(shape, made, dict(isa.parameters), mapping=mapping)
    given_arguments, result = interpreted(stream, isa)
    np.testing.assert_array_equal(result, convolution(given_arguments, shape, result.dtype))


@pytest.mark.slow
@examples(6, 100)
@given(machines(), shapes(), st.data())
def test_oracle_equals_interpreter_with_any_mapping(
    machine: tuple[Machine, Isa], shape: Shape, data: st.DataObject
) -> None:
    made, isa = machine
    estimated, mapping_of = convolutions("conv", shape, made).ranked()
    number = data.draw(st.sampled_from(np.argsort(estimated, kind="stable")[:500].tolist()))
    stream = conv_stream(shape, made, dict(isa.parameters), mapping=row_stationary(mapping_of(number)))
    given_arguments, result = interpreted(stream, isa)
    (found,) = compile_stream(stream, isa)(*(given_arguments[t.name] for t in stream.arguments))
    np.testing.assert_array_equal(np.asarray(found), result)


@st.composite
def grouped(draw: st.DrawFn) -> Workload:
    """Small convolutions of one group or several, bytes with the channels of all groups last."""
    side, kernel = draw(st.integers(4, 9)), draw(st.integers(1, 3))
    stride, padding = draw(st.integers(1, 2)), tuple(draw(st.integers(0, 1)) for _ in range(4))
    epilogue = draw(st.sampled_from((Epilogue(True, 0.02, True, "int8"), Epilogue(False, 1.0, False, "int32"))))
    return conv2d(
        draw(st.integers(1, 2)), side, side + 1, draw(st.integers(1, 3)), draw(st.integers(1, 3)), kernel, kernel,
        stride=(stride, stride), padding=padding, groups=draw(st.integers(1, 7)),  # type: ignore[arg-type]
        epilogue=epilogue)


def some_mapping(workload: Workload, configuration: Configuration, r: Random) -> Mapping:
    """One of the better ones of a random kind: of how many groups at a time, and of how many places."""
    estimated, mapping_of = configuration.space(workload).ranked()
    best = [mapping_of(i) for i in np.argsort(estimated, kind="stable")[:400].tolist()]
    kinds = sorted({_kind(mapping) for mapping in best})
    kind = r.choice(kinds)
    return r.choice([mapping for mapping in best if _kind(mapping) == kind][:20])


def _kind(mapping: Mapping) -> tuple[bool, int, int]:
    return mapping.size("g") > 1, mapping.size("buffers"), mapping.size("sums")


@examples(8, 300)
@given(grouped(), randoms)
def test_workloads_of_several_groups_equal_numpy(workload: Workload, r: Random) -> None:
    configuration = EYERISS.configure({"rows": 6, "cols": 5, "glb_kib": 4, "filter_glb_kib": 1})
    mapping, inputs = some_mapping(workload, configuration, r), random_inputs(workload, r.randrange(100))
    result = run(configuration.emit(workload, mapping), configuration.isa, inputs, poison=r.randrange(100))
    np.testing.assert_array_equal(result[workload.output.name], evaluate(workload, inputs), err_msg=str(mapping))


@pytest.mark.slow
@examples(4, 60)
@given(grouped(), randoms)
def test_compiled_workloads_of_several_groups_equal_the_interpreter(workload: Workload, r: Random) -> None:
    configuration = EYERISS.configure({"rows": 6, "cols": 5, "glb_kib": 4, "filter_glb_kib": 1})
    stream = configuration.emit(workload, some_mapping(workload, configuration, r))
    given_arguments, result = interpreted(stream, configuration.isa)
    (found,) = compile_stream(stream, configuration.isa)(*(given_arguments[t.name] for t in stream.arguments))
    np.testing.assert_array_equal(np.asarray(found), result)


@examples(6, 150)
@given(grouped(), randoms)
def test_passes_take_turns_from_the_first_block_to_the_last(workload: Workload, r: Random) -> None:
    """No pass waits for the slots of the one before."""
    configuration = EYERISS.configure({"rows": 6, "cols": 5, "glb_kib": 4, "filter_glb_kib": 1})
    mapping = some_mapping(workload, configuration, r)
    program = bind(configuration.graph, resolve(configuration.emit(workload, mapping), configuration.isa))
    slots = []
    for issued, values in program.instances():
        given_attributes = dict(issued.origin.attributes)
        if issued.mnemonic == "conv" and given_attributes["pe"].evaluate(values) == 0:
            slots.append(given_attributes["slot"].evaluate(values))
    assert slots == [turn % 2 for turn in range(len(slots))]


@pytest.mark.first_case
@pytest.mark.parametrize(("channels", "pixels", "filters"), [
    (32, 4, 32), (3, 16, 8), (8, 16, 8), (8, 8, 16), (16, 8, 16), (16, 4, 32), (32, 8, 16), (16, 16, 8)])
def test_layers_of_a_u_net_are_raised(channels: int, pixels: int, filters: int) -> None:
    """Sums that go through the array again for each group of channels are sums over all channels."""
    made, isa = machine_of(psum_bits=32)
    shape = conv_shape(1, channels, pixels, pixels, filters, 3, 3, 1, (1, 1, 1, 1))
    oracle = compile_stream(conv_stream(shape, made, dict(isa.parameters), bias=True, relu=True), isa)
    assert oracle.raised, str(oracle.report)
    raising = oracle.program.raising
    assert raising is not None and sum(count_contractions(r.value) for r in raising.results) <= 40


@pytest.mark.first_case
@pytest.mark.parametrize(("bits", "fraction"), [(16, 0), (32, 0), (16, 6)])
def test_oracle_equals_interpreter(bits: int, fraction: int) -> None:
    made, isa = machine_of(rows=3, cols=4, glb_kib=8, psum_bits=bits)
    shape = conv_shape(2, 3, 5, 4, 5, 3, 2, 1, (1, 1, 1, 0))
    stream = conv_stream(shape, made, dict(isa.parameters), fraction=fraction, relu=True)
    given_arguments, result = interpreted(stream, isa)
    found = compile_stream(stream, isa)(*(given_arguments[t.name] for t in stream.arguments))
    np.testing.assert_array_equal(np.asarray(found["Y"] if isinstance(found, dict) else found[0]), result)


@pytest.mark.slow
def test_product_is_raised_to_one_contraction() -> None:
    """All channels in one pass: sums go up the columns, and nothing is carried through the global buffer."""
    made, isa = machine_of()
    mapping = RowStationary(p=6, q=10, r=3, down=2, across=2, segments=1, e=2, n=1, m=24, f=10)
    stream = gemm_stream(20, 24, 30, made, dict(isa.parameters), mapping=mapping)
    given_arguments, result = interpreted(stream, isa)
    oracle = compile_stream(stream, isa)
    found = oracle(*(given_arguments[t.name] for t in stream.arguments))
    np.testing.assert_array_equal(np.asarray(found["C"] if isinstance(found, dict) else found[0]), result)
    assert "dot 20x24x30" in str(oracle.report)


def test_mapping_that_does_not_fit_names_every_bound() -> None:
    made, _ = machine_of(rows=3, cols=2, glb_kib=2)
    shape = conv_shape(1, 4, 8, 8, 80, 3, 3)
    mapping = RowStationary(p=30, q=8, r=2, down=2, across=2, segments=1, e=2, n=1, m=120, f=6)
    bounds = r"9 too many \(a larger rows.*2 too many \(a larger cols.*psum_spad.*glb_kib"
    with pytest.raises(MappingError, match=bounds):
        check(mapping, shape, made)


def test_a_strip_larger_than_the_buffer_is_refused_with_its_demand() -> None:
    made, _ = machine_of(rows=1, cols=1, glb_kib=1, row_words=64)
    with pytest.raises(MappingError, match="global buffer"):
        convolutions("conv", conv_shape(1, 1, 600, 1, 1, 600, 1), made)


def test_rows_longer_than_a_primitive_are_cut() -> None:
    made, isa = machine_of(rows=3, cols=2, glb_kib=4, row_words=16)
    shape = conv_shape(1, 2, 4, 700, 2, 3, 3, 1, (1, 1, 1, 1))
    stream = conv_stream(shape, made, dict(isa.parameters))
    given_arguments, result = interpreted(stream, isa)
    np.testing.assert_array_equal(result, convolution(given_arguments, shape, result.dtype))


@pytest.mark.slow
def test_first_candidates_use_the_published_array_well() -> None:
    """Of AlexNet's third layer and of a large product, they are no worse than the paper's mapping."""
    made, _ = machine_of()
    shape = conv_shape(4, 256, 13, 13, 384, 3, 3, 1, (1, 1, 1, 1))
    best, cycles = convolutions("conv", shape, made).first()
    check(row_stationary(best), shape, made)
    assert shape.macs / (168 * cycles) > 0.75
    assert 1024**3 / (168 * products("gemm", (1024, 1024, 1024), made).first()[1]) > 0.55


@examples(8, 300)
@given(machines(), shapes(), st.booleans())
def test_streams_stay_in_the_words_that_are_counted(machine: tuple[Machine, Isa], shape: Shape, bias: bool) -> None:
    """Sums lie before the ifmaps, both where the mapping's demand says that there is room."""
    made, isa = machine
    mapping = row_stationary(convolutions("conv", shape, made).first()[0])
    stream = conv_stream(shape, made, dict(isa.parameters), mapping=mapping, bias=bias)
    ifmaps, sums = mapping.places(shape, made)
    middle, end = mapping.sums * sums, mapping.sums * sums + mapping.buffers * ifmaps
    for instr, around in walk(resolve(stream, isa).body):
        first, last = (0, middle) if instr.mnemonic in SUMS else (middle, end)
        for statement in instr.touching("glb"):
            low, high = footprint(statement.window, ranges(around))[0]
            assert first <= low and high < last
