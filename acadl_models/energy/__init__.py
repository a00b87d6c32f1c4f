"""Energy, leakage and area of the parts of a machine, from tables of published figures (docs/energy.md).

``data/`` holds every figure once, with its source; ``sources.toml`` says what the sources are. What is not there stays
unknown: :func:`~.figures.figures_of` gives None for it, and totals that need it are None.
"""

from archloom.acadl_models.energy.figures import Figures, area_of, figures_of
from archloom.acadl_models.energy.overrides import read_overrides

__all__ = ["Figures", "area_of", "figures_of", "read_overrides"]
