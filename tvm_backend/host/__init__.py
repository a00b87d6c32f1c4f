"""What the accelerator does not take: Relax functions in, programs of XLA and their order out; and their times."""
