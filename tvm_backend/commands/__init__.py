"""The commands of the command line, one module for each group."""

from __future__ import annotations

from tvm_backend.commands import analysis, asm, build, targets

COMMANDS = (targets, build, analysis, asm)
"""Modules with a function ``register(subparsers)``."""
