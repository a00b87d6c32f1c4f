"""Sound inputs that are changed: ``python -m tests.fuzz.bases FOLDER`` writes them.

They are made in a process of their own: XLA starts threads, and what comes of inputs is found out in forks.
"""

from __future__ import annotations

import io
import sys
from pathlib import Path

import numpy as np

from tests.tvm_backend.hostile.cases import quantized


def write(folder: Path) -> None:
    """All of them, by their names."""
    import archloom
    from archloom.acadl_models.mesh import mesh
    from archloom.mapper.spatial.machines.view import described

    for name, content in {**_kernel(), "net.pt2": _pt2(), "x.npz": _arrays()}.items():
        (folder / name).write_bytes(content)
    (folder / "net.zip").write_bytes(archloom.compile(archloom.load(quantized(0.1)), target="gemmini").packed())
    (folder / "x.df").write_text(str(described(mesh(x=2, y=2))))


def _pt2() -> bytes:
    import torch

    out = io.BytesIO()
    module = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2))
    torch.export.save(torch.export.export(module.eval(), (torch.ones(1, 4),)), out)
    return out.getvalue()


def _arrays() -> bytes:
    out = io.BytesIO()
    np.savez(out, x=np.ones((2, 4), np.float32))
    return out.getvalue()


def _kernel() -> dict[str, bytes]:
    """A kernel serialized, as a stream in binary form, and as text."""
    import archloom
    from archloom.oracle.assembly import to_text
    from archloom.oracle.binary import encode

    gemmini = archloom.isa("gemmini", dim=4)

    @gemmini.kernel(arg={"start": 64, "shape": (4, 4, 4), "dtype": "int8"},
                    res={"start": 128, "shape": (4, 4, 4), "dtype": "int8"})
    def copy():  # type: ignore[no-untyped-def]
        gemmini.api.config_ld(channel=0, stride=4, scale=gemmini.ONE, shrunk=0, block_stride=4)
        gemmini.api.config_st(4, 0, gemmini.ONE, *[0] * 9)
        with gemmini.loop(4) as i:
            gemmini.api.mvin(dram=64 + 16 * i, local=0, cols=4, rows=4)
            gemmini.api.mvout(dram=128 + 16 * i, local=0, cols=4, rows=4)

    return {"k.kernel": copy.compile().serialize(), "s.bin": encode(copy.stream),
            "s.asm": to_text(copy.stream).encode()}


if __name__ == "__main__":
    write(Path(sys.argv[1]))
