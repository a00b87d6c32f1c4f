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
        self._parts = list(fixed)
        self._end = H.SIZE + sum(map(len, fixed))
        self._open: list[int] = []  # what was appended behind the last part

    def put(self, values: Iterable[int]) -> int:
        """Append values; returns their position."""
        position = self._end + len(self._open)
        self._open.extend(values)
        return position

    def list(self, values: list[int]) -> tuple[int, int]:
        """Append a list; returns its position and its length."""
        return self.put(values), len(values)

    def put_array(self, values: Array) -> int:
        """Append the values of an array, row after row; returns their position."""
        self._close()
        position = self._end
        self._parts.append(values.reshape(-1))
        self._end += values.size
        return position

    def flat(self) -> Array:
        """The whole table."""
        self._close()
        return np.concatenate([np.array(self.header, dtype=np.int64), *self._parts])

    def _close(self) -> None:
        if self._open:
            self._parts.append(np.array(self._open, dtype=np.int64))
            self._end += len(self._open)
            self._open = []
