"""What comes out here where the TAIDL paper prints a number that needs no clock: table 2 and figure 13."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable

import numpy as np

from archloom.oracle.kernel import isa
from archloom.oracle.stream import Instr, Node
from benchmarks.common import ROOT
from examples.amx_kernels import KERNELS

DATA = ROOT / "benchmarks" / "data" / "taidl.json"
FIGURE_13 = ROOT / "tests" / "data" / "taidl_figures" / "figure_13.taidl"


def table_2() -> list[int]:
    """Instructions of AMX, then of AVX-512, of each kernel and number of blocks of the table."""
    streams = [KERNELS[row["kernel"]](row["blocks"]) for row in json.loads(DATA.read_text("utf-8"))["table_2"]]
    return [count(stream.body)[kind] for kind in ("amx", "avx512") for stream in streams]


def count(nodes: Iterable[Node]) -> Counter[str]:
    """Executed instructions by what extension they are of."""
    found: Counter[str] = Counter()
    for node in nodes:
        if isinstance(node, Instr):
            found[_extension(node)] += 1
        else:
            found.update({kind: node.extent * number for kind, number in count(node.body).items()})
    return found


def _extension(node: Instr) -> str:
    if node.mnemonic.startswith(("tile", "tdp")):
        return "amx"
    return "avx" if node.mnemonic == "vmovd" else "avx512"  # it writes a register of 128 bits


def figure_13() -> list[float]:
    """The printed FP16 number, rounded to E4M3."""
    fp8 = isa(FIGURE_13)

    @fp8.kernel(arg={"start": 0, "shape": (), "dtype": "float16"}, res={"start": 2, "shape": (), "dtype": "float16"})
    def rounded() -> None:
        fp8.api.load(addr=0)
        fp8.api.to_e4m3()
        fp8.api.store(addr=2)

    given = json.loads(DATA.read_text("utf-8"))["figure_13"]["given"]
    return [float(rounded.interpret(np.array(given, np.float16)))]
