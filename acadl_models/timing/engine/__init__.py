"""The fast timing engine: the cycles of docs/timing_semantics.md, event by event and with proven skipping of periods.

A bound stream is lowered to flat integer tables (:mod:`.lowering`); a jitted event loop (:mod:`.core`) visits only the
cycles in which anything happens, and generates instances by walking the loop nest, so that memory is bounded by the
instructions in flight.
"""


def warmup() -> None:
    """Compile the engine, or load it from the cache on disk: an installer calls this, so that no user waits for it."""
    from archloom.acadl_models.timing.engine.core import run
    from archloom.acadl_models.timing.engine.jit import prepare
    from archloom.acadl_models.timing.engine.phases.meeting import connect, list_pairs

    table, column = "int64[:, ::1]", "int64[::1]"
    prepare(connect, f"int64({column}, {table}, {table}, {', '.join([column] * 4)})")
    prepare(list_pairs, f"void({column}, {table}, {table}, {', '.join([column] * 7)})")
    prepare(run, "void(int64[::1], int64[::1], int64[::1])")
