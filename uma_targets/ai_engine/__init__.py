"""The AI Engine: FIR filters on a chain of cores, and matrix products on all of them."""
