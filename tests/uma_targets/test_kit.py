"""Parts of the kit: what is a product, which tiles there are, what they are estimated to cost, and what is refused."""

from __future__ import annotations

import importlib.util
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from archloom.mapper import cache
from archloom.mapper.mapping import Mapping
from archloom.mapper.search import key_of, search
from archloom.mapper.tiling import Shape, space_of
from archloom.mapper.workload import Epilogue, Workload, conv2d, gemm
from archloom.oracle.errors import MappingError
from archloom.tvm_backend.ir.match import QTensor, QuantizedOp, Stage
from archloom.uma_targets.gamma import Gamma
from archloom.uma_targets.kit import Tiling, divided, rules, tile_loads
from archloom.uma_targets.kit.convolution import Convolution
from archloom.uma_targets.kit.gemm import gemm_of, sizes_of
from archloom.uma_targets.oma import Oma
from benchmarks.mapper.exhaustive import exhaustive
from tests.support.uma_targets.lanes import LANES, Lanes

PLAIN = Epilogue(False, 0.01, False, "int8")


def test_what_is_a_product() -> None:
    assert sizes_of(gemm(3, 4, 5, batch=2, epilogue=PLAIN)) == (1, 6, 4, 5)
    assert sizes_of(gemm(3, 4, 5, batch=2, epilogue=PLAIN, shared_b=False)) == (2, 3, 4, 5)
    assert sizes_of(conv2d(2, 3, 4, 5, 6, 1, 1, epilogue=PLAIN)) == (1, 24, 6, 5)
    for changed in ({"stride": (2, 2)}, {"padding": (1, 0, 0, 0)}):
        with pytest.raises(MappingError, match="expected a matrix product or a 1x1 convolution, found conv2d"):
            sizes_of(conv2d(1, 3, 4, 5, 6, 1, 1, epilogue=PLAIN, **changed))  # type: ignore[arg-type]


@pytest.mark.parametrize(("groups", "c", "o"), [(1, 1, 1), (1, 4, 4), (4, 1, 1), (4, 2, 2), (4, 1, 2), (4, 2, 1)])
def test_depthwise_is_a_kernel_for_each_channel(groups: int, c: int, o: int) -> None:
    """Of a workload and of the match that it is made of: not all groups are single channels."""
    work = conv2d(1, 5, 6, c, o, 3, 2, padding=(1, 1, 1, 1), groups=groups, epilogue=PLAIN)
    tensors = [QTensor(shape, "int8", np.ones(()), np.zeros(())) for shape in (
        (1, groups * c, 5, 6), (groups * o, c, 3, 2))]
    match = QuantizedOp("nn.conv2d", "a", (1, groups * o, 5, 7), {
        "strides": (1, 1), "dilation": (1, 1), "padding": (1, 1, 1, 1), "groups": groups}, tuple(tensors), None, ())
    found = Convolution.of(work)
    assert found == Convolution.of_match(match) and found.groups == groups
    assert found.depthwise == (groups > 1 and c == o == 1)
    assert work.inputs[1].shape == ((groups,) * (groups > 1) + (3, 2, c, o))


def test_addresses_of_elements() -> None:
    work = gemm(3, 4, 5, batch=2, epilogue=Epilogue(True, 0.5, True, "int8"), shared_b=False)
    second = gemm_of(work, {"A": 64, "B": 128, "bias": 256, "C": 320}, 384, batch := _number(1))
    assert batch.is_constant
    found = [a.evaluate({}) for a in (second.a_at(1, 2), second.b_at(3, 1), second.bias_at(2), second.c_at(2, 3))]
    assert found == [64 + 15 + 7, 128 + 20 + 13, 264, 320 + 12 + 11]
    assert (second.strides, second.scale_bits, second.workspace.constant) == ((5, 4, 4), 0x3F000000, 384)
    with pytest.raises(MappingError, match="has no bias"):
        gemm_of(gemm(1, 1, 1, epilogue=PLAIN), {"A": 0, "B": 0, "C": 0}, 0, batch).bias_at(0)


def _number(value: int):  # type: ignore[no-untyped-def]
    from archloom.oracle.affine import Affine

    return Affine(value)


