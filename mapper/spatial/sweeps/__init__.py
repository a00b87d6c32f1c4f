"""Element-wise operators, reductions and norms as sweeps over a matrix: plans, costs, streams."""
