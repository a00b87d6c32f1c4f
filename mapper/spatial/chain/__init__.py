"""Two products with an activation between them: the space of plans, their costs, their streams."""
