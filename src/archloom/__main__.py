"""``python -m archloom``: the command line."""

from archloom.tvm_backend.cli import entry

entry()
