"""Memories with state, one class each: set-associative caches, banks and channels of DRAMs, links.

They are the plain models behind docs/timing_semantics.md ("Caches", "DRAM banks", "DRAM channels", "Links"): the
step-by-step simulator runs on them, and the fast engine is tested against it. They know nothing of graphs, streams or
instructions; :mod:`.serving` makes those of a graph.
"""
