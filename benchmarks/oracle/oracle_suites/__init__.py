"""The kernels of ``benchmarks/oracle/oracle.py``, one module for each suite, each with a function ``cases()``."""
