"""Tables for pandas, which is not needed for anything else."""

from __future__ import annotations

import io
from typing import Any

from archloom.oracle.errors import InputError


def frame(csv: str) -> Any:
    """What CSV says as a ``pandas.DataFrame``; InputError where pandas is not installed."""
    try:
        import pandas
    except ImportError as error:
        raise InputError("to_pandas: expected pandas to be installed (pip install pandas); to_csv needs nothing"
                         ) from error
    return pandas.read_csv(io.StringIO(csv))
