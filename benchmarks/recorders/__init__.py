"""Scripts that record what others find, as data for tests and benchmarks; nothing here is measured."""
