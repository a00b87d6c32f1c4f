"""The runners of vectors recorded from Intel SDE: oneDNN's five kernels for AMX and AVX-512, any number of blocks.

Floats were recorded with six decimals, inputs among them: their results are compared within 1e-5 of the magnitude.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial

import numpy as np

from benchmarks.oracle.golden_runner import Arrays, Runner
from examples.amx_kernels import KERNELS

TOLERANCE = {"sgemm_avx": 1e-5, "mem_format_prop_avx": 1e-5}


def computed(kernel: str, match: re.Match[str], arrays: Arrays) -> Iterator[tuple[str, Arrays]]:
    from archloom.oracle import interpreter
    from archloom.oracle.taidl import load
    from archloom.oracle.xla import compile_stream

    stream, isa = KERNELS[kernel](int(match["blocks"])), load("amx")
    given = {t.name: arrays[t.name] for t in stream.arguments}
    results = compile_stream(stream, isa)(*given.values())
    yield "oracle", {t.name: np.asarray(x) for t, x in zip(stream.results, results, strict=True)}
    yield "interpreter", interpreter.run(stream, isa, given)


def runners() -> list[Runner]:
    return [Runner(rf"amx_{name}_blocks(?P<blocks>\d+)(_set\d+)?", partial(computed, name), TOLERANCE.get(name, 0.0),
                   f"amx_{name}_blocks{{n}}") for name in KERNELS]
