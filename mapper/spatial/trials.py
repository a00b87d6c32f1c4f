"""Plans that a search has simulated: those of :mod:`mapper.explore`, which every search shares."""

from mapper.explore import Trial, fastest

__all__ = ["Trial", "fastest"]
