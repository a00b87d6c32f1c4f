"""A plain executor of resolved streams in NumPy: iteration by iteration, element by element through the windows."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from archloom.oracle.resolved import Op, Read, ResolvedInstr, ResolvedNode, ResolvedStream, Window, Write
from archloom.oracle.taidl.operators import OPCODES


def execute(resolved: ResolvedStream, buffers: dict[str, np.ndarray]) -> None:
    """Run ``resolved`` on ``buffers`` in place (by name, ``hbm`` included)."""
    _nodes(resolved.body, {}, buffers)


def _nodes(nodes: tuple[ResolvedNode, ...], values: dict[str, int], buffers: dict[str, np.ndarray]) -> None:
    for node in nodes:
        if isinstance(node, ResolvedInstr):
            _instr(node, values, buffers)
        else:
            for i in node.values:
                _nodes(node.body, {**values, node.var: i}, buffers)


def _instr(instr: ResolvedInstr, values: Mapping[str, int], buffers: dict[str, np.ndarray]) -> None:
    tensors: dict[str, np.ndarray] = {}
    for s in instr.statements:
        if isinstance(s, Op):
            attributes = {k: v.evaluate(values) if hasattr(v, "evaluate") else v for k, v in s.attributes}
            operands = [tensors[o] for o in s.operands]
            given = {t.dst: t.type.dtype for t in instr.statements if not isinstance(t, Write)}
            types = [given[o] for o in s.operands]
            tensors[s.dst] = np.asarray(OPCODES[s.opcode].kernel(s.type, operands, attributes, types))
            assert tensors[s.dst].shape == s.type.shape
        elif isinstance(s, Read):
            tensors[s.dst] = buffers[s.window.buffer][_index(s.window, values, buffers)].copy()
            assert tensors[s.dst].shape == s.type.shape
        else:
            buffers[s.window.buffer][_index(s.window, values, buffers)] = tensors[s.src]


def _index(
    window: Window, values: Mapping[str, int], buffers: Mapping[str, np.ndarray]
) -> tuple[np.ndarray, ...]:
    index = []
    for axis, offset in enumerate(window.offsets):
        position = np.full((1,) * len(window.dims), offset.evaluate(values))
        for i, d in enumerate(window.dims):
            if d.axis == axis:
                shape = [1] * len(window.dims)
                shape[i] = d.extent
                position = position + (np.arange(d.extent) * d.stride).reshape(shape)
        position = np.broadcast_to(position, window.shape)
        assert position.min() >= 0 and position.max() < buffers[window.buffer].shape[axis]
        index.append(position)
    return tuple(index)
