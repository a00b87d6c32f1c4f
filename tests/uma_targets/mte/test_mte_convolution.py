"""Convolutions whose images are read in place: what they compute, for any window, image and geometry, and when they are
taken."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from onnx.helper import make_node

import archloom
from archloom.acadl_models.mte import ARCHITECTURES
from archloom.mapper.workload import Epilogue, Workload, conv2d
from archloom.oracle import interpreter
from archloom.oracle.errors import MappingError
from archloom.oracle.stream import Instr, Node
from archloom.oracle.xla import compile_stream
from archloom.tvm_backend.check.workload_reference import convolution
from archloom.tvm_backend.compile import partition_model
from archloom.uma_targets.mte.convolution import pays
from archloom.uma_targets.mte.convolution import walk as walked
from archloom.uma_targets.mte.places import Level, Rows, Spot, Strip
from archloom.uma_targets.mte.target import Mte
from tests.support.examples import examples, often, randoms
from tests.uma_targets.mte.test_mte_networks import network, weights

MACHINES = [{"vlen": 512, "rlen": 128}, {"vlen": 512, "rlen": 512}, {"vlen": 1024, "rlen": 256, "registers": 8}]
TYPES = ("float32", "float32", "int8", "float16", "bfloat16")


def drawn(r: Random, dtype: str) -> Workload:
    """A convolution of a few pixels and channels."""
    window, stride, dilation = ((r.randint(1, 3), r.randint(1, most)) for most in (3, 3, 2))
    places, more = (r.randint(1, 6), r.randint(1, 9)), (r.randint(0, 2), r.randint(0, 2))
    h, w = ((p - 1) * s + (k - 1) * d + 1 + min(m, s - 1)
            for p, s, k, d, m in zip(places, stride, window, dilation, more, strict=True))
    floats = dtype != "int8"
    epilogue = Epilogue(r.random() < 0.5, 1.0, floats and r.random() < 0.5, "float32" if floats else "int32",
                        residual=floats and r.random() < 0.5)
    return conv2d(r.choice((1, 1, 2, 5)), h, w, r.randint(1, 20), r.randint(1, 20), *window, stride=stride,
                  dilation=dilation, epilogue=epilogue, dtype=dtype)


def numbers(work: Workload, seed: int) -> dict[str, np.ndarray]:
    """Whole numbers so small that all types have their sums exactly."""
    rng = np.random.default_rng(seed)
    return {t.name: rng.integers(-8, 8, t.shape).astype(t.dtype) for t in work.inputs}


def expected(work: Workload, given: dict[str, np.ndarray]) -> np.ndarray:
    """In float64."""
    image, kernel = (given[name].astype(np.float64) for name in "XW")
    sums = convolution(image, kernel, work.stride, work.padding, work.dilation)
    sums = sums + sum(given[name].astype(np.float64) for name in ("bias", "residual") if name in given)
    return np.maximum(sums, 0) if work.epilogue.relu else sums


def held_against_numpy(r: Random, options: dict[str, int | str]) -> None:
    """A mapping drawn from all that there are."""
    configuration = Mte.kit.accelerator.configure(options)
    tiles = configuration.graph.parameters["rlen"] < configuration.graph.parameters["vlen"]
    work = drawn(r, r.choice(TYPES if tiles else ("float32", "int8")))
    if r.random() < 0.7:
        work = configuration.packed(replace(work, constants=("W",)))
    estimated, mapping_of = configuration.space(work).ranked()
    stream = configuration.emit(work, mapping_of(r.randrange(len(estimated))))
    tensors = numbers(work, r.getrandbits(32))
    stored = {t.name: t.stored(tensors[t.name]) for t in work.inputs}
    found = interpreter.run(stream, configuration.isa, stored)["Y"]
    np.testing.assert_array_equal(found.astype(np.float64), expected(work, tensors))


@examples(10, 500)
@given(randoms)
def test_convolutions_of_any_window_and_machine(r: Random) -> None:
    held_against_numpy(r, r.choice(MACHINES))


@pytest.mark.parametrize("architecture", often(ARCHITECTURES, ("mte8s", "vector1kb")))
def test_convolutions_on_the_six_architectures(architecture: str) -> None:
    for seed in range(2):
        held_against_numpy(Random(seed), {"architecture": architecture})


@pytest.mark.slow
@examples(6, 60)
@given(randoms)
def test_the_oracle_equals_the_interpreter(r: Random) -> None:
    options = r.choice(MACHINES)
    configuration = Mte.kit.accelerator.configure(options)
    work = drawn(r, r.choice(("float32", "int8")))
    stream = configuration.emit(work, configuration.space(work).first()[0])
    tensors = numbers(work, r.getrandbits(32))
    by_rule = interpreter.run(stream, configuration.isa, tensors)["Y"]
    made = compile_stream(stream, configuration.isa)(*(tensors[t.name] for t in work.inputs))[0]
    np.testing.assert_array_equal(np.asarray(made), by_rule)


def test_taps_of_more_channels_than_registers_are_raised() -> None:
    """A tap's products are a chain over whole groups of registers, then the rest: one step of the chain over taps."""
    configuration = Mte.kit.accelerator.configure({"vlen": 512, "rlen": 512})
    work = conv2d(1, 3, 3, 11, 16, 2, 2, epilogue=Epilogue(True, 1.0, True, "float32"), dtype="float32")
    stream = configuration.emit(work, configuration.space(work).first()[0])
    tensors = numbers(work, 3)
    by_rule = interpreter.run(stream, configuration.isa, tensors)["Y"]
    oracle = compile_stream(stream, configuration.isa)
    assert oracle.raised, str(oracle.report)
    np.testing.assert_array_equal(np.asarray(oracle(*(tensors[t.name] for t in work.inputs))[0]), by_rule)


