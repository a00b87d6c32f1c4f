"""What runs recorded vectors: a pattern of names, and a function from the arrays of a file to results."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np

Arrays = Mapping[str, np.ndarray]


@dataclass(frozen=True)
class Runner:
    """Runs the files whose stem ``pattern`` matches whole.

    ``run`` gets the match and the file's arrays and yields, for each way of computing them (a dataflow, an
    implementation), its name and the results; the keys of the results are names of arrays in the file. Integers must
    be equal in value, and floats of one type, but for ``tolerance`` times the largest magnitude of the recorded array.
    """

    pattern: str
    run: Callable[[re.Match[str], Arrays], Iterator[tuple[str, Arrays]]]
    tolerance: float = 0.0
    names: str = ""
    """The pattern in words, for whoever looks for a name that none has."""


def difference(got: np.ndarray, want: np.ndarray, tolerance: float) -> str:
    """What is different; empty if nothing is."""
    got, want = np.asarray(got), np.asarray(want)
    both_integers = got.dtype.kind in "iu" and want.dtype.kind in "iu"
    if got.shape != want.shape or (got.dtype != want.dtype and not both_integers):
        return f"{got.dtype}{list(got.shape)}, recorded is {want.dtype}{list(want.shape)}"
    if want.dtype.kind != "f" or not tolerance:
        bad = ~((got == want) | (got != got) & (want != want))
    else:
        bad = ~(np.abs(got - want) <= tolerance * max(1.0, float(np.abs(want).max(initial=0))))
    if not bad.any():
        return ""
    first = tuple(int(i) for i in np.argwhere(bad)[0])
    return (f"{int(bad.sum())} of {bad.size} elements differ, the first at {list(first)}: {got[first]}, "
            f"not {want[first]}")
