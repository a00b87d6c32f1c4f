"""How fast graphs are built and streams simulated, and what memories do."""