def test_results_that_are_not_requantized_are_refused() -> None:
    wide = gemm(2, 2, 2, epilogue=Epilogue(False, 1.0, False, "int32"))
    with pytest.raises(MappingError, match="stores no result of int32"):
        search(wide, Gamma.kit.accelerator)


def test_divided_is_even_and_bounded() -> None:
    assert divided(100, 8, 40) == [8, 16, 24, 32, 40]
    assert divided(5, 8) == [8] and divided(1) == [1]
    assert max(divided(1000, 1, 7)) <= 7


def test_tiles_are_loaded_again_in_loops_around_them() -> None:
    counts = {d: np.array([n]) for d, n in (("m", 2), ("n", 3), ("k", 5))}
    assert tile_loads(("m", "n", "k"), "mk", counts) == [30]
    assert tile_loads(("m", "k", "n"), "mk", counts) == [10]
    assert tile_loads(("k", "n", "m"), "kn", counts) == [15]
    assert tile_loads(("n", "m", "k"), "mn", counts) == [6]


def test_tiles_that_do_not_fit_are_pruned_and_an_empty_space_says_why() -> None:
    work = gemm(64, 64, 64, epilogue=PLAIN)
    hardware = Oma.kit.accelerator.hardware()
    tiling = Tiling({d: [8, 16, 64] for d in "mnk"}, demand={"pad": lambda c: c["m"] * c["k"]}, room={"pad": 128})
    space = space_of(work, Shape.of(work), tiling, hardware, 1)
    _, mapping_of = space.ranked()
    tiles = {(mapping_of(i).size("m"), mapping_of(i).size("k")) for i in range(len(space))}
    assert tiles == {(8, 8), (8, 16), (16, 8)} and space.considered == 27
    small = Tiling(tiling.sizes, demand=tiling.demand, room={"pad": 63}, help="a larger pad")
    with pytest.raises(MappingError, match=(
            r"none of 27 mappings fits; the smallest needs 64 pad, of which there are 63 \(1 too few\); a larger pad")):
        space_of(work, Shape.of(work), small, hardware, 1)


@pytest.mark.parametrize("sizes", [(6, 6, 6), (3, 8, 10)])
def test_what_the_search_takes_is_near_the_best_of_all(sizes: tuple[int, int, int]) -> None:
    options = {"cache": False, "tile_n": 2}
    work = gemm(*sizes, epilogue=PLAIN)
    found = search(work, Oma.kit.accelerator, options, use_cache=False)
    _, best = exhaustive(work, Oma.kit.accelerator, options)
    assert best <= found.timing.cycles <= 1.05 * best


def test_a_mapping_without_a_dataflow_prints_and_parses_back() -> None:
    mapping = Mapping("gemm", "", (("m", 2), ("n", 3), ("k", 4)), ("k", "n", "m"))
    assert str(mapping) == "gemm m2 n3 k4 k>n>m" and Mapping.from_json(mapping.to_json()) == mapping


OURS = "mapper", "acadl_models"


@pytest.mark.parametrize("folder", [".", "examples/targets", "mapper_too"])
def test_code_of_another_package_is_part_of_the_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder: str
) -> None:
    """Wherever it lies: in a checkout beside our packages, too."""
    assert cache.origin_fingerprint([Oma.kit.graph], OURS) == ""
    monkeypatch.setattr(cache, "_ROOT", tmp_path)
    file = tmp_path / folder / "theirs.py"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("def graph(options):\n    return 1\n")
    theirs = _module(file)
    before = cache.origin_fingerprint([theirs.graph], OURS)
    file.write_text("def graph(options):\n    return 17\n")
    assert before and cache.origin_fingerprint([theirs.graph], OURS) != before
    assert cache.origin_fingerprint([partial(theirs.graph, {})], OURS) == cache.origin_fingerprint([theirs.graph], OURS)


