"""Operators of ONNX one by one: the cases of the package ``onnx``, whose results its reference computes.

Each is imported with all of its inputs or, where sizes must be known, with all but the first as constants; what cannot
be imported is refused with a message.
"""

from __future__ import annotations

import re
import warnings
from importlib import import_module
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from archloom import load
from archloom.oracle.errors import ArchloomError
from archloom.tvm_backend.compile import partition_model
from archloom.tvm_backend.frontends.onnx.load import load_skeleton
from archloom.tvm_backend.ir.nodes import Unsupported
from tests.support.examples import every
from tests.support.tvm_backend.networks import executable
from tests.support.tvm_backend.reference import ReferenceExecutor

MENDED: dict[str, tuple[str, ...]] = {
    "bitshift": tuple(f"bitshift_{side}_int{bits}_{what}" for side in ("left", "right") for bits in (8, 32)
                      for what in ("negative_shift", "shift_ge_width")),
    "attention": ("attention_4d_causal_with_past_and_present",),
    "center_crop_pad": ("center_crop_pad_crop_and_pad",),
    "col2im": ("col2im", "col2im_pads", "col2im_strides", "col2im_dilations", "col2im_5d"),
    "convtranspose": ("convtranspose_output_shape",),
    "cumsum": ("cumsum_1d_exclusive", "cumsum_1d_reverse_exclusive"),
    "eyelike": ("eyelike_populate_off_main_diagonal",),
    "isinf": ("isinf_negative", "isinf_positive"),
    "layernormalization": ("layer_normalization_3d_axis1_epsilon",),
    "lpnormalization": ("l1normalization_axis_1", "l2normalization_axis_0"),
    "lstm": ("lstm_batchwise", "lstm_with_peepholes"),
    "mod": tuple(f"mod_float_edge_cases_fmod_0_float{bits}" for bits in (16, 32, 64)),
    "pow": ("pow_types_float32_int64", "pow_types_int64_float32"),
    "resize": (
        "resize_downsample_scales_cubic_A_n0p5_exclude_outside", "resize_downsample_scales_cubic_align_corners",
        "resize_downsample_scales_linear", "resize_downsample_scales_linear_half_pixel_symmetric",
        "resize_downsample_sizes_cubic_antialias", "resize_downsample_sizes_linear_antialias",
        "resize_downsample_sizes_nearest_not_smaller", "resize_upsample_scales_nearest_axes_3_2",
    ),
    "rotaryembedding": ("rotary_embedding",),
    "shape": ("shape_start_1_end_negative_1",),
    "swiglu": ("swiglu_alpha",),
}
"""What TVM 0.27 lacks or imports as other numbers."""
NOT_TRIED = re.compile(
    "sequence|optional|string|strnorm|float8|e4m3|e5m2|int4|uint4|e2m1|int2|castlike|cast_|random|bernoulli|"
    "train|nonzero|unique|adagrad|adam|momentum|gradient|compress|ai_onnx_ml|image_decoder|regex|tfidf|dft|stft|_ver1")
"""Tensors that are no numbers, types of less than a byte, shapes that depend on data, learning."""
OTHERWISE = re.compile("uint64|bf16_expanded|bfloat16")
"""TVM's own code has no bfloat16 and no uint64: the host has them where XLA does."""


def cases(module: str | None = None) -> dict[str, Any]:
    """By name: those of one module of the package, which take a moment to compute, or of all, which take long."""
    from onnx.backend.test.case import node

    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if module is None:
            node.collect_testcases()
        else:
            import_module(f"{node.__name__}.{module}")
    return {case.name: case for case in node._NodeTestCases}  # modules add theirs when they are imported


def misread(case: Any) -> str | None:
    """What differs between the partitions of a case that is read with its constants and without; None, too, for a case
    that is not read in one of the two ways."""
    given, _ = case.data_sets[0]
    for kept in dict.fromkeys((len(given), 1)):
        try:
            model = constants_behind(case.model, given, kept)
            parts = [partition_model(read, "gemmini") for read in (
                load_skeleton(model, "net", "net", None), load(model, name="net"))]
        except (Unsupported, ArchloomError):
            continue
        found, expected = ([*((op.op, op.shape, op.macs) for op in part.host.ops),
                            *((step.op, step.shape, step.macs) for step in part.steps())] for part in parts)
        if sorted(found) != sorted(expected):
            return f"{case.name}, {kept} inputs: {found}, expected {expected}"
    return None


def outcome(case: Any) -> str | None:
    """None if the results are those of the reference; else why it is refused."""
    given, expected = case.data_sets[0]
    names = [i.name for i in case.model.graph.input]
    refused = None
    for kept in dict.fromkeys((len(names), 1)):
        try:
            exe = executable(load(constants_behind(case.model, given, kept), name=case.name))
            found = exe.run(dict(zip(names[:kept], map(np.asarray, given))), executor=ReferenceExecutor())
        except ArchloomError as error:
            refused = refused or str(error)
            continue
        for y, wanted in zip(found.values(), map(np.asarray, expected), strict=False):
            assert np.shape(y) == wanted.shape
            close = 2e-2 if wanted.dtype.name in ("bfloat16", "float16") else 1e-3
            np.testing.assert_allclose(np.asarray(y, np.float64), wanted.astype(np.float64), rtol=close, atol=1e-5)
        return None
    return refused


def constants_behind(model: onnx.ModelProto, given: Any, kept: int) -> onnx.ModelProto:
    """A copy in which all inputs but the first ``kept`` are constants."""
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    for info, array in zip(model.graph.input[kept:], given[kept:]):
        copy.graph.initializer.append(numpy_helper.from_array(np.asarray(array), info.name))
        copy.graph.input.remove(info)
    return copy


@pytest.mark.parametrize(("module", "name"), every(3, (
    (module, name) for module, names in MENDED.items() for name in names)))
def test_mended(module: str, name: str) -> None:
    assert outcome(cases(module)[f"test_{name}"]) is None


@pytest.mark.parametrize(("module", "name", "expected"), [
    ("nonmaxsuppression", "nonmaxsuppression_two_classes", "how many boxes are left depends on the data"),
    ("roialign", "roialign_mode_max", "expected mode avg, found max"),
])
def test_refused(module: str, name: str, expected: str) -> None:
    assert expected in (outcome(cases(module)[f"test_{name}"]) or "")


@pytest.mark.parametrize(("module", "names"), [
    ("averagepool", "ceil_last_window_starts_on_pad"), ("gemm", "all_attributes|alpha"), ("pow", "types_float32_int"),
    ("resize", "downsample_scales|upsample_sizes_cubic"), ("tile", "tile"),
])
def test_estimates_have_the_operators_of_what_is_compiled(module: str, names: str) -> None:
    chosen = [case for name, case in cases(module).items() if re.search(names, name)]
    assert chosen and [difference for case in chosen if (difference := misread(case)) is not None] == []


@pytest.mark.slow
def test_every_operator_is_right_or_refused() -> None:
    known = cases()
    tried = [name for name in known if not NOT_TRIED.search(name) and not OTHERWISE.search(name)]
    outcomes, wrong = {}, {}
    for name in tried:
        try:
            outcomes[name] = outcome(known[name])
            if (difference := misread(known[name])) is not None:
                wrong[name] = difference
        except Exception as error:  # no other kind may reach a user
            wrong[name] = f"{type(error).__name__}: {error}"
    assert not wrong, "\n".join(f"{name}: {reason[:300]}" for name, reason in wrong.items())
    right = sum(reason is None for reason in outcomes.values())
    assert right > 0.85 * len(tried), f"{right} of {len(tried)}"
