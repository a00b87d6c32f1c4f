"""From a network to an accelerator and back: import, partition, compile, run, check, estimate, report."""