def test_a_plan_does_not_outlive_an_emission_for_a_graph_of_ours(tmp_path: Path) -> None:
    file = tmp_path / "theirs.py"
    file.write_text("from archloom.uma_targets.oma import emit as ours\ndef emit(*given):\n    return ours(*given)\n")
    work, found = gemm(2, 3, 4, epilogue=PLAIN), set[str]()
    for _ in range(2):
        kit = replace(Oma.kit, emit=_module(file).emit)
        assert search(work, kit.accelerator).timing.cycles > 0
        found.add(key_of(work, kit.accelerator.configure()))
        file.write_text(file.read_text().replace("given", "given_to_it"))
    assert len(found) == 2


def _module(file: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location("theirs", file)
    assert spec is not None and spec.loader is not None
    theirs = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(theirs)
    return theirs


def test_plans_of_code_without_a_file_are_its_own() -> None:
    made: list[dict[str, object]] = [{}, {}]
    for scope in made:
        exec("def graph(options):\n    return 1\n", scope)
    first, second = (cache.origin_fingerprint([scope["graph"]], OURS) for scope in made)  # type: ignore[arg-type]
    assert first and first != second and cache.origin_fingerprint([made[0]["graph"]], OURS) == first  # type: ignore[arg-type]


def float_op(**changes: object) -> QuantizedOp:
    one, zero = np.float32(1), np.float32(0)
    a = QTensor((2, 3), "float32", np.asarray(one), np.asarray(zero))
    b = QTensor((3, 4), "float32", np.asarray(one), np.asarray(zero), array=np.zeros((3, 4), np.float32))
    fields = {"anchor": "matmul", "name": "x", "shape": (2, 4), "attrs": {}, "operands": (a, b), "bias": None,
              "stages": (), **changes}
    return QuantizedOp(**fields)  # type: ignore[arg-type]


@pytest.mark.parametrize(("op", "seen"), [
    (float_op(stages=(Stage("clip", (2, 4), low=0.0, high=6.0),)), r"it clips to 0\.\.6; only ReLU is fused"),
    (float_op(bias=QTensor((2, 1), "float32", np.ones(()), np.zeros(())), bias_shape=(2, 1)),
     "2 values for 4 channels"),
    (float_op(operands=(QTensor((2, 3), "float16", np.ones(()), np.zeros(())),) * 2), "operand 0 is float16"),
])
def test_float_operators_that_are_refused(op: QuantizedOp, seen: str) -> None:
    verdict = rules.AllOf("matmul", rules.FLOAT_MATMUL)(op, {})
    assert not verdict.ok
    with pytest.raises(AssertionError, match=seen):
        raise AssertionError(verdict.seen)


def test_a_target_that_fuses_nothing_says_so() -> None:
    from dataclasses import replace

    class Bare(Lanes):
        kit = replace(LANES, name="bare", bias=False, relu=False)

    patterns = {p.name: p for p in Bare().patterns}
    assert set(patterns) == {"matmul_plain", "conv2d_plain"}
    biased = float_op(bias=QTensor((4,), "float32", np.ones(()), np.zeros(())), bias_shape=(4,))
    predicate = patterns["matmul_plain"].predicate
    assert predicate is not None
    assert predicate(biased, {}).seen == "it adds a bias" and predicate(float_op(), {}).ok
    assert predicate(float_op(stages=(Stage("relu", (2, 4)),)), {}).seen == "it has an activation"


def test_workloads_of_floats_survive_artifacts() -> None:
    from archloom.tvm_backend.artifact.workload_json import from_json, to_json

    work: Workload = gemm(2, 3, 4, epilogue=Epilogue(True, 1.0, True, "float32"), dtype="float32")
    assert from_json(to_json(work)) == work and work.inputs[2].dtype == "float32"


def test_an_emission_sees_options_parameters_and_constants() -> None:
    kit, seen = Oma.kit, dict[str, object]()

    def emit(product: object, mapping: object, sizes: dict[str, object]) -> list[object]:
        seen.update(sizes)
        return []

    made = replace(kit, emit=emit, tiling=lambda shape, hardware, sizes: Tiling({"m": [1], "n": [1], "k": [5]}))
    configuration = made.accelerator.configure({"registers": 20})
    work = gemm(3, 4, 5, epilogue=PLAIN)
    configuration.emit(work, configuration.space(work).mapping(0))
    assert {**configuration.options, **configuration.isa.scope} == seen and seen["registers"] == 20
