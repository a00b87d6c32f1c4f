"""From an operator to the best stream of an accelerator: workloads, hardware view, mapping space, cost, search."""
