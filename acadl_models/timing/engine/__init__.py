"""The fast timing engine: the cycles of docs/timing_semantics.md, event by event and with proven skipping of periods.

A bound stream is lowered to flat integer tables (:mod:`.lowering`); a jitted event loop (:mod:`.core`) visits only the
cycles in which anything happens, and generates instances by walking the loop nest, so that memory is bounded by the
instructions in flight.
"""


from archloom.acadl_models.timing.engine.fields import PLAIN_MODE


def warmup() -> None:
    """Compile the engine, or load it from the cache on disk: an installer calls this, so that no user waits for it."""
    from archloom.acadl_models.timing.engine.core import run
    from archloom.acadl_models.timing.engine.phases.meeting import connect, list_pairs

    for entry in (connect, list_pairs, run):
        if not PLAIN_MODE:
            entry.prepare()
