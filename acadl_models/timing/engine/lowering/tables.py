"""Building the flat integer table of a program piece by piece."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from archloom.acadl_models.timing.engine.layout import H

Array = NDArray[np.int64]


class Tables:
    """The header, then arrays that are known at the start, then records that are appended."""

    def __init__(self, *fixed: Array) -> None:
        self.header = [0] * H.SIZE
        self._fixed = fixed
        self._start = H.SIZE + sum(map(len, fixed))
        self._data: list[int] = []

    def put(self, values: Iterable[int]) -> int:
        """Append values; returns their position."""
        position = self._start + len(self._data)
        self._data.extend(values)
        return position

    def list(self, values: list[int]) -> tuple[int, int]:
        """Append a list; returns its position and its length."""
        return self.put(values), len(values)

    def flat(self) -> Array:
        """The whole table."""
        return np.concatenate(
            [np.array(self.header, dtype=np.int64), *self._fixed, np.array(self._data, dtype=np.int64)]
        )
