"""Activations in memory as text and as a drawing: how many bytes there are while each layer runs."""

from __future__ import annotations

import html

from archloom.oracle.pages import Picture
from archloom.tvm_backend.memory import Memory
from archloom.tvm_backend.report.table import Column, render, size

BAR = 40
"""Characters of the bar of the peak."""
WIDTH, HEIGHT, ABOVE = 640, 120, 24
"""Of the drawing, in pixels; ``ABOVE`` is for its caption."""

_LAYERS = (Column("while it runs", limit=36), Column("live", "right"), Column("", limit=BAR))
_TENSORS = (Column("tensor", limit=44), Column("bytes", "right"), Column("from", limit=36), Column("to", limit=36))


def text(memory: Memory) -> str:
    """Bytes while each layer runs, with a bar, and the live range of each tensor."""
    most = max(memory.peak_bytes, 1)
    layers = [[name, size(live), "#" * -(-BAR * live // most)]
              for name, live in zip(memory.layers, memory.live_bytes, strict=True)]
    tensors = [[tensor.name, size(tensor.bytes), memory.layers[tensor.first], memory.layers[tensor.last]]
               for tensor in memory.tensors]
    return "\n\n".join([render(_LAYERS, layers), render(_TENSORS, tensors)])


def chart(memory: Memory) -> Picture:
    """Bytes over the layers in their order, a step for each; the peak in another colour."""
    assert memory.peak is not None
    step, most = WIDTH / len(memory.layers), max(memory.peak_bytes, 1)
    caption = f"activations: {size(memory.peak_bytes)} at most, while {memory.layers[memory.peak]} runs"
    bars = "".join(_bar(name, i * step, step, HEIGHT * live / most, i == memory.peak, size(live))
                   for i, (name, live) in enumerate(zip(memory.layers, memory.live_bytes, strict=True)))
    return Picture(f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {ABOVE + HEIGHT}" width="{WIDTH}" '
                   f'height="{ABOVE + HEIGHT}" role="img"><text x="0" y="14" font-size="12" fill="currentColor">'
                   f"{html.escape(caption)}</text>{bars}</svg>", caption)


def _bar(name: str, x: float, width: float, height: float, is_peak: bool, live: str) -> str:
    return (f'<rect x="{x:.2f}" y="{ABOVE + HEIGHT - height:.2f}" width="{width:.2f}" height="{height:.2f}" '
            f'fill="{"#c2410c" if is_peak else "#4a7ab5"}"><title>{html.escape(name)}: {live}</title></rect>')
