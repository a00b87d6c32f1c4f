"""The axis that a broadcast names decides, on square tensors, too, where the other one would fit as well."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from archloom.oracle.kernel import isa

TEXT = """
isa rows;
[x] (4) (4xi32);

[spread](src, dram) {
    %Raw:4x4xi8 <- $hbm[src + {4 : 4, 4 : 1}];
    %In:4xi32 = bitcast_convert(%Raw);
    %Out:4x4xi32 = broadcast_in_dim(%In, dims={AXIS});
    %Out -> $x;
    %X:4x4xi32 <- $x;
    %Bytes:4x4x4xi8 = bitcast_convert(%X);
    %Bytes -> $hbm[dram + {4 : 16, 4 : 4, 4 : 1}];
}
"""


@pytest.mark.parametrize("axis", [0, 1])
def test_the_axis_of_a_broadcast_decides(axis: int, tmp_path: Path) -> None:
    path = tmp_path / "rows.taidl"
    path.write_text(TEXT.replace("AXIS", str(axis)))
    g = isa(str(path))

    @g.kernel(arg=[{"name": "v", "addr": 0, "shape": (4,), "dtype": "int32"}],
              res=[{"name": "m", "addr": 64, "shape": (4, 4), "dtype": "int32"}])
    def kernel() -> None:
        g.api.spread(0, 64)

    v = np.array([1, -2, 3, 1 << 30], np.int32)
    want = np.broadcast_to(v[:, None] if axis == 0 else v[None, :], (4, 4))
    np.testing.assert_array_equal(kernel.interpret(v), want)
    np.testing.assert_array_equal(kernel.run(v), want)
