"""The fast timing engine: the cycles of docs/timing_semantics.md, event by event and with proven skipping of periods.

A bound stream is lowered to flat integer tables (:mod:`.lowering`); a jitted event loop (:mod:`.core`) visits only the
cycles in which anything happens, and generates instances by walking the loop nest, so that memory is bounded by the
instructions in flight.
"""


def warmup() -> None:
    """Compile the engine, or load it from the cache on disk: an installer calls this, so that no user waits for it."""
    from archloom.acadl_models.timing.engine.core import compile_all

    compile_all()
