"""Functional side: TAIDL, instruction streams, the reference interpreter and the XLA oracle."""