def each(nodes: Sequence[Node], names: str, values: Mapping[str, int] | None = None) -> Iterator[tuple[int, ...]]:
    """Two attributes of all instructions, one after the other."""
    for node in nodes:
        if isinstance(node, Instr):
            yield tuple(node[name].evaluate(values or {}) for name in names)
        else:
            for i in range(node.extent):
                yield from each(node.body, names, {**(values or {}), node.var: i})


def rows_of(levels: tuple[Level, ...]) -> list[tuple[int, int]]:
    """Bytes of A and of C before each row, one by one."""
    found = [(0, 0)]
    for count, a, c in levels:
        found = [(x + i * a, y + i * c) for x, y in found for i in range(count)]
    return found


@examples(60, 3000)
@given(randoms)
def test_blocks_have_each_row_once(r: Random) -> None:
    """In blocks of at most as many tiles as are asked for, whose rows lie at one distance."""
    rows, columns, images = (r.choice((1, 2, 3, 7, 20)) for _ in range(3))
    wide, high, far = columns * r.randint(1, 2), r.choice((rows, rows + 1)), r.randint(1, 2)
    given = (Level(images, 4 * wide * high * far, 4 * columns * rows), Level(rows, 4 * wide * far, 4 * columns),
             Level(columns, 4 * r.randint(1, 2), 4))
    size, tall = r.choice((1, 2, 4, 16)), r.randint(1, 8)
    made, found = Rows.of(*given, size=size), list[tuple[int, ...]]()
    for strip in made.strips(size, tall):
        assert strip.tiles <= tall and strip.size <= size

        def block(at: Spot, later: Spot, strip: Strip = strip) -> list[Node]:
            return [Instr.make("row", a=spot.a + i * made.row.a, c=spot.c + i * made.row.c)
                    for spot in strip.spots(at) for i in range(strip.size)]

        found += each(strip.nodes(block), "ac")
    assert sorted(found) == sorted(rows_of(given))


