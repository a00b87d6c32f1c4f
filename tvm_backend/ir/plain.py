"""Networks as plain Python objects: what partitioning needs to know of one, without TVM and without its weights.

Estimates read ONNX networks into these expressions (:mod:`.importer`) and send them through the same passes, rules,
strategies and regions as TVM's Relax expressions (see :mod:`archloom.tvm_backend.ir.expressions`); matches of a
target's patterns are found by :mod:`.matcher`. What cannot be read in this way raises :class:`Unsupported` and takes
TVM's way.
"""

from archloom.tvm_backend.ir.nodes import Unsupported

__all__ = ["Unsupported"]
