"""The functional oracle: instruction streams as JAX functions, raised to few large operations where possible."""

from archloom.oracle.xla.oracle import Oracle, compile_resolved, compile_stream, forget
from archloom.oracle.xla.report import OracleReport, ResultReport

__all__ = ["Oracle", "OracleReport", "ResultReport", "compile_resolved", "compile_stream", "forget"]
