"""Tables that torch makes anew each time it exports a network."""

import typing
from functools import cache


def keep_tables_of_torch() -> None:
    """For each export to ONNX torch reads its 500 translations of operators again, for each decomposition it asks 58
    times which operators there are and makes 3,000 types of functions: most of the time of a small network."""
    import torch._ops
    from torch._export import utils
    from torch.onnx._internal.exporter._registration import ONNXRegistry

    torch._ops.Callable = typing.Callable  # typing keeps the types that are made of it
    utils._materialize_cpp_cia_ops = cache(utils._materialize_cpp_cia_ops)
    ONNXRegistry.from_torchlib = staticmethod(cache(ONNXRegistry.from_torchlib))
