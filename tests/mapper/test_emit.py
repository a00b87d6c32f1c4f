"""Emitted streams against NumPy: workload → mapping → stream → reference interpreter."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from archloom.mapper.mapping import Mapping
from archloom.mapper.workload import Epilogue, Pool, conv2d, gemm
from archloom.oracle.assembly import parse, to_text
from archloom.oracle.errors import MappingError
from archloom.oracle.nests import size
from archloom.oracle.stream import Stream
from archloom.uma_targets.gemmini.emit import GemminiEmitter
from tests.support.examples import examples
from tests.support.mapper import mapped

PLAIN = Epilogue(True, 0.02, True, "int8")

@pytest.mark.parametrize("dataflow", ["ws", "os"])
def test_gemm_equals_numpy(dataflow: str) -> None:
    @examples(8, 300)
    @given(mapped.gemms(dataflow))
    def run(case: tuple) -> None:
        workload, mapping, dim = case
        mapped.check(workload, mapping, mapped.isa_of(dim))

    run()


@pytest.mark.first_case
@pytest.mark.parametrize("pooled", [False, True])
@pytest.mark.parametrize("dataflow", ["ws", "os"])
@pytest.mark.parametrize("packing", ["channels", "kernel_row"])
def test_conv_equals_numpy(packing: str, dataflow: str, pooled: bool) -> None:
    @examples(4, 200)
    @given(mapped.convs(packing, dataflow, pooled))
    def run(case: tuple) -> None:
        workload, mapping, dim = case
        mapped.check(workload, mapping, mapped.isa_of(dim))

    run()


@examples(20, 300)
@given(mapped.additions())
def test_addition_equals_numpy(case: tuple) -> None:
    workload, mapping, dim = case
    mapped.check(workload, mapping, mapped.isa_of(dim))


def gemm_mapping(m: int, n: int, k: int) -> Mapping:
    return Mapping("gemm", "ws", (("m", m), ("n", n), ("k", k)), ("m", "n"), (("A", "stream"), ("B", "stream")),
                   (("A", 2), ("B", 2), ("C", 2)))


def conv_mapping(oh: int, ow: int, o: int, dim: int) -> Mapping:
    return Mapping("conv2d", "ws", (("oh", oh), ("ow", ow), ("o", o), ("c", dim)), ("p", "o"),
                   (("X", "interleave"), ("W", "hoist")), (("X", 2), ("W", 1), ("C", 2)))


@pytest.mark.parametrize("dim", [64, 256])
def test_large_arrays(dim: int) -> None:
    mapped.check(gemm(dim + 3, dim + 5, dim + 7, epilogue=PLAIN), gemm_mapping(dim, 2 * dim, dim), mapped.isa_of(dim))


def test_pointwise_convolution_is_a_matrix_product() -> None:
    workload = conv2d(2, 5, 3, 9, 11, 1, 1, epilogue=PLAIN)
    mapped.check(workload, gemm_mapping(8, 8, 4), mapped.isa_of(4))


def test_first_layer_of_an_image_network() -> None:
    workload = conv2d(1, 20, 36, 3, 8, 7, 7, stride=(2, 2), padding=(3, 3, 3, 3), epilogue=PLAIN)
    mapping = Mapping("conv2d", "ws", (("oh", 2), ("ow", 18), ("o", 16), ("c", 16)), ("p", "o"),
                      (("X", "stream"), ("W", "hoist")), (("X", 2), ("W", 1), ("C", 2)), packing="kernel_row")
    mapped.check(workload, mapping, mapped.isa_of(16))


def test_overlapping_pool_of_several_tiles() -> None:
    pool = Pool(3, 2, (1, 1, 1, 1))
    workload = conv2d(1, 24, 24, 8, 16, 3, 3, padding=(1, 1, 1, 1), epilogue=Epilogue(True, 0.02, True, "int8", pool))
    mapped.check(workload, conv_mapping(4, 5, 16, 8), mapped.isa_of(8))


def test_streams_stay_short() -> None:
    """The length of a stream does not depend on the size of the layer."""
    emitter = GemminiEmitter(mapped.isa_of(16, 16384, 1024).parameters)
    small, large = (emitter.emit(gemm(s, s, s, epilogue=PLAIN), gemm_mapping(128, 64, 16)) for s in (256, 4096))
    assert len(to_text(small).splitlines()) == len(to_text(large).splitlines()) < 50
    conv = conv2d(1, 56, 56, 64, 64, 3, 3, padding=(1, 1, 1, 1), epilogue=PLAIN)
    assert len(to_text(emitter.emit(conv, conv_mapping(4, 56, 32, 16))).splitlines()) < 400


@examples(20, 300)
@given(st.integers(2, 7), st.integers(0, 3), st.sampled_from([1, 2, 3]), st.integers(0, 15))
def test_streams_of_packed_rows_do_not_grow_with_channels(kernel: int, pad: int, stride: int, rest: int) -> None:
    """What lies between the elements that padding clips is a loop, however many channels there are."""
    emitter = GemminiEmitter(mapped.isa_of(16, 16384, 1024).parameters)

    def written(channels: int) -> int:
        workload = conv2d(1, 30, 30, channels, 32, kernel, kernel, stride=(stride,) * 2,
                          padding=(min(pad, kernel - 1),) * 4, epilogue=PLAIN)
        mapping = replace(conv_mapping(2, 16, 32, 16), loads=(("X", "stream"), ("W", "stream")), packing="kernel_row")
        return size(emitter.emit(workload, mapping).body)

    assert written(320 + rest) == written(640 + rest)


@pytest.mark.parametrize("dim", [4, 16])
def test_text_of_an_emitted_stream_parses_back(dim: int) -> None:
    emitter = GemminiEmitter(mapped.isa_of(dim).parameters)
    workload = conv2d(1, 9, 9, 5, 7, 3, 3, padding=(1, 1, 1, 1), epilogue=PLAIN)
    stream: Stream = emitter.emit(workload, conv_mapping(3, 9, 8, dim))
    assert parse(to_text(stream)) == stream


def test_scale_does_not_change_the_program() -> None:
    emitter = GemminiEmitter(mapped.isa_of(8).parameters)
    workloads = (gemm(20, 20, 20, epilogue=Epilogue(True, s, True, "int8")) for s in (0.5, 0.25))
    one, other = (to_text(emitter.emit(w, gemm_mapping(8, 8, 8))) for w in workloads)
    changed = [a for a, b in zip(one.splitlines(), other.splitlines(), strict=True) if a != b]
    assert len(changed) == 1 and changed[0].startswith("config_st")


@pytest.mark.parametrize(("mapping", "message"), [
    (gemm_mapping(512, 512, 8),
     r"needs \d+ rows of the accumulator \(dim 8\), which has 64: \d+ too many; smaller tiles"),
    (conv_mapping(1, 1, 8, 8), r"a gemm cannot be emitted as conv2d"),
])
def test_mappings_that_do_not_fit(mapping: Mapping, message: str) -> None:
    emitter = GemminiEmitter(mapped.isa_of(8, 4096, 64).parameters)
    with pytest.raises(MappingError, match=message):
        emitter.emit(gemm(512, 512, 512, epilogue=PLAIN), mapping)


def test_a_pool_without_elements_is_refused() -> None:
    pool = Pool(2, 1, (2, 0, 0, 0))
    workload = conv2d(1, 6, 6, 4, 4, 3, 3, epilogue=Epilogue(True, 0.02, True, "int8", pool))
    with pytest.raises(MappingError, match=r"window of 2 with padding \(2, 0, 0, 0\)"):
        GemminiEmitter(mapped.isa_of(8).parameters).emit(workload, conv_mapping(1, 1, 8, 8))
