"""Images with their channels last, and calls that are computed once."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import onnx
import pytest

import archloom
from archloom.tvm_backend.ir import expressions as ir
from archloom.tvm_backend.passes.channels_last import MARK, channels_last
from archloom.tvm_backend.passes.common import without_copies
from archloom.tvm_backend.passes.marks import unmarked


def operators(nodes: str, shape: str, folder: Path, **constants: np.ndarray) -> Counter[str]:
    """Operators of a network after both passes, and how many images are said to have their channels last."""
    text = f'<ir_version: 9, opset_import: ["" : 18]> net (float[{shape}] x) => (float[1,4,6,6] z) {{ {nodes} }}'
    proto = onnx.parser.parse_model(text)
    proto.graph.initializer.extend(onnx.numpy_helper.from_array(a, n) for n, a in constants.items())
    onnx.save(proto, folder / "net.onnx")
    module = without_copies(channels_last(archloom.load(folder / "net.onnx").module))
    module, pixels = unmarked(module, MARK, [])
    assert MARK not in (module["main"].attrs or {}) and unmarked(module, MARK, []) == (module, [])
    backwards = reversed(ir.bindings(module["main"]))
    shapes = {b.var.name: ir.shape_of(b.var) for b in backwards if b.var.name in pixels}
    assert {shape[1:] for shape in shapes.values()} <= {(6, 6, 4)}  # behind pixels there is an image of their name
    assert len(shapes) == len(pixels)
    names = Counter(name for b in ir.bindings(module["main"]) if (name := ir.op_name(b.value)) is not None)
    return names + Counter(images=len(pixels))


def test_images_are_transposed_once_on_each_side(tmp_path: Path) -> None:
    kernel = np.ones((4, 4, 3, 3), np.float32)
    found = operators("a = Conv <pads = [1, 1, 1, 1]> (x, w) b = Relu (a) c = Conv <pads = [1, 1, 1, 1]> (b, w) "
                      "d = MaxPool <kernel_shape = [3, 3], pads = [1, 1, 1, 1]> (c) z = Add (d, b)", "1,4,6,6",
                      tmp_path, w=kernel)
    assert found["permute_dims"] == 2 and "nn.conv2d" not in found
    assert found["images"] == 5
    assert (found["matmul"], found["take"], found["nn.pad"], found["nn.max_pool2d"]) == (2, 2, 2, 1)


def test_what_is_the_same_is_computed_once(tmp_path: Path) -> None:
    found = operators("a = Exp (x) b = Exp (x) c = Add (a, one) d = Add (b, one) z = Mul (c, d)", "1,4,6,6", tmp_path,
                      one=np.ones((4, 1, 1), np.float32))
    assert (found["exp"], found["add"], found["multiply"]) == (1, 1, 1)


@pytest.mark.parametrize("operands", ["half, b", "b, half"])
def test_numbers_stand_on_either_side_of_images(operands: str, tmp_path: Path) -> None:
    found = operators(f"b = Conv <pads = [1, 1, 1, 1]> (x, w) c = Add ({operands}) z = Relu (c)", "1,4,6,6", tmp_path,
                      w=np.ones((4, 4, 3, 3), np.float32), half=np.array(0.5, np.float32))
    assert (found["permute_dims"], found["add"], found["images"]) == (2, 1, 3)
