"""Networks and data sets that the demo, the tests and the benchmarks use."""
