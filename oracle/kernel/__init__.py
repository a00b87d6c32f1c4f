"""Kernels written by hand against an ISA, as functions of NumPy, JAX and PyTorch arrays (the paper's section 6).

>>> from archloom.oracle.kernel import isa
>>> gemmini = isa("gemmini", dim=4)
>>> @gemmini.kernel(size=128, arg=[{"start": 16, "shape": (4, 4), "dtype": "int8"}],
...                 res=[{"start": 64, "shape": (4, 4), "dtype": "int8"}])
... def copy():
...     gemmini.api.config_ld(channel=0, stride=4, scale=gemmini.ONE, shrunk=0, block_stride=4)
...     gemmini.api.config_st(4, 0, gemmini.ONE, 0, 0, 0, 0, 0, 0, 0, 0, 0)
...     gemmini.api.mvin(dram=16, local=0, cols=4, rows=4)
...     gemmini.api.mvout(dram=64, local=0, cols=4, rows=4)
>>> copy.stream.count()
4
"""

from archloom.oracle.kernel.handle import KernelIsa, isa
from archloom.oracle.kernel.index import Index
from archloom.oracle.kernel.kernel import Kernel
from archloom.oracle.kernel.recording import loop, parallel
from archloom.oracle.xla.options import jit

__all__ = ["Index", "Kernel", "KernelIsa", "isa", "jit", "loop", "parallel"]
