"""Draws ``docs/pipeline.svg``, the picture of the README: ``python docs/pipeline.py``."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

WIDTH, HEIGHT = 860, 560
FONT = "system-ui, 'DejaVu Sans', Verdana, sans-serif"
STYLES = {
    "data": ("#ffffff", "#5b6b7b"),
    "work": ("#e8f1fb", "#2f6db3"),
    "fact": ("#fdf1dc", "#c07a12"),
    "goal": ("#e6f5ea", "#2d8a4b"),
}


@dataclass(frozen=True)
class Box:
    """A box around its centre (x, y), with a heading and a line below."""

    x: int
    y: int
    width: int
    title: str
    below: str
    style: str
    height: int = 54

    def svg(self) -> str:
        fill, stroke = STYLES[self.style]
        left, top = self.x - self.width // 2, self.y - self.height // 2
        parts = [f'<rect x="{left}" y="{top}" width="{self.width}" height="{self.height}" rx="8" fill="{fill}" '
                 f'stroke="{stroke}" stroke-width="1.6"/>']
        rise = 4 if self.below else -5
        parts.append(f'<text x="{self.x}" y="{self.y - rise}" font-weight="600">{self.title}</text>')
        if self.below:
            parts.append(f'<text x="{self.x}" y="{self.y + 15}" font-size="12" fill="#44525f">{self.below}</text>')
        return "\n".join(parts)


BOXES = {
    "model": Box(300, 40, 300, "a network", "ONNX · PyTorch · Relax", "data"),
    "partition": Box(300, 130, 300, "import, quantize, partition", "tvm_backend", "work"),
    "host": Box(95, 260, 150, "host operators", "XLA · TVM/LLVM", "work"),
    "mapper": Box(350, 220, 220, "mapping search", "mapper", "work"),
    "stream": Box(350, 310, 220, "instruction stream", "loops stay loops", "data"),
    "oracle": Box(245, 410, 180, "bit-exact execution", "oracle (XLA)", "work"),
    "timing": Box(455, 410, 180, "timing simulation", "acadl_models", "work"),
    "result": Box(300, 515, 490, "compiled model", "run · check · estimate · report · save", "goal"),
    "target": Box(705, 130, 270, "UMA target", "which operators, how they are emitted", "fact"),
    "graph": Box(705, 220, 270, "ACADL graph", "structure, sizes, widths, latencies", "fact"),
    "isa": Box(705, 310, 270, "TAIDL ISA", "what each instruction reads and computes", "fact"),
}

# start and end of each arrow; facts are dashed
ARROWS = [
    ((300, 67), (300, 102), False),
    ((195, 157), (95, 232), False),
    ((335, 157), (350, 192), False),
    ((350, 247), (350, 282), False),
    ((310, 337), (255, 382), False),
    ((390, 337), (445, 382), False),
    ((95, 287), (95, 487), False),
    ((245, 437), (260, 487), False),
    ((455, 437), (440, 487), False),
    ((570, 130), (451, 130), True),
    ((570, 220), (461, 220), True),
    ((570, 310), (461, 310), True),
]

# the graph's way to the timing goes around the ISA
DETOUR = "840,220 852,220 852,410 546,410"


def draw() -> str:
    """The picture as SVG text."""
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}" '
        f'font-family="{FONT}" font-size="15" text-anchor="middle" fill="#1d2833" role="img" '
        'aria-label="From a network to a compiled model">',
        '<defs><marker id="tip" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="7" markerHeight="7" '
        'orient="auto-start-reverse"><path d="M0 0L10 5L0 10z" fill="#5b6b7b"/></marker></defs>',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>',
        '<text x="705" y="62" font-size="13" fill="#8a5a10">what an architect writes,</text>',
        '<text x="705" y="80" font-size="13" fill="#8a5a10">each fact once</text>',
    ]
    for (x1, y1), (x2, y2), fact in ARROWS:
        dash = ' stroke-dasharray="5 4"' if fact else ""
        lines.append(f'<line x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}" stroke="#5b6b7b" stroke-width="1.6"{dash} '
                     'marker-end="url(#tip)"/>')
    lines.append(f'<polyline points="{DETOUR}" fill="none" stroke="#5b6b7b" stroke-width="1.6" stroke-dasharray="5 4" '
                 'marker-end="url(#tip)"/>')
    lines += [box.svg() for box in BOXES.values()]
    return "\n".join([*lines, "</svg>"]) + "\n"


if __name__ == "__main__":
    Path(__file__).with_suffix(".svg").write_text(draw())
