"""Another accelerator in the same language: Intel AMX's int8 products, figures 2, 11 and 15 of the TAIDL paper."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from archloom.oracle import taidl
from archloom.oracle.errors import StreamError
from archloom.oracle.interpreter import run
from archloom.oracle.stream import HbmTensor, Instr, Stream

AMX = taidl.load(Path(__file__).parents[2] / "data" / "taidl" / "amx.taidl")


def kernel(product: str, **operands: int) -> Stream:
    """Figure 15: two tiles in, one product, the sums out."""
    make = Instr.make
    body = (
        make("tilezero", dst=0), make("tileload", dst=4, base=0, stride=64),
        make("tileload", dst=6, base=1024, stride=64),
        make(product, **{"dst": 0, "src0": 4, "src1": 6, **operands}), make("tilestore", src=0, base=2048, stride=64),
    )
    arguments = (HbmTensor("a", 0, (16, 64), "uint8"), HbmTensor("b", 1024, (16, 64), "int8"))
    return Stream("amx", (), arguments, (HbmTensor("c", 2048, (16, 16), "int32"),), 3072, body, "matmul")


@pytest.mark.slow
@pytest.mark.parametrize("product", ["tdpbusd", "tdpbusd_by_repeat"])
def test_tdpbusd_multiplies_unsigned_by_signed_in_groups_of_four(product: str) -> None:
    rng = np.random.default_rng(1)
    a = rng.integers(0, 256, (16, 64)).astype(np.uint8)
    b = rng.integers(-128, 128, (16, 64)).astype(np.int8)
    c = run(kernel(product), AMX, {"a": a, "b": b}, poison=2)["c"]
    groups_a, groups_b = a.reshape(16, 16, 4).astype(np.int32), b.reshape(16, 16, 4).astype(np.int32)
    np.testing.assert_array_equal(c, np.einsum("mkb,knb->mn", groups_a, groups_b))


def test_tiles_must_differ() -> None:
    with pytest.raises(StreamError, match=r"instruction 3, tdpbusd\(dst=0, src0=4, src1=4\): .* fails: dst = 0"):
        run(kernel("tdpbusd", src1=4), AMX, {"a": np.zeros((16, 64), np.uint8), "b": np.zeros((16, 64), np.int8)})
