"""The step-by-step simulator: docs/timing_semantics.md, one clock cycle at a time.

This is the definition against which the fast engine is tested. It enumerates instruction instances, compares element
sets, and does nothing cleverly; use :func:`archloom.acadl_models.timing.simulate` for real streams. ``simulator`` has
the clock and ``state`` what is kept from cycle to cycle; ``completing``, ``forwarding``, ``starting`` and ``fetching``
are the four phases of a cycle, ``requests`` is what the storages do in the first, ``reordering`` what the reorder
buffer does in it, ``streaming`` is how units overlap what they do, and ``accounting`` counts at its end.
"""

from archloom.acadl_models.timing.reference.simulator import log_reference, simulate_reference

__all__ = ["log_reference", "simulate_reference"]