@examples(30, 1000)
@given(randoms)
def test_the_next_block_is_that_of_the_innermost_loop(r: Random) -> None:
    """And behind the last the first of it again."""
    count, size, tall = r.randint(1, 40), r.randint(1, 4), r.randint(1, 4)
    for strip in Rows((Level(count, 8, 4),)).strips(size, tall):
        seen = list(each(strip.nodes(lambda at, later: [Instr.make("block", a=at.a, b=later.a)]), "ab"))
        assert [later for _, later in seen] == [*(at for at, _ in seen[1:]), seen[0][0]]


def test_what_is_no_convolution_in_place_is_refused() -> None:
    epilogue = Epilogue(False, 1.0, False, "float32")
    for work in (conv2d(1, 4, 4, 2, 2, 3, 3, padding=(1, 1, 1, 1), epilogue=epilogue, dtype="float32"),
                 conv2d(1, 4, 4, 2, 2, 3, 3, groups=2, epilogue=epilogue, dtype="float32")):
        with pytest.raises(MappingError, match="expected a convolution of one group, without padding and pooling"):
            walked(work, 4)


def small_network(r: Random) -> Any:
    """Convolutions one after the other, with biases, activations and what is added."""
    image, channels, nodes, constants = [r.randint(8, 11)] * 2, r.randint(1, 6), [], {}
    first, count, name = (r.choice((1, 1, 2)), channels, *image), r.randint(1, 3), "x"
    for i in range(count):
        out, window, stride = r.randint(1, 9), (r.randint(1, 3), r.randint(2, 3)), r.choice((1, 1, 2))
        pads, wide = [r.randint(0, 1) for _ in range(4)], r.choice((1, 1, 2))
        made = [(image[a] + pads[a] + pads[a + 2] - (window[a] - 1) * wide - 1) // stride + 1 for a in range(2)]
        if min(made) < 1:
            return small_network(r)
        constants[f"w{i}"], operands = weights(out, channels, *window), [name, f"w{i}"]
        if r.random() < 0.6:
            constants[f"b{i}"] = weights(out)
            operands.append(f"b{i}")
        nodes.append(make_node("Conv", operands, [f"c{i}"], pads=pads, strides=[stride] * 2, dilations=[wide] * 2))
        nodes.append(make_node("Relu", [f"c{i}"], [f"r{i}"]))
        image, channels, name = made, out, f"r{i}"
    nodes.append(make_node("Add", [name, name], ["z"]))
    return network(nodes, {"x": first}, (first[0], channels, *image), **constants)


@pytest.mark.slow
@examples(3, 100)
@given(randoms)
def test_networks_of_convolutions(r: Random) -> None:
    """Every layer as interpreted, results as onnxruntime has them, whichever way each convolution is taken."""
    found = archloom.check(archloom.load(small_network(r)), "mte", r.choice(MACHINES), quiet=True)
    assert found.passed, found


def test_images_are_read_in_place_where_that_takes_less() -> None:
    """A convolution with three channels as well as one with many: no windows are copied."""
    nodes = [make_node("Conv", ["x", "v"], ["a"], strides=[2, 2]), make_node("Conv", ["a", "w"], ["z"], pads=[1] * 4)]
    proto = network(nodes, {"x": (1, 3, 33, 33)}, (1, 32, 16, 16), v=weights(32, 3, 3, 3), w=weights(32, 32, 3, 3))
    partition = partition_model(archloom.load(proto), "mte", {"architecture": "mte32s"})
    steps = [step for region in partition.regions for step in region.steps]
    assert [step.workload.kind for step in steps if step.workload.macs] == ["conv2d", "conv2d"]
    assert not any("take" in step.op for step in steps)


def test_copies_are_weighed_against_what_tiles_lose() -> None:
    """With a dilation a step of K has the channels of one pixel; one channel of sixteen is mostly nothing."""
    configuration = Mte.kit.accelerator.configure({"architecture": "mte32s"})
    epilogue = Epilogue(False, 1.0, False, "float32")
    narrow, wide = (conv2d(1, 40, 40, channels, 512, 7, 7, dilation=(1, 2), epilogue=epilogue, dtype="float32")
                    for channels in (1, 32))
    assert pays(wide, configuration) and not pays(narrow, configuration)
