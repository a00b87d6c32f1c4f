"""Machines of many cores: as ``df`` text, as architecture graphs, and the rates that plans are costed with."""
