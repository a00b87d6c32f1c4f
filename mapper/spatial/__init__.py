"""Planning for many cores on a network: where each block of an operator runs, when, and how its tiles get there."""
