"""Energies of meshes, none of which a paper about one of them states: those of a table of a 45 nm process.

Operations and memories: M. Horowitz, "Computing's energy problem" (ISSCC 2014): a product of 16 bits 1.1 pJ, a sum of
32 bits 0.9 pJ, 64 bits of a memory of 1 MB 100 pJ, 64 bits of DRAM 1.3 nJ. Assumed: 0.1 pJ for a bit over a millimetre
of wire. Ratios of plans rest on the ratios of these figures; absolute energies are those of an old process. Static
power is not stated.
"""

from __future__ import annotations

from archloom.acadl_models.mesh.sizes import Joules

_PRODUCT, _SUM = 1.1e-12, 0.9e-12
_L1_BYTE, _DRAM_BYTE = 100e-12 / 8, 1.3e-9 / 8
_BIT_OVER_A_MILLIMETRE = 0.1e-12
_SIDE = 32


def joules(pitch_mm: float) -> Joules:
    """The energies of a mesh with cores so many millimetres apart."""
    return Joules(
        product=_SIDE**3 * (_PRODUCT + _SUM), vector=_SIDE**2 * _SUM, l1_byte=_L1_BYTE, dram_byte=_DRAM_BYTE,
        hop_byte=8 * _BIT_OVER_A_MILLIMETRE * pitch_mm,
    )
