"""Draws ``docs/ai_engine_16.svg`` and ``docs/ai_engine_4.svg``: what the cores of the FIR study do in each cycle.

``PYTHONPATH=. python docs/ai_engine_trace.py``. Rows are cores; operations come from the simulation's log.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from benchmarks.published.fir_study import CASES, Case, operations

CYCLES = 120
CELL, ROW, LEFT, TOP = 7, 16, 64, 40
FONT = "system-ui, 'DejaVu Sans', Verdana, sans-serif"
MUL, MAC, STALL = "#2d8a4b", "#c0392b", "#9cc3ea"


def bar(start: int, end: int, row: int, colour: str) -> str:
    x, width = LEFT + start * CELL, (min(end, CYCLES) - start) * CELL
    return f'<rect x="{x}" y="{TOP + row * ROW}" width="{width}" height="{ROW - 3}" fill="{colour}"/>'


def draw(case: Case) -> str:
    """The first cycles: operations, and from a core's first one on the cycles in which it waits."""
    cores = operations(case).cores
    width, height = LEFT + CYCLES * CELL + 20, TOP + len(cores) * ROW + 34
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" font-family="{FONT}" '
        'font-size="11">',
        f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
        f'<text x="{LEFT}" y="16" font-size="13">{case.name}: cycles 0 to {CYCLES}</text>',
    ]
    for i, (name, colour) in enumerate((("mul4", MUL), ("mac4", MAC), ("stalled", STALL))):
        parts.append(f'<rect x="{LEFT + 90 * i}" y="23" width="10" height="10" fill="{colour}"/>')
        parts.append(f'<text x="{LEFT + 90 * i + 15}" y="32">{name}</text>')
    for row, entries in enumerate(cores):
        parts.append(f'<text x="8" y="{TOP + row * ROW + 11}">core {row}</text>')
        if entries and entries[0].start < CYCLES:
            parts.append(bar(entries[0].start, CYCLES, row, STALL))
        parts += [bar(e.start, e.end, row, MUL if e.mnemonic == "mul4" else MAC)
                  for e in entries if e.start < CYCLES]
    for cycle in range(0, CYCLES + 1, 20):
        x = LEFT + cycle * CELL
        parts.append(f'<line x1="{x}" x2="{x}" y1="{TOP - 2}" y2="{height - 26}" stroke="#5b6b7b" stroke-width="0.5"/>')
        parts.append(f'<text x="{x}" y="{height - 12}" text-anchor="middle">{cycle}</text>')
    return "\n".join([*parts, "</svg>", ""])


def main() -> None:
    for case, cores in ((CASES[2], 16), (CASES[3], 4)):
        shown = replace(case, filter=replace(case.filter, outputs=160))
        Path(__file__).with_name(f"ai_engine_{cores}.svg").write_text(draw(shown))


if __name__ == "__main__":
    main()
