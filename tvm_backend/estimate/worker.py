"""A process of :mod:`archloom.tvm_backend.estimate.many`: answers one question after another, until the end."""

from __future__ import annotations

import gc
import sys
from multiprocessing.connection import Connection

COLLECTED = 128
"""Answers after which cycles of objects are looked for: what is found here has none, and grows."""


def main() -> None:
    """Answer what comes through the connection of the number that the process was started with."""
    connection, count = Connection(int(sys.argv[1])), 0
    gc.disable()
    while True:
        try:
            function, *arguments = connection.recv()
        except EOFError:
            return
        connection.send(function(*arguments))
        count += 1
        if count % COLLECTED == 0:
            gc.collect()


if __name__ == "__main__":
    main()
