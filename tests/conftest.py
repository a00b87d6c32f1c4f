"""Tests keep their plans and reports apart from the user's, below ``build/``; properties are tried with few examples.

``--hypothesis-profile=thorough`` tries them with many (`tests/support/examples.py`).
"""

import gc
import os
import sys
import typing
from functools import cache
from pathlib import Path

from hypothesis import settings

from tests.support.examples import THOROUGH

os.environ.setdefault("ARCHLOOM_CACHE_DIR", str(Path(__file__).parent.parent / "build" / "test-cache"))

# millions of objects of libraries stay: looking at them again and again took an eighth of the time
gc.set_threshold(200_000, 100, 100)

settings.register_profile("quick", deadline=None)
settings.register_profile(THOROUGH, deadline=None, print_blob=True)
settings.load_profile("quick")


def pytest_collection_finish() -> None:
    """What was imported stays to the end: the garbage collector looks at it no more, torch makes its tables once."""
    gc.collect()
    gc.freeze()
    if "torch" in sys.modules:
        _keep_tables_of_torch()


def _keep_tables_of_torch() -> None:
    """For each export to ONNX torch reads its 500 translations of operators again, for each decomposition it asks 58
    times which operators there are and makes 3,000 types of functions: most of the time of a small network."""
    import torch._ops
    from torch._export import utils
    from torch.onnx._internal.exporter._registration import ONNXRegistry

    torch._ops.Callable = typing.Callable  # typing keeps the types that are made of it
    utils._materialize_cpp_cia_ops = cache(utils._materialize_cpp_cia_ops)
    ONNXRegistry.from_torchlib = staticmethod(cache(ONNXRegistry.from_torchlib))
